"""Pods that wait for a node: active, backing off, parked until an event may help, or gated (S46 to S50).

Source: kube-scheduler's scheduling queue, v1.34. Back-off is 1 s doubling to 10 s, cut to whole seconds; a pod that
waits longer than five minutes for an event is tried again; where nobody is active, who backs off from a rejection is
taken early.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from attrs import define, field

from dashpot.model.placement.hints import Event
from dashpot.model.placement.shape import Pod

Object = dict[str, Any]
Helps = Callable[[str, Pod, Event], bool]

FIRST_S, MOST_S = 1.0, 10.0
STUCK_S, LOOK_S = 300.0, 30.0
"""How long a pod waits for an event that may help, at most, and how often that is looked at."""
REMEMBERED = 10_000
"""Events that are kept for pods that are being placed; to who began before the oldest, all that happened may help."""
ACTIVE, BACKOFF, ERROR, PARKED, GATED, POPPED, GONE = (
    "active",
    "backoff",
    "error",
    "unschedulable",
    "gated",
    "popped",
    "gone",
)


@define(eq=False)
class Waiting:
    """One pod in the queue.

    plugins   who rejected it in its last cycle; empty after an error: then no event is waited for
    rejected, failed  how often it was rejected, and how often in a row something else went wrong
    held      it is not looked at before what it waits for is done: its victims are still being told to go
    """

    key: str
    object: Object
    since: float
    order: int
    began: float
    attempts: int = 0
    rejected: int = 0
    failed: int = 0
    plugins: frozenset[str] = frozenset()
    place: str = ACTIVE
    due: float = 0.0
    seen: int = 0
    held: bool = False
    changed: bool = False
    """It changed in a way that may let it in while it was being placed."""
    _pod: Pod | None = None

    @property
    def pod(self) -> Pod:
        """As the rules see it."""
        found = self._pod
        if found is None or found.object is not self.object:
            found = self._pod = Pod.of(self.object)
        return found

    def rank(self) -> tuple[int, float, int]:
        """Higher priority first, then who was added first."""
        return (-int((self.object.get("spec") or {}).get("priority") or 0), self.since, self.order)


def _always(plugin: str, pod: Pod, event: Event) -> bool:
    return True


@define(eq=False)
class SchedulingQueue:
    """`add` and `remove` follow the pods; `pop` takes the next; `reject` and `fail` give one back; `tell` has an event.

    helps  whether an event may undo a plugin's rejection of a pod
    """

    _now: Callable[[], float]
    _helps: Helps = _always
    first_s: float = FIRST_S
    most_s: float = MOST_S
    early: bool = True
    """Whether those that back off are taken early where nobody is active (gate SchedulerPopFromBackoffQ)."""
    incoming: Counter[tuple[str, str]] = field(factory=Counter)
    """Pods that came into a place by an event: (place, event)."""
    _pods: dict[str, Waiting] = field(factory=dict)
    _heap: list[tuple[tuple[int, float, int], int, Waiting]] = field(factory=list)
    _idle: dict[str, Waiting] = field(factory=dict)
    """Who backs off or is parked."""
    _look: float = math.inf
    """Nobody of those is due before this moment."""
    _count: int = 0
    _wake: asyncio.Event = field(factory=asyncio.Event)
    _events: deque[Event] = field(factory=lambda: deque(maxlen=REMEMBERED))
    _told: int = 0
    """How many events there have been."""
    _popped: int = 0

    def __len__(self) -> int:
        return len(self._pods)

    def counts(self) -> dict[str, int]:
        """How many wait where: active, backoff, unschedulable, gated."""
        found = {ACTIVE: 0, BACKOFF: 0, PARKED: 0, GATED: 0}
        for one in self._pods.values():
            place = BACKOFF if one.place == ERROR else one.place
            if place in found:
                found[place] += 1
        return found

    def waiting(self) -> list[Waiting]:
        """All of them, the oldest first."""
        return sorted(self._pods.values(), key=lambda one: one.order)

    def get(self, key: str) -> Waiting | None:
        """One of them."""
        return self._pods.get(key)

    @property
    def attentive(self) -> bool:
        """Whether an event could matter to anybody."""
        return self._popped > 0 or bool(self._idle)

    # -- pods ---------------------------------------------------------------------------------------------------

    def add(self, key: str, obj: Object, event: Event | None = None) -> None:
        """A pod without a node appeared, or changed; `event`: what changed, None: nothing that plugins look at."""
        one = self._pods.get(key)
        if one is None or one.object["metadata"]["uid"] != obj["metadata"]["uid"]:
            if one is not None:
                self.remove(key)
            self._count += 1
            one = self._pods[key] = Waiting(key, obj, self._now(), self._count, self._now())
            self._enter(one, "PodAdd")
            return
        one.object = obj
        if one.place == GATED and not _gated(obj):
            self._enter(one, "PodUpdate")
        elif event is not None and one.place == PARKED:
            if self._may_help(one, event):
                self._retry(one, "PodUpdate")
        elif event is not None and one.place == POPPED:
            one.changed = one.changed or bool(event.actions)

    def remove(self, key: str) -> None:
        """It is bound, or gone; idempotent."""
        one = self._pods.pop(key, None)
        self._idle.pop(key, None)
        if one is not None:
            self._left(one)
            one.place = GONE

    def hold(self, one: Waiting) -> None:
        """The pod is not looked at until `release`."""
        one.held = True

    def release(self, one: Waiting) -> None:
        """It may be looked at again."""
        one.held = False
        self._look = 0.0
        self._wake.set()

    # -- cycles -------------------------------------------------------------------------------------------------

    def reject(self, one: Waiting, plugins: frozenset[str]) -> None:
        """A cycle ended without a node: parked until an event helps one of the plugins; one that came meanwhile counts.
        Without plugins it is tried again as after an error."""
        if self._pods.get(one.key) is not one:
            return
        helped = one.changed or self._helped(one, plugins)
        self._left(one)
        one.plugins = plugins
        one.since = self._now()
        if not plugins:
            self._back_off(one, ERROR, "ScheduleAttemptFailure")
            return
        one.rejected += 1
        one.failed = 0
        if helped:
            self._back_off(one, BACKOFF, "ScheduleAttemptFailure")
            return
        self._due_of(one)
        one.place = PARKED
        self._idle[one.key] = one
        self._look = min(self._look, one.since + STUCK_S)
        self.incoming[PARKED, "ScheduleAttemptFailure"] += 1
        self._wake.set()

    def fail(self, one: Waiting) -> None:
        """Something went wrong: tried again after a back-off of its own."""
        if self._pods.get(one.key) is not one:
            return
        self._left(one)
        one.plugins = frozenset()
        one.failed += 1
        one.since = self._now()
        self._back_off(one, ERROR, "ScheduleAttemptFailure")

    def tell(self, event: Event) -> None:
        """Something happened in the cluster: whom it may help goes to its back-off, or to the active ones."""
        if self._popped:
            self._events.append(event)
            self._told += 1
        for one in [one for one in self._idle.values() if one.place == PARKED]:
            if self._may_help(one, event):
                self._retry(one, f"{event.kind}{'/'.join(sorted(event.actions))}")

    async def pop(self) -> Waiting:
        """The next pod to try; waits for one."""
        while True:
            self._due()
            one = self._next()
            if one is not None:
                one.place = POPPED
                one.attempts += 1
                one.seen, one.changed = self._told, False
                self._popped += 1
                return one
            self._wake.clear()
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    # -- within -------------------------------------------------------------------------------------------------

    def _next(self) -> Waiting | None:
        while self._heap:
            one = heapq.heappop(self._heap)[-1]
            if one.place == ACTIVE and self._pods.get(one.key) is one:
                return one
        early = [one for one in self._idle.values() if one.place == BACKOFF and not one.held] if self.early else []
        if not early:
            return None
        one = min(early, key=lambda each: (each.due, each.rank()))
        self._idle.pop(one.key, None)
        return one

    def _left(self, one: Waiting) -> None:
        if one.place == POPPED:
            self._popped -= 1
            if not self._popped:
                self._events.clear()

    def _enter(self, one: Waiting, event: str) -> None:
        if _gated(one.object):
            one.place = GATED
            self.incoming[GATED, event] += 1
        else:
            self._activate(one, event)

    def _may_help(self, one: Waiting, event: Event) -> bool:
        pod = one.pod
        return any(self._helps(plugin, pod, event) for plugin in one.plugins)

    def _helped(self, one: Waiting, plugins: frozenset[str]) -> bool:
        """Whether an event since it was popped may help (S48)."""
        count = self._told - one.seen
        if count > len(self._events):
            return True
        pod = one.pod
        recent = list(self._events)[len(self._events) - count :]
        return any(self._helps(plugin, pod, event) for event in recent for plugin in plugins)

    def _retry(self, one: Waiting, event: str) -> None:
        if one.due > self._now() or one.held:
            self._back_off(one, BACKOFF, event, keep=True)
        else:
            self._activate(one, event)

    def _due_of(self, one: Waiting) -> None:
        """When its back-off is over: whole seconds, the one that it ends in included (S49)."""
        count = one.failed if one.failed else max(one.rejected, 1)
        one.due = math.floor(one.since + min(self.most_s, self.first_s * 2.0 ** min(count - 1, 32))) + 1

    def _back_off(self, one: Waiting, place: str, event: str, *, keep: bool = False) -> None:
        if not keep:
            self._due_of(one)
        one.place = place
        self._idle[one.key] = one
        self._look = min(self._look, one.due)
        self.incoming[BACKOFF, event] += 1
        self._wake.set()

    def _due(self) -> None:
        now = self._now()
        if now < self._look:
            return
        for one in list(self._idle.values()):
            if self._moment(one) <= now:
                if one.place == PARKED and one.due > now:
                    self._back_off(one, BACKOFF, "UnschedulableTimeout", keep=True)
                else:
                    self._activate(one, "BackoffComplete" if one.place != PARKED else "UnschedulableTimeout")
        self._look = min(map(self._moment, self._idle.values()), default=math.inf)

    def _pause(self) -> float | None:
        """Seconds until somebody is due; None: only an event helps."""
        return None if self._look == math.inf else max(0.0, self._look - self._now())

    @staticmethod
    def _moment(one: Waiting) -> float:
        if one.held:
            return math.inf
        if one.place == PARKED:  # looked at every half minute
            return math.ceil((one.since + STUCK_S) / LOOK_S) * LOOK_S
        return one.due

    def _activate(self, one: Waiting, event: str) -> None:
        self._idle.pop(one.key, None)
        one.place = ACTIVE
        heapq.heappush(self._heap, (one.rank(), one.order, one))
        self.incoming[ACTIVE, event] += 1
        self._wake.set()


def _gated(obj: Object) -> bool:
    return bool((obj.get("spec") or {}).get("schedulingGates"))
