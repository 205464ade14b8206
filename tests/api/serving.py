"""A server in process, without a socket, for tests: `run(test)` gives each its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import LOOPBACK, Response, User
from dashpot.runtime.api.local import whole
from dashpot.runtime.api.settings import Settings

Object = dict[str, Any]

POD = {"containers": [{"name": "c", "image": "example.com/x:1"}]}
DEPLOYMENT = {
    "replicas": 2,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD},
}


class Serving:
    """One server and what a test does with it."""

    def __init__(self, server: ApiServer, complaints: list[str]) -> None:
        self.server = server
        self.complaints = complaints

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        accept: str = "",
        user: User | None = LOOPBACK,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """One request; `body` as JSON unless it is bytes."""
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"user-agent": "tester/1", **(headers or {})}
        if data:
            sent["content-type"] = media
        if accept:
            sent["accept"] = accept
        return await self.server.local.request(method, path, data, headers=sent, user=user)

    async def told(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Object]:
        """The code and the decoded answer."""
        response = await self.ask(method, path, body, **options)
        return response.code, msgspec.json.decode(whole(response))

    async def done(self, method: str, path: str, body: Any = None, **options: Any) -> Object:
        """The answer of a request that must succeed."""
        code, answer = await self.told(method, path, body, **options)
        assert code < 300, answer
        return answer


def run(test: Callable[[Serving], Awaitable[None]], **settings: Any) -> None:
    """Runs a test against a fresh server with the namespace `n`; it must not have failed by a mistake of its own."""

    async def main() -> None:
        complaints: list[str] = []
        asked = {"store": "memory", **settings}
        server = await ApiServer.start(Settings(**asked), complain=complaints.append, listen=False, seed=1)
        try:
            serving = Serving(server, complaints)
            await serving.done("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
            account = {"metadata": {"name": "default"}}
            await serving.done("POST", "/api/v1/namespaces/n/serviceaccounts", account)
            await test(serving)
        finally:
            await server.stop()
        assert complaints == []

    asyncio.run(main())
