"""Lists and watches against the plain list of writes: every list is the state at its version, every watch the history
after its start, all pages of a list one revision, whatever is written in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from attrs import define, field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.shelf import Watching, content, exchange, listed, shelf, thing, watched

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import lists
from dashpot.runtime.api.history import Limits
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.store.base import Store
from dashpot.runtime.store.embedded import EmbeddedStore

Row = tuple[str, str, int]

SELECTORS = {"": None, "labelSelector=app=web": "web", "labelSelector=app=db": "db"}
PLACES = [("n", "a"), ("n", "b"), ("n", "c"), ("m", "a"), ("m", "d")]
APPS = ["web", "db", ""]


@frozen
class Write:
    """What one revision did to one object; `app` None: it was deleted."""

    revision: int
    place: tuple[str, str]
    app: str | None
    before: str | None
    """The label before; None for no object."""
    last: int
    """The version before."""


@define
class Model:
    """All writes, in order."""

    writes: list[Write] = field(factory=list)

    def state(self, revision: int) -> dict[tuple[str, str], tuple[str, int]]:
        """Label and version of each object at a revision."""
        found: dict[tuple[str, str], tuple[str, int]] = {}
        for write in self.writes:
            if write.revision > revision:
                break
            if write.app is None:
                found.pop(write.place, None)
            else:
                found[write.place] = (write.app, write.revision)
        return found

    def shown(self, revision: int, namespace: str, app: str | None) -> list[tuple[str, int]]:
        """What a list at a revision holds: names and versions in order."""
        return [
            (name, version)
            for (space, name), (label, version) in sorted(self.state(revision).items())
            if namespace in ("", space) and app in (None, label)
        ]

    def events(self, after: int, namespace: str, app: str | None) -> list[Row]:
        """What a watch from a version is told."""
        told: list[Row] = []
        for write in self.writes:
            if write.revision <= after or namespace not in ("", write.place[0]):
                continue
            was = write.before is not None and app in (None, write.before)
            now = write.app is not None and app in (None, write.app)
            if now:
                told.append(("MODIFIED" if was else "ADDED", write.place[1], write.revision))
            elif was:
                told.append(("DELETED", write.place[1], write.revision))
        return told


@define
class Seen:
    """A watch and what it was asked."""

    watching: Watching
    task: asyncio.Task[list[Row]]
    start: int | None
    """None: with the state first, which is not older than `least`."""
    least: int
    namespace: str
    app: str | None

    def check(self, model: Model) -> None:
        """The whole stream is what the history says."""
        told = self.task.result()
        if self.start is not None:
            assert told == model.events(self.start, self.namespace, self.app)
            return
        last = model.writes[-1].revision
        for revision in range(self.least, last + 1):
            initial = [("ADDED", *row) for row in model.shown(revision, self.namespace, self.app)]
            if told == initial + model.events(revision, self.namespace, self.app):
                return
        pytest.fail(f"{told} is no state since {self.least} and what came after it: {model.writes}")


MARKS = [("m", "zz1", "web"), ("m", "zz2", "db"), ("n", "zz3", "web"), ("n", "zz4", "db")]
"""The last writes: each watch reads until the last of them that it is told of."""


async def until_mark(watching: Watching, namespace: str, app: str | None) -> list[Row]:
    """All events up to the watch's last."""
    last = [name for space, name, label in MARKS if namespace in ("", space) and app in (None, label)][-1]
    found: list[Row] = []
    while not found or found[-1][1] != last:
        found += await watching.take(1)
    return found


class Run:
    """One random program against a storage and the model."""

    def __init__(self, limits: Limits | None, store: Store | None) -> None:
        self.storage: Storage = shelf(limits=limits, store=store)
        self.model = Model()
        self.watches: list[Seen] = []
        self.paging: list[tuple[str, str, int, list[Any], int]] = []

    async def write(self, index: int, app: str | None) -> None:
        """Creates, updates or deletes."""
        await self.put(PLACES[index], app)

    async def put(self, place: tuple[str, str], app: str | None) -> None:
        """One write, in both."""
        last = self.model.writes[-1].revision if self.model.writes else 0
        before = self.model.state(last).get(place)
        space, name = place
        if app is None:
            if before is None:
                return
            stored = await self.storage.delete(space, name, expect=before[1])
        else:
            obj = thing(name, space, app=app)
            if before is None:
                stored = await self.storage.create(space, name, obj)
            else:
                stored = await self.storage.update(space, name, obj, expect=before[1])
        version = before[1] if before is not None else 0
        self.model.writes.append(Write(stored.revision, place, app, before[0] if before is not None else None, version))

    async def watch(self, back: int, namespace: str, query: str) -> None:
        """A watch from a past write, from 0 (back -1) or without a version (back -2)."""
        writes = self.model.writes
        now = writes[-1].revision if writes else 0
        start: int | None = None
        version = "" if back == -2 else "0"
        if back >= 0 and writes:
            start = writes[max(0, len(writes) - 1 - back)].revision
            version = str(start)
        watching = await watched(
            self.storage, "&".join(filter(None, [query, f"resourceVersion={version}"])), namespace=namespace
        )
        task = asyncio.ensure_future(until_mark(watching, namespace, SELECTORS[query]))
        await asyncio.sleep(0)
        least = now if back == -2 else 0
        self.watches.append(Seen(watching, task, start, least, namespace, SELECTORS[query]))

    async def list(self, back: int, namespace: str, query: str) -> None:
        """A list of the newest state, of any (back -1), or exactly of a past write."""
        writes = self.model.writes
        version, least = "", writes[-1].revision if writes else 0
        if back == -1:
            version, least = "resourceVersion=0", 0
        elif back >= 0 and writes:
            least = writes[max(0, len(writes) - 1 - back)].revision
            version = f"resourceVersion={least}&resourceVersionMatch=Exact"
        try:
            answer = await listed(self.storage, "&".join(filter(None, [query, version])), namespace=namespace)
        except StatusError as error:
            assert error.code == 410
            return
        revision = int(answer["metadata"]["resourceVersion"])
        assert revision >= least
        if back >= 0 and writes:
            assert revision == least
        found = [(i["metadata"]["name"], int(i["metadata"]["resourceVersion"])) for i in answer["items"]]
        assert found == self.model.shown(revision, namespace, SELECTORS[query])

    async def page(self, namespace: str, query: str, limit: int) -> None:
        """Begins a list in pages, or goes on with the one that was begun."""
        if not self.paging:
            self.paging.append((namespace, query, limit, [], 0))
        namespace, query, limit, found, revision = self.paging[-1]
        token = f"continue={found[-1]}" if found else ""
        answer = await listed(
            self.storage, "&".join(filter(None, [query, f"limit={limit}", token])), namespace=namespace
        )
        items = [(i["metadata"]["name"], int(i["metadata"]["resourceVersion"])) for i in answer["items"]]
        assert len(items) <= limit
        rows = [*found[:-1], *items]
        version = int(answer["metadata"]["resourceVersion"])
        assert revision in (0, version), "all pages show one revision"
        expected = self.model.shown(version, namespace, SELECTORS[query])
        goes_on = answer["metadata"].get("continue", "")
        left = answer["metadata"].get("remainingItemCount")
        if SELECTORS[query] is None and goes_on:
            assert left == len(expected) - len(rows)
        else:
            assert left is None
        self.paging.pop()
        if goes_on:
            self.paging.append((namespace, query, limit, [*rows, goes_on], version))
        else:
            assert rows == expected

    async def finish(self) -> None:
        """The last write, and all that was watched until then."""
        while self.paging:
            await self.page("", "", 1)
        for space, name, app in MARKS:
            await self.put((space, name), app)
        await asyncio.wait_for(asyncio.gather(*(seen.task for seen in self.watches)), 20)
        await self.storage.cache.close()


SPACES = st.sampled_from(["n", "m", ""])
QUERIES = st.sampled_from(sorted(SELECTORS))
STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, len(PLACES) - 1), st.sampled_from([*APPS, None])),
    st.tuples(st.just("write"), st.integers(0, len(PLACES) - 1), st.sampled_from([*APPS, None])),
    st.tuples(st.just("watch"), st.integers(-2, 6), SPACES, QUERIES),
    st.tuples(st.just("list"), st.integers(-2, 6), SPACES, QUERIES),
    st.tuples(st.just("page"), SPACES, QUERIES, st.integers(1, 3)),
    st.tuples(st.just("turn")),
)


async def run(steps: list[tuple[Any, ...]], limits: Limits | None = None, store: Store | None = None) -> None:
    """A program, then the check of all that its watches saw."""
    program = Run(limits, store)
    for name, *arguments in steps:
        if name == "turn":
            await asyncio.sleep(0)
        else:
            await getattr(program, name)(*arguments)
    await program.finish()
    for seen in program.watches:
        seen.check(program.model)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=40))
def test_lists_and_watches_are_the_history(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(run(steps))


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=40))
def test_lists_are_right_where_the_cache_has_forgotten_and_the_store_has_not(steps: list[tuple[Any, ...]]) -> None:
    lists_only = [step for step in steps if step[0] != "watch"]
    asyncio.run(run(lists_only, Limits(least=1, most=1, age_s=0, size=1)))


@settings(max_examples=10)
@given(st.lists(STEPS, min_size=20, max_size=40))
def test_lists_and_watches_are_the_history_of_a_durable_store(steps: list[tuple[Any, ...]]) -> None:
    async def main(path: Path) -> None:
        store = await EmbeddedStore.open(path)
        await run(steps, store=store)
        await store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "store"))


def test_pages_show_one_revision_while_others_write() -> None:
    async def main() -> None:
        storage = shelf()
        for index in range(200):
            await storage.create("n", f"x{index:03}", thing(f"x{index:03}"))
        done = False

        async def churn() -> None:
            index = 0
            while not done:
                name = f"x{index % 200:03}"
                current = await storage.get("n", name)
                if index % 3:
                    await storage.update("n", name, thing(name, v=str(index)), expect=current.revision)
                else:
                    await storage.delete("n", name)
                    await storage.create("n", name, thing(name))
                index += 7
                await asyncio.sleep(0)

        task = asyncio.ensure_future(churn())
        found: list[str] = []
        versions: set[str] = set()
        token = ""
        while True:
            query = {"limit": "17", **({"continue": token} if token else {})}
            response = await lists.list_response(exchange(query), storage.resource, storage)
            answer = msgspec.json.decode(content(response))
            found += [item["metadata"]["name"] for item in answer["items"]]
            versions.add(answer["metadata"]["resourceVersion"])
            assert all(int(i["metadata"]["resourceVersion"]) <= int(max(versions)) for i in answer["items"])
            await asyncio.sleep(0.001)
            token = answer["metadata"].get("continue", "")
            if not token:
                break
        done = True
        await task
        assert found == [f"x{index:03}" for index in range(200)]
        assert len(versions) == 1
        await storage.cache.close()

    asyncio.run(main())
