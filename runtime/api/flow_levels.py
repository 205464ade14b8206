"""Priority levels: seats for what runs, fair queues for what waits.

A request takes as many seats as it is estimated to cost, and gives them back when it is answered. Where none are free
it waits in one of the level's queues: a flow is dealt a hand of queues and takes the shortest, so that a flood fills
its own hand and no more. Queues are served in the order of what their flows have used so far (seats times seconds).

A level may use more than its share while others leave theirs, but never so much that one of them could not have the
part that it does not lend. Source: KEP-1040; k8s.io/apiserver pkg/util/flowcontrol/fairqueuing, release 1.34.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from attrs import define, field, frozen

Object = dict[str, Any]

GUESS_S = 0.003
"""What a request is charged when it begins; corrected when it ends."""
WIDEST = 0.15
"""The part of its level's seats that one request may take at most."""


@frozen
class Shape:
    """What a PriorityLevelConfiguration says. `queues` 0: what finds no seat is refused."""

    exempt: bool = False
    shares: int = 30
    lendable: int = 0
    """Percent of the seats that others may use."""
    borrowing: int | None = None
    """Percent of the own seats that may be borrowed beyond them; None: all there are."""
    queues: int = 0
    hand: int = 1
    length: int = 50

    @classmethod
    def of(cls, spec: Object) -> Shape:
        """Reads a spec; what is left out has upstream's defaults."""
        if spec.get("type") == "Exempt":
            exempt = spec.get("exempt") or {}
            return cls(True, exempt.get("nominalConcurrencyShares") or 0, exempt.get("lendablePercent") or 0)
        limited = spec.get("limited") or {}
        shares = limited.get("nominalConcurrencyShares")
        response = limited.get("limitResponse") or {}
        queuing = response.get("queuing") or {}
        queued = response.get("type") == "Queue"
        return cls(
            False,
            30 if shares is None else max(0, int(shares)),
            min(100, max(0, limited.get("lendablePercent") or 0)),
            limited.get("borrowingLimitPercent"),
            min(max(1, queuing.get("queues") or 64), 10_000) if queued else 0,
            max(1, queuing.get("handSize") or 8),
            max(1, queuing.get("queueLengthLimit") or 50),
        )


class Refused(Exception):
    """No seat: `reason` is queue-full, concurrency-limit or time-out, as in upstream's metrics."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@define(eq=False)
class Waiter:
    """A request in a queue."""

    queue: Queue
    seats: int
    turn: asyncio.Future[None]


@define(eq=False)
class Queue:
    """Requests of some flows of a level, first come first served."""

    waiting: deque[Waiter] = field(factory=deque)
    seats: int = 0
    """Seats that its requests use or wait for."""
    start: float = 0.0
    """How much it was served so far, in seat seconds: the least served goes first."""


@define(eq=False)
class Ticket:
    """Seats in use; `done` gives them back, once."""

    level: Level
    queue: Queue | None
    seats: int
    began: float
    waited: float = 0.0
    ended: Callable[[float], None] | None = None
    """Told how many seconds the seats were used."""

    def done(self) -> None:
        """Gives the seats back; idempotent."""
        seats, self.seats = self.seats, 0
        if seats:
            used = perf_counter() - self.began
            self.level.give_back(self.queue, seats, used)
            if self.ended is not None:
                self.ended(used)


@define(eq=False)
class Level:
    """One priority level of a server."""

    name: str
    uid: str
    shape: Shape
    pool: Pool
    nominal: int = 0
    used: int = 0
    waiting_seats: int = 0
    executing: int = 0
    most: int = 0
    """The most seats that were wanted at once since the last look (metrics)."""
    _queues: list[Queue] = field(factory=list)
    _busy: dict[Queue, None] = field(factory=dict)
    """Queues in which somebody waits."""
    _clock: float = 0.0
    _hands: dict[str, tuple[int, ...]] = field(factory=dict)

    def configure(self, uid: str, shape: Shape, nominal: int) -> None:
        """Takes a new configuration; who waits keeps the place in line."""
        self.uid, self.shape, self.nominal = uid, shape, nominal
        if len(self._queues) != shape.queues:
            self._queues = [*self._queues[: shape.queues]]
            self._queues.extend(Queue() for _ in range(shape.queues - len(self._queues)))
            self._hands.clear()
        self.dispatch()

    @property
    def lower(self) -> int:
        """Seats that others never take."""
        return self.nominal - round(self.nominal * self.shape.lendable / 100)

    @property
    def upper(self) -> int:
        """Seats that it never exceeds."""
        borrowing = self.shape.borrowing
        if borrowing is None:
            return max(self.pool.total, self.nominal, 1)
        return max(self.nominal + round(self.nominal * borrowing / 100), 1)

    @property
    def clock(self) -> float:
        """How much was served to the queue that was served least, in seat seconds."""
        return self._clock

    @property
    def widest(self) -> int:
        """The most seats that one request takes."""
        return max(1, math.ceil(self.nominal * WIDEST))

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(len(queue.waiting) for queue in self._busy)

    def take(self, flow: str, seats: int) -> Ticket | Waiter:
        """Seats at once, or a place in a queue; Refused."""
        if self.shape.exempt:
            self.used += seats
            self.executing += 1
            return Ticket(self, None, seats, perf_counter())
        queue = self._queue(flow) if self._queues else None
        if not self._busy and self._fits(seats):
            return self._begin(queue, seats)
        if queue is None:
            raise Refused("concurrency-limit")
        if len(queue.waiting) >= self.shape.length:
            raise Refused("queue-full")
        waiter = Waiter(queue, seats, asyncio.get_running_loop().create_future())
        if not queue.waiting:
            if not queue.seats:
                queue.start = max(queue.start, self._clock)
            self._busy[queue] = None
        queue.waiting.append(waiter)
        queue.seats += seats
        self.waiting_seats += seats
        self.pool.hungry.add(self)
        self._seen()
        return waiter

    async def wait(self, waiter: Waiter, patience_s: float) -> Ticket:
        """The ticket of who waited; Refused if it took too long."""
        began = perf_counter()
        turn, queue = waiter.turn, waiter.queue
        try:
            async with asyncio.timeout(patience_s):
                await turn
        except TimeoutError:
            if not turn.done() or turn.cancelled():
                self._leave(waiter)
                raise Refused("time-out") from None
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.give_back(queue, waiter.seats, 0.0)
            else:
                self._leave(waiter)
            raise
        return Ticket(self, queue, waiter.seats, perf_counter(), perf_counter() - began)

    def _leave(self, waiter: Waiter) -> None:
        """Takes a request out of its queue that waits no more."""
        queue = waiter.queue
        if waiter not in queue.waiting:
            return  # `dispatch` has seen it already
        queue.waiting.remove(waiter)
        self._forget(queue, waiter)
        self.dispatch()

    def _forget(self, queue: Queue, waiter: Waiter) -> None:
        queue.seats -= waiter.seats
        self.waiting_seats -= waiter.seats
        if not queue.waiting:
            del self._busy[queue]

    def _begin(self, queue: Queue | None, seats: int) -> Ticket:
        self._run(seats)
        if queue is not None:
            if not queue.seats:
                queue.start = max(queue.start, self._clock)
            queue.seats += seats
            queue.start += seats * GUESS_S
        return Ticket(self, queue, seats, perf_counter())

    def _run(self, seats: int) -> None:
        self.used += seats
        self.executing += 1
        self._seen()

    def _seen(self) -> None:
        wanted = self.used + self.waiting_seats
        if wanted > self.most:
            self.most = wanted

    def give_back(self, queue: Queue | None, seats: int, seconds: float) -> None:
        """Frees seats that were used for so long; who waits may begin."""
        self.used -= seats
        self.executing -= 1
        if queue is not None:
            queue.seats -= seats
            queue.start += seats * (seconds - GUESS_S)
        if self._busy:
            self.dispatch()  # the own queues first
        if self.pool.hungry:
            self.pool.dispatch()

    def dispatch(self) -> None:
        """Lets begin who waits and fits, the least served queue first; a wide request is not overtaken for ever by
        narrow ones of its own level."""
        busy = self._busy
        while busy:
            queue = min(busy, key=_start)
            waiter = queue.waiting[0]
            if waiter.turn.done():  # it was cancelled
                queue.waiting.popleft()
                self._forget(queue, waiter)
                continue
            if not self._fits(waiter.seats):
                return
            queue.waiting.popleft()
            if not queue.waiting:
                del busy[queue]
            self._clock = max(self._clock, queue.start)
            queue.start += waiter.seats * GUESS_S
            self.waiting_seats -= waiter.seats
            self._run(waiter.seats)
            waiter.turn.set_result(None)
        self.pool.hungry.discard(self)

    def _fits(self, seats: int) -> bool:
        used = self.used + seats
        if used <= self.nominal:
            return self.used + seats <= self.lower or self.pool.room(self, used)
        if not self.used and not self.nominal:
            return True  # a level without shares still gets one request at a time
        return used <= self.upper and self.pool.room(self, used)

    def _queue(self, flow: str) -> Queue:
        hand = self._hands.get(flow)
        if hand is None:
            if len(self._hands) > 10_000:
                self._hands.clear()
            hand = self._hands[flow] = deal(flow, len(self._queues), self.shape.hand)
        queues = self._queues
        best = queues[hand[0]]
        if best.seats:
            for index in hand:
                queue = queues[index]
                if queue.seats < best.seats:
                    best = queue
        return best


def _start(queue: Queue) -> float:
    return queue.start


def deal(flow: str, deck: int, hand: int) -> tuple[int, ...]:
    """Which queues a flow may use: always the same, different ones out of `deck`, by a hash of its name."""
    value = int.from_bytes(hashlib.blake2b(flow.encode(), digest_size=16).digest(), "big")
    cards = list(range(deck))
    found = []
    for left in range(deck, max(0, deck - hand), -1):
        value, index = divmod(value, left)
        found.append(cards.pop(index))
    return tuple(found)


@define(eq=False)
class Pool:
    """The seats of a server, and the levels in which somebody waits: for a seat of their own, or one of another."""

    total: int
    levels: dict[str, Level] = field(factory=dict)
    hungry: set[Level] = field(factory=set)

    def room(self, level: Level, used: int) -> bool:
        """Whether a level may use so many seats without taking what others are sure of."""
        taken = used
        for other in self.levels.values():
            if other is not level and not other.shape.exempt:
                taken += max(other.used, other.lower)
        return taken <= max(self.total, self._sure(level, used))

    def _sure(self, level: Level, used: int) -> int:
        """Rounding up may promise a few seats more than there are: what is promised is kept."""
        if used > level.nominal:
            return 0
        return sum(one.nominal for one in self.levels.values() if not one.shape.exempt)

    def dispatch(self) -> None:
        """A seat has become free: others may have waited for it."""
        for level in list(self.hungry):
            level.dispatch()

    def share(self, configured: Iterable[tuple[str, str, Shape]]) -> None:
        """Divides the seats among levels (name, uid, shape) by their shares."""
        found = list(configured)
        shares = sum(shape.shares for _, _, shape in found) or 1
        for name in self.levels.keys() - {name for name, _, _ in found}:
            if not self.levels[name].used and not self.levels[name].waiting_seats:
                del self.levels[name]
            else:
                self.levels[name].nominal = 1  # what is left of it ends; nobody comes any more
        for name, uid, shape in found:
            level = self.levels.get(name)
            if level is None:
                level = self.levels[name] = Level(name, uid, shape, self)
            level.configure(uid, shape, math.ceil(self.total * shape.shares / shares))
