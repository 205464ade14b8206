"""Claims and volumes that come and go in any order, while the controllers crash: what must be so in the end."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.model.extern import volumes as rules
from tests.library.test_volume_functions import Kept
from tests.library.volume_kit import BINDER, CLAIMS, PROTECTION, VOLUMES, claim, have, volume
from tests.library.workload_kit import Live, Object, live

Step = tuple[str, int, int, str]

steps = st.tuples(
    st.sampled_from(["volume", "volume", "claim", "claim", "drop claim", "crash", "wait"]),
    st.integers(0, 4),
    st.integers(1, 3),
    st.sampled_from(["", "fast"]),
)


async def take(at: Live, step: Step, known: set[str]) -> None:
    """One step of people, or of bad luck."""
    what, number, size, kind = step
    name = f"{what.split()[-1][0]}{number}"
    if what == "volume" and name not in known:
        await have(at, volume(name, f"{size}Gi", storageClassName=kind))
        known.add(name)
    elif what == "claim" and name not in known:
        await have(at, claim(name, f"{size}Gi", storageClassName=kind))
        known.add(name)
    elif what == "drop claim" and name in known:
        await at.client.delete(CLAIMS, name)
        known.discard(name)
    elif what == "crash":
        await at.manager.crash(BINDER[number % 2])
    elif what == "wait":
        await asyncio.sleep(size)


def judge(claims: list[Object], found: list[Object]) -> None:
    """Both sides of each binding say the same, and nobody waits for what is there."""
    by_name = {v["metadata"]["name"]: v for v in found}
    holders = {c["metadata"]["uid"]: c for c in claims}
    for one in claims:
        phase, name = one["status"]["phase"], one["spec"].get("volumeName")
        if name:
            assert phase == "Bound" and by_name[name]["spec"]["claimRef"]["uid"] == one["metadata"]["uid"]
        else:
            assert phase == "Pending"
            free = [v for v in found if v["status"]["phase"] == "Available"]
            assert not [v for v in free if not rules.mismatch(Kept(v), Kept(one))], one["metadata"]["name"]
    for volume_ in found:
        phase, ref = volume_["status"]["phase"], volume_["spec"].get("claimRef") or {}
        holder = holders.get(ref.get("uid", ""))
        if holder is not None:
            assert phase == "Bound" and holder["spec"].get("volumeName") == volume_["metadata"]["name"]
        else:
            # a volume that was released keeps the data of the claim that is gone
            assert phase == ("Released" if ref.get("uid") else "Available")


@settings(max_examples=12)
@given(st.lists(steps, min_size=3, max_size=16))
def test_in_the_end_both_sides_agree(course: list[Step]) -> None:
    async def test(at: Live) -> None:
        known: set[str] = set()
        for step in course:
            await take(at, step, known)
        await asyncio.sleep(120)
        judge(await at.all(CLAIMS), (await at.client.list(VOLUMES)).items)

    live("volumes", [*BINDER, *PROTECTION], test)
