"""Calls to webhooks over HTTPS: pooled connections, a time limit, and failures in the words of Kubernetes' client.

Sources: k8s.io/apiserver pkg/util/webhook, k8s.io/client-go rest/request.go, release 1.34; texts of Go's net/http.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp

from dashpot.runtime.api.admit.base import Object
from dashpot.runtime.api.admit.dialler import DialError, Dialler, Target

ANSWER_MAX = 3 << 20
"""Bytes of an answer: as much as a request may have."""
CONNECTIONS_MAX = 100
"""Connections to the webhooks of one configuration."""
IDLE_S = 60.0

STATUS_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    410: "the server could not find the requested resource",
    413: "Request entity too large",
    415: "the body of the request was in an unknown format - accepted media types include: ",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallError(Exception):
    """A call that gave no answer. The text follows `failed calling webhook "n": `; `code` is for metrics."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class HookFaults(Protocol):
    """What the injector does to webhook calls: waits, breaks connections, changes answers."""

    async def before(self, configuration: str, webhook: str, url: str) -> str:
        """Called before each call; may wait. An empty text lets the call go on, another one is why it fails."""
        ...

    def answer(self, configuration: str, webhook: str, body: bytes) -> bytes:
        """The answer as the API server shall see it (another uid, a patch that does not apply)."""
        ...


class Caller:
    """One HTTP client a webhook configuration, made when first needed, in whatever loop asks."""

    def __init__(self, dialler: Dialler, faults: HookFaults | None = None) -> None:
        self._dialler, self._faults = dialler, faults
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def post(self, configuration: str, webhook: str, config: Object, timeout_s: float, body: bytes) -> bytes:
        """The answer's body; CallError if there is none within the time."""
        try:
            target = await self._dialler.resolve(config)
        except DialError as error:
            raise CallError(f"failed to call webhook: {error}") from error
        timeout = f"timeout={timeout_s:g}s"
        shown = f"{target.shown}?{timeout}"
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    answer = await self._exchange(configuration, webhook, target, timeout, body)
                except (aiohttp.ServerDisconnectedError, ConnectionResetError):
                    # A pooled connection that the webhook has closed meanwhile, as it does when it restarts: Go's
                    # client asks again on a new one, too.
                    answer = await self._exchange(configuration, webhook, target, timeout, body)
        except TimeoutError:
            raise CallError(f'failed to call webhook: Post "{shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise CallError(f'failed to call webhook: Post "{shown}": {_go_text(error, target)}') from error
        return answer if self._faults is None else self._faults.answer(configuration, webhook, answer)

    async def _exchange(self, configuration: str, webhook: str, target: Target, timeout: str, body: bytes) -> bytes:
        if self._faults is not None:
            why = await self._faults.before(configuration, webhook, target.url)
            if why:
                raise CallError(f'failed to call webhook: Post "{target.shown}?{timeout}": {why}')
        host = target.shown.partition("://")[2].partition("/")[0].removesuffix(":443")
        async with self._session(configuration).post(
            f"{target.url}?{timeout}",
            data=body,
            headers={"Content-Type": "application/json", "Accept": "application/json, */*", "Host": host},
            ssl=target.context,
            server_hostname=target.server_name,
            allow_redirects=False,
        ) as response:
            answer = await _limited(response)
            if not 200 <= response.status <= 206:
                raise CallError(f"failed to call webhook: {_status_text(response.status, answer)}", response.status)
            return answer

    def _session(self, configuration: str) -> aiohttp.ClientSession:
        found = self._sessions.get(configuration)
        if found is None or found.closed:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, keepalive_timeout=IDLE_S, ttl_dns_cache=30)
            found = self._sessions[configuration] = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"User-Agent": "kube-apiserver-admission"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        return found

    async def keep(self, configurations: set[str]) -> None:
        """Closes the clients of configurations that are no more."""
        for name in [name for name in self._sessions if name not in configurations]:
            await self._sessions.pop(name).close()

    async def close(self) -> None:
        """Closes all clients."""
        await self.keep(set())


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    """The whole body, if it is not too big."""
    pieces, size = [], 0
    async for piece in response.content.iter_chunked(1 << 16):
        size += len(piece)
        if size > ANSWER_MAX:
            raise CallError(f"failed to call webhook: http: response body too large (more than {ANSWER_MAX} bytes)")
        pieces.append(piece)
    return b"".join(pieces)


def _status_text(code: int, body: bytes) -> str:
    text = STATUS_TEXTS.get(code)
    if text is not None:
        return text
    if code >= 500:
        said = body[:2048].decode("utf-8", "replace").strip() or "unknown"
        said = said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'an error on the server ("{said}") has prevented the request from succeeding'
    return f"the server responded with the status code {code} but did not return more information"


def _go_text(error: BaseException, target: Target) -> str:
    """A failed connection as Go would put it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return _tls_text(error, target)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        host = f"[{error.host}]" if ":" in error.host else error.host
        return f"dial tcp {host}:{error.port}: {_connect_text(error.os_error)}"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "EOF"
    if isinstance(error, ConnectionResetError | aiohttp.ClientOSError):
        return "read: connection reset by peer"
    if isinstance(error, aiohttp.InvalidURL):
        return "unsupported protocol scheme"
    return str(error) or type(error).__name__


def _connect_text(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    if isinstance(error, ConnectionResetError):
        return "connect: connection reset by peer"
    return f"connect: {(error.strerror or str(error)).lower()}"


def _tls_text(error: BaseException, target: Target) -> str:
    reason: BaseException = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorSSLError):
        reason = error.os_error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_x509_text(reason, target)}"
    if isinstance(reason, ssl.SSLError) and reason.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    return f"remote error: tls: {reason}"


def _x509_text(error: ssl.SSLCertVerificationError, target: Target) -> str:
    message = error.verify_message.lower()
    if "expired" in message:
        return "certificate has expired or is not yet valid"
    if "hostname mismatch" in message or "ip address mismatch" in message:
        return f"certificate is not valid for any names, but wanted to match {target.server_name}"
    return "certificate signed by unknown authority"


Post = Callable[[str, str, Object, float, bytes], Awaitable[bytes]]
"""`Caller.post`: configuration, webhook, clientConfig, seconds, body."""
