"""kill -9 while many write: what was acknowledged is there afterwards, and no revision comes twice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from attrs import define, field
from tests.tree import ROOT

from dashpot.runtime.store.embedded import EmbeddedStore

SEED = int(os.environ.get("DASHPOT_SEED", "11"))
PROGRAM = ROOT / "tests" / "store" / "crashing.py"


@define(eq=False)
class Known:
    """What was acknowledged: by key the newest revision and the value then (`-`: deleted)."""

    newest: int = 1
    keys: dict[str, tuple[int, str]] = field(factory=dict)


def crash(folder: Path, seed: int, lines: int, known: Known) -> None:
    """One life of the process, until it has acknowledged so many writes."""
    process = subprocess.Popen([sys.executable, str(PROGRAM), str(folder), str(seed)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        first = process.stdout.readline().split()
        assert first[:1] == [b"open"], "it opens after the crash before"
        assert int(first[1]) >= known.newest, "an acknowledged write is lost"
        read = [process.stdout.readline() for _ in range(lines)]
    finally:
        process.kill()
    read += process.stdout.readlines()  # what it said before it died counts too
    process.stdout.close()
    process.wait()
    before = known.newest
    for line in read:
        if not line.endswith(b"\n"):
            continue
        key, revision, value = line.decode().split()
        assert int(revision) > before, "a revision comes twice"
        if int(revision) > known.keys.get(key, (0, ""))[0]:
            known.keys[key] = (int(revision), value)
        known.newest = max(known.newest, int(revision))


async def check(folder: Path, known: Known) -> None:
    store = await EmbeddedStore.open(folder)
    assert await store.revision() >= known.newest
    for key, (revision, value) in list(known.keys.items()):
        entry = await store.get(key)
        last = store.versions.last(key)
        if last > revision:  # a later write, whose answer was not heard; from now on it is known
            known.keys[key] = (last, entry.value[:16].decode() if entry else "-")
            continue
        assert (entry is None) == (value == "-"), key
        if entry is not None:
            assert (entry.modified, entry.value[:16].decode()) == (revision, value), key
    found = await store.range("")
    assert all(entry.value == entry.value[:16] * (len(entry.value) // 16) for entry in found.entries), "half-written"
    known.newest = max(known.newest, await store.revision())
    await store.close()


def rounds(count: int, folder: Path, seed: int) -> None:
    """The seed gives what is written and after how many answers it is killed; where exactly, the machine."""
    random = Random(seed)
    known = Known()
    for number in range(count):
        crash(folder, 1000 * seed + number, random.randint(1, 1500), known)
        asyncio.run(check(folder, known))
    print(f"seed {seed}: {count} kills, {known.newest} revisions")


def test_kill(tmp_path: Path) -> None:
    rounds(5, tmp_path / "data", SEED)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [202, 203])
def test_kill_200_times(tmp_path: Path, seed: int) -> None:
    rounds(200, tmp_path / "data", seed)
