"""The transport to an API server in the same process: no sockets, and on a virtual loop no real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, ItemsView, Iterator, Mapping, Sequence
from typing import cast
from urllib.parse import urlencode

from dashpot.runtime.api.exchange import LOOPBACK, Response, User
from dashpot.runtime.api.local import Local
from dashpot.runtime.client.transport import Answer, Call, TransportTimeout


class InProcess:
    """Requests go straight into the server's gates. `user` is who asks, without credentials; None: the headers say."""

    def __init__(self, local: Local, user: User | None = LOOPBACK) -> None:
        self._local = local
        self._user = user

    async def send(self, call: Call) -> Answer:
        """Sends a request; TransportTimeout."""
        path = f"{call.path}?{urlencode(call.query)}" if call.query else call.path
        try:
            async with asyncio.timeout(call.timeout or None):
                response = await self._local.request(
                    call.method, path, call.body, headers=_Headers(call.headers), user=self._user
                )
        except TimeoutError:
            raise TransportTimeout(f"{call.method} {call.path}: no answer within {call.timeout:g}s") from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        headers["content-type"] = response.content_type
        body = _body(response)
        return Answer(response.code, headers, body, body.aclose)

    async def close(self) -> None:
        """Nothing is open."""
        return


async def _pieces(response: Response) -> AsyncIterator[bytes]:
    if response.chunks is not None:
        try:
            async for chunk in response.chunks:
                yield chunk
        finally:
            close = getattr(response.chunks, "aclose", None)
            if close is not None:
                await close()
    elif response.pieces is not None:
        yield b"".join(response.pieces)
    else:
        yield response.body


class _Body:
    """The body; closing it before it was begun still ends the stream in the server."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._pieces = _pieces(response)
        self._begun = False

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        self._begun = True
        return await anext(self._pieces)

    async def aclose(self) -> None:
        source = self._pieces if self._begun else self._response.chunks
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


def _body(response: Response) -> _Body:
    return _Body(response)


class _Headers(Mapping[str, str]):
    """Headers, some of them several times: `items` tells all, the rest knows the first of each name."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._first: dict[str, str] = {}
        for name, value in pairs:
            self._first.setdefault(name, value)

    def __getitem__(self, name: str) -> str:
        return self._first[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def items(self) -> ItemsView[str, str]:
        return cast(ItemsView[str, str], self._pairs)
