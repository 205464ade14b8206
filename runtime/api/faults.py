"""Faults of watch delivery and of cached reads, under a seed: what Kubernetes allows (late, stale, cut off), and on
request what it does not (events dropped, or out of order within one watch).

A server without a Faults object has no code of it in its path. With one, each watch passes through a Tap. A test in the
same process holds, steps and releases deliveries by hand; a file gives rules:

    seed: 7
    rules:
      - {on: watch, resource: pods, userAgent: "kube-*", delay: [0.1, 0.5]}
      - {resource: "deployments.apps", chance: 0.01, disconnect: true}
      - {resource: "*", reorder: between, window: 0.2}
      - {on: read, resource: nodes, stale: 50, chance: 0.5}

The keys are told in `faults_file`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.faults_file import parse
from dashpot.runtime.api.faults_rules import DELAY, READ, STALE, WATCH, FaultsError, Rule, Who
from dashpot.runtime.api.faults_tap import Tap

__all__ = ["Faults", "FaultsError", "Past", "Rule", "Tap", "Who"]


class Past(Protocol):
    """The cache whose past a stale read shows."""

    @property
    def progress(self) -> int:
        """The newest revision seen."""
        ...

    @property
    def floor(self) -> int:
        """The oldest revision it can show."""
        ...


class Faults:
    """The faults of one server. The same seed and the same sequence of events give the same faults for each watch."""

    def __init__(self, rules: Sequence[Rule] = (), seed: int = 0) -> None:
        self.rules = list(rules)
        self.seed = seed
        self.taps: set[Tap] = set()
        self._held: list[Who] = []
        self._opened: dict[tuple[str, str, str], int] = {}
        self._reads = random.Random(f"{seed}/reads")

    @classmethod
    def load(cls, path: Path, catalog: Catalog | None = None) -> Faults:
        """The faults that a file describes; FaultsError where it cannot be read or understood, or (with a catalog)
        names what no resource is called."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FaultsError(f"{path}: cannot be read: {error}") from None
        try:
            return cls.parse(text, catalog)
        except FaultsError as error:
            raise FaultsError(f"{path}: {error}") from None

    @classmethod
    def parse(cls, text: str, catalog: Catalog | None = None) -> Faults:
        """The faults that a text in YAML or JSON describes; FaultsError."""
        return cls(*parse(text, catalog))

    def tap(self, resource: str, user_agent: str, user: str) -> Tap:
        """Where a new watch's events pass."""
        who = (resource, user_agent, user)
        number = self._opened[who] = self._opened.get(who, 0) + 1
        chance = random.Random(f"{self.seed}/{resource}/{user_agent}/{user}/{number}")
        rules = [rule for rule in self.rules if rule.on == WATCH and rule.who.matches(*who)]
        tap = Tap(who, rules, chance, self.taps.discard)
        tap.held = any(held.matches(*who) for held in self._held)
        self.taps.add(tap)
        return tap

    def hold(self, who: Who | None = None) -> None:
        """Holds the deliveries of all watches that are meant, open ones and those to come."""
        held = who or Who()
        self._held.append(held)
        for tap in self._meant(held):
            tap.hold()

    def release(self, who: Who | None = None) -> None:
        """Lets held deliveries go, in order."""
        meant = who or Who()
        self._held = [held for held in self._held if who is not None and held != who]
        for tap in self._meant(meant):
            tap.release()

    def step(self, count: int = 1, who: Who | None = None) -> None:
        """Lets the next events of each held watch pass."""
        for tap in self._meant(who or Who()):
            tap.step(count)

    def disconnect(self, who: Who | None = None) -> None:
        """Cuts open watches off."""
        for tap in self._meant(who or Who()):
            tap.disconnect()

    def pending(self, who: Who | None = None) -> int:
        """How many watches have an event that is held."""
        return sum(tap.waiting for tap in self._meant(who or Who()))

    def _meant(self, who: Who) -> list[Tap]:
        return [tap for tap in self.taps if who.matches(*tap.who)]

    async def read(self, resource: str, user_agent: str, user: str, past: Past) -> int | None:
        """A read from the cache: waits where a rule delays it; the revision that it shows where one makes it stale."""
        revision: int | None = None
        for rule in self.rules:
            if rule.on != READ or not rule.who.matches(resource, user_agent, user) or not rule.strikes(self._reads):
                continue
            if rule.action == DELAY:
                await asyncio.sleep(self._reads.uniform(rule.low, rule.high))
            elif rule.action == STALE:
                newest = past.progress
                oldest = max(past.floor, newest - rule.revisions)
                revision = self._reads.randint(min(oldest, newest), newest)
        return revision
