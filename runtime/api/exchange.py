"""One request and its answer, free of any HTTP library: what the gates and the verbs of the API server work on.

The aiohttp adapter (`server`) and the in-process transport make Requests and send Responses; everything between knows
only these classes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field, frozen

if TYPE_CHECKING:
    from dashpot.model.objects.resource import Resource

Object = dict[str, Any]

PANIC = "This request caused apiserver to panic. Look in the logs for details."
"""What a client is told of a mistake of ours."""
WARNINGS = 100
"""Warnings of one answer; a body can have a mistake in each of its bytes."""


@frozen
class User:
    """Who asks. `extra` is what the authenticator adds (`authentication.kubernetes.io/pod-name`)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(factory=dict)


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
LOOPBACK = User("system:apiserver", ("system:masters", "system:authenticated"))


class Duplex(Protocol):
    """An upgraded connection: WebSocket messages, each text or bytes."""

    @property
    def protocol(self) -> str:
        """The subprotocol that was agreed on; empty if none was offered."""
        ...

    async def receive(self) -> bytes | str | None:
        """The next message; None when the other side has closed."""
        ...

    async def send(self, message: bytes | str) -> None:
        """Sends one message; waits while the other side does not read. ConnectionError if it has gone."""
        ...

    async def close(self, code: int = 1000) -> None:
        """Closes; idempotent."""
        ...


@define(eq=False)
class Request:
    """What arrived. Header names are lower case; `query` keeps order and repetitions, decoded."""

    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    read: Callable[[], Awaitable[bytes]]
    """The whole body, unzipped; StatusError 413 beyond the limit."""
    remote: str = ""
    certificate: bytes | None = None
    """The client certificate, DER, already verified against the client CA."""
    user: User | None = None
    """Set by the in-process transport alone: who asks, without credentials."""
    stream: Callable[[], AsyncIterator[bytes]] | None = None
    """The raw body piece by piece, for proxies."""

    def get(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), default)

    def all(self, name: str) -> list[str]:
        """All values of a query parameter, in order."""
        return [value for key, value in self.query if key == name]

    def header_values(self, name: str) -> list[str]:
        """All values of a header, in order, as far as `headers` keeps several of a name; `name` in lower case."""
        return [value for key, value in self.headers.items() if key.lower() == name]

    def flag(self, name: str) -> bool:
        """A boolean parameter as Go reads it: present and not false or 0."""
        value = next((value for key, value in self.query if key == name), None)
        return value is not None and value.lower() not in ("false", "0")


@define(eq=False)
class Response:
    """What is sent: bytes; or pieces as they come (`chunks`), each flushed at once; or an upgrade to a WebSocket."""

    code: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: MutableMapping[str, str] = field(factory=dict)
    chunks: AsyncIterator[bytes] | None = None
    """An empty piece sends nothing: it asks whether the reader is still there."""
    upgrade: Callable[[Duplex], Awaitable[None]] | None = None
    protocols: tuple[str, ...] = ()
    """Subprotocols that the upgrade understands, best first."""
    pieces: Sequence[bytes] | None = None
    """A body in parts, sent one after another with one Content-Length: a list is its items, joined by nobody."""


@frozen
class Info:
    """What a URL asks for (upstream: RequestInfo). `verb` is get, list, watch, create, update, patch, delete,
    deletecollection for resources, and the HTTP method in lower case for other paths."""

    resource_request: bool
    path: str
    verb: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    rest: str = ""
    """What follows a proxy subresource."""

    @property
    def long_running(self) -> bool:
        """Watches and streams: without a time limit, and not counted in durations."""
        return self.verb == "watch" or self.subresource in ("proxy", "exec", "attach", "portforward", "log")


@define(eq=False)
class Exchange:
    """One request on its way through the gates, with what they found out about it."""

    request: Request
    info: Info
    arrived: float
    """Seconds since 1970."""
    user: User = ANONYMOUS
    impersonator: User | None = None
    """Who really asks, where `user` is impersonated."""
    audit_id: str = ""
    warnings: list[str] = field(factory=list)
    annotations: dict[str, str] = field(factory=dict)
    """Audit annotations."""
    resource: Resource | None = None
    request_object: Object | None = None
    response_object: Object | bytes | None = None
    closers: list[Callable[[], None]] = field(factory=list)
    """Called when the answer was sent: seats are given back."""
    audit: Any = None
    """What the audit trail keeps of it between its stages."""
    settle: Callable[[], None] | None = None
    """Called by a watch that has sent its first state: from now on it costs little, its seats are free."""
    headers: Mapping[str, str] | None = None
    """Headers that a gate wants to see on the answer, whatever it is."""
    marks: dict[str, float] = field(factory=dict)
    """How many seconds each step took, for metrics, audit and traces."""

    def warn(self, text: str) -> None:
        """Adds a warning that kubectl prints; the same text only once, and no more than `WARNINGS` in all."""
        if len(self.warnings) < WARNINGS and text not in self.warnings:
            self.warnings.append(text)


Gate = Callable[[Exchange], Awaitable[Response | None]]
"""One stage: looks at the exchange; an answer ends it, None passes it on, StatusError refuses it."""
