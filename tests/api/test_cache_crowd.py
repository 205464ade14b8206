"""Many writers, readers and watches at once over one store: afterwards all of them saw one history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.api.shelf import Watching, listed, shelf, thing, watched
from tests.api.test_cache_model import MARKS, SELECTORS, Model, Seen, Write, until_mark

from dashpot.runtime.api.history import Limits
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.store.base import Store
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.memory import MemoryStore

WRITERS, WRITES, READERS = 6, 40, 3
MOST_READS, MOST_WATCHES = 600, 40
SPACES = ("n", "m", "")


async def memory(path: Path) -> Store:
    """A store in memory."""
    return MemoryStore()


async def embedded(path: Path) -> Store:
    """A durable store: writes of many are committed together."""
    return await EmbeddedStore.open(path / "store")


async def write(storage: Storage, number: int, chance: random.Random, writes: list[Write]) -> None:
    """Writes objects of its own, in both namespaces."""
    state: dict[tuple[str, str], tuple[str, int]] = {}
    for _ in range(WRITES):
        place = (chance.choice("nm"), f"w{number}-{chance.randrange(3)}")
        before = state.get(place)
        app: str | None = chance.choice(["web", "db", ""])
        if before is not None and chance.random() < 0.3:
            app = None
            stored = await storage.delete(*place, expect=before[1])
            del state[place]
        else:
            obj = thing(place[1], place[0], app=app or "")
            if before is None:
                stored = await storage.create(*place, obj)
            else:
                stored = await storage.update(*place, obj, expect=before[1])
            state[place] = (app or "", stored.revision)
        label, version = before if before is not None else (None, 0)
        writes.append(Write(stored.revision, place, app, label, version))
        if chance.random() < 0.3:
            await asyncio.sleep(0)


Read = tuple[int, int, str, str | None, list[tuple[str, int]]]


async def read(storage: Storage, chance: random.Random, reads: list[Read], busy: Callable[[], bool]) -> None:
    """Lists without a pause: what must have been there, the version, what was asked for, and what was found."""
    while busy() and len(reads) < MOST_READS:
        namespace, query = chance.choice(SPACES), chance.choice(sorted(SELECTORS))
        least = await storage.store.revision()
        answer = await listed(storage, query, namespace=namespace)
        found = [(i["metadata"]["name"], int(i["metadata"]["resourceVersion"])) for i in answer["items"]]
        reads.append((least, int(answer["metadata"]["resourceVersion"]), namespace, SELECTORS[query], found))
        await asyncio.sleep(0)


async def look(storage: Storage, chance: random.Random, seen: list[Seen], busy: Callable[[], bool]) -> None:
    """Opens watches from now, from a while ago, or with the state first."""
    while busy() and len(seen) < MOST_WATCHES:
        namespace, query = chance.choice(SPACES), chance.choice(sorted(SELECTORS))
        now = await storage.store.revision()
        start = chance.choice([None, now, max(storage.cache.floor, now - 20)])
        version = "" if start is None else f"resourceVersion={start}"
        watching: Watching = await watched(storage, "&".join(filter(None, [query, version])), namespace=namespace)
        task = asyncio.ensure_future(until_mark(watching, namespace, SELECTORS[query]))
        seen.append(Seen(watching, task, start, now, namespace, SELECTORS[query]))
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("opened", [memory, embedded])
def test_all_saw_one_history(opened: Callable[[Path], Awaitable[Store]], seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        store = await opened(tmp_path)
        storage = shelf(store=store, limits=Limits(least=100, most=10_000))
        await storage.cache.ready()
        writes: list[Write] = []
        reads: list[Read] = []
        seen: list[Seen] = []
        chances = [random.Random(f"{seed}/{index}") for index in range(WRITERS + READERS + 1)]
        writers = [asyncio.ensure_future(write(storage, i, chances[i], writes)) for i in range(WRITERS)]

        def busy() -> bool:
            return not all(task.done() for task in writers)

        others = [asyncio.ensure_future(read(storage, chances[WRITERS + i], reads, busy)) for i in range(READERS)]
        others.append(asyncio.ensure_future(look(storage, chances[-1], seen, busy)))
        await asyncio.gather(*writers, *others)
        while sum(not one.task.done() for one in seen) > len(storage.cache.fanout.watchers):
            await asyncio.sleep(0.001)
        for space, name, app in MARKS:
            stored = await storage.create(space, name, thing(name, space, app=app))
            writes.append(Write(stored.revision, (space, name), app, None, 0))
        await asyncio.wait_for(asyncio.gather(*(one.task for one in seen)), 20)
        model = Model(sorted(writes, key=lambda one: one.revision))
        assert len({one.revision for one in writes}) == len(writes)
        for least, version, namespace, app_, found in reads:
            assert version >= least, "a list without a version is not older than its request"
            assert found == model.shown(version, namespace, app_)
        for one in seen:
            one.check(model)
        assert reads and seen
        await storage.cache.close()
        await store.close()

    asyncio.run(main())
