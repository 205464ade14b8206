"""From a server to the record of what its clients saw."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.histories.clients import Client
from tests.histories.judge import judged
from tests.histories.record import Object, Record, bare
from tests.histories.traffic import NAMESPACES, Traffic

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.keys import Keys
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.store.base import Event, Put, Store

PREFIX = "/registry/configmaps/"


async def observed(
    doors: Sequence[tuple[str, ssl.SSLContext]],
    seed: int,
    seconds: float,
    *,
    gone: bool = False,
    meanwhile: Callable[[Traffic], Awaitable[None]] | None = None,
    within: float = 20,
) -> Record:
    """Traffic at the servers of one cluster for so long, with watches that stay open from its start to its end."""
    clients = [Client(url, context) for url, context in doors]
    traffic = Traffic(clients, seed, gone=gone)
    try:
        await traffic.prepare()
        for client in clients:
            for namespace, label in (("", ""), ("a", "x"), ("b", "")):
                traffic.keep(client, namespace, label)
        async with asyncio.TaskGroup() as group:
            group.create_task(traffic.run(seconds))
            if meanwhile is not None:
                group.create_task(_all(meanwhile, traffic))
        traffic.quiet = False
        await traffic.settle(clients[0], within)
    finally:
        await traffic.finish()
        for client in clients:
            await client.close()
    return traffic.record


async def _all(meanwhile: Callable[[Traffic], Awaitable[None]], traffic: Traffic) -> None:
    await meanwhile(traffic)


def expect_sound(record: Record, seed: int, more: Sequence[tuple[int, str, Object | None]] = ()) -> str:
    """No fault, or an AssertionError that says the seed and what was wrong; the figures."""
    faults = judged(record, more)
    figures = f"seed {seed}: {record.figures()}"
    assert not faults, "\n".join([f"{figures}; {len(faults)} faults:", *(text[:1500] for text in faults[:10])])
    assert sum(write.outcome == "done" for write in record.writes) > 20, figures
    return figures


async def told(
    store: Store, after: int = 1, until: asyncio.Event | None = None
) -> list[tuple[int, str, Object | None]]:
    """What a store itself tells of its ConfigMaps: revisions, keys and objects. With `until` it listens from now on
    and answers when that is set, so that the store may forget meanwhile what it told."""
    resource = Catalog().find("", "v1", "configmaps")
    assert resource is not None
    keys = Keys(resource)
    found: list[tuple[int, str, Object | None]] = []
    watch = store.watch("/", after)

    async def listen() -> None:
        async for batch in watch:
            found.extend(_shown(event, keys) for event in batch if _meant(event))
            if batch and batch[-1].key == "/end":
                return

    listening = asyncio.create_task(listen())
    try:
        if until is not None:
            await until.wait()
        await store.put(Put("/end", b""))
        async with asyncio.timeout(20):
            await listening
    finally:
        listening.cancel()
        await watch.close()
    return found


def _meant(event: Event) -> bool:
    return event.key.startswith(tuple(f"{PREFIX}{namespace}/" for namespace in NAMESPACES))


def _shown(event: Event, keys: Keys) -> tuple[int, str, Object | None]:
    key = event.key.removeprefix(PREFIX)
    if event.value is None:
        return event.revision, key, None
    return event.revision, key, bare(keys.written(event.key, event.value, event.revision, event.created).object)


@asynccontextmanager
async def served(folder: Path, **settings: object) -> AsyncIterator[tuple[ApiServer, ssl.SSLContext]]:
    """A server of this process that listens."""
    asked = {"store": "memory", "data": folder, "port": 0, **settings}
    server = await ApiServer.start(Settings(**asked))  # type: ignore[arg-type]
    try:
        server.pki.admin()
        yield server, server.pki.client_context("admin")
    finally:
        await server.stop()
