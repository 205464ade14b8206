"""etcd clusters that are cut: what is acknowledged is kept, what cannot be is refused, watches end and go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random

import pytest
from attrs import define, field
from tests.store.cluster import Cluster, cluster

from dashpot.runtime.store.base import Event, Put, Store, Unavailable
from dashpot.runtime.store.etcd import EtcdStore


@define(eq=False)
class Traffic:
    """Clients that write all the time, and one that watches; what came of it."""

    cluster: Cluster
    acknowledged: dict[int, tuple[str, bytes]] = field(factory=dict)
    started: dict[bytes, int] = field(factory=dict)
    unknown: set[bytes] = field(factory=set)
    denied: set[bytes] = field(factory=set)
    events: list[Event] = field(factory=list)
    ends: int = 0
    moved: asyncio.Condition = field(factory=asyncio.Condition)
    phase: int = 0
    numbers: count[int] = field(factory=count)

    async def told(self) -> None:
        async with self.moved:
            self.moved.notify_all()

    async def until(self, test: Callable[[], bool]) -> None:
        """Waits for something to have happened; fails after half a minute."""
        async with asyncio.timeout(30), self.moved:
            await self.moved.wait_for(test)

    async def write(self, name: str) -> None:
        store = await self.cluster.open()
        try:
            while True:
                value = b"%d" % next(self.numbers)
                self.started[value] = self.phase
                try:
                    done = await store.put(Put(f"/w/{name}", value))
                except Unavailable as error:
                    (self.unknown if error.maybe else self.denied).add(value)
                else:
                    self.acknowledged[done.revision] = (f"/w/{name}", value)
                await self.told()
        finally:
            await store.close()

    async def watch(self, store: Store, after: int) -> None:
        """Goes on where it was whenever the watch ends."""
        while True:
            watch = store.watch("/w/", after)
            try:
                async for batch in watch:
                    for event in batch:
                        assert event.revision > after
                        after = event.revision
                    self.events += batch
                    await self.told()
            except Unavailable:
                self.ends += 1
                await self.told()
                await asyncio.sleep(0.02)

    def since(self, phase: int) -> int:
        """How many writes were acknowledged of those that began in a phase."""
        return sum(self.started[value] == phase for _, value in self.acknowledged.values())


@asynccontextmanager
async def busy(made: Cluster) -> AsyncIterator[tuple[Traffic, EtcdStore]]:
    """Traffic on a cluster; afterwards all is looked through."""
    traffic = Traffic(made)
    store = await made.open()
    first = await store.revision()
    tasks = [asyncio.create_task(traffic.write(str(n))) for n in range(4)]
    tasks.append(asyncio.create_task(traffic.watch(store, first)))
    try:
        await traffic.until(lambda: len(traffic.events) > 20)
        yield traffic, store
        made.heal()
        for task in tasks[:-1]:
            task.cancel()
        await asyncio.gather(*tasks[:-1], return_exceptions=True)
        last = await store.range("/w/")
        goal = max(entry.modified for entry in last.entries)
        await traffic.until(lambda: traffic.events[-1].revision >= goal)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [error for error in ended if not isinstance(error, asyncio.CancelledError)] == []
        await store.close()
    sound(traffic, first)


def sound(traffic: Traffic, first: int) -> None:
    """The watch told of each revision once, in order, without gaps; of each acknowledged write; of no denied one."""
    assert [event.revision for event in traffic.events] == list(range(first + 1, traffic.events[-1].revision + 1))
    told = {event.revision: (event.key, event.value) for event in traffic.events}
    assert all(told[revision] == written for revision, written in traffic.acknowledged.items())
    values = [event.value for event in traffic.events]
    assert len(set(values)) == len(values), "a write was done twice"
    assert not traffic.denied & set(values), "a write that was said not to be done was done"
    newest: dict[str, bytes] = {}
    for event in traffic.events:
        before = newest.get(event.key)
        assert (event.previous.value if event.previous else None) == before
        assert event.value is not None
        newest[event.key] = event.value


async def enter(traffic: Traffic) -> int:
    """A new phase: writes that begin from now on belong to it."""
    traffic.phase += 1
    return traffic.phase


async def minority_away(traffic: Traffic, names: list[str]) -> None:
    """Some members are alone: writes go on."""
    traffic.cluster.isolate(names)
    phase = await enter(traffic)
    await traffic.until(lambda: traffic.since(phase) > 30)


async def majority_away(traffic: Traffic) -> None:
    """Everybody is alone: nothing is acknowledged, and the watch ends."""
    ends = traffic.ends
    traffic.cluster.isolate(traffic.cluster.names)
    phase = await enter(traffic)
    failed = len(traffic.unknown) + len(traffic.denied)
    await traffic.until(lambda: traffic.ends > ends and len(traffic.unknown) + len(traffic.denied) > failed + 8)
    assert traffic.since(phase) == 0


async def back(traffic: Traffic) -> None:
    """All are back: writes and watches go on."""
    traffic.cluster.heal()
    phase = await enter(traffic)
    await traffic.until(lambda: traffic.since(phase) > 30)
    newest = max(traffic.acknowledged)
    await traffic.until(lambda: traffic.events[-1].revision >= newest)


def test_three_members(etcd_program: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(etcd_program, tmp_path, 3) as made, busy(made) as (traffic, _):
            leader = await made.leader()
            await minority_away(traffic, [leader])
            await back(traffic)
            await majority_away(traffic)
            await back(traffic)
            made.silence(await made.leader())
            phase = await enter(traffic)
            await traffic.until(lambda: traffic.since(phase) > 30)
            await back(traffic)

    asyncio.run(main())


@pytest.mark.soak
@pytest.mark.parametrize("size", [3, 5])
def test_many_cuts(size: int, etcd_program: str, tmp_path: Path) -> None:
    async def main() -> None:
        random = Random(size)
        async with cluster(etcd_program, tmp_path, size) as made, busy(made) as (traffic, _):
            for _ in range(10):
                few = random.sample(made.names, random.randint(1, size // 2))
                await minority_away(traffic, few)
                await back(traffic)
                await majority_away(traffic)
                await back(traffic)
                (made.silence if random.random() < 0.5 else made.deafen)(random.choice(made.names))
                phase = await enter(traffic)
                await traffic.until(lambda phase=phase: traffic.since(phase) > 30)  # type: ignore[misc]
                await back(traffic)
            print(
                f"seed {size}: {size} members, {len(traffic.acknowledged)} writes, the watch ended {traffic.ends} times"
            )

    asyncio.run(main())
