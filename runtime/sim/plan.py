"""What is going to happen in a run, drawn from its seed: writes of a client and faults, each at its moment.

An item draws all that it needs from a seed of its own: without some of them the others stay as they are.
"""

from __future__ import annotations

import random

from attrs import frozen

WRITES: dict[str, int] = {
    "create": 12,
    "scale": 18,
    "image": 9,
    "remove": 5,
    "delete_pod": 14,
    "evict": 10,
    "cordon": 7,
    "uncordon": 8,
    "label": 12,
    "pause": 5,
    "suspend": 2,
    "quota": 4,
    "lift": 2,
}
"""What a client does, and how often of so many."""

FAULTS: dict[str, int] = {
    "crash": 4,
    "stale_restart": 2,
    "relist": 2,
    "delay": 5,
    "drop": 1,
    "timeout": 4,
    "broken": 2,
    "node_down": 2,
    "contended": 2,
    "scheduler": 1,
}
"""What goes wrong, and how often of so many."""

KINDS_AT_LEAST = 3
FIRST_S = 1.0
SETTING = 8
"""Writes at the start that only create: there is something to disturb before anything is disturbed."""


@frozen
class Item:
    """One of the plan: `seed` is its own; `at` seconds after the start."""

    number: int
    at: float
    what: str
    seed: str

    @property
    def is_fault(self) -> bool:
        """Whether it is a fault."""
        return self.what in FAULTS

    @property
    def chance(self) -> random.Random:
        """What it draws from, from the start."""
        return random.Random(self.seed)


@frozen
class Plan:
    """All items in the order of time. `seconds`: when peace begins."""

    seed: int
    seconds: float
    items: tuple[Item, ...]

    def only(self, items: tuple[Item, ...] | list[Item]) -> Plan:
        """The plan with some of its items."""
        return Plan(self.seed, self.seconds, tuple(sorted(items, key=lambda item: (item.at, item.number))))


def draw(seed: int, *, writes: int, faults: int, seconds: float) -> Plan:
    """The plan of a seed."""
    chance = random.Random(f"{seed}/plan")
    whats = ["create"] * min(SETTING, writes)
    whats += chance.choices(list(WRITES), list(WRITES.values()), k=writes - len(whats))
    moments = sorted(chance.uniform(FIRST_S, seconds) for _ in whats)
    pairs = list(zip(moments, whats, strict=True))
    # faults leave the last tenth alone, so that something is still to come that meets them
    pairs += [(chance.uniform(FIRST_S * 2, seconds * 0.9), what) for what in _kinds(chance, faults)]
    items = [Item(number, at, what, f"{seed}/{number}") for number, (at, what) in enumerate(pairs)]
    return Plan(seed, seconds, ()).only(items)


def _kinds(chance: random.Random, count: int) -> list[str]:
    """The kinds of the faults: at least three where there are as many faults."""
    least = min(KINDS_AT_LEAST, count)
    found: list[str] = []
    while len(set(found)) < least:
        found = chance.choices(list(FAULTS), list(FAULTS.values()), k=count)
    return found
