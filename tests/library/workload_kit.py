"""What the live tests of workload controllers share: a server on virtual time, objects, and what a test asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.manager import Manager
from tests.client.serving import on_server
from tests.controller.running import library, managed, until

Object = dict[str, Any]

ACCOUNT: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
APP = {"app": "web"}


def template(image: str = "a", labels: Object | None = None, **spec: Any) -> Object:
    """A pod template with one container."""
    return {"metadata": {"labels": labels or APP}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def thing(api_version: str, kind: str, spec: Object, name: str = "web", **meta: Any) -> Object:
    """An object of the namespace `default`."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": spec,
    }


def workload(kind: str, replicas: int = 3, image: str = "a", name: str = "web", **spec: Any) -> Object:
    """A ReplicaSet, Deployment or StatefulSet that selects APP."""
    made = {"replicas": replicas, "selector": {"matchLabels": APP}, "template": template(image), **spec}
    return thing("apps/v1", kind, made, name)


@frozen
class Live:
    """A server, a client and a manager that runs there."""

    client: Client
    manager: Manager

    async def all(self, resource: str) -> list[Object]:
        """The objects of a resource, by name."""
        found = (await self.client.list(resource, "default")).items
        return sorted(found, key=lambda o: str(o["metadata"]["name"]))

    async def one(self, resource: str, name: str = "web") -> Object:
        """One object."""
        return await self.client.get(resource, name)

    async def status(self, resource: str, name: str = "web") -> Object:
        """Its status."""
        found: Object = (await self.one(resource, name)).get("status") or {}
        return found

    async def condition(self, resource: str, type_: str, name: str = "web") -> Object:
        """One of its conditions; empty where there is none."""
        rows = (await self.status(resource, name)).get("conditions") or ()
        return next((c for c in rows if c["type"] == type_), {})

    async def events(self, reason: str) -> list[str]:
        """The messages of events with a reason."""
        return sorted(e["message"] for e in await self.all("events") if e["reason"] == reason)

    async def patch(self, resource: str, change: Object, name: str = "web") -> None:
        """A merge patch."""
        await self.client.patch(resource, name, change)

    async def put_status(self, pod: Object, **status: Any) -> None:
        """Writes the status of a pod, as a kubelet does."""
        name = pod["metadata"]["name"]
        await self.client.patch("pods", name, {"status": status}, subresource="status")

    async def settles(self, test: Callable[[], Awaitable[Any]], seconds: float = 600.0) -> None:
        """Waits, in virtual time, until a test says yes."""

        async def asked() -> bool:
            return bool(await test())

        await until(asked, seconds)


def live(module: str, actors: list[str], test: Callable[[Live], Awaitable[None]]) -> None:
    """Runs a test against a fresh server on which some actors of a library module, or of those it uses, run."""
    program = library(module)

    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        await client.create("serviceaccounts", ACCOUNT)
        async with managed(program, client, *actors, complaints=complaints) as manager:
            await test(Live(client, manager))
        assert complaints == []

    on_server(main)
