"""What the stores of this process do between requests: slow readers, cancelled callers, compaction beside writers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from dashpot.runtime.store import hub
from dashpot.runtime.store.base import Compacted, Delete, Event, Put, Unavailable
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.memory import MemoryStore


def test_a_caller_who_is_cancelled_does_not_take_others_along(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        first = asyncio.create_task(store.put(Put("/a", b"first", 0)))
        second = asyncio.create_task(store.put(Put("/a", b"second", 0)))
        await asyncio.sleep(0)
        first.cancel()
        told = await second
        assert not told.ok and told.current is not None and told.current.value == b"first", (
            "it was written all the same"
        )
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await store.get("/a")) == told.current
        gone = asyncio.create_task(store.delete(Delete("/a")))
        late = asyncio.create_task(store.delete(Delete("/a")))
        assert (await gone).ok and not (await late).ok
        await store.close()

    asyncio.run(main())


def test_a_refusal_is_told_only_when_its_reason_is_durable(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        order: list[str] = []

        async def write(name: str, expect: int) -> None:
            done = await store.put(Put("/a", name.encode(), expect))
            assert done.revision <= await store.revision()
            order.append(name)

        await asyncio.gather(write("winner", 0), write("loser", 0), write("late", 99))
        assert order[0] == "winner"
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["memory", "embedded"])
def test_a_slow_reader_goes_back_to_the_history(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "BACKLOG", 10)
    monkeypatch.setattr(hub, "PAGE", 7)

    async def main() -> None:
        store = MemoryStore() if kind == "memory" else await EmbeddedStore.open(tmp_path)
        slow, lost = store.watch("/a/", 1), store.watch("/a/", 1)
        for number in range(50):
            await store.put(Put(f"/a/{number % 3}", b"%d" % number))
            await store.put(Put(f"/b/{number % 3}", b""))
        found: list[Event] = []
        async for batch in slow:
            found += batch
            if len(found) == 50:
                break
        assert [event.value for event in found] == [b"%d" % number for number in range(50)]
        assert [event.previous.value if event.previous else None for event in found[3:]] == [
            event.value for event in found[:-3]
        ]
        await store.compact(store.newest - 5)
        with pytest.raises(Compacted):
            async for _ in lost:
                pass
        await store.close()

    asyncio.run(main())


def test_each_event_is_told_once_whatever_prefixes_there_are() -> None:
    async def main() -> None:
        store = MemoryStore()
        watches = {prefix: store.watch(prefix, 1) for prefix in ("", "/a", "/a/", "/a/b", "/a/b/", "/a/b/c", "/b")}
        for key in ("/a", "/a/b", "/a/b/c", "/b"):
            await store.put(Put(key, b""))
        for prefix, watch in watches.items():
            wanted = [key for key in ("/a", "/a/b", "/a/b/c", "/b") if key.startswith(prefix)]
            watch.ask_progress()
            found: list[str] = []
            async for batch in watch:
                found += [event.key for event in batch]
                if not batch:
                    break
            assert found == wanted
        await store.close()

    asyncio.run(main())


def test_writers_go_on_while_rows_are_removed(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        for _ in range(8):
            await asyncio.gather(*[store.put(Put(f"/a/{number}", b"x" * 200)) for number in range(1000)])
        compaction = asyncio.create_task(store.compact(store.newest))
        written = 0
        while not compaction.done():
            await store.put(Put("/b", b"%d" % written))
            assert len((await store.range("/a/", limit=10)).entries) == 10
            written += 1
        assert written >= 7000 // 500
        await compaction
        assert (await store.count("/a/")) == 1000
        await store.close()

    asyncio.run(main())


def test_a_list_that_a_compaction_overtakes(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path, cache=0)
        await asyncio.gather(*[store.put(Put(f"/a/{number:05d}", b"old")) for number in range(2000)])
        past = store.newest
        newest = asyncio.create_task(store.range("/a/"))
        old = asyncio.create_task(store.range("/a/", revision=past))
        await asyncio.sleep(0)
        await asyncio.gather(*[store.put(Put(f"/a/{number:05d}", b"new")) for number in range(2000)])
        await store.compact(store.newest)
        found = (await newest).entries
        assert len(found) == 2000 and len({entry.value for entry in found}) == 1, "one state, old or new"
        try:
            assert {entry.value for entry in (await old).entries} == {b"old"}
        except Compacted:
            pass
        await store.close()

    asyncio.run(main())


def test_a_burst_is_durable_together(tmp_path: Path) -> None:
    """2,000 durable writes of 1 kB a CPU second are promised; ten times that are usual."""

    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        numbers = iter(range(4000))

        async def write() -> None:
            for number in numbers:
                await store.put(Put(f"/registry/pods/default/web-{number}", bytes(1000), 0))

        begun = time.process_time()
        await asyncio.gather(*[write() for _ in range(200)])
        assert 4000 / (time.process_time() - begun) > 2000
        await store.close()

    asyncio.run(main())


def test_what_fails_in_the_writer_is_told_once_and_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        await store.put(Put("/a", b"1"))

        def broken(*_: Any) -> None:
            raise ZeroDivisionError("a mistake")

        monkeypatch.setattr(store._writer, "_insert", broken)
        writes: list[Any] = [
            store.put(Put("/a", b"2", 2)),
            store.put(Put("/a", b"3", 2)),
            store.grant(5),
            store.compact(2),
        ]
        failed = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(error, Unavailable) for error in failed)
        assert "the store's writer failed: ZeroDivisionError: a mistake" in str(failed[0])
        assert store.failure is not None
        with pytest.raises(Unavailable):
            await store.get("/a")
        await store.close()
        store = await EmbeddedStore.open(tmp_path)
        entry = await store.get("/a")
        assert entry is not None and entry.value == b"1"
        await store.close()

    asyncio.run(main())
