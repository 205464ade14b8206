"""Whether the scheduler, one pod at a time, gets to a placement of all: orders are tried, and a bad one is shrunk.

An order in which all are placed shows that it can be; that no tried order does shows nothing. An order that leaves a
pod pending, although another order places all, is a trap: it is made as small as it still is one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import define, field, frozen

from dashpot.checker.feasibility.instance import Instance
from dashpot.model.placement.cycle import Found, Profile, run
from dashpot.model.placement.shape import NodeView, Pod, Status
from dashpot.model.placement.snapshot import Snapshot

T = TypeVar("T")

WORK = 400_000
"""Looks at a node that orders may cost in all."""


@frozen
class Walk:
    """What became of one order. `at`: uid → node; `pending`: the pods that found no node, with what the nodes said."""

    order: tuple[Pod, ...]
    at: dict[str, str]
    pending: dict[str, dict[str, Status]]


@frozen
class Trap:
    """An order that leaves a pod pending, and one of the same pods on the same nodes that leaves none."""

    nodes: tuple[str, ...]
    bad: Walk
    good: Walk


@define(eq=False)
class Scheduler:
    """The cycle over a snapshot of its own, one pod after another. Ties go to the first node, or by chance."""

    profile: Profile
    cluster: Snapshot
    chance: random.Random | None = None
    looks: int = field(default=0, init=False)

    @staticmethod
    def over(
        instance: Instance, nodes: Sequence[NodeView] | None = None, chance: random.Random | None = None
    ) -> Scheduler:
        """A fresh one."""
        rows = [node.copy() for node in (instance.cluster.nodes if nodes is None else nodes)]
        cluster = Snapshot(rows, instance.cluster.namespaces, instance.cluster.objects)
        return Scheduler(instance.profile, cluster, chance)

    def walk(self, order: Sequence[Pod], *, until_pending: bool = False) -> Walk:
        """Schedules the pods in this order."""
        at: dict[str, str] = {}
        pending: dict[str, dict[str, Status]] = {}
        for pod in order:
            found = run(pod, self.cluster, self.profile)
            self.looks += len(self.cluster.nodes)
            if isinstance(found, Found):
                name = found.best[0] if self.chance is None else self.chance.choice(found.best)
                self.cluster.by_name[name].add(pod)
                at[pod.uid] = name
            else:
                pending[pod.uid] = found.statuses
                if until_pending:
                    break
        return Walk(tuple(order), at, pending)


def by_priority(pods: Sequence[Pod]) -> list[Pod]:
    """The scheduler's own order, of pods that all wait: the more important first (S46)."""
    return sorted(pods, key=lambda pod: -pod.priority)


def orders(pods: Sequence[Pod], seed: int) -> list[list[Pod]]:
    """Orders worth a try: as they came, large ones first, small ones first, and some by chance."""
    chance = random.Random(seed)
    size = {pod.uid: (pod.asks.get("cpu", 0), pod.asks.get("memory", 0)) for pod in pods}
    large = sorted(pods, key=lambda pod: size[pod.uid], reverse=True)
    found = [list(pods), large, large[::-1]]
    for _ in range(5):
        shuffled = list(pods)
        chance.shuffle(shuffled)
        found.append(shuffled)
    return [by_priority(one) for one in found]


def reached(instance: Instance, *, seed: int = 0) -> Walk | None:
    """An order in which the scheduler places all; None: none of those that were tried."""
    left = WORK
    for order in orders(instance.pods, seed):
        scheduler = Scheduler.over(instance, chance=random.Random(seed))
        walk = scheduler.walk(order, until_pending=True)
        left -= scheduler.looks
        if not walk.pending:
            return walk
        if left <= 0:
            break
    return None


def trap(
    instance: Instance, good: Walk, *, seed: int = 0, told: Callable[[str], None] = lambda text: None
) -> Trap | None:
    """A bad order, made small; None: none of those that were tried is bad."""
    bad: Walk | None = None
    for order in orders(instance.pods, seed):
        walk = Scheduler.over(instance).walk(order, until_pending=True)
        if walk.pending:
            bad = walk
            break
    if bad is None:
        return None
    told("shrinking the order")
    stuck = next(iter(bad.pending))
    last = next(at for at, pod in enumerate(bad.order) if pod.uid == stuck)
    pods = list(bad.order[: last + 1])
    nodes = list(instance.cluster.nodes)
    pods = _fewest(pods, lambda some: _is_trap(instance, some, nodes))
    nodes = _fewest(nodes, lambda some: _is_trap(instance, pods, some))
    pods = _fewest(pods, lambda some: _is_trap(instance, some, nodes))
    small = _both(instance, pods, nodes)
    if small is None:
        return Trap(tuple(node.name for node in nodes), bad, good)
    return Trap(tuple(node.name for node in nodes), *small)


def _is_trap(instance: Instance, pods: Sequence[Pod], nodes: Sequence[NodeView]) -> bool:
    return _both(instance, pods, nodes) is not None


def _both(instance: Instance, pods: Sequence[Pod], nodes: Sequence[NodeView]) -> tuple[Walk, Walk] | None:
    """The given order, if it leaves a pod pending, and another one that leaves none."""
    bad = Scheduler.over(instance, nodes).walk(pods)
    if not bad.pending:
        return None
    for order in orders(pods, 0):
        good = Scheduler.over(instance, nodes).walk(order, until_pending=True)
        if not good.pending:
            return bad, good
    return None


def _fewest(rows: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """Some of the rows of which none can be left out while it holds; ever smaller parts are tried (Zeller's ddmin)."""
    kept = list(rows)
    size = max(1, len(kept) // 2)
    while True:
        at = 0
        shrunk = False
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if fewer and holds(fewer):
                kept, shrunk = fewer, True
            else:
                at += size
        if size == 1 and not shrunk:
            return kept
        size = max(1, size // 2)
