"""What the tests of storages, lists and watches share: a store, a storage, requests, and answers read back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api import lists, watching
from dashpot.runtime.api.cache import REPLAY, Cache
from dashpot.runtime.api.exchange import Exchange, Info, Request, Response, User
from dashpot.runtime.api.faults import Faults
from dashpot.runtime.api.history import Limits
from dashpot.runtime.api.keys import Keys
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.clock import SystemClock
from dashpot.runtime.store.base import Store
from dashpot.runtime.store.memory import MemoryStore

Object = dict[str, Any]

CONFIGMAPS = Resource("", "v1", "ConfigMap", "configmaps", "configmap", True, storage_group="", storage_version="v1")
PODS = Resource("", "v1", "Pod", "pods", "pod", True, storage_group="", storage_version="v1")
NODES = Resource("", "v1", "Node", "nodes", "node", False, storage_group="", storage_version="v1")


def shelf(
    resource: Resource = CONFIGMAPS,
    *,
    store: Store | None = None,
    faults: Faults | None = None,
    limits: Limits | None = None,
    replay: int = REPLAY,
) -> Storage:
    """A storage over a store, in memory by default."""
    store = store or MemoryStore()
    clock = SystemClock()
    cache = Cache(store, Keys(resource), clock, limits=limits, replay=replay)
    return Storage(store, resource, clock, cache=cache, faults=faults)


def thing(name: str, namespace: str = "n", *, kind: str = "ConfigMap", **labels: str) -> Object:
    """A small object."""
    metadata: Object = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def exchange(
    query: str | Mapping[str, str] = "",
    *,
    namespace: str = "n",
    name: str = "",
    accept: str = "",
    agent: str = "tests",
    headers: Mapping[str, str] | None = None,
) -> Exchange:
    """A GET."""

    async def read() -> bytes:
        return b""

    pairs: list[tuple[str, str]]
    if isinstance(query, str):
        pairs = [(part.partition("=")[0], part.partition("=")[2]) for part in query.split("&") if part]
    else:
        pairs = list(query.items())
    told = {"user-agent": agent, **({"accept": accept} if accept else {}), **(headers or {})}
    request = Request("GET", "/", pairs, told, read)
    return Exchange(request, Info(True, "/", "list", namespace=namespace, name=name), 0.0, user=User("u"))


def content(response: Response) -> bytes:
    """The body of an answer that is no stream."""
    return response.body if response.pieces is None else b"".join(response.pieces)


async def listed(storage: Storage, query: str | Mapping[str, str] = "", **more: Any) -> Object:
    """The decoded answer to a list."""
    response = await lists.list_response(exchange(query, **more), storage.resource, storage)
    answer: Object = msgspec.json.decode(content(response))
    return answer


def names(answer: Object) -> list[str]:
    """The names in a list, with the namespace where it is not `n`."""
    metas = [item["metadata"] for item in answer["items"]]
    return [m["name"] if m.get("namespace", "n") == "n" else f"{m['namespace']}/{m['name']}" for m in metas]


class Watching:
    """A watch whose events a test takes one by one."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._lines: list[bytes] = []
        self.chunks = 0

    async def next(self, patience_s: float = 5.0) -> Object | None:
        """The next event; None when the watch has ended."""
        while not self._lines:
            try:
                chunk = await asyncio.wait_for(anext(self._chunks), patience_s)
            except StopAsyncIteration:
                return None
            self.chunks += 1
            assert chunk.endswith(b"\n")
            self._lines = chunk.splitlines()
        event: Object = msgspec.json.decode(self._lines.pop(0))
        return event

    async def take(self, count: int) -> list[tuple[str, str, int]]:
        """The next events as type, name and version."""
        found: list[tuple[str, str, int]] = []
        for _ in range(count):
            event = await self.next()
            assert event is not None, f"the watch ended after {found}"
            found.append(brief(event))
        return found

    async def rest(self) -> list[tuple[str, str, int]]:
        """All events until the watch ends."""
        found: list[tuple[str, str, int]] = []
        while (event := await self.next()) is not None:
            found.append(brief(event))
        return found

    async def close(self) -> None:
        """Goes away as a client does."""
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()


def brief(event: Object) -> tuple[str, str, int]:
    """Type, name and version of an event; a Table is told by its row."""
    obj = event["object"]
    if obj.get("kind") == "Table":
        obj = obj["rows"][0]["object"]
    meta = obj["metadata"]
    return event["type"], meta.get("name", ""), int(meta.get("resourceVersion") or 0)


async def watched(storage: Storage, query: str | Mapping[str, str] = "", **more: Any) -> Watching:
    """A new watch."""
    response = await watching.watch_response(exchange(query, **more), storage.resource, storage)
    assert response.chunks is not None
    return Watching(response.chunks)
