"""The transport over HTTP/1.1 and TLS, by aiohttp: kept connections, proxies, credentials that renew themselves."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from urllib.parse import urlencode

import aiohttp

from dashpot.runtime.client.access import Access, KubeconfigError, tls_context
from dashpot.runtime.client.credentials import Credentials, Shown
from dashpot.runtime.client.proxies import proxy_for
from dashpot.runtime.client.rest import TIMEOUT_S, USER_AGENT, Client
from dashpot.runtime.client.tokenbucket import TokenBucket
from dashpot.runtime.client.transport import Answer, Call, NoCredentials, TransportError, TransportTimeout
from dashpot.runtime.clock import Clock, SystemClock

CONNECTIONS = 768
"""Open at once; later requests wait. A watch holds one, and who follows every resource has as many as there are; below
the 1,024 files that a process may have open by default."""
CONNECT_S = 30.0
CHUNK = 1 << 18
PROBES = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""After how many seconds of silence a stream's connection is probed, how often, and how many times."""


class HttpTransport:
    """One user's connections to one server. `environment` says the proxies, and is what credential plugins inherit."""

    def __init__(
        self,
        access: Access,
        environment: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        terminal: bool = False,
        connections: int = CONNECTIONS,
    ) -> None:
        self._access = access
        self._proxy = access.proxy or proxy_for(access.server, environment or {})
        self._credentials = Credentials(access.login, clock or SystemClock(), environment, terminal=terminal)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._pair: tuple[bytes, bytes] = (b"", b"")
        self._former: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"HttpTransport({self._access.server})"

    async def send(self, call: Call) -> Answer:
        """Sends a request, a second time where the credentials turn out to be old; TransportError."""
        shown = await self._shown()
        answer = await self._send(call, shown)
        if answer.code != 401 or not self._credentials.refused(shown):
            return answer
        fresh = await self._shown()
        if fresh == shown:
            return answer
        await answer.close()
        return await self._send(call, fresh)

    async def _shown(self) -> Shown:
        try:
            return await self._credentials.current()
        except KubeconfigError as error:
            raise NoCredentials(str(error)) from None

    async def close(self) -> None:
        """Ends all connections; idempotent."""
        sessions = (self._session, self._former)
        self._session = self._former = None
        for session in sessions:
            if session is not None:
                await session.close()

    async def _open(self, shown: Shown) -> aiohttp.ClientSession:
        """The session whose connections show the certificate."""
        pair = (shown.certificate, shown.key)
        if self._session is not None and pair == self._pair:
            return self._session
        context = tls_context(self._access, *pair)
        # requests under way end on the old connections, until the certificate changes once more
        outlived, self._former = self._former, self._session
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=context if context is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            read_bufsize=CHUNK,
            trust_env=False,
        )
        self._pair = pair
        if outlived is not None:
            await outlived.close()
        return self._session

    async def _send(self, call: Call, shown: Shown) -> Answer:
        try:
            session = await self._open(shown)
        except KubeconfigError as error:
            raise NoCredentials(str(error)) from None
        headers = [("accept-encoding", "gzip" if self._access.compression else "identity"), *call.headers]
        if shown.authorization:
            headers.append(("authorization", shown.authorization))
        server = self._access.server
        url = f"{server.rstrip('/')}{call.path}" if call.path else server
        if call.query:
            url = f"{url}?{urlencode(call.query)}"
        try:
            async with asyncio.timeout(call.timeout or None):
                response = await session.request(
                    call.method,
                    url,
                    headers=headers,
                    data=call.body or None,
                    allow_redirects=False,
                    proxy=self._proxy or None,
                    server_hostname=self._access.server_name or None,
                    skip_auto_headers=("user-agent", "content-type"),
                )
        except TimeoutError:
            raise TransportTimeout(f"{self._access.server}: no answer within {call.timeout or CONNECT_S:g}s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failed(error) from None
        if response.content_length is None:
            _probe(response)
        told = {name.lower(): value for name, value in response.headers.items()}
        warned = response.headers.getall("Warning", [])
        if warned:
            told["warning"] = ", ".join(warned)
        return Answer(response.status, told, self._chunks(response), _closing(response))

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for part in response.content.iter_any():
                yield part
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(f"{self._access.server}: the answer broke off: {_told(error)}") from None

    def _failed(self, error: Exception) -> TransportError:
        server = self._access.server
        if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
            why = getattr(error, "certificate_error", error)
            reason = getattr(why, "verify_message", "") or "it is not trusted"
            return TransportError(
                f"{server}: cannot be reached: the server's certificate is refused: {reason}: is "
                "certificate-authority the CA of this cluster, and tls-server-name a name in the certificate?",
                sent=False,
            )
        if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
            return TransportError(f"{server}: its proxy does not connect: {_told(error)}", sent=False)
        if isinstance(error, aiohttp.ClientConnectorError):
            return TransportError(f"{server}: cannot be reached: {_told(error)}", sent=False)
        return TransportError(f"{server}: no answer: {_told(error)}")


def _probe(response: aiohttp.ClientResponse) -> None:
    """Lets the kernel find out within a minute that the peer of an idle stream is gone (upstream: HTTP/2 pings)."""
    transport = response.connection.transport if response.connection is not None else None
    made = transport.get_extra_info("socket") if transport is not None else None
    if made is None:
        return
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in PROBES:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)


def _told(error: Exception) -> str:
    """A failure in words, without anything that was sent."""
    inner = getattr(error, "os_error", None) or error
    return getattr(inner, "strerror", None) or type(inner).__name__


def _closing(response: aiohttp.ClientResponse) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        # what was read to its end goes back to the pool; what was not cannot be used again
        if response.content.at_eof():
            response.release()
        else:
            connection = response.connection
            if connection is not None and connection.transport is not None:
                # TLS would wait for the server's farewell, perhaps for longer than the loop lives
                connection.transport.abort()
            response.close()

    return close


def connect(
    access: Access,
    environment: Mapping[str, str] | None = None,
    *,
    user_agent: str = USER_AGENT,
    limiter: TokenBucket | None = None,
    timeout: float = TIMEOUT_S,
    terminal: bool = False,
) -> Client:
    """A client of the cluster that a kubeconfig or a pod's files name; close it in the end. KubeconfigError for
    certificates that cannot be used."""
    tls_context(access, access.login.certificate, access.login.key)
    transport = HttpTransport(access, environment, terminal=terminal)
    return Client(
        transport,
        access.namespace,
        user_agent,
        limiter,
        timeout,
        headers=access.acting.headers(),
    )
