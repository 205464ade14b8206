"""Pods that wait for a node: active, backing off, or parked until an event may help (S46 to S50).

Source: kube-scheduler's scheduling queue, v1.34. Back-off is 1 s doubling to 10 s; a pod that waits longer than five
minutes for an event is tried again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

from attrs import define, field

Object = dict[str, Any]

FIRST_S, MOST_S = 1.0, 10.0
STUCK_S = 300.0
"""How long a pod waits for an event that may help, at most."""


@define(eq=False)
class Waiting:
    """One pod in the queue."""

    key: str
    object: Object
    since: float
    order: int
    attempts: int = 0
    place: str = "active"
    due: float = 0.0

    def rank(self) -> tuple[int, float, int]:
        """Higher priority first, then who was added first."""
        return (-int((self.object.get("spec") or {}).get("priority") or 0), self.since, self.order)


@define(eq=False)
class SchedulingQueue:
    """`add`, `update`, `remove` follow the pods; `pop` takes the next; `failed` gives one back; `helped` tells of an
    event that may have made room."""

    _now: Callable[[], float]
    _pods: dict[str, Waiting] = field(factory=dict)
    _heap: list[tuple[tuple[int, float, int], Waiting]] = field(factory=list)
    _idle: dict[str, Waiting] = field(factory=dict)
    """Who backs off or is parked."""
    _look: float = 0.0
    """Nobody of those is due before this moment."""
    _count: int = 0
    _wake: asyncio.Event = field(factory=asyncio.Event)
    _helped: int = 0
    """How many events may have helped so far: who failed in the meantime backs off instead of being parked (S48)."""

    def __len__(self) -> int:
        return len(self._pods)

    def counts(self) -> dict[str, int]:
        """How many wait where: active, backoff, unschedulable."""
        found = {"active": 0, "backoff": 0, "unschedulable": 0}
        for one in self._pods.values():
            if one.place in found:
                found[one.place] += 1
        return found

    @property
    def helped(self) -> int:
        """How many events may have helped so far; a cycle remembers it from its start."""
        return self._helped

    def add(self, key: str, obj: Object) -> None:
        """A pod without a node appeared."""
        known = self._pods.get(key)
        if known is not None and known.object["metadata"]["uid"] == obj["metadata"]["uid"]:
            changed = known.object.get("spec") != obj.get("spec") or _labels(known.object) != _labels(obj)
            known.object = obj
            if changed and known.place == "unschedulable":
                self._activate(known)
            return
        self._count += 1
        one = Waiting(key, obj, self._now(), self._count)
        self._pods[key] = one
        self._activate(one)

    def remove(self, key: str) -> None:
        """It is bound, or gone; idempotent."""
        one = self._pods.pop(key, None)
        self._idle.pop(key, None)
        if one is not None:
            one.place = "gone"

    def requeue(self, one: Waiting, helped: int, *, error: bool = False) -> None:
        """A cycle failed. Without an event since `helped` it is parked; after one, or an error, it backs off."""
        if self._pods.get(one.key) is not one:
            return
        one.attempts += 1
        one.since = self._now()
        one.due = one.since + min(MOST_S, FIRST_S * 2 ** (one.attempts - 1))
        self._idle[one.key] = one
        if error or helped != self._helped:
            one.place = "backoff"
            self._look = min(self._look, one.due)
            self._wake.set()
        else:
            one.place = "unschedulable"
            self._look = min(self._look, one.since + STUCK_S)

    def help(self) -> None:
        """Something happened that may let a parked pod in: all go to their back-off."""
        self._helped += 1
        if not self._idle:
            return
        for one in self._idle.values():
            one.place = "backoff"
        self._look = 0.0
        self._wake.set()

    async def pop(self) -> Waiting:
        """The next pod to try; waits for one."""
        while True:
            self._due()
            while self._heap:
                one = heapq.heappop(self._heap)[1]
                if one.place == "active":
                    one.place = "popped"
                    return one
            self._wake.clear()
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _due(self) -> None:
        now = self._now()
        if not self._idle or now < self._look:
            return
        for one in list(self._idle.values()):
            if self._moment(one) <= now:
                self._activate(one)
        self._look = min(map(self._moment, self._idle.values()), default=0.0)

    def _pause(self) -> float | None:
        """Seconds until somebody is due; None: only an event helps."""
        return max(0.0, self._look - self._now()) if self._idle else None

    @staticmethod
    def _moment(one: Waiting) -> float:
        return one.due if one.place == "backoff" else one.since + STUCK_S

    def _activate(self, one: Waiting) -> None:
        self._idle.pop(one.key, None)
        one.place = "active"
        heapq.heappush(self._heap, (one.rank(), one))
        self._wake.set()


def _labels(obj: Object) -> Any:
    return obj["metadata"].get("labels")
