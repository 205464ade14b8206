"""Power fails at random points: nothing acknowledged is missing, nothing is half-written, no revision comes twice."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest
from attrs import define, field

from dashpot.runtime.store.base import Delete, Put, Unavailable
from dashpot.runtime.store.embedded import EmbeddedStore

pytest.importorskip("apsw", reason="the simulated disk needs apsw")

from tests.store.power import Tape, cut, recorded

SEED = int(os.environ.get("DASHPOT_SEED", "7"))


@define(eq=False)
class Story:
    """What writers did: by revision the key and what it became (None: deleted)."""

    tape: Tape = field(factory=Tape)
    changes: dict[int, tuple[str, bytes | None]] = field(factory=dict)

    def state(self, revision: int) -> dict[str, bytes]:
        """All keys as of a revision."""
        found: dict[str, bytes] = {}
        for number in sorted(self.changes):
            key, value = self.changes[number]
            if number > revision:
                break
            if value is None:
                del found[key]
            else:
                found[key] = value
        return found


async def live(story: Story, folder: Path, random: Random) -> None:
    """Some writers at once, with leases, compactions, defragmentation and a restart among them."""
    for _ in range(2):
        store = await EmbeddedStore.open(folder)
        await asyncio.gather(*[write(story, store, random, name) for name in "abcdefgh"], tidy(story, store))
        await store.close()


async def write(story: Story, store: EmbeddedStore, random: Random, name: str) -> None:
    lease = await store.grant(1000)
    for number in range(25):
        key = f"/{name}/{random.randrange(4)}"
        value = f"{name} {number} ".encode() * random.choice((1, 30, 900))
        if random.random() < 0.75:
            done = await store.put(Put(key, value, lease=random.choice((0, lease))))
            story.changes[done.revision] = (key, value)
        else:
            done = await store.delete(Delete(key))
            if done.ok:
                story.changes[done.revision] = (key, None)
        story.tape.add("ack", done.revision)


async def tidy(story: Story, store: EmbeddedStore) -> None:
    for _ in range(4):
        done = await store.put(Put("/z", b"z"))
        story.changes[done.revision] = ("/z", b"z")
        await store.compact(max(store.newest - 30, 1))
        await asyncio.sleep(0)
    await store.defragment()


async def survives(story: Story, acknowledged: int, folder: Path, random: Random) -> None:
    """Opens what is left of the store by the ordinary way, and looks."""
    store = await EmbeddedStore.open(folder)
    newest = await store.revision()
    assert newest >= acknowledged, "an acknowledged write is lost"
    for revision in {newest, random.randint(max(store.compacted, 1), newest), max(store.compacted, 1)}:
        found = await store.range("", revision=revision)
        assert {entry.key: entry.value for entry in found.entries} == story.state(revision)
    assert (await store.put(Put("/after", b"power came back", 0))).revision == newest + 1
    await store.close()


def powered(points: int, folder: Path, seed: int) -> None:
    """Records one life, and cuts it at random points. The seed gives the writes and the points; which writes share a
    commit is the event loop's affair."""
    random = Random(seed)
    story = Story()
    with recorded(story.tape):
        asyncio.run(live(story, folder / "life", random))
    events = story.tape.events
    assert sum(event[0] == "sync" for event in events) > 50
    for number in range(points):
        point = random.randrange(len(events) + 1)
        acknowledged = max((event[1] for event in events[:point] if event[0] == "ack"), default=0)
        disk = folder / f"disk{number}"
        cut(story.tape, point, random, disk)
        asyncio.run(survives(story, acknowledged, disk, random))
    print(f"seed {seed}: {points} points among {len(events)} events of the disk, {len(story.changes)} writes")


def test_power_loss(tmp_path: Path) -> None:
    powered(40, tmp_path, SEED)


@pytest.mark.parametrize("syncs", [9, 12, 20])
def test_a_disk_that_cannot_sync(syncs: int, tmp_path: Path) -> None:
    """The store stops at once: nothing is acknowledged that may be lost, also not after a sync that works again."""

    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path / "data")
        acknowledged: list[int] = []

        async def one(name: str) -> None:
            while True:
                acknowledged.append((await store.put(Put(f"/{name}", bytes(500)))).revision)

        failed = await asyncio.gather(*[one(name) for name in "abcd"], return_exceptions=True)
        assert all(isinstance(error, Unavailable) and error.maybe for error in failed)
        tape.syncs_left = 1 << 60
        with pytest.raises(Unavailable):
            await store.put(Put("/again", b""))
        await store.close()
        random = Random(syncs)
        for number in range(5):
            cut(tape, len(tape.events), random, tmp_path / f"disk{number}")
            after = await EmbeddedStore.open(tmp_path / f"disk{number}")
            assert await after.revision() >= max(acknowledged, default=0)
            assert await after.get("/again") is None
            await after.close()

    tape = Tape(syncs_left=syncs)
    with recorded(tape):
        asyncio.run(main())


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(600, 605))
def test_power_loss_at_200_points(tmp_path: Path, seed: int) -> None:
    powered(200, tmp_path, seed)
