"""A plane around an API server: `plane = Plane(server, nodes=3); await plane.start(); …; await plane.stop()`.

Controllers run from the library's specs and share what they hear of the API. Nothing is kept but there: a plane that
starts on the same store goes on where another one ended.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dashpot.grammar.load import load_text
from dashpot.model.program import Program
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.apiservices import announce
from dashpot.runtime.api.exchange import User
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import Transport
from dashpot.runtime.clock import rfc3339
from dashpot.runtime.controller.calls import Caller
from dashpot.runtime.controller.feeds import Feeds
from dashpot.runtime.controller.manager import Manager
from dashpot.runtime.controller.metrics import Metrics
from dashpot.runtime.controller.uses import Right
from dashpot.runtime.fleet.fleet import Fleet
from dashpot.runtime.fleet.groups import Groups
from dashpot.runtime.fleet.nodes import Shape
from dashpot.runtime.fleet.streams import FakeNodes
from dashpot.runtime.measures.serve import VERSIONS, Measures, groups, resources
from dashpot.runtime.plane.definitions import define
from dashpot.runtime.plane.parts import CONTROLLERS, chosen, modules, source
from dashpot.runtime.plane.rights import account, grant, rules
from dashpot.runtime.plane.signing import signing
from dashpot.runtime.scheduler.scheduler import Scheduler

MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KUBELET = "kubelet"
GROUPED = "cluster-autoscaler"
"""The controller that needs somebody who provides nodes."""


def user(name: str) -> User:
    """Who a part of the plane is to the API server and its audit log."""
    return User(f"system:{name}", ("system:masters", "system:authenticated"))


@functools.cache
def library_program(module: str) -> Program:
    """A module of the library as a program; read once."""
    return load_text(f"use {module}\n", "plane.loop")


class Plane:
    """Parts that run beside an API server in its process.

    nodes        how many simulated nodes; 0: none
    controllers  names of `parts.CONTROLLERS`; `*` all, `-name` without it
    constants    of the specs, by name, instead of the declared values; `settings`: module → constants of it alone
    load         the program of a module; default: the library's
    wrap         puts a caller around that of each pass: (actor, key, caller)
    way          puts a transport around that of each part: (name of the part, transport)
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        nodes: int = 3,
        shape: Shape | None = None,
        controllers: Sequence[str] = ("*",),
        constants: Mapping[str, Any] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        chance: random.Random | None = None,
        load: Callable[[str], Program] = library_program,
        wrap: Callable[[str, str, Caller], Caller] | None = None,
        way: Callable[[str, Transport], Transport] = lambda name, transport: transport,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._chance = chance or random.Random(0)
        self._way, self._wrap, self._load, self._constants, self._complain = way, wrap, load, constants, complain
        self._settings = dict(settings or {})
        self.server = server
        self.names = chosen(controllers)
        self.clients = {name: self._client(name, user(name)) for name in (MANAGER, SCHEDULER, KUBELET)}
        self._accounts = {actor: part.account for part in CONTROLLERS.values() for actor in part.actors}
        self.accounts: dict[str, Client] = {}
        """The clients of the controllers, by service account."""
        self.metrics = Metrics()
        self._told = {"kubernetes.rootca": {"CA": server.pki.ca.decode()}}
        self._externs = {"kubernetes.certificates.certificate": signing(server.pki)}
        self._assemble()
        self.scheduler = self._scheduler()
        self.fleet = Fleet(
            self.clients[KUBELET],
            server.clock,
            count=nodes,
            shape=shape,
            chance=self._drawn(),
            complain=complain,
        )
        groups = GROUPED in self.names
        self.groups = Groups(self.clients[KUBELET], self.fleet, complain=complain) if groups else None
        """Who makes and takes simulated nodes for the cluster autoscaler."""

    def _drawn(self) -> random.Random:
        return random.Random(self._chance.random())

    def _assemble(self) -> None:
        """Makes the controllers and what they share."""
        client = self.clients[MANAGER]
        self.feeds = Feeds(client, chance=self._drawn(), complain=self._complain)
        self.managers = {
            module: Manager(
                self._load(module),
                client,
                clock=self.server.clock,
                chance=self._drawn(),
                constants={
                    **self._told.get(module, {}),
                    **(self._constants or {}),
                    **self._settings.get(module, {}),
                },
                client_of=self._client_of,
                component=source,
                feeds=self.feeds,
                metrics=self.metrics,
                wrap=self._wrap,
                externs=self._externs,
                complain=self._complain,
            )
            for module in modules(self.names)
        }

    def _scheduler(self) -> Scheduler:
        return Scheduler(self.clients[SCHEDULER], self.server.clock, chance=self._drawn(), complain=self._complain)

    def _client(self, name: str, whose: User) -> Client:
        return Client(self._way(name, InProcess(self.server.local, whose)), user_agent=name)

    def _client_of(self, actor: str) -> Client:
        """A controller calls as the service account that it has in Kubernetes."""
        name = self._accounts[actor]
        if name not in self.accounts:
            self.accounts[name] = self._client(name, account(name))
            self.accounts[name].discovery = self.clients[MANAGER].discovery
        return self.accounts[name]

    async def start(self) -> None:
        """Starts every part; ready when all caches have synced. A start that fails, or is cancelled, leaves nothing."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        await self._measure()
        await self._grant()
        own = dict.fromkeys(CONTROLLERS[name].module for name in self.names if CONTROLLERS[name].asked)
        if own:
            await define([(module, self.managers[module].program) for module in own], list(self.clients.values()))
        await self._start_controllers()
        self.scheduler.start()
        await self.fleet.start()
        if self.groups is not None:
            self.groups.start()

    async def _grant(self) -> None:
        """Lets each controller do what its spec can call for."""
        found: dict[str, set[Right]] = {}
        for name in self.names:
            part = CONTROLLERS[name]
            rights = {*self.managers[part.module].rights(part.actors), *part.paths}
            found.setdefault(part.account, set()).update(rights)
        for account_name, wanted in found.items():
            await grant(self.clients[MANAGER], account_name, rules(wanted))

    async def _start_controllers(self) -> None:
        for module, manager in self.managers.items():
            parts = (CONTROLLERS[name] for name in self.names)
            await manager.start([actor for part in parts if part.module == module for actor in part.actors])

    async def restart_controllers(self) -> None:
        """The process of the controllers dies, whatever it is doing, and another one lists everything anew."""
        for manager in reversed(self.managers.values()):
            await manager.stop(now=True)
        await self.feeds.stop()
        self._assemble()
        await self._start_controllers()

    async def restart_scheduler(self) -> None:
        """The same for the scheduler."""
        await self.scheduler.stop()
        self.scheduler = self._scheduler()
        self.scheduler.start()

    def _figures(self) -> str:
        return self.metrics.text().decode() + self.scheduler.metrics.text().decode()

    async def stop(self) -> None:
        """Stops every part, the last first; idempotent. One that fails does not keep the others."""
        stops = [*((self.groups.stop,) if self.groups is not None else ()), self.fleet.stop, self.scheduler.stop]
        stops += [manager.stop for manager in reversed(self.managers.values())]
        if self._figures in self.server.metrics.more:
            self.server.metrics.more.remove(self._figures)
        for stop in (*stops, self.feeds.stop):
            try:
                await stop()
            except Exception as problem:
                self._complain(f"stopping: {type(problem).__name__}: {problem}")

    async def _measure(self) -> None:
        """Serves the metrics APIs, adds what the parts count to the server's own figures, and answers for the nodes."""
        site = self.server.site
        self.server.nodes = FakeNodes(self.fleet.nodes)
        self.server.metrics.more.append(self._figures)
        now = rfc3339(self.server.clock.now())
        for group in groups():
            await announce(self.server.local, group, VERSIONS[group], now)
        measures = Measures(site.view, site.catalog, site.clock)
        for group in groups():
            site.extensions[group] = measures.answer
        for resource in resources():
            site.catalog.add(resource.group, [resource], {})
