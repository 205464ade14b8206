"""Watches: where they start, what selectors make of changes, bookmarks, streaming lists, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.shelf import CONFIGMAPS, NODES, PODS, Watching, exchange, listed, shelf, thing, watched

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import watching
from dashpot.runtime.api.history import Limits
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.store.base import Unavailable
from dashpot.runtime.store.memory import MemoryStore

STREAMING = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def three(storage: Storage) -> list[int]:
    """Creates a, b; changes a. The versions."""
    a = await storage.create("n", "a", thing("a"))
    b = await storage.create("n", "b", thing("b", app="web"))
    c = await storage.update("n", "a", thing("a", app="web"), expect=a.revision)
    return [a.revision, b.revision, c.revision]


def test_a_watch_from_a_version_tells_what_came_after_it() -> None:
    async def main() -> None:
        storage = shelf()
        a, b, c = await three(storage)
        watch = await watched(storage, f"resourceVersion={a}")
        assert await watch.take(2) == [("ADDED", "b", b), ("MODIFIED", "a", c)]
        gone = await storage.delete("n", "a", expect=c)
        assert await watch.take(1) == [("DELETED", "a", gone.revision)]
        assert gone.revision > c
        await watch.close()
        assert not storage.cache.fanout.watchers
        await storage.cache.close()

    asyncio.run(main())


@pytest.mark.parametrize("query", ["", "resourceVersion=0"])
def test_without_a_version_the_state_comes_first(query: str) -> None:
    async def main() -> None:
        storage = shelf()
        _, b, c = await three(storage)
        watch = await watched(storage, query)
        assert await watch.take(2) == [("ADDED", "a", c), ("ADDED", "b", b)]
        d = await storage.create("n", "d", thing("d"))
        assert await watch.take(1) == [("ADDED", "d", d.revision)]
        await storage.cache.close()
        assert await watch.next() is None

    asyncio.run(main())


def test_a_watch_from_a_future_version_waits_for_it() -> None:
    async def main() -> None:
        storage = shelf()
        _, _, c = await three(storage)
        watch = await watched(storage, f"resourceVersion={c + 2}&timeoutSeconds=30")
        waiting = asyncio.ensure_future(watch.take(1))
        last = 0
        for index in range(4):
            last = (await storage.create("n", f"x{index}", thing(f"x{index}"))).revision
            await asyncio.sleep(0)
        assert await waiting == [("ADDED", "x2", c + 3)]
        assert await watch.take(1) == [("ADDED", "x3", last)]
        await storage.cache.close()

    asyncio.run(main())


def test_a_version_too_old_is_told_in_the_stream() -> None:
    async def main() -> None:
        storage = shelf(replay=0)
        await three(storage)
        await storage.cache.close()
        late = shelf(store=storage.store, replay=0)
        watch = await watched(late, "resourceVersion=1")
        event = await watch.next()
        assert event is not None and event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"] == f"too old resource version: 1 ({await late.store.revision()})"
        assert await watch.next() is None
        await late.cache.close()

    asyncio.run(main())


def test_a_watch_goes_on_after_a_restart() -> None:
    async def main() -> None:
        storage = shelf()
        a, b, c = await three(storage)
        await storage.cache.close()
        late = shelf(store=storage.store)
        watch = await watched(late, f"resourceVersion={a}")
        assert await watch.take(2) == [("ADDED", "b", b), ("MODIFIED", "a", c)]
        await late.cache.close()

    asyncio.run(main())


def test_selectors_turn_changes_into_comings_and_goings() -> None:
    async def main() -> None:
        storage = shelf()
        made = await storage.create("n", "a", thing("a"))
        watch = await watched(storage, f"resourceVersion={made.revision}&labelSelector=in=yes")
        second = await storage.update("n", "a", {**thing("a", **{"in": "yes"})}, expect=made.revision)
        third = await storage.update(
            "n", "a", {**thing("a", **{"in": "yes"}), "data": {"x": "1"}}, expect=second.revision
        )
        fourth = await storage.update("n", "a", thing("a"), expect=third.revision)
        await storage.delete("n", "a", expect=fourth.revision)
        other = await storage.create("n", "b", thing("b", **{"in": "yes"}))
        assert await watch.take(2) == [("ADDED", "a", second.revision), ("MODIFIED", "a", third.revision)]
        event = await watch.next()
        assert event is not None
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["resourceVersion"] == str(fourth.revision)
        assert event["object"]["metadata"]["labels"] == {"in": "yes"}, "the state that matched last"
        assert await watch.take(1) == [("ADDED", "b", other.revision)]
        await storage.cache.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("query", "namespace", "expected"),
    [
        ("fieldSelector=metadata.name=b", "n", ["b"]),
        ("fieldSelector=metadata.name=b", "", ["b", "b"]),
        ("fieldSelector=metadata.name!=b", "n", ["a"]),
        ("fieldSelector=metadata.namespace=m", "", ["b"]),
        ("labelSelector=app", "", ["b"]),
        ("labelSelector=!app", "", ["a", "b"]),
        ("labelSelector=app in (web,db)&fieldSelector=metadata.name=b", "n", ["b"]),
        ("", "m", ["b"]),
    ],
)
def test_only_what_is_selected_comes(query: str, namespace: str, expected: list[str]) -> None:
    async def main() -> None:
        storage = shelf()
        await storage.cache.ready()
        pairs = dict(part.split("=", 1) for part in query.split("&") if part)
        initial = await watched(
            storage, {**pairs, "resourceVersion": str(await storage.store.revision())}, namespace=namespace
        )
        later = asyncio.ensure_future(initial.take(len(expected)))
        await asyncio.sleep(0)
        await storage.create("n", "a", thing("a"))
        await storage.create("n", "b", thing("b", app="web"))
        await storage.create("m", "b", thing("b", "m"))
        assert [name for _, name, _ in await later] == expected
        synthetic = await watched(storage, pairs, namespace=namespace)
        assert sorted(name for _, name, _ in await synthetic.take(len(expected))) == expected
        await storage.cache.close()

    asyncio.run(main())


def test_the_end_has_its_time_and_a_bookmark() -> None:
    async def main() -> None:
        storage, other = shelf(), shelf(NODES)
        other.store = storage.store
        await three(storage)
        watch = await watched(storage, "resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=true")
        events = await watch.rest()
        assert [kind for kind, _, _ in events] == ["ADDED", "ADDED", "BOOKMARK"]
        assert events[-1][2] >= await storage.store.revision()
        silent = await watched(storage, "resourceVersion=0&timeoutSeconds=1")
        assert [kind for kind, _, _ in await silent.rest()] == ["ADDED", "ADDED"]
        await storage.cache.close()

    asyncio.run(main())


def test_a_streaming_list_says_where_it_ends() -> None:
    async def main() -> None:
        storage = shelf()
        _, _, c = await three(storage)
        watch = await watched(storage, STREAMING)
        assert [kind for kind, _, _ in await watch.take(2)] == ["ADDED", "ADDED"]
        event = await watch.next()
        assert event is not None and event["type"] == "BOOKMARK"
        obj = event["object"]
        assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")
        assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(obj["metadata"]["resourceVersion"]) >= c
        d = await storage.create("n", "d", thing("d"))
        assert await watch.take(1) == [("ADDED", "d", d.revision)]
        none = await watched(storage, "sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
        waiting = asyncio.ensure_future(none.take(1))
        while len(storage.cache.fanout.watchers) < 2:
            await asyncio.sleep(0)
        e = await storage.create("n", "e", thing("e"))
        assert await waiting == [("ADDED", "e", e.revision)], "no initial events were asked for"
        await storage.cache.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "sendInitialEvents=true",
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
            "provided",
        ),
        ("resourceVersion=x", 'Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'),
    ],
)
def test_options_that_contradict_each_other_are_refused(query: str, told: str) -> None:
    async def main() -> None:
        storage = shelf()
        with pytest.raises(StatusError) as refused:
            await watched(storage, query)
        assert refused.value.code == 422
        assert told in refused.value.message
        await storage.cache.close()

    asyncio.run(main())


def test_a_slow_watch_is_dropped_and_holds_no_queue() -> None:
    async def main() -> None:
        storage = shelf(limits=Limits(least=10, most=100, age_s=0))
        first = await storage.create("n", "first", thing("first"))
        watch = await watched(storage, f"resourceVersion={first.revision}")
        begun = asyncio.ensure_future(watch.take(1))
        await asyncio.sleep(0)
        await storage.create("n", "a", thing("a"))
        await begun
        quick = await watched(storage, f"resourceVersion={first.revision}")
        seen = asyncio.ensure_future(quick.take(401))
        for index in range(400):
            await storage.create("n", f"x{index}", thing(f"x{index}"))
            if index % 20 == 0:
                await asyncio.sleep(0.002)
        assert len(await seen) == 401
        assert storage.cache.history.end - storage.cache.history.start < 250
        assert await watch.next() is None, "what it has not read is forgotten"
        await storage.cache.close()

    asyncio.run(main())


def test_watches_end_when_the_store_is_lost_and_go_on_after() -> None:
    async def main() -> None:
        storage = shelf()
        a = await storage.create("n", "a", thing("a"))
        watch = await watched(storage, f"resourceVersion={a.revision}&allowWatchBookmarks=true")
        waiting = asyncio.ensure_future(watch.next())
        await asyncio.sleep(0.01)
        stream: Any = storage.cache._watch
        stream.fail(Unavailable("etcdserver: no leader"))
        assert await waiting is None
        b = await storage.create("n", "b", thing("b"))
        for _ in range(100):
            if storage.cache.live:
                break
            await asyncio.sleep(0.01)
        again = await watched(storage, f"resourceVersion={a.revision}")
        assert await again.take(1) == [("ADDED", "b", b.revision)]
        await storage.cache.close()

    asyncio.run(main())


def test_a_table_tells_its_columns_once() -> None:
    async def main() -> None:
        storage = shelf(PODS)
        await storage.create("n", "a", thing("a", kind="Pod"))
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        watch = await watched(storage, "resourceVersion=0", accept=table)
        first = await watch.next()
        await storage.create("n", "b", thing("b", kind="Pod"))
        second = await watch.next()
        assert first is not None and second is not None
        assert (first["object"]["kind"], second["object"]["kind"]) == ("Table", "Table")
        assert first["object"]["columnDefinitions"][0]["name"] == "Name"
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][0] == "b"
        part = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        metadata = await watched(storage, "resourceVersion=0", accept=part)
        event = await metadata.next()
        assert event is not None and set(event["object"]) == {"kind", "apiVersion", "metadata"}
        await storage.cache.close()

    asyncio.run(main())


def test_many_watches_share_what_they_are_given() -> None:
    async def main() -> None:
        storage = shelf()
        start = (await storage.create("n", "a", thing("a"))).revision
        watches: list[Watching] = [await watched(storage, f"resourceVersion={start}") for _ in range(250)]
        tasks = [asyncio.ensure_future(watch.take(20)) for watch in watches]
        await asyncio.sleep(0)
        for index in range(20):
            await storage.create("n", f"x{index}", thing(f"x{index}"))
        found = await asyncio.gather(*tasks)
        assert all(events == found[0] for events in found)
        assert len(storage.cache.fanout._feeds) == 1
        assert storage.cache.fanout.delivered == 250 * 20
        await storage.cache.close()

    asyncio.run(main())


def test_the_same_stretch_is_one_buffer_for_all() -> None:
    async def main() -> None:
        storage = shelf()
        start = (await storage.create("n", "a", thing("a"))).revision
        made = [
            (await watching.watch_response(exchange(f"resourceVersion={start}"), CONFIGMAPS, storage)).chunks
            for _ in range(3)
        ]
        await storage.create("n", "b", thing("b"))
        assert await storage.cache.consistent()
        buffers = [await anext(chunks) for chunks in made if chunks is not None]
        assert len(buffers) == 3
        assert buffers[1] is buffers[2], "a buffer is kept as soon as a second watch may want it"
        await storage.cache.close()

    asyncio.run(main())


class Distrusted(MemoryStore):
    """A store whose watches tell of nothing but events, as etcd before 3.4.31 does."""

    def watch(self, prefix: str, after: int) -> Any:
        """A stream without notes of progress."""
        return Silent(super().watch(prefix, after), after)


class Silent:
    """A stream that knows of what it delivered and of nothing else."""

    def __init__(self, stream: Any, after: int) -> None:
        self.progress = after
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for batch in self._stream:
            if batch:
                self.progress = batch[-1].revision
                yield batch

    def ask_progress(self) -> bool:
        """No note will come."""
        return False

    async def close(self) -> None:
        """Ends it."""
        await self._stream.close()


@pytest.mark.parametrize("query", ["", STREAMING])
def test_a_store_without_progress_is_asked_itself(query: str) -> None:
    async def main() -> None:
        storage = shelf(store=Distrusted())
        nodes = shelf(NODES, store=storage.store)
        a = await storage.create("n", "a", thing("a"))
        await nodes.create("", "x", {"metadata": {"name": "x"}})
        newest = await storage.store.revision()
        assert (await listed(storage))["metadata"]["resourceVersion"] == str(newest)
        watch = await watched(storage, query)
        assert await watch.take(1) == [("ADDED", "a", a.revision)]
        if query:
            assert await watch.take(1) == [("BOOKMARK", "", newest)]
        b = await storage.create("n", "b", thing("b"))
        assert await watch.take(1) == [("ADDED", "b", b.revision)]
        await storage.cache.close()
        await nodes.cache.close()

    asyncio.run(main())


def test_each_node_hears_of_its_own_pods_alone() -> None:
    async def main() -> None:
        storage = shelf(PODS)

        def pod(name: str, node: str) -> dict[str, Any]:
            return {**thing(name, kind="Pod"), "spec": {"nodeName": node}}

        first = await storage.create("n", "a", pod("a", "n1"))
        query = f"resourceVersion={first.revision}&fieldSelector=spec.nodeName=n"
        watches = {node: await watched(storage, query + node[1:], namespace="") for node in ("n1", "n2", "n3")}
        tasks = {node: asyncio.ensure_future(watch.take(2)) for node, watch in watches.items()}
        while len(storage.cache.fanout.watchers) < 3:
            await asyncio.sleep(0)
        b = await storage.create("n", "b", pod("b", "n2"))
        await asyncio.sleep(0.01)
        moved = await storage.update("n", "b", pod("b", "n1"), expect=b.revision)
        await asyncio.sleep(0.01)
        changed = await storage.update("n", "a", pod("a", "n1"), expect=first.revision)
        await asyncio.sleep(0.01)
        c, d = await storage.create("n", "c", pod("c", "n3")), await storage.create("n", "d", pod("d", "n3"))
        assert await tasks["n1"] == [("ADDED", "b", moved.revision), ("MODIFIED", "a", changed.revision)]
        assert await tasks["n2"] == [("ADDED", "b", b.revision), ("DELETED", "b", moved.revision)]
        assert await tasks["n3"] == [("ADDED", "c", c.revision), ("ADDED", "d", d.revision)]
        await storage.cache.close()

    asyncio.run(main())


def test_a_sleeping_watch_outlives_the_history_that_did_not_concern_it() -> None:
    async def main() -> None:
        storage = shelf(limits=Limits(least=10, most=100, age_s=0))
        first = await storage.create("n", "a", thing("a"))
        watch = await watched(storage, f"resourceVersion={first.revision}&fieldSelector=metadata.name=z")
        waiting = asyncio.ensure_future(watch.take(1))
        while not storage.cache.fanout.watchers:
            await asyncio.sleep(0)
        for index in range(500):
            await storage.create("n", f"x{index}", thing(f"x{index}"))
            await asyncio.sleep(0)
        assert storage.cache.history.start > 0
        z = await storage.create("n", "z", thing("z"))
        assert await waiting == [("ADDED", "z", z.revision)]
        await storage.cache.close()

    asyncio.run(main())
