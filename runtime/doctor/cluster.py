"""The cluster under examination: requests, and how long each took."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from attrs import frozen

from dashpot.runtime.client.access import Access
from dashpot.runtime.client.http import HttpTransport
from dashpot.runtime.client.transport import Call, TransportError

Object = dict[str, Any]

CONNECTIONS_MAX = 256
"""Requests under way at once; later ones wait, and their waiting counts."""

PAGE_S = 10.0
"""How long a page of figures may take."""


class Unreachable(Exception):
    """The API server cannot be asked; the text says why."""


@frozen
class Reply:
    """An answer: its HTTP code and decoded body (an object, or the Status of a failure)."""

    code: int
    body: Object
    seconds: float

    @property
    def message(self) -> str:
        """What a failure says."""
        return str(self.body.get("message") or "") if self.code >= 400 else ""


class Cluster(Protocol):
    """What examinations ask of a cluster."""

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """One request; Unreachable if nobody answers."""
        ...

    async def text(self, path: str) -> str | None:
        """What a path answers as text; None if it refuses, Unreachable if nobody answers."""
        ...


class HttpCluster:
    """A cluster over HTTPS. `environment` says proxies and is what credential plugins inherit; `terminal` is whether a
    person can answer them."""

    def __init__(
        self,
        access: Access,
        environment: Mapping[str, str] | None = None,
        *,
        terminal: bool = False,
        timeout_s: float = 60.0,
    ) -> None:
        self._transport = HttpTransport(access, environment, terminal=terminal, connections=CONNECTIONS_MAX)
        self._headers = (
            ("user-agent", "dashpot-doctor"),
            *access.acting.headers(),
        )
        self._server = access.server
        self._timeout_s = timeout_s

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """One request."""
        headers, data = (*self._headers, ("accept", "application/json")), b""
        if body is not None:
            headers, data = (*headers, ("content-type", content_type)), msgspec.json.encode(body)
        began = perf_counter()
        code, raw = await self._send(Call(method, path, tuple((query or {}).items()), headers, data, self._timeout_s))
        return Reply(code, _decoded(raw), perf_counter() - began)

    async def text(self, path: str) -> str | None:
        """A page of text."""
        code, raw = await self._send(Call("GET", path, (), self._headers, b"", self._timeout_s))
        return raw.decode("utf-8", "replace") if code == 200 else None

    async def _send(self, call: Call) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._transport.send(call)
                return answer.code, await answer.read()
        except TimeoutError as error:
            raise Unreachable(f"{self._server} did not answer in time") from error
        except TransportError as error:
            raise Unreachable(str(error)) from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()


async def page_at(address: str) -> str | None:
    """The page of text at a URL; None if there is none."""
    url = urlsplit(address)
    transport = HttpTransport(Access(f"{url.scheme}://{url.netloc}"))
    try:
        async with asyncio.timeout(PAGE_S):
            answer = await transport.send(Call("GET", url.path or "/", (), (), b"", PAGE_S))
            raw = await answer.read()
            return raw.decode("utf-8", "replace") if answer.code == 200 else None
    except (TimeoutError, TransportError):
        return None
    finally:
        await transport.close()


def _decoded(raw: bytes) -> Object:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {"message": raw[:200].decode("utf-8", "replace")}
    return found if isinstance(found, dict) else {}
