"""The server: every request through the gates, in Kubernetes' order, to its verb, and out again.

panic guard → request info → timeout → authentication → audit → impersonation → flow control → authorization → the verb.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec
from attrs import define, field

from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api import goduration, route
from dashpot.runtime.api.exchange import PANIC, Exchange, Gate, Request, Response
from dashpot.runtime.clock import Clock

TIMEOUT_S = 60.0
"""How long a request that is no watch and no stream may take (upstream: --request-timeout)."""


@define(eq=False)
class Pipeline:
    """Gates before the verb, and those who look at each request when it is over."""

    gates: Sequence[tuple[str, Gate]]
    serve: Callable[[Exchange], Awaitable[Response]]
    clock: Clock
    started: Callable[[Exchange, Response], None]
    """The answer's head is known (audit: ResponseStarted, of long-running requests)."""
    ended: Callable[[Exchange, Response], None]
    """The answer was made, or the stream has ended: audit, metrics."""
    failed: Callable[[Exchange, BaseException], None]
    """A mistake of ours; the client is told only that there was one."""
    delay: Callable[[str, Exchange], Awaitable[None]] | None = None
    """The fault injector: may wait or fail before a gate."""
    running: set[asyncio.Task[Response]] = field(factory=set)

    async def handle(self, request: Request) -> Response:
        """Answers one request; never raises but for cancellation."""
        exchange = Exchange(request, route.info(request.method, request.path, request.query), self.clock.now())
        try:
            if exchange.info.long_running:
                response = await self._through(exchange)
            else:
                async with asyncio.timeout(_limit(request)):
                    response = await self._through(exchange)
        except StatusError as error:
            response = failure(error)
        except TimeoutError:
            exchange.marks["late"] = 1.0
            response = failure(
                StatusError("Timeout", "request did not complete within the allotted timeout", retry_after=1)
            )
        except Exception as error:
            self.failed(exchange, error)
            response = failure(StatusError("InternalError", PANIC))
        except BaseException:
            self._close(exchange)
            raise
        return self._finish(exchange, response)

    async def _through(self, exchange: Exchange) -> Response:
        for name, gate in self.gates:
            if self.delay is not None:
                await self.delay(name, exchange)
            response = await gate(exchange)
            if response is not None:
                return response
        if self.delay is not None:
            await self.delay("serve", exchange)
        return await self.serve(exchange)

    def _finish(self, exchange: Exchange, response: Response) -> Response:
        headers = response.headers
        headers.setdefault("Cache-Control", "no-cache, private")
        if exchange.audit_id:
            headers["Audit-Id"] = exchange.audit_id
        if exchange.headers is not None:
            headers.update(exchange.headers)
        if exchange.warnings:
            # one header, values joined by commas: the same to every client as a header each
            headers["Warning"] = _warned(exchange.warnings)
        if response.chunks is not None:
            self.started(exchange, response)
            response.chunks = _UntilEnd(response.chunks, lambda: self._over(exchange, response))
        elif response.upgrade is not None:
            self.started(exchange, response)
            response.upgrade = self._until_closed(exchange, response, response.upgrade)
        else:
            self._over(exchange, response)
        return response

    def _over(self, exchange: Exchange, response: Response) -> None:
        self._close(exchange)
        self.ended(exchange, response)

    def _close(self, exchange: Exchange) -> None:
        while exchange.closers:
            exchange.closers.pop()()

    def _until_closed(
        self, exchange: Exchange, response: Response, upgrade: Callable[..., Awaitable[None]]
    ) -> Callable[..., Awaitable[None]]:
        async def upgraded(duplex: object) -> None:
            try:
                await upgrade(duplex)
            finally:
                self._over(exchange, response)

        return upgraded


class _UntilEnd:
    """The chunks of a stream; tells its end once, also of a stream that nobody began to read."""

    __slots__ = ("_chunks", "_end")

    def __init__(self, chunks: AsyncIterator[bytes], end: Callable[[], None]) -> None:
        self._chunks = chunks
        self._end: Callable[[], None] | None = end

    def __aiter__(self) -> _UntilEnd:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._chunks.__anext__()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Closes the stream; idempotent."""
        end, self._end = self._end, None
        if end is None:
            return
        try:
            close = getattr(self._chunks, "aclose", None)
            if close is not None:
                await close()
        finally:
            end()


_WARNED, _SHORTENED = 4 * 1024, 256
"""Characters of all warnings, and of each where they are more than that (upstream: filters/warning.go)."""


def _warned(warnings: Sequence[str]) -> str:
    """The value of the Warning header: as much as clients can be expected to read."""
    if sum(map(len, warnings)) > _WARNED:
        warnings = [text[:_SHORTENED] for text in warnings][: _WARNED // _SHORTENED]
    return ", ".join(f'299 - "{_quoted(text)}"' for text in warnings)


def _quoted(text: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text).encode("latin-1", "replace").decode("latin-1")
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _limit(request: Request) -> float:
    """`timeout=30s` shortens the time that a request may take; 0s, or more than the server's own, leaves it; what is no
    duration is a StatusError 400 (upstream: endpoints/filters/request_deadline.go)."""
    asked = request.get("timeout")
    if not asked:
        return TIMEOUT_S
    try:
        seconds = goduration.seconds(asked)
    except ValueError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return seconds if 0 < seconds < TIMEOUT_S else TIMEOUT_S


def failure(error: StatusError) -> Response:
    """A failure as its answer."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    return Response(error.code, msgspec.json.encode(error.status()), headers=headers)
