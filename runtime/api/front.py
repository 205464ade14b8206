"""The server's socket: aiohttp requests in, Responses out. HTTP/1.1 over TLS, WebSocket upgrades, bounded bodies.

aiohttp's low-level server is used without its router: paths are Kubernetes' own affair. What a stranger can make us
hold is bounded: header sizes by the parser, the time until the first header is complete, body sizes and times, and what
a zipped body may grow to.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from aiohttp import HttpVersion11, WSMsgType, http_exceptions, web

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import PANIC, Request, Response

Handler = Callable[[Request], Awaitable[Response]]

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of a request body; upstream's limit."""
HEADER_LIMIT = 64 * 1024
"""Bytes of the request line and of one header: a list's continue token and its selectors fit."""
HEADER_TIME_S = 20.0
BODY_TIME_S = 60.0
IDLE_TIME_S = 300.0
LINGER_S = 0.5
"""How long the rest of a body that nobody wants is drained, so that its sender gets to read the answer."""
ON_ITS_WAY_S = 0.05
"""How long a request that was sent before its client could know may be on its way through the machine."""
DRAIN_S, STREAMS_S = 10.0, 2.0
"""How long requests under way, and then watches and other streams, may take to end when the server stops."""
_PIECE = 256 * 1024
_SILENT = logging.Logger("dashpot.front", logging.CRITICAL)
"""aiohttp logs what strangers send, with a traceback; what matters to us is told by `complain`."""


TLS_BUFFER = 32 * 1024
"""Bytes that a TLS connection keeps for reading; asyncio's own 256 KiB make a thousand idle watches 256 MiB."""


def frugal_connections() -> None:
    """Makes TLS connections of this process small; for a process that is a server and nothing else."""
    from asyncio import sslproto

    sslproto.SSLProtocol.max_size = TLS_BUFFER


def _too_large() -> StatusError:
    return StatusError("RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")


class _Connection(web.RequestHandler):
    """A connection; what is no HTTP is answered as a Status, too. `stream`: what sends one on it; it ends with it."""

    __slots__ = ("stream",)
    stream: asyncio.Task[Any] | None

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client is gone: a stream that waits for something to send would find out with its next piece only."""
        super().connection_lost(exc)
        if self.stream is not None:
            self.stream.cancel()

    def handle_error(
        self, request: Any, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The answer to a request that cannot be read, or whose answer was lost by a mistake of ours."""
        if request.writer.output_size > 0:
            raise ConnectionError("half an answer was sent")
        if status >= 500:
            _mistakes(self, exc)
            error = StatusError("InternalError", PANIC)
        else:
            error = _unreadable(exc)
        answer = web.Response(
            status=error.code, body=msgspec.json.encode(error.status()), content_type="application/json"
        )
        answer.force_close()
        return answer


def _mistakes(connection: _Connection, error: BaseException | None) -> None:
    server = connection._manager
    if isinstance(server, _Connections):
        server.complain(f"a connection failed by a mistake of ours: {error!r}")


def _unreadable(error: BaseException | None) -> StatusError:
    """400; 431 for a request line or headers that are too long (as Go's server says it), without repeating them."""
    if isinstance(error, http_exceptions.LineTooLong) or "Too many headers" in str(error):
        return StatusError("BadRequest", f"request line or headers too long: limit is {HEADER_LIMIT} bytes", code=431)
    if isinstance(error, http_exceptions.BadHttpMethod):
        return StatusError("BadRequest", "malformed HTTP request: no method of HTTP")
    return StatusError("BadRequest", "malformed HTTP request")


class _Connections(web.Server):
    """Makes connections."""

    def __init__(self, handler: Any, complain: Callable[[str], None], **options: Any) -> None:
        super().__init__(handler, **options)
        self._options = options
        self.complain = complain

    def __call__(self) -> web.RequestHandler:
        made = _Connection(self, loop=self._loop, **self._options)
        made.stream = None
        return made


class Front:
    """Listens on one address; `port` 0 takes a free one. `complain` is told of our own mistakes."""

    def __init__(
        self, handler: Handler, context: ssl.SSLContext | None, complain: Callable[[str], None] = lambda _: None
    ) -> None:
        self._handler = handler
        self._context = context
        self._server = _Connections(
            self._serve,
            complain,
            access_log=None,
            logger=_SILENT,
            lingering_time=LINGER_S,
            max_line_size=HEADER_LIMIT,
            max_field_size=HEADER_LIMIT,
            auto_decompress=False,
            keepalive_timeout=IDLE_TIME_S,
        )
        self._waiting: dict[object, asyncio.TimerHandle] = {}
        self._listening: list[asyncio.Server] = []
        self._closing = False
        self._streams: set[web.RequestHandler] = set()
        self.address, self.port = "", 0

    async def start(self, host: str, port: int) -> None:
        """Binds; OSError where the address is taken."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._connected, host, port, ssl=self._context, backlog=1024)
        self.address, self.port = server.sockets[0].getsockname()[:2]
        self._listening.append(server)

    async def drain(self, patience_s: float = DRAIN_S) -> None:
        """Stops listening and waits until all requests under way are answered, at most so many seconds.

        What still comes on an open connection is answered too, and its connection closed: so a client sends at most
        most one request more on each, and none of its writes is cut off. Streams are not waited for.
        """
        self._closing = True
        for server in self._listening:
            server.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        quiet = False
        while (left := end - loop.time()) > 0:
            busy = [c for c in self._server.connections if c._request_in_progress and c not in self._streams]
            if busy:
                await asyncio.gather(*(one.shutdown(left) for one in busy))
            elif quiet:
                break
            else:
                await asyncio.sleep(ON_ITS_WAY_S)
            quiet = not busy

    async def stop(self) -> None:
        """Stops listening, lets streams end for two seconds, then closes all connections."""
        self._closing = True
        for server in self._listening:
            server.close()
        for connection in self._server.connections:
            if not connection._request_in_progress:
                connection.force_close()  # aiohttp would wait for requests that it takes no more
        await self._server.shutdown(STREAMS_S)
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.connections)

    def _connected(self) -> asyncio.Protocol:
        """A connection that never completes a first header is closed (aiohttp itself waits for ever)."""
        protocol = self._server()
        loop = asyncio.get_running_loop()

        def late() -> None:
            self._waiting.pop(protocol, None)
            protocol.force_close()

        self._waiting[protocol] = loop.call_later(HEADER_TIME_S, late)
        return protocol

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        timer = self._waiting.pop(raw.protocol, None)
        if timer is not None:
            timer.cancel()
        request = _request(raw)
        response = await self._handler(request)
        if response.upgrade is not None or response.chunks is not None:
            return await self._lasting(raw, response)
        if self._closing:
            response.headers["Connection"] = "close"
        if response.pieces is not None:
            return await _pieces(raw, response)
        headers = response.headers
        headers["Content-Type"] = response.content_type
        if response.code == 413:
            # the rest of a body that nobody will read: closing is cheaper than draining it
            headers["Connection"] = "close"
        return web.Response(body=response.body, status=response.code, headers=headers)

    async def _lasting(self, raw: web.BaseRequest, response: Response) -> web.StreamResponse:
        """A stream: it has no end of its own that the server could wait for when it stops."""
        self._streams.add(raw.protocol)
        try:
            return await (_stream if response.upgrade is None else _upgrade)(raw, response)
        finally:
            self._streams.discard(raw.protocol)


def _request(raw: web.BaseRequest) -> Request:
    path, _, query = raw.raw_path.partition("?")
    if "://" in path:
        path = "/" + path.split("://", 1)[1].partition("/")[2]
    transport = raw.transport
    tls: Any = transport.get_extra_info("ssl_object") if transport is not None else None
    certificate = tls.getpeercert(True) if tls is not None else None

    kept: bytes | None = None

    async def read() -> bytes:
        nonlocal kept
        if kept is None:
            kept = await _body(raw)
        return kept

    return Request(
        raw.method,
        path,
        # the request line is short: so are all the parameters that it can hold
        parse_qsl(query, keep_blank_values=True) if query else (),
        raw.headers if all(map(str.isascii, raw.headers.values())) else _readable(raw),
        read,
        raw.remote or "",
        certificate,
        stream=raw.content.iter_any,
    )


def _readable(raw: web.BaseRequest) -> Mapping[str, str]:
    """Headers in which what is no UTF-8 is replaced: nobody could write it down."""
    told = raw.headers.copy()
    told.clear()
    for name, value in raw.headers.items():
        told.add(name, value.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return told


async def _body(raw: web.BaseRequest) -> bytes:
    length = raw.content_length
    if length is not None and length > BODY_LIMIT:
        raise _too_large()
    if raw.headers.get("Expect", "").lower() == "100-continue" and raw.transport is not None:
        raw.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIME_S):
            async for part in raw.content.iter_any():
                size += len(part)
                if size > BODY_LIMIT:
                    raise _too_large()
                parts.append(part)
    except TimeoutError:
        raise StatusError("BadRequest", "the body did not arrive in time") from None
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    encoding = raw.headers.get("Content-Encoding", "")
    return unzip(body, encoding) if encoding and encoding != "identity" else body


def unzip(body: bytes, encoding: str) -> bytes:
    """A gzip body, unpacked at most to the limit: a bomb is refused before it has grown."""
    if encoding not in ("gzip", "deflate"):
        raise StatusError("UnsupportedMediaType", f"the content encoding {encoding!r} is not supported")
    unpacker = zlib.decompressobj(31 if encoding == "gzip" else 15)
    try:
        plain = unpacker.decompress(body, BODY_LIMIT + 1)
    except zlib.error:
        raise StatusError("BadRequest", f"the body is no {encoding} data") from None
    if len(plain) > BODY_LIMIT:
        raise _too_large()
    if not unpacker.eof:
        raise StatusError("BadRequest", f"the {encoding} data of the body ends too early")
    return plain


async def _stream(raw: web.BaseRequest, response: Response) -> web.StreamResponse:
    """Pieces as they come. What the producer holds is freed at once when the reader goes away."""
    out = web.StreamResponse(status=response.code, headers=response.headers)
    if "Content-Type" not in out.headers and response.content_type:
        out.content_type = response.content_type.partition(";")[0]
    if "Content-Length" not in out.headers and raw.version >= HttpVersion11:
        out.enable_chunked_encoding()  # an older client reads until the connection ends
    chunks, connection = response.chunks, raw.protocol
    assert chunks is not None and isinstance(connection, _Connection)
    try:
        connection.stream = asyncio.current_task()
        await out.prepare(raw)
        async for chunk in chunks:
            if not chunk and raw.transport is None:
                break
            await out.write(chunk)
        await out.write_eof()
    except (ConnectionError, asyncio.CancelledError):
        if raw.transport is not None:
            raise
    finally:
        connection.stream = None
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    return out


async def _pieces(raw: web.BaseRequest, response: Response) -> web.StreamResponse:
    """A long body of many parts: sent in pieces of a quarter of a megabyte, never joined whole."""
    assert response.pieces is not None
    out = web.StreamResponse(status=response.code, headers=response.headers)
    out.headers["Content-Type"] = response.content_type
    out.content_length = sum(map(len, response.pieces))
    await out.prepare(raw)
    batch: list[bytes] = []
    size = 0
    for piece in response.pieces:
        batch.append(piece)
        size += len(piece)
        if size >= _PIECE:
            await out.write(b"".join(batch))
            batch, size = [], 0
    if batch:
        await out.write(b"".join(batch))
    await out.write_eof()
    return out


class _Socket:
    """A WebSocket as a Duplex."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    @property
    def protocol(self) -> str:
        return self._socket.ws_protocol or ""

    async def receive(self) -> bytes | str | None:
        message = await self._socket.receive()
        if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
            data: bytes | str = message.data
            return data
        return None

    async def send(self, message: bytes | str) -> None:
        if isinstance(message, str):
            await self._socket.send_str(message)
        else:
            await self._socket.send_bytes(message)

    async def close(self, code: int = 1000) -> None:
        await self._socket.close(code=code)


async def _upgrade(raw: web.BaseRequest, response: Response) -> web.StreamResponse:
    assert response.upgrade is not None
    socket = web.WebSocketResponse(protocols=response.protocols, max_msg_size=0, compress=False)
    await socket.prepare(raw)
    duplex = _Socket(socket)
    try:
        await response.upgrade(duplex)
    finally:
        await duplex.close()
    return socket
