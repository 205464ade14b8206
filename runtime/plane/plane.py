"""A plane around an API server: `plane = Plane(server, nodes=3); await plane.start(); …; await plane.stop()`.

Controllers run from the library's specs and share what they hear of the API. Nothing is kept but there: a plane that
starts on the same store goes on where another one ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dashpot.grammar.load import load_text
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import User
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.feeds import Feeds
from dashpot.runtime.controller.manager import Manager
from dashpot.runtime.controller.metrics import Metrics
from dashpot.runtime.fleet.fleet import Fleet
from dashpot.runtime.fleet.nodes import Shape
from dashpot.runtime.measures.serve import Measures, groups, resources
from dashpot.runtime.plane.parts import CONTROLLERS, chosen, modules
from dashpot.runtime.scheduler.scheduler import Scheduler

MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KUBELET = "kubelet"


def user(name: str) -> User:
    """Who a part of the plane is to the API server and its audit log."""
    return User(f"system:{name}", ("system:masters", "system:authenticated"))


class Plane:
    """Parts that run beside an API server in its process.

    nodes        how many simulated nodes; 0: none
    controllers  names of `parts.CONTROLLERS`; `*` all, `-name` without it
    constants    of the specs, by name, instead of the declared values
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        nodes: int = 3,
        shape: Shape | None = None,
        controllers: Sequence[str] = ("*",),
        constants: Mapping[str, Any] | None = None,
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        chance = chance or random.Random(0)
        clock = server.clock
        self.server = server
        self.names = chosen(controllers)
        self.clients = {name: self._client(name) for name in (MANAGER, SCHEDULER, KUBELET)}
        client = self.clients[MANAGER]
        self.metrics = Metrics()
        self.feeds = Feeds(client, chance=random.Random(chance.random()), complain=complain)
        self.managers = {
            module: Manager(
                load_text(f"use {module}\n", "plane.loop"),
                client,
                clock=clock,
                chance=random.Random(chance.random()),
                constants=constants,
                feeds=self.feeds,
                metrics=self.metrics,
                complain=complain,
            )
            for module in modules(self.names)
        }
        self.scheduler = Scheduler(
            self.clients[SCHEDULER], clock, chance=random.Random(chance.random()), complain=complain
        )
        self.fleet = Fleet(
            self.clients[KUBELET],
            clock,
            count=nodes,
            shape=shape,
            chance=random.Random(chance.random()),
            complain=complain,
        )

    def _client(self, name: str) -> Client:
        return Client(InProcess(self.server.local, user(name)), user_agent=name)

    async def start(self) -> None:
        """Starts every part; ready when all caches have synced."""
        self._measure()
        for module, manager in self.managers.items():
            parts = (CONTROLLERS[name] for name in self.names)
            await manager.start([actor for part in parts if part.module == module for actor in part.actors])
        self.scheduler.start()
        await self.fleet.start()

    async def stop(self) -> None:
        """Stops every part, the last first; idempotent."""
        await self.fleet.stop()
        await self.scheduler.stop()
        for manager in reversed(self.managers.values()):
            await manager.stop()
        await self.feeds.stop()

    def _measure(self) -> None:
        """Serves the metrics APIs."""
        site = self.server.site
        measures = Measures(site.view, site.catalog, site.clock)
        for group in groups():
            site.extensions[group] = measures.answer
        for resource in resources():
            site.catalog.add(resource.group, [resource], {})
