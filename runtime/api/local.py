"""The API without a socket: requests handed to the server in the same process and on the same loop.

Tests, controllers and the server itself use it; with a virtual clock nothing here waits for real time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import LOOPBACK, Request, Response, User

Object = dict[str, Any]


class Local:
    """Calls a handler as if a client had sent the request."""

    def __init__(self, handler: Callable[[Request], Awaitable[Response]]) -> None:
        self._handler = handler

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        user: User | None = LOOPBACK,
    ) -> Response:
        """One request. `path` may carry a query of its own; header names are lower case."""

        async def read() -> bytes:
            return body

        async def stream() -> AsyncIterator[bytes]:
            yield body

        plain, _, asked = path.partition("?")
        pairs = [*parse_qsl(asked, keep_blank_values=True), *(query or {}).items()]
        request = Request(method, plain, pairs, headers or {}, read, user=user, stream=stream)
        return await self._handler(request)

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        user: User = LOOPBACK,
    ) -> Object:
        """The answer's object; StatusError where it is a failure."""
        data = msgspec.json.encode(body) if body is not None else b""
        headers = {"content-type": content_type, "user-agent": "dashpot/internal"} if data else {}
        response = await self.request(method, quote(path, safe="/:?&=%"), data, query=query, headers=headers, user=user)
        answer: Object = msgspec.json.decode(whole(response) or b"{}")
        if response.code >= 400:
            details = answer.get("details") or {}
            raise StatusError(
                answer.get("reason", "InternalError"),
                answer.get("message", ""),
                code=response.code,
                details=details,
                retry_after=details.get("retryAfterSeconds", 0),
            )
        return answer


def whole(response: Response) -> bytes:
    """The body of an answer that is not streamed."""
    return response.body if response.pieces is None else b"".join(response.pieces)
