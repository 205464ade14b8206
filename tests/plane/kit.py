"""A plane in process, on virtual time, for tests: `run(test)` gives each its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.rest import Client
from dashpot.runtime.loop import run_virtual, virtual_clock
from dashpot.runtime.plane.parts import chosen
from dashpot.runtime.plane.plane import Plane
from tests.controller.running import until

Object = dict[str, Any]
ACCOUNT = {"metadata": {"name": "default"}}
NODES = "node-lifecycle-controller"


def pod(name: str, told: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod of one container. `told`: what the simulated kubelet is to do, without the prefix of its annotations."""
    annotations = {f"fake.dashpot.dev/{key}": value for key, value in (told or {}).items()}
    container = {"name": "c", "image": "example.com/x:1", **spec.pop("container", {})}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container], **spec}}


@frozen
class World:
    """A plane, and a client of its API."""

    plane: Plane
    client: Client
    complaints: list[str]

    async def pod(self, name: str) -> Object:
        """A pod of the namespace `default`."""
        return await self.client.get("pods", name, "default")

    async def make(self, *pods: Object) -> None:
        """Creates pods in the namespace `default`."""
        for one in pods:
            await self.client.create("pods", one, "default")

    async def phase(self, name: str, phase: str, seconds: float = 60.0) -> Object:
        """Waits until a pod is in a phase; the pod."""

        async def reached() -> bool:
            return bool((await self.pod(name))["status"].get("phase") == phase)

        await until(reached, seconds)
        return await self.pod(name)

    async def events(self, reason: str) -> list[str]:
        """The messages of events with that reason."""
        await asyncio.sleep(1)
        found = (await self.client.list("events", "default")).items
        return [one["message"] for one in found if one["reason"] == reason]

    async def node(self, name: str) -> Object:
        """A node."""
        return await self.client.get("nodes", name)

    async def taints(self, name: str) -> list[tuple[str, str]]:
        """The taints of a node: keys without their domain, and effects."""
        found = (await self.node(name))["spec"].get("taints") or ()
        return sorted((taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"]) for taint in found)

    async def ready(self) -> None:
        """Waits until the nodes have lost the taint that they register with."""

        async def reached() -> bool:
            return not any([await self.taints(name) for name in self.plane.fleet.nodes])

        await until(reached)


def run(test: Callable[[World], Awaitable[None]], *, seed: int = 1, ready: bool = True, **options: Any) -> None:
    """Runs a test against a fresh plane; nothing may have been complained of.

    ready   whichever controllers run, so does that of nodes, and the test begins when they can take pods
    """
    if ready:
        options["controllers"] = [*chosen(options.get("controllers", ("*",))), NODES]

    async def main() -> None:
        complaints: list[str] = []
        clock = virtual_clock()
        server = await ApiServer.start(
            Settings(store="memory"), listen=False, seed=seed, clock=clock, complain=complaints.append
        )
        plane = Plane(server, complain=complaints.append, **options)
        try:
            client = plane.clients["kubelet"]
            await client.create("serviceaccounts", ACCOUNT, "default")
            await plane.start()
            world = World(plane, client, complaints)
            if ready:
                await world.ready()
            await test(world)
        finally:
            await plane.stop()
            await server.stop()
        assert complaints == []

    run_virtual(main(), seed=seed)
