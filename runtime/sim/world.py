"""One run of a plan: a plane in this process on virtual time, a client, faults, peace, and the judgement."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from dashpot.model.program import Program
from dashpot.model.span import NOWHERE, Span
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.loop import Deadlock, run_virtual, virtual_clock
from dashpot.runtime.plane.parts import CONTROLLERS
from dashpot.runtime.plane.plane import Plane, library_program
from dashpot.runtime.sim.claims import Broken, Claims, family
from dashpot.runtime.sim.deed import DEED, Deed
from dashpot.runtime.sim.faults import Faults, is_controllers
from dashpot.runtime.sim.hands import PLURALS, SPACES, Hands
from dashpot.runtime.sim.laws import Laws
from dashpot.runtime.sim.plan import Item, Plan
from dashpot.runtime.sim.truth import HEARTBEATS, Commit, Truth
from dashpot.runtime.sim.weather import Firing, Weather

Object = dict[str, Any]
NODES = 3
PEACE_S = 1260.0
"""How long the plane may take to settle: who was refused again and again tries again within 1000 s."""
LOOK_S = 5.0
CALM_S = 120.0
"""Goals that fail while nothing was written for so long: stuck. Else it goes on for ever: a loop."""
OWNERS = {
    "Deployment": "deployment-controller",
    "ReplicaSet": "replicaset-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemonset-controller",
    "Job": "job-controller",
    "CronJob": "cronjob-controller",
}
NEEDS = {"Deployment": ("ReplicaSet",), "CronJob": ("Job",)}
"""Kinds whose own controllers a workload needs."""


@frozen
class Setting:
    """What a run is about, beside its plan.

    programs  module → the program that stands for it, instead of the library's
    without   controllers that do not run
    """

    programs: Mapping[str, Program] = field(factory=dict)
    without: tuple[str, ...] = ()

    def program(self, module: str) -> Program:
        """The program of a module, loaded once."""
        found = self.programs.get(module) or _KNOWN.get(module)
        if found is None:
            found = _KNOWN[module] = library_program(module)
        return found


_KNOWN: dict[str, Program] = {}


@define(eq=False)
class Run:
    """What came of a plan. Moments are seconds of the run."""

    plan: Plan
    broken: list[Broken] = field(factory=list)
    """What failed, the first first; what is excused is in `excused`."""
    excused: list[Broken] = field(factory=list)
    fired: list[Firing] = field(factory=list)
    log: list[str] = field(factory=list)
    told: dict[int, str] = field(factory=dict)
    """What the client did, by item."""
    commits: list[Commit] = field(factory=list)
    deeds: list[tuple[float, Deed, str]] = field(factory=list)
    writes: int = 0
    begun: float = 0.0
    """When the plan began."""
    settled: float = 0.0
    """When peace had come; 0: it did not."""
    complaints: list[str] = field(factory=list)
    mistake: str = ""
    """Why the run itself failed."""

    def forget(self) -> None:
        """Keeps the figures, and lets go of the course."""
        self.log, self.commits, self.deeds, self.complaints = [], [], [], []

    @property
    def first(self) -> Broken | None:
        """The first claim that failed."""
        return self.broken[0] if self.broken else None

    @property
    def kinds(self) -> set[str]:
        """The kinds of the faults that fired."""
        what = {item.number: item.what for item in self.plan.items}
        return {what[one.item] for one in self.fired if one.item in what}


def play(plan: Plan, setting: Setting, *, until_broken: bool = False) -> Run:
    """Runs a plan to its end; the same plan, the same run. `until_broken`: no further than the first safety failure."""
    run = Run(plan)
    world = _World(plan, setting, run, until_broken)
    # When the collector of cycles runs depends on what ran before, and what it ends may set timers.
    collects = gc.isenabled()
    gc.disable()
    try:
        run_virtual(world.main(), seed=plan.seed)
    except Deadlock as error:
        run.mistake = f"the plane came to a standstill: {error}"
    finally:
        if collects:
            gc.enable()
    return run


class _Enough(Exception):
    """The run has shown what it should."""


class _World:
    """A run while it lasts."""

    def __init__(self, plan: Plan, setting: Setting, run: Run, until_broken: bool) -> None:
        self.plan = plan
        self.setting = setting
        self.run = run
        self.until_broken = until_broken

    # -- building -----------------------------------------------------------------------------------------------

    async def main(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        server = await ApiServer.start(
            Settings(store="memory"), listen=False, seed=self.plan.seed, clock=virtual_clock(), complain=self._complain
        )
        try:
            await self._with(server)
        finally:
            await server.stop()

    async def _with(self, server: ApiServer) -> None:
        self.truth = Truth(self.now)
        self.weather = Weather(self.truth, self.now, self.run.log.append)
        self.weather.controllers = is_controllers
        self.plane = Plane(
            server,
            nodes=NODES,
            controllers=("*", *(f"-{name}" for name in self.setting.without)),
            chance=random.Random(f"{self.plan.seed}/plane"),
            load=self.setting.program,
            way=self.weather.way,
            wrap=self.weather.wrap,
            complain=self._complain,
        )
        self.client = Client(InProcess(server.local), user_agent="people")
        self.hands = Hands(self.client, self.truth, self._did, self._kinds())
        self.faults = Faults(self.plane, self.weather, self.truth)
        self.weather.crash = self.faults.crash
        self.weather.meddle = self.hands.meddle
        self._listen()
        for store in server.stores.all():
            await self.truth.join(store)
        try:
            await self._prepare()
            await self.plane.start()
            await self._untaint()
            await self._war()
            await self._peace()
        except _Enough:
            pass
        finally:
            run = self.run
            run.fired, run.commits, run.deeds = self.weather.fired, self.truth.commits, self.weather.deeds
            run.writes, run.mistake = self.hands.done, self.faults.failed
            await self.weather.close()
            await self.plane.stop()

    def _kinds(self) -> tuple[str, ...]:
        """The workloads whose controllers run."""
        there = set(self.plane.names)
        return tuple(
            kind
            for kind in PLURALS
            if OWNERS[kind] in there and all(OWNERS[other] in there for other in NEEDS.get(kind, ()))
        )

    def _listen(self) -> None:
        laws = Laws(self.truth, self._broke, self._fault_at)
        self.truth.told.append(laws.before)
        self.claims: list[Claims] = []
        self._asking: dict[str, list[Claims]] = {}
        for module, manager in self.plane.managers.items():
            actors = [
                a for name in self.plane.names if CONTROLLERS[name].module == module for a in CONTROLLERS[name].actors
            ]
            program = manager.program
            claims = Claims(
                program, module, dict.fromkeys(actors), lambda: int(virtual_clock().now() * 1000), self.now,
                self.weather.counts, self._broke, manager.constants,
            )  # fmt: skip
            self.claims.append(claims)
            for kind in sorted(claims.kinds):
                self._asking.setdefault(kind, []).append(claims)
        self.truth.told.append(self._before)
        self.truth.after.append(self._after)

    # -- hearing ------------------------------------------------------------------------------------------------

    def _complain(self, text: str) -> None:
        self.run.complaints.append(f"{self.now():.6f} {text}")

    def _did(self, item: Item, text: str) -> None:
        self.run.told[item.number] = text
        self.run.log.append(f"{self.now():.6f} client {text}")

    def _before(self, commit: Commit) -> None:
        for claims in self._asking.get(commit.kind, ()):
            claims.before(commit)

    def _after(self, commit: Commit) -> None:
        for claims in self._asking.get(commit.kind, ()):
            claims.after(commit)
        if commit.kind not in HEARTBEATS:
            self.run.log.append(str(commit))

    def _broke(self, broken: Broken) -> None:
        (self.run.excused if broken.excuse else self.run.broken).append(broken)
        self.run.log.append(
            f"{broken.at:.6f} broken {broken.property}: {broken.text}{' (excused)' * bool(broken.excuse)}"
        )

    def _fault_at(self) -> float:
        return self.weather.fired[-1].at if self.weather.fired else -PEACE_S

    # -- the course ---------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Namespaces with what pods need there."""
        token = DEED.set(Deed("the setting"))
        try:
            for space in SPACES:
                if self.truth.get("Namespace", space) is None:
                    await self.client.create("namespaces", {"metadata": {"name": space}})
                if self.truth.get("ServiceAccount", f"{space}/default") is None:
                    await self.client.create("serviceaccounts", {"metadata": {"name": "default"}}, space)
        finally:
            DEED.reset(token)

    async def _untaint(self) -> None:
        """Where nobody looks after nodes, new ones are taken to be well."""
        if "node-lifecycle-controller" in self.plane.names:
            return
        token = DEED.set(Deed("the setting"))
        try:
            for name in self.plane.fleet.nodes:
                await self.client.patch("nodes", name, {"spec": {"taints": None}})
        finally:
            DEED.reset(token)

    async def _war(self) -> None:
        """The plan, item by item."""
        begun = self.run.begun = self.now()
        for item in self.plan.items:
            wait = begun + item.at - self.now()
            if wait > 0:
                await asyncio.sleep(wait)
            self._look()
            if item.is_fault:
                self.faults.do(item)
            else:
                await self.hands.do(item)
        rest = begun + self.plan.seconds - self.now()
        if rest > 0:
            await asyncio.sleep(rest)

    def _look(self) -> None:
        if self.until_broken and self.run.broken:
            raise _Enough

    async def _peace(self) -> None:
        """Heals, and waits until every goal holds, twice in a row."""
        await self.faults.settle()
        await self.hands.settle()
        self.run.log.append(f"{self.now():.6f} peace")
        end = self.now() + PEACE_S
        good = 0
        while self.now() < end:
            await asyncio.sleep(LOOK_S)
            self._look()
            good = 0 if any(claims.unmet() for claims in self.claims) else good + 1
            if good == 2:
                self.run.settled = self.now()
                return
        self._unsettled()

    def _unsettled(self) -> None:
        """Tells the goals that were not met."""
        at = self.now()
        for claims in self.claims:
            for claim, name in claims.unmet():
                last = self._last(name, claims.actors)
                calm = at - self._moved(name) > CALM_S
                kind = "stuck" if calm else "loop"
                what = "nothing changes any more" if calm else "it goes on for ever"
                text = f"{claim.prop.name} is not reached by {name}: {what}"
                line: Span = last.span if last is not None else NOWHERE
                self._broke(Broken(claim.prop.name, claims.module, kind, name, text, at, line, claim.prop.span, last))

    def _moved(self, about: str) -> float:
        """When anything last changed about an object or what it owns."""
        kind, _, key = about.partition(" ")
        obj = self.truth.get(kind, key)
        uids = {obj["metadata"]["uid"]} if obj is not None else set()
        for kind_rows in self.truth.objects.values():
            for one in kind_rows.values():
                if uids & family(one):
                    uids.add(one["metadata"]["uid"])
        return max((c.at for c in self.truth.commits if uids & family(c.object)), default=0.0)

    def _last(self, about: str, actors: frozenset[str]) -> Deed | None:
        """The last call that an actor of the module made for the object."""
        key = about.partition(" ")[2]
        for _, deed, _ in reversed(self.weather.deeds):
            if deed.actor in actors and deed.key == key:
                return deed
        return None


Told = Callable[[str], None]
