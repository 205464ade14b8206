"""How much a search may use, and how it tells how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from attrs import define, field, frozen

INTERVAL_S = 0.2
"""Progress is reported at most this often."""


@frozen
class Budget:
    """Limits of one search; None: no limit.

    states        distinct states
    memory_bytes  estimated size of the tables of the search
    cpu_s         CPU seconds of this process from the start of the search
    """

    states: int | None = None
    memory_bytes: int | None = None
    cpu_s: float | None = None


@frozen
class Progress:
    """How far a search is: transitions computed, distinct states, breadth-first level, states still to expand,
    distinct states a CPU second, estimated bytes, CPU seconds."""

    transitions: int
    states: int
    depth: int
    queue: int
    rate: float
    memory_bytes: int
    cpu_s: float


@frozen
class Phase:
    """What work goes on to now: "building the world", "judging liveness"; "" is the search itself."""

    name: str


Told: TypeAlias = Callable[[Progress | Phase], None]
"""Hears how far a search is, and when other long work begins."""


@define
class Meter:
    """Watches a budget while a search runs."""

    budget: Budget
    report: Told | None = None
    started: float = field(factory=time.process_time)
    _told: float = field(factory=time.monotonic)

    @property
    def cpu_s(self) -> float:
        """CPU seconds since the start."""
        return time.process_time() - self.started

    def check(self, transitions: int, states: int, depth: int, queue: int, memory_bytes: int) -> str:
        """Report progress when it is due; the name of the limit that is exceeded, or ""."""
        budget, cpu_s = self.budget, self.cpu_s
        if self.report is not None and time.monotonic() - self._told >= INTERVAL_S:
            self._told = time.monotonic()
            rate = states / cpu_s if cpu_s else 0.0
            self.report(Progress(transitions, states, depth, queue, rate, memory_bytes, cpu_s))
        if budget.states is not None and states > budget.states:
            return "states"
        if budget.memory_bytes is not None and memory_bytes > budget.memory_bytes:
            return "memory"
        if budget.cpu_s is not None and cpu_s > budget.cpu_s:
            return "time"
        return ""
