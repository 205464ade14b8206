"""The manager: runs controllers and processes of a program against a cluster.

    manager = Manager(program, client, clock=SystemClock())
    await manager.start(["ReplicaSetController", "Starter"]); …; await manager.stop()

On a virtual loop with an in-process client it is deterministic for a seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dashpot.model.program import Controller, Program
from dashpot.runtime.client.events import Recorder
from dashpot.runtime.client.rest import Client
from dashpot.runtime.clock import Clock, SystemClock
from dashpot.runtime.controller.caches import Caches
from dashpot.runtime.controller.calls import Caller, ClientCaller
from dashpot.runtime.controller.controller import Running
from dashpot.runtime.controller.externs import Externs
from dashpot.runtime.controller.feeds import Feeds
from dashpot.runtime.controller.metrics import Metrics
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.preflight import NotServed, allowed, served
from dashpot.runtime.controller.process import RunningProcess
from dashpot.runtime.controller.site import Site
from dashpot.runtime.controller.uses import Actor, Right, rights_of
from dashpot.runtime.controller.views import Opacity, Views

RESYNC_S = 10 * 3600.0
"""controller-runtime's SyncPeriod."""
LOOK_S = 2.0
"""How often a manager that waits for kinds asks whether they are served."""

Instance = Running | RunningProcess


class Manager:
    """Actors of one program, their caches and what they share.

    constants   instead of the declared values
    namespace   "" all; else only objects of that namespace (and cluster-wide ones)
    private     each actor has caches of its own, which `caches.hold` and `release` steer one by one
    workers     False: a driver takes keys and candidates itself (Running.reconcile, RunningProcess.perform)
    client_of   the client by which an actor calls and tells events; default: `client` for all
    component   what the events of an actor say that they come from; default: its name
    caller      makes an actor's caller; default: over the client, with an events recorder of its name
    wrap        puts a caller around that, for each pass: (actor, key, caller)
    choose      settles what specs leave open; default: drawn from `chance`
    wait        waits for kinds that the server does not serve yet, instead of NotServed
    feeds       shared with other managers of the same client
    metrics     shared with them too
    externs     functions for `extern fun` instead of those beside the specs, by `module.name`
    opaque      how values that specs do not look into are read and written (see Views)
    """

    def __init__(
        self,
        program: Program,
        client: Client,
        *,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        constants: Mapping[str, Any] | None = None,
        namespace: str = "",
        private: bool = False,
        workers: bool = True,
        client_of: Callable[[str], Client] | None = None,
        component: Callable[[str], str] = lambda actor: actor,
        caller: Callable[[str], Caller] | None = None,
        wrap: Callable[[str, str, Caller], Caller] | None = None,
        choose: Callable[[int], int] | None = None,
        resync_s: float = RESYNC_S,
        wait: bool = False,
        dry_run: bool = False,
        feeds: Feeds | None = None,
        metrics: Metrics | None = None,
        externs: Mapping[str, Callable[..., Any]] | None = None,
        opaque: Opacity | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.program = program
        self.client = client
        self.clock = clock or SystemClock()
        self.chance = chance or random.Random(0)
        self.constants = dict(constants or {})
        self.namespace = namespace
        self.metrics = metrics or Metrics()
        self.instances: dict[str, Instance] = {}
        """By name: `C`, or `C@place` of an actor that stands in several places."""
        self._private, self._workers, self._wait, self._dry_run = private, workers, wait, dry_run
        self._client_of = client_of or (lambda actor: client)
        self._component = component
        self._caller, self._wrap, self._choose = caller, wrap, choose
        self._resync_s = resync_s
        self._feeds = feeds
        self._externs = Externs(externs)
        self._opaque = opaque
        self._complain = complain
        self._recorders: dict[str, Recorder] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: list[Callable[[], None]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self.site: Site | None = None

    # -- what there is ------------------------------------------------------------------------------------------

    def actors(self, names: Sequence[str] | None = None) -> list[Actor]:
        """The controllers and processes of these names; without names those of the program's own file. KeyError."""
        known: dict[str, Actor] = {a.name: a for a in self.program.controllers}
        known |= {a.name: a for a in self.program.processes}
        if names is not None:
            return [known[name] for name in names]
        return [actor for actor in known.values() if actor.module == self.program.main]

    def rights(self, names: Sequence[str] | None = None) -> set[Right]:
        """What the actors must be allowed."""
        views = Views(self.program, constants=self.constants)
        return {right for actor in self.actors(names) for right in rights_of(actor, self.program, views)}

    async def check_access(self, names: Sequence[str] | None = None, *, extra: Sequence[Right] = ()) -> None:
        """Asks the server whether all that the actors can do is allowed. NotAllowed, StatusError, TransportError."""
        await allowed({*self.rights(names), *extra}, self.client, self.namespace)

    # -- starting -----------------------------------------------------------------------------------------------

    async def prepare(self, names: Sequence[str] | None = None) -> Site:
        """Looks the kinds up and makes the caches. NotServed, StatusError, TransportError."""
        if self.site is None:
            plain = Views(self.program, constants=self.constants)
            resources = await self._served(names, plain)
            views = Views(self.program, resources, self.constants, self._opaque)
            site_caches = Caches(
                self.client,
                views,
                namespace=self.namespace,
                private=self._private,
                chance=random.Random(self.chance.random()),
                complain=self._complain,
                feeds=self._feeds,
            )
            self.site = Site(
                self.program,
                self.client,
                views,
                self._externs,
                site_caches,
                self.clock,
                self.chance,
                self._caller or self._own_caller,
                self.metrics,
                choose=self._choose,
                complain=self._complain,
                dry_run=self._dry_run,
            )
            if self._wrap is not None:
                self.site.wrap = self._wrap
        return self.site

    async def _served(self, names: Sequence[str] | None, views: Views) -> Any:
        told = False
        while True:
            try:
                return await served(self.program, self.actors(names), views, self.client)
            except NotServed as missing:
                if not self._wait:
                    raise
                if not told:
                    self._complain(f"{missing}: waiting for it")
                told = True
            await asyncio.sleep(LOOK_S)

    def _own_caller(self, actor: str) -> Caller:
        recorder = self._recorders.get(actor)
        if recorder is None:
            chance = random.Random(self.chance.random())
            component, client = self._component(actor), self._client_of(actor)
            recorder = Recorder(client, component, self.clock, chance=chance, complain=self._complain)
            recorder.start()
            self._recorders[actor] = recorder
        return ClientCaller(self._client_of(actor), actor, recorder)

    async def start(self, names: Sequence[str] | None = None) -> None:
        """Starts actors: no pass begins before every cache has synced. NotServed, StatusError, TransportError."""
        site = await self.prepare(names)
        made: list[Instance] = []
        for actor in self.actors(names):
            made += self._placed(actor, site)
        site.caches.start()
        await site.caches.synced()
        for instance in made:
            self._begin(instance)
        for actor in self.actors(names):
            self._follow_places(actor, site)
        if self._resync_s > 0 and not self._tasks:
            self._tasks.append(asyncio.get_running_loop().create_task(self._resync(site), name="resync"))

    def _placed(self, actor: Actor, site: Site) -> list[Instance]:
        """The instances of an actor that are there from the start; caches of those that come with objects are made."""
        if actor.place is None:
            return [self._instance(actor, site, None)]
        enum = next((e for e in self.program.enums if getattr(e, "name", "") == actor.place.of), None)
        if enum is not None:
            return [self._instance(actor, site, member) for member in getattr(enum, "members", ())]
        for kind in self._kinds(actor):
            site.caches.of(actor.name, kind)
        return []

    def _kinds(self, actor: Actor) -> set[str]:
        from dashpot.runtime.controller.uses import caches_of

        return caches_of(actor, self.program)

    def _follow_places(self, actor: Actor, site: Site) -> None:
        """Instances of `at me in Kind` come and go with the objects."""
        if actor.place is None or all(r.kind != actor.place.of for r in self.program.resources):
            return

        def told(old: Obj | None, new: Obj | None) -> None:
            if old is None and new is not None:
                self._come(actor, site, new.name)
            elif old is not None and new is None:
                self._go(f"{actor.name}@{old.name}")

        self._ends.append(site.caches.of(actor.name, actor.place.of).subscribe(told))

    def _come(self, actor: Actor, site: Site, me: str) -> None:
        if f"{actor.name}@{me}" not in self.instances:
            instance = self._instance(actor, site, me)
            self._begin(instance)

    def _go(self, name: str) -> None:
        instance = self.instances.pop(name, None)
        if instance is not None:
            task = asyncio.get_running_loop().create_task(instance.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    @staticmethod
    def _instance(actor: Actor, site: Site, me: Any) -> Instance:
        return Running(actor, site, me) if isinstance(actor, Controller) else RunningProcess(actor, site, me)

    def _begin(self, instance: Instance) -> None:
        self.instances[instance.name] = instance
        instance.begin(workers=self._workers)

    async def _resync(self, site: Site) -> None:
        while True:
            await asyncio.sleep(self._resync_s)
            site.caches.resync()

    # -- stopping -----------------------------------------------------------------------------------------------

    async def crash(
        self, name: str, *, restart: bool = True, lists: Mapping[str, tuple[dict[str, Any], str]] | None = None
    ) -> None:
        """Cuts an instance short, with its memory, queue and private caches; another one takes its place.

        lists   kind → (objects by key, version): what the new one is told at first, if not what there is now
        """
        instance = self.instances.pop(name)
        await instance.end(now=True)
        assert self.site is not None
        self.site.caches.forget(name)
        for kind, (objects, version) in (lists or {}).items():
            self.site.caches.seed(name, kind, objects, version)
        if restart:
            fresh = self._instance(instance.actor, self.site, instance.me)
            self._begin(fresh)

    async def stop(self, *, now: bool = False) -> None:
        """Stops after the passes in flight; `now` cuts them short. Idempotent."""
        for unsubscribe in self._ends:
            unsubscribe()
        self._ends.clear()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        instances, self.instances = list(self.instances.values()), {}
        await asyncio.gather(*tasks, *self._ending, *(i.end(now=now) for i in instances), return_exceptions=True)
        if self.site is not None:
            await self.site.caches.stop()
        for recorder in self._recorders.values():
            await recorder.stop()
