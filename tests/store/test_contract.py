"""What each store promises beside the rules of the state machine: leases that end, space that ends, large answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import Opener

from dashpot.runtime.store.base import (
    Compacted,
    Delete,
    Event,
    NoLease,
    NoSpace,
    Put,
    Store,
    StoreError,
    TooLarge,
    Unavailable,
    Watch,
)
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.memory import MemoryStore

NUMBERS = count()


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    skew = 0.0

    def time(self) -> float:
        return super().time() + self.skew

    def forward(self, seconds: float) -> None:
        self.skew += seconds


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test on such a loop; nothing may take longer than a minute."""

    async def limited() -> None:
        async with asyncio.timeout(3600):
            await main()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(limited())


def forward(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    loop.forward(seconds)


async def taken(watch: Watch, wanted: int) -> list[Event]:
    """So many events of a watch."""
    found: list[Event] = []
    async for batch in watch:
        revisions = [event.revision for event in batch]
        assert not found or not batch or revisions[0] > found[-1].revision, "a batch cuts a revision in two"
        assert revisions == sorted(revisions)
        found += batch
        if len(found) >= wanted:
            break
    return found


def test_a_lease_takes_its_keys_along(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        root = f"/lease/{next(NUMBERS)}/"
        one, two = await store.grant(600), await store.grant(600)
        for name in "abc":
            await store.put(Put(root + name, name.encode(), lease=one))
        await store.put(Put(root + "b", b"now of the other", lease=two))
        await store.put(Put(root + "c", b"now of none"))
        await store.put(Put(root + "d", b"d", lease=one))
        at = await store.revision()
        await store.revoke(one)
        assert [entry.key for entry in (await store.range(root)).entries] == [root + "b", root + "c"]
        gone = await taken(store.watch(root, at), 2)
        assert {(e.key, e.previous.value if e.previous else b"", e.value) for e in gone} == {
            (root + "a", b"a", None),
            (root + "d", b"d", None),
        }
        with pytest.raises(NoLease):
            await store.revoke(one)
        with pytest.raises(StoreError):
            await store.grant(0)
        await store.revoke(two)
        await store.close()

    run(main)


def test_a_lease_ends_when_it_is_not_kept_alive(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        key = f"/ends/{next(NUMBERS)}"
        real = not isinstance(store, MemoryStore | EmbeddedStore)
        lease = await store.grant(1 if real else 100)
        done = await store.put(Put(key, b"x", lease=lease))
        watch = store.watch(key, done.revision)
        if not real:
            for _ in range(3):
                forward(60)
                await asyncio.sleep(0)
                assert await store.keep_alive(lease) == 100
                assert await store.get(key) is not None
            forward(101)
        (event,) = await taken(watch, 1)
        assert event.deleted and event.previous is not None and event.previous.value == b"x"
        with pytest.raises(NoLease):
            await store.keep_alive(lease)
        assert await store.get(key) is None
        await store.close()

    run(main)


def test_leases_live_on_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        lease, other = await store.grant(100), await store.grant(100)
        await store.put(Put("/a", b"a", lease=lease))
        await store.revoke(other)
        forward(90)
        await store.close()
        store = await EmbeddedStore.open(tmp_path)
        assert (await store.status()).leases == 1
        forward(90)  # its time began anew
        await asyncio.sleep(0)
        assert await store.get("/a") is not None
        at = await store.revision()
        forward(11)
        assert (await taken(store.watch("/a", at), 1))[0].deleted
        await store.close()
        store = await EmbeddedStore.open(tmp_path)
        assert (await store.status()).leases == 0 and await store.revision() == at + 1
        await store.close()

    run(main)


async def fill(store: Store) -> None:
    for number in range(200):
        await store.put(Put(f"/fill/{number % 10}", bytes(100_000)))
    raise AssertionError("the quota does not hold")


async def refused(store: Store) -> None:
    """What a store without space refuses, and what it serves."""
    for work in (store.put(Put("/small", b"")), store.put(Put("/small", b"", 0)), store.grant(10)):
        with pytest.raises(NoSpace, match="mvcc: database space exceeded"):
            await work
    assert await store.get("/fill/3") is not None
    assert await store.revision() == (await store.range("/fill/")).revision


def test_the_quota_alarm(opener: Opener) -> None:
    async def main() -> None:
        store = await opener(small=True)
        lease = await store.grant(100)
        await store.put(Put("/leased", b"", lease=lease))
        with pytest.raises(NoSpace):
            await fill(store)
        await refused(store)
        assert (await store.delete(Delete("/fill/1"))).ok
        entry = await store.get("/fill/2")
        assert entry is not None and (await store.delete(Delete("/fill/2", entry.modified))).ok
        await store.keep_alive(lease)
        await store.revoke(lease)
        status = await store.status()
        assert status.alarm and status.size > 3 << 20 and "alarm" in status.warnings[0]
        if isinstance(store, EmbeddedStore):
            await store.close()
            store = await opener(small=True)
            await refused(store)
        await store.disarm()
        with pytest.raises(NoSpace):
            await fill(store)
        await store.compact(await store.revision())
        await refused(store)
        await store.defragment()
        await refused(store)
        status = await store.status()
        assert status.size < 2 << 20 and status.size_in_use <= status.size
        await store.disarm()
        assert (await store.put(Put("/small", b""))).ok
        assert not (await store.status()).alarm
        await store.close()

    run(main)


def test_a_warning_comes_before_the_alarm(opener: Opener) -> None:
    async def main() -> None:
        store = await opener(small=True)
        await store.compact(await store.revision())
        await store.defragment()
        await store.disarm()
        status = await store.status()
        for number in range(100):
            if status.warnings:
                break
            await store.put(Put(f"/warn/{number}", bytes(100_000)))
            status = await store.status()
        assert not status.alarm and "% of the quota are used" in status.warnings[0]
        assert status.size >= 0.8 * status.quota
        for number in range(100):
            await store.delete(Delete(f"/warn/{number}"))
        await store.close()

    run(main)


def test_long_lists_and_large_values(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        root = f"/long/{next(NUMBERS)}/"
        first = await store.revision()
        names = [f"{root}{number:05d}" for number in range(1300)]
        await asyncio.gather(*[store.put(Put(name, name.encode())) for name in names])
        found = await store.range(root)
        assert [entry.key for entry in found.entries] == names and not found.more
        part = await store.range(root, start=names[100], limit=1150)
        assert len(part.entries) == 1150 and part.entries[0].key == names[100] and part.remaining == 50 and part.more
        assert await store.count(root) == 1300
        assert len(await taken(store.watch(root, first), 1300)) == 1300
        first = await store.revision()
        for number in range(8):
            await store.put(Put(f"{root}large", bytes([number]) * 1_400_000))
        large = await taken(store.watch(f"{root}large", first), 8)
        assert [e.value for e in large] == [bytes([number]) * 1_400_000 for number in range(8)]
        assert [e.previous.value[:1] if e.previous else b"" for e in large[1:]] == [bytes([n]) for n in range(7)]
        for key, value in ((root + "x", bytes(1_600_000)), ("k" * 5000, b"")):
            with pytest.raises(TooLarge, match="etcdserver: request is too large"):
                await store.put(Put(key, value))
        with pytest.raises(StoreError, match="key is not provided"):
            await store.put(Put("", b""))
        with pytest.raises(StoreError, match="no text in UTF-8"):
            await store.put(Put("\ud800", b""))
        await store.close()

    run(main)


def test_many_writers_of_one_key_win_one_at_a_time(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        key = f"/race/{next(NUMBERS)}"
        await store.put(Put(key, b"0"))
        wins = []

        async def add() -> None:
            for _ in range(5):
                while True:
                    entry = await store.get(key)
                    assert entry is not None
                    done = await store.put(Put(key, b"%d" % (int(entry.value) + 1), entry.modified))
                    assert done.revision <= await store.revision()
                    if done.ok:
                        wins.append(done.revision)
                        assert done.previous == entry
                        break
                    assert done.current is not None and done.current.modified > entry.modified

        await asyncio.gather(*[add() for _ in range(10)])
        last = await store.get(key)
        assert last is not None and last.value == b"50" and len(set(wins)) == 50 and last.modified == max(wins)
        await store.close()

    run(main)


def test_a_watch_of_what_is_to_come(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        root = f"/future/{next(NUMBERS)}/"
        done = await store.put(Put(root + "a", b"1"))
        watch = store.watch(root, done.revision + 1)
        early = asyncio.create_task(taken(watch, 1))
        for number in range(3):
            await store.put(Put(root + "a", b"%d" % number))
        assert (await early)[0].value == b"1"
        await watch.close()
        await watch.close()
        assert [batch async for batch in watch] == []
        await store.close()
        for work in (store.revision(), store.get("/"), store.range("/"), store.put(Put("/", b""))):
            with pytest.raises(Unavailable, match="closed"):
                await work
        await store.close()

    run(main)


def test_closing_ends_watches(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        at = await store.revision()
        reader = asyncio.create_task(taken(store.watch("/never/", at), 1))
        await store.put(Put("/other", b""))
        await store.close()
        assert await reader == []

    run(main)


def test_closing_while_much_is_asked(opener: Opener) -> None:
    """Each is answered or told that the store went; nobody is cancelled, nobody waits for ever."""

    async def main() -> None:
        for _ in range(5):
            store = await opener()
            lease = await store.grant(100)
            at = await store.revision()
            work: list[Any] = [store.put(Put(f"/closing/{n}", b"")) for n in range(5)]
            work += [store.keep_alive(lease) for _ in range(3)]
            work += [taken(store.watch("/never/", at), 1) for _ in range(3)]
            work += [store.range("/closing/"), store.revision(), store.status()]
            asked = [asyncio.ensure_future(one) for one in work]
            await asyncio.sleep(0)
            await store.close()
            for one in await asyncio.gather(*asked, return_exceptions=True):
                assert not isinstance(one, BaseException) or isinstance(one, Unavailable), one

    run(main)


def test_a_reader_that_is_cancelled_is_cancelled(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        watch = store.watch("/never/", await store.revision())
        reader = asyncio.create_task(taken(watch, 1))
        await store.put(Put("/other", b""))
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await store.close()

    run(main)


def test_a_delete_has_its_last_value_right_after_compaction(opener: Opener) -> None:
    async def main() -> None:
        store = await opener()
        key = f"/last/{next(NUMBERS)}"
        before = await store.revision()
        done = await store.put(Put(key, b"last words"))
        found: list[Event] = []
        live = asyncio.Event()

        async def read() -> None:
            async for batch in store.watch(key, before):
                found.extend(batch)
                live.set()
                if len(found) == 2:
                    return

        reader = asyncio.create_task(read())
        await live.wait()
        gone = await store.delete(Delete(key))
        await store.compact(gone.revision)
        await reader
        previous = found[1].previous
        assert previous is not None and previous.value == b"last words"
        assert await store.get(key) is None
        with pytest.raises(Compacted):
            await store.get(key, done.revision)
        await store.close()

    run(main)
