"""An API server in process on a virtual loop, and a client of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.clock import LoopClock
from dashpot.runtime.loop import EPOCH, run_virtual

LONGEST_S = 3 * 24 * 3600.0
"""Virtual seconds after which a test has failed."""
T = TypeVar("T")
Object = dict[str, Any]


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[ApiServer]:
    """A server with everything in memory; time is the loop's."""
    server = await ApiServer.start(
        Settings(store="memory", **settings), clock=LoopClock(EPOCH), seed=1, listen=False, complain=_complain
    )
    try:
        yield server
    finally:
        await server.stop()


def _complain(text: str) -> None:
    raise AssertionError(text)


def client_of(server: ApiServer, **options: Any) -> Client:
    """The administrator's client."""
    return Client(InProcess(server.local), chance=random.Random(0), **options)


def on_server(main: Callable[[ApiServer, Client], Awaitable[T]], *, seed: int | None = None, **settings: Any) -> T:
    """Runs a test on virtual time."""

    async def whole() -> T:
        async with serving(**settings) as server:
            async with asyncio.timeout(LONGEST_S):
                return await main(server, client_of(server))

    return run_virtual(whole(), seed=seed)


def config_map(name: str, namespace: str = "default", **data: str) -> Object:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }
