"""Requests passed on to pods, services and nodes: any verb, streaming both ways, WebSockets.

Who asks is never told to the target. Source: k8s.io/apimachinery pkg/util/proxy (upgradeaware.go, transport.go),
release 1.34; RFC 9110 7.6.1.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from yarl import URL

from dashpot.runtime.api.exchange import Duplex, Request, Response
from dashpot.runtime.api.streams.pipe import IDLE_S
from dashpot.runtime.api.streams.targets import Target, unavailable

Dial = Callable[[str, int], Awaitable[socket.socket]]
"""A connected socket that does not block, to an address and port as the cluster knows them; OSError."""

DIAL_S = 30.0
CONNECTIONS_MAX = 1000
_HOP = frozenset(
    "connection proxy-connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding "
    "upgrade".split()
)
_SECRET = ("authorization", "impersonate-", "x-remote-", "x-forwarded-", "sec-websocket-", "host")
"""Beginnings of header names that are ours, and nobody else's business."""


async def connect(host: str, port: int) -> socket.socket:
    """Dials by the network of this machine."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        await loop.sock_connect(made, (host, port))
    except BaseException:
        made.close()
        raise
    return made


class _Connector(aiohttp.BaseConnector):
    """aiohttp's connections over sockets that `Dial` makes. Certificates of targets are not checked, as upstream."""

    def __init__(self, dial: Dial) -> None:
        super().__init__(force_close=True, limit=CONNECTIONS_MAX)
        self.dial = dial
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> ResponseHandler:
        host, port = req.url.raw_host, req.url.port
        try:
            async with asyncio.timeout(DIAL_S):
                made = await self.dial(host, port)
                secure = req.url.scheme in ("https", "wss")
                _, protocol = await self._loop.create_connection(
                    self._factory,
                    sock=made,
                    ssl=self._context if secure else None,
                    server_hostname=host if secure else None,
                )
        except TimeoutError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, OSError(0, "i/o timeout")) from error
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        return protocol


class Proxy:
    """Passes requests on. `dial` may be replaced at any time."""

    def __init__(self, dial: Dial = connect) -> None:
        self.dial = dial
        self._session: aiohttp.ClientSession | None = None

    async def _dialled(self, host: str, port: int) -> socket.socket:
        return await self.dial(host, port)

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._dialled),
                timeout=aiohttp.ClientTimeout(total=None, sock_read=IDLE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session

    async def close(self) -> None:
        """Ends all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def serve(self, request: Request, target: Target, before: str, rest: str, upgrade: bool) -> Response:
        """The target's answer; StatusError 503 if it cannot be reached.

        `before` is the part of the path that stands for the target, `/api/v1/…/proxy`; `rest` what follows its slash.
        """
        if not rest and not request.path.endswith("/") and request.method in ("GET", "HEAD"):
            # relative links of the page would else lose their last part (upstream issue 4958)
            return Response(301, headers={"Location": request.path + "/" + asked(request)})
        url = URL(f"{target.scheme}://{target.netloc}/{rest}{asked(request)}", encoded=True)
        headers = outgoing(request, target)
        try:
            if upgrade:
                return await self._upgraded(request, url, headers)
            return await self._plain(request, url, headers, target, before)
        except aiohttp.ClientConnectorError as error:
            why = _told(error.os_error)
            raise unavailable(f"error trying to reach service: dial tcp {target.netloc}: {why}") from None
        except (aiohttp.ClientError, ConnectionError, TimeoutError, ValueError) as error:
            raise unavailable(f"error trying to reach service: {str(error) or 'EOF'}") from None

    async def _plain(
        self, request: Request, url: URL, headers: CIMultiDict[str], target: Target, before: str
    ) -> Response:
        has_body = _header(request, "content-length") not in ("", "0") or _header(request, "transfer-encoding")
        body = request.stream() if has_body and request.stream is not None else None
        answer = await self._client().request(
            request.method, url, headers=headers, data=body, allow_redirects=False, chunked=None
        )
        found: CIMultiDict[str] = CIMultiDict(
            (name, value) for name, value in answer.headers.items() if name.lower() not in _dropped(answer.headers)
        )
        location = found.get("Location")
        if location is not None and (answer.status == 201 or 300 <= answer.status < 400):
            found["Location"] = relocated(location, target, before)
        kind = found.get("Content-Type", "")
        return Response(answer.status, content_type=kind, headers=found, chunks=_body(answer))

    async def _upgraded(self, request: Request, url: URL, headers: CIMultiDict[str]) -> Response:
        offered = [part.strip() for part in _header(request, "sec-websocket-protocol").split(",") if part.strip()]
        try:
            socket = await self._client().ws_connect(url, headers=headers, protocols=offered, max_msg_size=0)
        except aiohttp.WSServerHandshakeError as error:
            return Response(error.status if error.status >= 400 else 502, error.message.encode(), "text/plain")

        async def bridge(duplex: Duplex) -> None:
            try:
                await _bridge(duplex, socket)
            finally:
                await socket.close()

        return Response(101, upgrade=bridge, protocols=(socket.protocol,) if socket.protocol else ())


async def _body(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError) as error:
        # the head is long sent: cutting the connection is the one way to say that the rest is missing
        raise ConnectionResetError from error
    finally:
        answer.close()


async def _bridge(duplex: Duplex, socket: aiohttp.ClientWebSocketResponse) -> None:
    async def outward() -> None:
        while (message := await duplex.receive()) is not None:
            if isinstance(message, str):
                await socket.send_str(message)
            else:
                await socket.send_bytes(message)

    async def inward() -> None:
        async for message in socket:
            if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                await duplex.send(message.data)

    tasks = [asyncio.ensure_future(outward()), asyncio.ensure_future(inward())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _header(request: Request, name: str) -> str:
    return request.headers.get(name, "")


def _dropped(headers: Any) -> frozenset[str]:
    """Headers of one hop: those that always are, and those that `Connection` names."""
    more = ",".join(headers.getall("Connection", ())) if hasattr(headers, "getall") else headers.get("connection", "")
    return _HOP | {part.strip().lower() for part in more.split(",") if part.strip()}


def outgoing(request: Request, target: Target) -> CIMultiDict[str]:
    """The headers that the target sees: the client's, without those of the hop and without who it is."""
    dropped = _dropped(request.headers)
    found: CIMultiDict[str] = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in dropped and not name.lower().startswith(_SECRET)
    )
    host = _header(request, "host") or target.netloc
    found["Host"] = host
    found["X-Forwarded-Host"] = host
    found["X-Forwarded-Proto"] = "https"
    found["X-Forwarded-Uri"] = request.path
    if request.remote:
        found["X-Forwarded-For"] = request.remote
    return found


def asked(request: Request) -> str:
    """The query with its question mark; empty if there is none."""
    return "?" + urlencode(list(request.query), quote_via=quote) if request.query else ""


def relocated(location: str, target: Target, before: str) -> str:
    """A redirect of the target as the client must follow it: through the proxy again, unless it leads elsewhere."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if (parts.netloc and parts.netloc not in (target.netloc, target.host)) or not parts.path.startswith("/"):
        return location
    path = parts.path if parts.path.startswith(before + "/") else before + parts.path
    return urlunsplit(("", "", path, parts.query, parts.fragment))


def _told(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    return f"connect: {(error.strerror or str(error)).lower()}"
