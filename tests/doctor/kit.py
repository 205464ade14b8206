"""A plane, or a bare server, on virtual time with a doctor beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import LOOPBACK, User
from dashpot.runtime.api.local import whole
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.doctor.cluster import Reply
from dashpot.runtime.doctor.diagnosis import Diagnosis, diagnose
from dashpot.runtime.loop import run_virtual, virtual_clock
from dashpot.runtime.plane.parts import chosen
from dashpot.runtime.plane.plane import Plane
from tests.controller.running import until
from tests.plane.kit import NODES

Object = dict[str, Any]


class LocalCluster:
    """A cluster in process, as the doctor asks it."""

    def __init__(self, server: ApiServer, user: User = LOOPBACK) -> None:
        self._server, self._user = server, user

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        data = b"" if body is None else msgspec.json.encode(body)
        whole_path = f"{path}?{urlencode(query)}" if query else path
        headers = {"user-agent": "dashpot-doctor", **({"content-type": content_type} if data else {})}
        answer = await self._server.local.request(method, whole_path, data, headers=headers, user=self._user)
        raw = whole(answer)
        try:
            return Reply(answer.code, msgspec.json.decode(raw), 0.0)
        except msgspec.DecodeError:
            return Reply(answer.code, {"message": raw.decode()}, 0.0)

    async def text(self, path: str) -> str | None:
        answer = await self._server.local.request("GET", path, user=self._user)
        return whole(answer).decode() if answer.code == 200 else None


class Ward:
    """A server, a plane if there is one, a client, and the doctor."""

    def __init__(self, server: ApiServer, plane: Plane | None) -> None:
        self.server = server
        self._plane = plane
        self.client = self.named("tester/1")

    @property
    def plane(self) -> Plane:
        assert self._plane is not None
        return self._plane

    def named(self, agent: str) -> Client:
        """A client with that user agent."""
        return Client(InProcess(self.server.local), user_agent=agent)

    async def examine(self, window_s: float = 5.0, user: User = LOOPBACK) -> Diagnosis:
        """What the doctor finds."""
        return await diagnose(LocalCluster(self.server, user), self.server.clock, window_s)

    async def ready(self) -> None:
        """Waits until the nodes have lost the taint that they register with."""

        async def reached() -> bool:
            nodes = [await self.client.get("nodes", name) for name in self.plane.fleet.nodes]
            return not any(node["spec"].get("taints") for node in nodes)

        await until(reached)

    async def pod(self, name: str, labels: Object | None = None, **spec: Any) -> Object:
        """Creates a pod in `default`."""
        told = spec.pop("told", {})
        meta = {
            "name": name,
            "labels": labels or {},
            "annotations": {f"fake.dashpot.dev/{k}": v for k, v in told.items()},
        }
        containers = [{"name": "c", "image": "example.com/x:1"}]
        return await self.client.create(
            "pods", {"metadata": meta, "spec": {"containers": containers, **spec}}, "default"
        )


def run(
    test: Callable[[Ward], Awaitable[None]],
    *,
    nodes: int = 2,
    plane: bool = True,
    controllers: Sequence[str] = ("*",),
    **settings: Any,
) -> None:
    """Runs a test on virtual time. `controllers`: those of the plane, as `--controllers` has them, beside
    that of nodes."""

    async def main() -> None:
        clock = virtual_clock()
        server = await ApiServer.start(Settings(**{"store": "memory", **settings}), listen=False, seed=1, clock=clock)
        made = Plane(server, nodes=nodes, controllers=[*chosen(controllers), NODES]) if plane else None
        ward = Ward(server, made)
        try:
            if made is not None:
                await ward.client.create("serviceaccounts", {"metadata": {"name": "default"}}, "default")
                await made.start()
                await ward.ready()
            await test(ward)
        finally:
            if made is not None:
                await made.stop()
            await server.stop()

    run_virtual(main(), seed=1)


async def until_late(seconds: float = 60.0) -> None:
    """Lets virtual time pass: what is not done by then is late."""
    await asyncio.sleep(seconds)
