"""The audit trail of each request: events at its stages, made as the policy says, handed to the sinks.

Source: k8s.io/apiserver pkg/audit, pkg/endpoints/filters/{audit,authn_audit}.go, release 1.34.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define

from dashpot.runtime.api.audit import events
from dashpot.runtime.api.audit.policy import (
    COMPLETE,
    LEVELS,
    NONE,
    PANIC,
    RECEIVED,
    REQUEST,
    REQUEST_RESPONSE,
    STARTED,
    Policy,
    Verdict,
)
from dashpot.runtime.api.audit.redact import shown
from dashpot.runtime.api.exchange import Exchange, Request, Response, User
from dashpot.runtime.clock import Clock

Object = dict[str, Any]

_ID_LIMIT = 64
_NOBODY = User("")
_PANICKED = {
    "metadata": {},
    "status": "Failure",
    "message": "APIServer panic'd",
    "reason": "InternalError",
    "code": 500,
}


class Sink(Protocol):
    """Takes finished events, each one line of JSON without its end."""

    plugin: str
    dropped: int
    """Events lost so far."""

    def write(self, event: bytes) -> None:
        """Keeps one event; never waits."""
        ...

    async def close(self) -> None:
        """Writes what is left."""
        ...


@define(eq=False)
class Record:
    """What is known of a request between its stages."""

    verdict: Verdict
    body: bytes | None = None
    """The body as it came, where the policy wants it."""
    failed: str = ""
    """Why nobody knows who asks."""


_NOTHING = Record(Verdict(NONE))


class Trail:
    """The audit stage of the pipeline. `events` and `levels` count for the metrics."""

    def __init__(self, policy: Policy, sinks: Sequence[Sink], clock: Clock, chance: random.Random) -> None:
        self._policy = policy
        self._sinks = sinks
        self._clock = clock
        self._chance = chance
        self._users = events.Users()
        self._stamps = events.Stamps()
        self._arrivals = events.Stamps()
        self.events = 0
        self.levels: dict[str, int] = dict.fromkeys(LEVELS, 0)

    async def identify(self, exchange: Exchange) -> None:
        """Before everything: the id by which answer and events are found, the client's own or a new one."""
        given = exchange.request.headers.get("audit-id", "")
        if given and len(given) <= _ID_LIMIT and given.isascii() and given.isprintable():
            exchange.audit_id = given
        else:
            exchange.audit_id = self._id()

    async def gate(self, exchange: Exchange) -> None:
        """After authentication: decides how much is written, and writes that the request came."""
        record = self._begin(exchange, exchange.user)
        verdict = record.verdict
        if verdict.level == NONE:
            return
        if RECEIVED not in verdict.omitted:
            self._emit(exchange, record, RECEIVED, None)
        if verdict.level >= REQUEST:
            request = exchange.request
            request.read = _keeping(request.read, record)

    def _begin(self, exchange: Exchange, user: User) -> Record:
        verdict = self._policy.verdict(exchange, user)
        self.levels[LEVELS[verdict.level]] += 1
        record = _NOTHING if verdict.level == NONE or not self._sinks else Record(verdict)
        exchange.audit = record
        return record

    def _id(self) -> str:
        """A UUID, version 4."""
        text = f"{self._chance.getrandbits(128) & ~(0xF000C << 60) | (0x40008 << 60):032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def errors(self) -> Mapping[str, int]:
        """Events lost, by sink."""
        return {sink.plugin: sink.dropped for sink in self._sinks}

    async def close(self) -> None:
        """Writes what is left."""
        for sink in self._sinks:
            await sink.close()

    # -- the stages ---------------------------------------------------------------------------------------------

    def started(self, exchange: Exchange, response: Response) -> None:
        """The head of a long-running answer is about to be sent."""
        self._stage(exchange, STARTED, response)

    def ended(self, exchange: Exchange, response: Response) -> None:
        """The answer was made, or its stream has ended."""
        self._stage(exchange, COMPLETE, response)

    def failed(self, exchange: Exchange) -> None:
        """A mistake of the server's: the last that is written of this request."""
        self._stage(exchange, PANIC, Response(500))
        exchange.audit = _NOTHING

    def _stage(self, exchange: Exchange, stage: str, response: Response) -> None:
        record: Record | None = exchange.audit
        if record is None:
            # refused before this gate: that somebody came without a valid credential is written down all the same
            record = self._begin(exchange, _NOBODY)
            if record is not _NOTHING and response.code == 401:
                record.failed = _attempted(exchange.request)
                stage = STARTED  # upstream's stage of it
        if record is not _NOTHING and stage not in record.verdict.omitted:
            self._emit(exchange, record, stage, response)

    def _emit(self, exchange: Exchange, record: Record, stage: str, response: Response | None) -> None:
        verdict, request, info = record.verdict, exchange.request, exchange.info
        real = exchange.impersonator
        event = events.Event(
            "Event",
            "audit.k8s.io/v1",
            LEVELS[verdict.level],
            exchange.audit_id,
            stage,
            events.uri(request),
            info.verb,
            self._users.raw(_NOBODY if record.failed else real or exchange.user),
            self._users.raw(exchange.user) if real is not None else None,
            events.sources(request),
            events.agent(request),
            events.reference(exchange) if info.resource_request else None,
        )
        if response is not None:
            self._answered(event, exchange, record, stage, response)
            if exchange.annotations:
                event.annotations = exchange.annotations
        event.received = self._arrivals.text(exchange.arrived)
        event.at = self._stamps.text(self._clock.now())
        line = events.encode(event)
        self.events += 1
        for sink in self._sinks:
            sink.write(line)

    def _answered(
        self, event: events.Event, exchange: Exchange, record: Record, stage: str, response: Response
    ) -> None:
        """Status and bodies."""
        verdict = record.verdict
        if stage == PANIC:
            event.response_status = _PANICKED
        else:
            event.response_status = events.status(response)
        if record.failed:
            event.response_status = {**event.response_status, "message": record.failed}
        if verdict.level < REQUEST:
            return
        info = exchange.info
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        body = events.read_json(record.body or b"")
        if body is None:
            body = exchange.request_object
        if body is not None:
            event.request_object = shown(body, resource, verdict.managed_fields)
        if verdict.level >= REQUEST_RESPONSE and stage == COMPLETE and response.code < 400:
            answer = events.answer(exchange, response)
            if answer is not None:
                event.response_object = shown(answer, resource, verdict.managed_fields)


def _keeping(read: Callable[[], Awaitable[bytes]], record: Record) -> Callable[[], Awaitable[bytes]]:
    """Reads a body and remembers it: admission changes the object that is made of it."""

    async def reading() -> bytes:
        record.body = await read()
        return record.body

    return reading


def _attempted(request: Request) -> str:
    """Which credentials there were."""
    methods = []
    scheme, _, rest = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "basic" and rest:
        methods.append("basic")
    if scheme.lower() == "bearer" and rest:
        methods.append("bearer")
    if request.certificate is not None:
        methods.append("x509")
    if not methods:
        return "Authentication failed, no credentials provided"
    return f"Authentication failed, attempted: {', '.join(methods)}"
