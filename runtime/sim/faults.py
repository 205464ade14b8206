"""Faults of a plan at work: what each does to the plane, or to the way between its parts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from attrs import define, field

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.controller.preflight import NotServed
from dashpot.runtime.plane.plane import KUBELET, SCHEDULER, Plane
from dashpot.runtime.sim.pipe import Pipe
from dashpot.runtime.sim.plan import Item
from dashpot.runtime.sim.truth import Truth
from dashpot.runtime.sim.weather import Snare, Stale, Weather

KUBELETS = (KUBELET,)
BUSY = ("pods", "replicasets", "deployments", "jobs", "statefulsets", "daemonsets", "nodes")
"""Resources whose watches are worth disturbing."""
RETRY_S = 1.0
TRIES = 30


def is_controllers(part: str) -> bool:
    """Whether a part of the plane belongs to the process of the controllers."""
    return part not in (SCHEDULER, *KUBELETS)


@define(eq=False)
class Faults:
    """Lets faults happen to a plane."""

    plane: Plane
    weather: Weather
    truth: Truth
    failed: str = field(default="", init=False)
    """What could not be started again: from then on the run shows nothing."""
    _lock: asyncio.Lock = field(factory=asyncio.Lock)
    _tasks: set[asyncio.Task[None]] = field(factory=set)

    def do(self, item: Item) -> None:
        """Begins one; it may last for a while."""
        task = asyncio.get_running_loop().create_task(_FAULTS[item.what](self, item.chance, item))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Ends all: nodes are up, watches whole, restarts done."""
        self.weather.heal()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.weather.heal()
        for name, node in self.plane.fleet.nodes.items():
            if node.down:
                self.plane.fleet.bring_up(name)

    async def crash(self, actor: str) -> None:
        """Ends an instance of a controller where it stands; another one starts."""
        async with self._lock:
            for manager in self.plane.managers.values():
                if actor in manager.instances:
                    await manager.crash(actor)
                    return

    # -- calls --------------------------------------------------------------------------------------------------

    def _snare(self, item: Item, what: str, chance: random.Random, times: int = 1) -> None:
        self.weather.snares.append(Snare(item.number, what, chance.randint(0, 3), times))

    async def crashes(self, chance: random.Random, item: Item) -> None:
        """A controller crashes before or after a write, or while it does nothing in particular."""
        how = chance.choice(("crash_before", "crash_after", "idle"))
        if how != "idle":
            self._snare(item, how, chance)
            return
        names = sorted(name for manager in self.plane.managers.values() for name in manager.instances)
        actor = chance.choice(names) if names else ""
        if actor:
            self.weather.fire(item.number, "crash", actor, f"crash of {actor}")
            await self.crash(actor)

    async def timeout(self, chance: random.Random, item: Item) -> None:
        """The answer of a write is lost; the write may be done."""
        self._snare(item, chance.choice(("lost_before", "lost_after", "lost_after")), chance)

    async def broken(self, chance: random.Random, item: Item) -> None:
        """The server answers a few writes with 500."""
        self._snare(item, "broken", chance, chance.randint(1, 4))

    async def contended(self, chance: random.Random, item: Item) -> None:
        """Somebody else is faster, a few times."""
        self._snare(item, "contended", chance, chance.randint(2, 6))

    # -- watches ------------------------------------------------------------------------------------------------

    def _pipe(self, chance: random.Random) -> Pipe | None:
        resource = chance.choices(BUSY, (6, 4, 2, 2, 1, 1, 1))[0]
        return self.weather.matching(chance, lambda pipe: pipe.resource == resource and is_controllers(pipe.part))

    async def relist(self, chance: random.Random, item: Item) -> None:
        """A watch ends, and its version is gone."""
        pipe = self._pipe(chance)
        if pipe is not None:
            self.weather.hit("relist", self._actors())
            self.weather.fire(item.number, "relist", "", f"watch of {pipe.resource} ({pipe.part}) cut, listed anew")
            self.weather.expire(pipe)

    async def delay(self, chance: random.Random, item: Item) -> None:
        """What a watch tells comes late."""
        pipe, seconds = self._pipe(chance), chance.uniform(1.0, 8.0)
        if pipe is None:
            return
        self.weather.fire(item.number, "", "", f"watch of {pipe.resource} ({pipe.part}) held for {seconds:.1f} s")
        pipe.hold()
        await asyncio.sleep(seconds)
        pipe.release()

    async def drop(self, chance: random.Random, item: Item) -> None:
        """An event gets lost."""
        pipe = self._pipe(chance)
        if pipe is None:
            return
        name = f"{pipe.resource} ({pipe.part})"

        def lost(line: bytes) -> None:
            self.weather.hit("drop", self._actors())
            self.weather.fire(item.number, "drop", "", f"an event of {name} lost")

        pipe.lose(lost)

    # -- parts --------------------------------------------------------------------------------------------------

    def _actors(self) -> list[str]:
        return sorted(name for manager in self.plane.managers.values() for name in manager.instances)

    async def stale_restart(self, chance: random.Random, item: Item) -> None:
        """The controllers restart; an API server that lags shows them the past, and then catches up."""
        back, lag = chance.uniform(0.5, 10.0), chance.uniform(1.0, 6.0)
        revision = self.truth.revision_at(self.weather.now() - back)
        async with self._lock:
            if revision:
                self.weather.stale = Stale(revision, self.weather.now() + lag)
            self.weather.hit("stale_restart", self._actors())
            told = f"controllers restart on an API server that lags by {back:.1f} s (revision {revision})"
            self.weather.fire(item.number, "stale_restart", "", told)
            try:
                await self.again(self.plane.restart_controllers)
            finally:
                self.weather.stale = None

    async def again(self, start: Callable[[], Awaitable[None]]) -> None:
        """Starts, and again where that fails, as whoever watches over a process does."""
        for _ in range(TRIES):
            try:
                await start()
            except (StatusError, TransportError, NotServed) as error:
                self.failed = f"the controllers do not start again: {error}"
                await asyncio.sleep(RETRY_S)
            else:
                self.failed = ""
                return

    async def scheduler(self, chance: random.Random, item: Item) -> None:
        """The scheduler restarts."""
        self.weather.fire(item.number, "", SCHEDULER, "the scheduler restarts")
        async with self._lock:
            await self.plane.restart_scheduler()

    async def node_down(self, chance: random.Random, item: Item) -> None:
        """A node is gone for a while."""
        name, seconds = chance.choice(sorted(self.plane.fleet.nodes)), chance.uniform(2.0, 30.0)
        if self.plane.fleet.nodes[name].down:
            return
        self.weather.fire(item.number, "", name, f"{name} down for {seconds:.1f} s")
        self.plane.fleet.take_down(name)
        await asyncio.sleep(seconds)
        self.plane.fleet.bring_up(name)


_FAULTS: dict[str, Callable[[Faults, random.Random, Item], Coroutine[Any, Any, None]]] = {
    "crash": Faults.crashes,
    "stale_restart": Faults.stale_restart,
    "relist": Faults.relist,
    "delay": Faults.delay,
    "drop": Faults.drop,
    "timeout": Faults.timeout,
    "broken": Faults.broken,
    "node_down": Faults.node_down,
    "contended": Faults.contended,
    "scheduler": Faults.scheduler,
}
