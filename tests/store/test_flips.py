"""One flipped bit anywhere in the files: the store refuses, or it serves exactly what was written."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dashpot.runtime.store.base import Delete, Event, Put, StoreError
from dashpot.runtime.store.directory import DATABASE, MARK, Directory
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.snapshot import Report, peek, verify

SEED = int(os.environ.get("DASHPOT_SEED", "5"))
WAL = f"{DATABASE}-wal"


async def fill(folder: Path, dirty: Path) -> None:
    """A store with a past; `dirty` is how its files look while it is open."""
    random = Random(3)
    store = await EmbeddedStore.open(folder)
    lease = await store.grant(1000)
    for number in range(300):
        key = f"/registry/pods/n{random.randrange(9)}/p{random.randrange(30)}"
        if random.random() < 0.8:
            await store.put(Put(key, random.randbytes(random.choice((10, 400, 6000))), lease=random.choice((0, lease))))
        else:
            await store.delete(Delete(key))
        if number == 200:
            await store.compact(store.newest - 50)
    shutil.copytree(folder, dirty)
    await store.close()


async def everything(folder: Path) -> Any:
    """All that can be read."""
    store = await EmbeddedStore.open(folder)
    try:
        newest = await store.revision()
        states = [await store.range("", revision=r) for r in range(store.compacted, newest + 1, 7)]
        watch = store.watch("", store.compacted)
        events: list[Event] = []
        async for batch in watch:
            events += batch
            if watch.progress >= newest:
                break
        status = await store.status()
        leases = sorted(store.leases.find(e.lease).ttl for e in states[-1].entries if e.lease)  # type: ignore[union-attr]
        return newest, store.compacted, states, events, leases, status.alarm, status.keys
    finally:
        await store.close()


def flipped(source: Path, target: Path, name: str, bit: int) -> None:
    shutil.copytree(source, target)
    content = bytearray((target / name).read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    (target / name).write_bytes(content)


def flips(tmp_path: Path, count: int, names: dict[str, str], seed: int) -> None:
    """Flips bits of `names`: file → the image to take it from."""
    asyncio.run(fill(tmp_path / "clean", tmp_path / "dirty"))
    whole = asyncio.run(everything(shutil.copytree(tmp_path / "clean", tmp_path / "whole")))
    assert asyncio.run(everything(shutil.copytree(tmp_path / "dirty", tmp_path / "again"))) == whole
    random = Random(seed)
    refused = dict.fromkeys(names, 0)
    for number in range(count):
        for name, image in names.items():
            size = (tmp_path / image / name).stat().st_size
            copy = tmp_path / f"{name}{number}"
            flipped(tmp_path / image, copy, name, random.randrange(size * 8))
            try:
                assert asyncio.run(everything(copy)) == whole
            except StoreError as error:
                assert str(error)
                refused[name] += 1
            shutil.rmtree(copy)
    assert all(refused[name] > count // 2 for name in names if name != MARK), "nothing is seen"
    print(f"seed {seed}: {count} bits in each of {', '.join(names)}: refused {refused}, else harmless")


def test_flipped_bits(tmp_path: Path) -> None:
    flips(tmp_path, 100, {DATABASE: "clean"}, SEED)


def test_flipped_bits_after_a_crash(tmp_path: Path) -> None:
    flips(tmp_path, 30, {WAL: "dirty", MARK: "clean"}, SEED)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [700, 701])
def test_many_flipped_bits(tmp_path: Path, seed: int) -> None:
    flips(tmp_path, 1000, {DATABASE: "clean", WAL: "dirty", MARK: "clean"}, seed)


@pytest.mark.parametrize("look", [lambda d: asyncio.run(EmbeddedStore.open(d.path)), verify, peek])
def test_a_schema_whose_damage_is_no_text(tmp_path: Path, look: Callable[[Directory], object]) -> None:
    """SQLite's error quotes it, and Python cannot decode the quote."""
    asyncio.run(fill(tmp_path / "clean", tmp_path / "dirty"))
    database = tmp_path / "clean" / DATABASE
    content = database.read_bytes()
    assert content.count(b"CREATE TABLE rev") == 1
    database.write_bytes(content.replace(b"CREATE TABLE rev", b"CREATE TABL\xf1 rev"))
    directory = Directory(tmp_path / "clean")
    try:
        report = look(directory)
    except StoreError as error:
        assert str(tmp_path / "clean") in str(error)
    else:
        assert isinstance(report, Report) and report.findings


def test_verify_names_each_damaged_row(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path / "clean", tmp_path / "dirty"))
    sound = verify(Directory(tmp_path / "clean"))
    assert sound.findings == () and sound.rows > 90 and sound.revision > 250
    content = (tmp_path / "clean" / DATABASE).read_bytes()
    place = content.rindex(b"/registry/pods/n1")
    (tmp_path / "clean" / DATABASE).write_bytes(content[: place + 16] + b"2" + content[place + 17 :])
    report = verify(Directory(tmp_path / "clean"))
    assert len(report.findings) == 1 and "revision" in report.findings[0] and "/registry/pods/n2" in report.findings[0]


def test_a_row_that_is_damaged_while_it_is_open_is_not_served(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path, cache=0)
        first = await store.put(Put("/a", b"precious" * 100))
        await store.put(Put("/b", b"other"))
        await store.defragment()
        path = tmp_path / DATABASE
        path.write_bytes(path.read_bytes().replace(b"preciousprecious", b"preciousprexious", 1))
        assert await store.get("/b") is not None
        with pytest.raises(StoreError, match=f"key '/a' at revision {first.revision}"):
            await store.get("/a")
        with pytest.raises(StoreError, match="checksum"):
            await store.range("/")
        await store.close()

    asyncio.run(main())
