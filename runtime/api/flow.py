"""Flow control (API Priority and Fairness): which level a request belongs to, how many seats it takes, and the wait
for them. It stands after impersonation and before authorization.

In one process on one thread seats bound two things: how many requests wait for store and webhooks at once, and how many
share the processor. A list of many objects takes more seats, and takes turns (`flow_turns`) with all other long work.
Source: k8s.io/apiserver pkg/server/filters/priority-and-fairness.go, pkg/util/flowcontrol, release 1.34.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import Exchange, Info, User
from dashpot.runtime.api.flow_bootstrap import CATCH_ALL, EXEMPT, GROUP, levels, schemas
from dashpot.runtime.api.flow_levels import Level, Pool, Refused, Shape, Ticket, Waiter
from dashpot.runtime.api.flow_rules import Schema, compile_schema, ordered
from dashpot.runtime.api.flow_turns import turn
from dashpot.runtime.api.metrics_cells import Hist
from dashpot.runtime.api.view import View

Object = dict[str, Any]

SEATS = 600
"""Seats of a server (upstream: 400 for reads and 200 for writes, together)."""
PATIENCE_S = 15.0
"""How long a request waits for a seat: a quarter of the time that it has."""
SEATS_MAX = 100
"""What the most expensive list takes (upstream: MaximumListSeatsLimit)."""
OBJECTS_PER_SEAT = 100
SCHEMA_UID, LEVEL_UID = "X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"
TEXT = "Too many requests, please try again later."
_KNOWN_MAX = 10_000
_SECONDS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_READS = frozenset({"get", "list", "watch", "head"})
_PLURALS = ("flowschemas", "prioritylevelconfigurations")


@define(eq=False)
class Lane:
    """What is counted of one schema's requests in its level."""

    schema: str
    level: str
    dispatched: int = 0
    executing: int = 0
    seats: int = 0
    waiting: int = 0
    waiting_seats: int = 0
    no_room: int = 0
    refused: dict[str, int] = field(factory=dict)
    waited: Hist = field(factory=lambda: Hist(_SECONDS))
    gave_up: Hist = field(factory=lambda: Hist(_SECONDS))
    ran: Hist = field(factory=lambda: Hist(_SECONDS))
    watched: Hist = field(factory=lambda: Hist(_SECONDS))
    lengths: Hist = field(factory=lambda: Hist((0, 10, 25, 50, 100, 250, 500, 1000)))
    estimated: Hist = field(factory=lambda: Hist((1, 2, 4, 10)))


@define(eq=False)
class Flow:
    """Where requests of one kind, of one user, go."""

    level: Level
    lane: Lane
    key: str
    headers: Mapping[str, str]


@define(eq=False)
class InFlight:
    """Requests of one kind that run or wait now, and the most since the last look."""

    running: int = 0
    waiting: int = 0
    most_running: int = 0
    most_waiting: int = 0

    def look(self) -> tuple[int, int]:
        """The most that ran and that waited at once since the last look."""
        found = max(self.most_running, self.running), max(self.most_waiting, self.waiting)
        self.most_running, self.most_waiting = self.running, self.waiting
        return found


class FlowControl:
    """The gate. `count` tells how many objects of a group and plural there are (0: not known)."""

    def __init__(
        self,
        view: View,
        count: Callable[[str, str], int] = lambda group, plural: 0,
        *,
        seats: int = SEATS,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._view = view
        self._count = count
        self._patience_s = patience_s
        self.pool = Pool(seats)
        self.lanes: dict[tuple[str, str], Lane] = {}
        self.kinds = {"readOnly": InFlight(), "mutating": InFlight()}
        self._schemas: list[Schema] = []
        self._known: dict[Any, Flow] = {}
        self._versions = (-1, -1)
        self._configure()

    async def gate(self, exchange: Exchange) -> None:
        """Waits for seats; StatusError 429 where there are none. They are given back when the answer was made, those
        of a watch when it has begun (`settled`)."""
        info = exchange.info
        watch = info.verb == "watch"
        if info.long_running and not watch:
            return
        flow = self.find(info, exchange.user)
        exchange.headers = flow.headers
        level, lane = flow.level, flow.lane
        seats = self._seats(exchange, level) if watch or info.verb == "list" else 1
        kind = self.kinds["readOnly" if info.verb in _READS else "mutating"]
        lane.estimated.observe(seats)
        try:
            taken = level.take(flow.key, seats)
            ticket = taken if type(taken) is Ticket else await self._wait(taken, lane, level, kind)  # type: ignore[arg-type]
        except Refused as refused:
            lane.refused[refused.reason] = lane.refused.get(refused.reason, 0) + 1
            raise StatusError("TooManyRequests", TEXT, retry_after=1) from None
        waited = ticket.waited
        lane.waited.observe(waited)
        if waited:
            exchange.marks["flow"] = waited
        self._run(exchange, ticket, lane, kind, lane.watched if watch else lane.ran)
        if seats > 1:
            await turn()

    def _run(self, exchange: Exchange, ticket: Ticket, lane: Lane, kind: InFlight, ran: Hist) -> None:
        seats = ticket.seats
        lane.dispatched += 1
        lane.executing += 1
        lane.seats += seats
        kind.running += 1
        if kind.running > kind.most_running:
            kind.most_running = kind.running

        def ended(seconds: float) -> None:
            lane.executing -= 1
            lane.seats -= seats
            kind.running -= 1
            ran.observe(seconds)

        ticket.ended = ended
        exchange.closers.append(ticket.done)
        if exchange.info.verb == "watch":

            def settled() -> None:
                exchange.settle = None
                if ticket.done in exchange.closers:
                    exchange.closers.remove(ticket.done)
                ticket.done()

            exchange.settle = settled

    async def _wait(self, waiter: Waiter, lane: Lane, level: Level, kind: InFlight) -> Ticket:
        lane.no_room += 1
        lane.waiting += 1
        lane.waiting_seats += waiter.seats
        lane.lengths.observe(len(waiter.queue.waiting))
        kind.waiting += 1
        if kind.waiting > kind.most_waiting:
            kind.most_waiting = kind.waiting
        try:
            return await level.wait(waiter, self._patience_s)
        except Refused:
            lane.gave_up.observe(self._patience_s)
            raise
        finally:
            lane.waiting -= 1
            lane.waiting_seats -= waiter.seats
            kind.waiting -= 1

    # -- what a request costs -----------------------------------------------------------------------------------

    def _seats(self, exchange: Exchange, level: Level) -> int:
        """A seat for each hundred objects that have to be looked at."""
        info, request = exchange.info, exchange.request
        if info.name or not info.resource_request:
            return 1
        if info.verb == "watch" and not request.flag("sendInitialEvents"):
            return 1
        objects = self._count(info.group, info.resource)
        if objects <= OBJECTS_PER_SEAT:
            return 1
        if request.query and info.verb == "list":
            limit = request.get("limit")
            if limit.isdecimal() and 0 < int(limit[:9]) < objects and not request.get("labelSelector"):
                objects = int(limit[:9])
        most = min(SEATS_MAX, objects) if level.shape.exempt else min(SEATS_MAX, level.widest)
        return max(1, min(math.ceil(objects / OBJECTS_PER_SEAT), most))

    # -- where it goes ------------------------------------------------------------------------------------------

    def find(self, info: Info, user: User) -> Flow:
        """The flow that a request of a user belongs to."""
        version = self._view.version
        if (version(GROUP, _PLURALS[0]), version(GROUP, _PLURALS[1])) != self._versions:
            self._configure()
        key = (
            user.name,
            user.groups,
            info.verb,
            info.group,
            info.resource,
            info.subresource,
            info.namespace,
            "" if info.resource_request else info.path,
        )
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            found = self._known[key] = self._find(info, user)
        return found

    def _find(self, info: Info, user: User) -> Flow:
        schema = next((one for one in self._schemas if one.matches(info, user)), self._schemas[-1])
        level = self.pool.levels[schema.level]
        lane = self.lanes.get((schema.name, level.name))
        if lane is None:
            lane = self.lanes[schema.name, level.name] = Lane(schema.name, level.name)
        headers = {SCHEMA_UID: schema.uid, LEVEL_UID: level.uid} if schema.uid else {}
        return Flow(level, lane, f"{schema.name}/{schema.flow(info, user)}", headers)

    def _configure(self) -> None:
        """Reads all objects. What every server must have (exempt, catch-all) is there even if they are not; before the
        first of them is written, all are as they will be."""
        view = self._view
        self._versions = (view.version(GROUP, _PLURALS[0]), view.version(GROUP, _PLURALS[1]))
        self._known.clear()
        named = {obj["metadata"]["name"]: obj for obj in view.list(GROUP, _PLURALS[1])}
        found = {obj["metadata"]["name"]: obj for obj in view.list(GROUP, _PLURALS[0])}
        for default, have in ((levels(), named), (schemas(), found)):
            bare = not have
            for obj in default:
                name = obj["metadata"]["name"]
                if bare or name in (EXEMPT, CATCH_ALL):
                    have.setdefault(name, obj)
        self.pool.share(
            (name, obj["metadata"].get("uid", ""), Shape.of(obj.get("spec") or {})) for name, obj in named.items()
        )
        compiled = (compile_schema(obj) for obj in found.values())
        # a schema whose level does not exist is passed over
        self._schemas = ordered(schema for schema in compiled if schema.level in named)
