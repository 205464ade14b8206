"""What a data directory may be: ours, another's, newer, in use, read-only, on a full disk."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashpot.runtime.store.base import Corrupt, Delete, Put, StoreError, Unavailable
from dashpot.runtime.store.directory import DATABASE
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.rows import meta_sum


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB of our own, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def opened(folder: Path) -> None:
    store = await EmbeddedStore.open(folder)
    await store.put(Put("/a", b"1"))
    await store.close()


def refused(folder: Path, *said: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        asyncio.run(opened(folder))
    for part in (*said, str(folder)):
        assert part in str(caught.value)
    return caught.value


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path / "data"))
    assert oct((tmp_path / "data").stat().st_mode)[-3:] == "700"
    names = {path.name: oct(path.stat().st_mode)[-3:] for path in (tmp_path / "data").iterdir()}
    assert names.keys() == {"store.db", "lock", "acknowledged"}
    assert set(names.values()) == {"600"}


def test_two_servers_on_one_directory(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        program = "import sys, pathlib, asyncio; from dashpot.runtime.store.embedded import EmbeddedStore\n"
        program += "asyncio.run(EmbeddedStore.open(pathlib.Path(sys.argv[1])))"
        done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, encoding="utf-8")
        assert f"is in use by process {os.getpid()}: a store has one server" in done.stderr
        with pytest.raises(StoreError, match="in use"):
            await EmbeddedStore.open(tmp_path)
        await store.close()
        await opened(tmp_path)

    asyncio.run(main())


def test_a_newer_directory_is_left_alone(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path))
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("UPDATE meta SET value = 2, sum = ? WHERE name = 'schema'", (meta_sum("schema", 2),))
    connection.close()
    refused(tmp_path, "was written by a newer dashpot (version 2 of the store; this one knows 1)")


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + bytes(84), bytes(5000)])
def test_what_is_no_store(content: bytes, tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(content)
    if content:
        assert isinstance(refused(tmp_path, "damaged"), Corrupt)
        assert (tmp_path / DATABASE).read_bytes() == content
    else:
        asyncio.run(opened(tmp_path))  # a start that was cut short


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    assert isinstance(refused(tmp_path, "no store of dashpot"), Corrupt)


def test_an_older_copy_of_the_file_is_noticed(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path))
    before = (tmp_path / DATABASE).read_bytes()
    asyncio.run(opened(tmp_path))
    (tmp_path / DATABASE).write_bytes(before)
    refused(tmp_path, "it ends at revision 2, and 3 was acknowledged")
    (tmp_path / "acknowledged").unlink()
    asyncio.run(opened(tmp_path))


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    refused(path, "cannot use the data directory")
    refused(path / "below", "cannot use the data directory")


def test_a_read_only_disk(small_disk: Path) -> None:
    asyncio.run(opened(small_disk))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused(small_disk, "Read-only file system")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path / "data"))
    (tmp_path / "data").chmod(0o500)
    (tmp_path / "data" / "lock").chmod(0o400)
    refused(tmp_path / "data", "Permission denied")
    (tmp_path / "data").chmod(0o700)


async def overfilled(store: EmbeddedStore) -> None:
    """Writes until the disk is full; what was acknowledged until then is there after the next start."""
    acknowledged: dict[str, int] = {}

    async def write(number: int) -> None:
        for again in range(100):
            key = f"/{number}/{again}"
            acknowledged[key] = (await store.put(Put(key, os.urandom(2000)))).revision

    watch = store.watch("/", store.newest)
    failed = await asyncio.gather(*[write(n) for n in range(50)], return_exceptions=True)
    assert {str(error) for error in failed} == {
        f"there is no space left on the disk of '{store.directory.path}'; the store is stopped"
    }
    assert all(isinstance(error, Unavailable) and error.maybe for error in failed)
    assert isinstance(store.failure, Unavailable)
    with pytest.raises(Unavailable, match="no space left"):
        async for _ in watch:
            pass
    for work in (store.get("/0/0"), store.delete(Delete("/0/0")), store.compact(1), store.defragment()):
        with pytest.raises(Unavailable, match="no space left"):
            await work
    await store.close()
    await store.close()
    path = store.directory.path
    for name in path.glob("ballast*"):
        name.unlink()
    store = await EmbeddedStore.open(path)
    for key, revision in acknowledged.items():
        entry = await store.get(key)
        assert entry is not None and entry.modified == revision
    assert (await store.put(Put("/after", b""))).revision > max(acknowledged.values())
    await store.close()


def test_a_full_disk(small_disk: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(small_disk)
        for number in range(6):
            (small_disk / f"ballast{number}").write_bytes(bytes(200_000))
        await overfilled(store)

    asyncio.run(main())


def test_no_space_to_defragment(small_disk: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(small_disk)
        await asyncio.gather(*[store.put(Put(f"/{number}", os.urandom(4000))) for number in range(120)])
        await store.close()
        store = await EmbeddedStore.open(small_disk)
        room = os.statvfs(small_disk)
        (small_disk / "ballast").write_bytes(bytes(room.f_bavail * room.f_bsize - 150_000))
        with pytest.raises(StoreError, match="has not enough space for this"):
            await store.defragment()
        assert store.failure is None and (await store.put(Put("/after", b""))).ok
        (small_disk / "ballast").unlink()
        await store.defragment()
        await store.close()
        await opened(small_disk)

    asyncio.run(main())


def test_a_full_disk_as_sqlite_tells_it(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        store._connection.execute("PRAGMA max_page_count=100")
        await overfilled(store)

    asyncio.run(main())


def test_a_disk_that_is_full_at_the_start(small_disk: Path) -> None:
    with (small_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            try:
                if not file.write(bytes(4096)):
                    break
            except OSError:
                break
    folder = small_disk / "data"
    with pytest.raises(StoreError, match=r"(?i)no space left"):
        asyncio.run(opened(folder))
    (small_disk / "ballast").unlink()
    asyncio.run(opened(folder))
