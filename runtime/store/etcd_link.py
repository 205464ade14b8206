"""Calls to the members of an etcd cluster: one at a time, the next one where it does not answer.

A write whose answer is lost may have been done: it is never sent again. A read is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
from attrs import define, frozen

from dashpot.runtime.store import etcd_messages as m
from dashpot.runtime.store.base import (
    Compacted,
    Corrupt,
    FutureRevision,
    NoLease,
    NoSpace,
    StoreError,
    TooLarge,
    Unavailable,
)

TIMEOUT_S = 5.0
"""How long a call may last by default; a member without a leader gives up after 7 s itself."""

MESSAGE = 1 << 30
"""Bytes of the largest answer."""

_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE),
    ("grpc.max_send_message_length", 16 << 20),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # else gRPC stops after two while a watch is quiet, and never notices that its connection is dead
    ("grpc.http2.max_pings_without_data", 0),
    # what ends a connection that does not answer one; gRPC's own is a minute
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]

TIMED_OUT = "etcdserver: request timed out"
"""What clients of an API server read where etcd says nothing itself: they know this text and try again."""

CLOSED = "the store was closed meanwhile"

_LEADER = ("hasleader", "true")
"""Ends a stream when its member loses its leader, where it else would stay silent (kubernetes#89488)."""

_NEVER_SENT = ("failed to connect", "connection refused", "name resolution", "dns resolution", "no leader")
"""Parts of messages of failures before the request could have been done."""


@frozen
class Access:
    """How members are reached: certificates for TLS (None: plain text), and a user."""

    credentials: Any = None
    user: str = ""
    password: str = ""
    timeout: float = TIMEOUT_S


def access_from(options: Mapping[str, str]) -> Access:
    """The options of a target (see open.OPTIONS); reads the files they name. Raises StoreError."""

    def read(name: str) -> bytes | None:
        path = options.get(name)
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise StoreError(f"cannot read '{path}': {error.strerror or error}") from None

    credentials = None
    if "ca" in options or "cert" in options:
        try:
            credentials = grpc.ssl_channel_credentials(read("ca"), read("key"), read("cert"))
        except ValueError as error:
            raise StoreError(f"the certificates for etcd are not complete: {error}") from None
    try:
        timeout = float(options.get("timeout", TIMEOUT_S))
    except ValueError:
        timeout = 0
    if not 0 < timeout <= 600:
        raise StoreError(f"'{options['timeout']}' is no time-out: write seconds, such as timeout=5")
    password = (read("password-file") or b"").decode("utf-8", "replace").strip()
    return Access(credentials, options.get("user", ""), password, timeout)


@define(eq=False)
class Member:
    """One endpoint and the methods of its channel."""

    endpoint: str
    channel: Any
    methods: dict[str, Callable[..., Any]]


def meant() -> bool:
    """Whether it is this task that was cancelled: gRPC raises CancelledError also where `close` ended only the call."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def telling(endpoint: str) -> Iterator[None]:
    """Failures of a call that writes nothing, as ours."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise told_of(error.code(), error.details() or "", endpoint, False) from None
    except asyncio.CancelledError:
        if meant():
            raise
        raise Unavailable(CLOSED) from None


class Link:
    """The channels to all members; `call` goes to the one that answered last."""

    def __init__(self, endpoints: Sequence[str], access: Access) -> None:
        self.access = access
        self.members = [self._member(endpoint) for endpoint in endpoints]
        self._current = 0
        self._token = ""
        self._streams: set[Any] = set()

    def _member(self, endpoint: str) -> Member:
        credentials = self.access.credentials
        if credentials is None:
            channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        else:
            channel = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        methods = {}
        for name, (service, request, response) in m.METHODS.items():
            shape = {"Watch": "stream_stream", "LeaseKeepAlive": "stream_stream", "Snapshot": "unary_stream"}
            make = getattr(channel, shape.get(name, "unary_unary"))
            methods[name] = make(
                f"/etcdserverpb.{service}/{name}",
                request_serializer=m.message(request).SerializeToString,
                response_deserializer=m.message(response).FromString,
            )
        return Member(endpoint, channel, methods)

    @property
    def current(self) -> Member:
        """The member that calls go to."""
        return self.members[self._current]

    def leave(self, member: Member) -> None:
        """This one did not answer: the next call goes to another."""
        if member is self.current:
            self._current = (self._current + 1) % len(self.members)

    def metadata(self) -> list[tuple[str, str]]:
        """What goes with each call."""
        return [_LEADER, ("token", self._token)] if self._token else [_LEADER]

    async def call(self, method: str, request: Any, *, write: bool = False, timeout: float = 0) -> Any:
        """One request and its answer. Raises StoreError; Unavailable.maybe where a write may have been done."""
        if self.access.user and not self._token:
            await self._authenticate()
        renewed = False
        tries = len(self.members)
        while True:
            member = self.current
            try:
                return await member.methods[method](
                    request, timeout=timeout or self.access.timeout, metadata=self.metadata()
                )
            except grpc.aio.AioRpcError as error:
                code, details = error.code(), error.details() or ""
                if code == grpc.StatusCode.UNAUTHENTICATED and self.access.user and not renewed:
                    renewed = True
                    await self._authenticate()
                    continue
                told = told_of(code, details, member.endpoint, write)
                if isinstance(told, Unavailable):
                    self.leave(member)
                    tries -= 1
                    if tries and not told.maybe:
                        continue
                raise told from None
            except asyncio.CancelledError:
                if meant():
                    raise
                raise Unavailable(CLOSED, maybe=write) from None

    async def ask(self, member: Member, method: str, request: Any, timeout: float = 0) -> Any:
        """One request to one member, such as its status."""
        if self.access.user and not self._token:
            await self._authenticate()
        with telling(member.endpoint):
            return await member.methods[method](
                request, timeout=timeout or self.access.timeout, metadata=self.metadata()[1:]
            )

    async def stream(self, method: str, *request: Any) -> tuple[Member, Any]:
        """Opens a stream at the member that answers; its failures are AioRpcError, see `told_of`."""
        if self.access.user and not self._token:
            await self._authenticate()
        member = self.current
        call = member.methods[method](*request, metadata=self.metadata())
        self._streams.add(call)
        call.add_done_callback(self._streams.discard)
        return member, call

    async def _authenticate(self) -> None:
        self._token = ""
        request = m.AuthenticateRequest(name=self.access.user, password=self.access.password)
        tries = len(self.members)
        while not self._token:
            member = self.current
            try:
                answer = await member.methods["Authenticate"](request, timeout=self.access.timeout)
                self._token = answer.token
            except grpc.aio.AioRpcError as error:
                told = told_of(error.code(), error.details() or "", member.endpoint, False)
                self.leave(member)
                tries -= 1
                if not tries or not isinstance(told, Unavailable):
                    raise told from None

    async def close(self) -> None:
        """Closes all channels, when the streams have ended: gRPC must not tell a loop that is closed."""
        for call in list(self._streams):
            call.cancel()
            await call.code()
        for member in self.members:
            await member.channel.close()


def told_of(code: Any, details: str, endpoint: str, write: bool) -> StoreError:
    """A failure of gRPC or etcd as ours. The texts are those of etcd's api/v3rpc/rpctypes."""
    if "required revision has been compacted" in details:
        return Compacted(0)
    if "future revision" in details:
        return FutureRevision(details)
    if "database space exceeded" in details:
        return NoSpace()
    if "request is too large" in details:
        return TooLarge()
    if "requested lease not found" in details:
        return NoLease(details)
    if "corrupt cluster" in details or code == grpc.StatusCode.DATA_LOSS:
        return Corrupt(f"etcd at {endpoint}: {details}")
    unsure = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
    busy = code == grpc.StatusCode.RESOURCE_EXHAUSTED and "too many requests" in details
    lost = code in unsure or "request timed out" in details or "leader changed" in details
    if lost or busy or code in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL):
        never = busy or any(part in details.lower() for part in _NEVER_SENT)
        text = f"etcd at {endpoint} does not answer: {details or code.name}"
        client = details if details.startswith("etcdserver: ") else TIMED_OUT
        return Unavailable(text, maybe=write and not never, client=client)
    return StoreError(f"etcd at {endpoint}: {details or code.name}")
