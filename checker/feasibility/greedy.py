"""A placement by trying: constrained pods first, each where it fits best, in several orders. What is found is certain;
what is not found proves nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from dashpot.checker.feasibility.classes import ALONE, World
from dashpot.model.placement.plugin import SKIP, Filter, Only
from dashpot.model.placement.request import scalar
from dashpot.model.placement.shape import NodeView, Pod, Status

ORDERS = 12
BASIC = ("cpu", "memory", "ephemeral-storage")


@define(eq=False)
class Placement:
    """Pods by uid → node names, and the pods that found no place."""

    at: dict[str, str] = field(factory=dict)
    missed: list[Pod] = field(factory=list)


@define(eq=False)
class Table:
    """The nodes as a placement fills them, with the states of the filters that look at several nodes."""

    world: World
    nodes: list[NodeView]
    wide: list[Filter]
    states: list[list[Any]]
    """template → the states of `wide`; SKIP where a filter has nothing to say"""
    skipping: list[bool] = field(factory=list)

    @staticmethod
    def of(world: World) -> Table:
        """Nothing is placed yet."""
        instance = world.instance
        nodes = [node.copy() for node in instance.cluster.nodes]
        wide = [one for one in instance.profile.filters if one.name not in (*ALONE, "NodeResourcesFit")]
        states = [[one.prepare(t.pod, instance.cluster) for one in wide] for t in instance.templates]
        return Table(world, nodes, wide, states)

    def admits(self, template: int, node: NodeView) -> bool:
        """Whether one more pod of the template is accepted there, by the filters themselves."""
        pod = self.world.instance.templates[template].pod
        for one, state in zip(self.wide, self.states[template], strict=True):
            if state is SKIP:
                continue
            if isinstance(state, Status) or not one.admits(pod, node, state).ok:
                return False
        return True

    def place(self, pod: Pod, node: NodeView) -> None:
        """A pod goes there, for all that comes after it."""
        for template, row in enumerate(self.states):
            asks = self.world.instance.templates[template].pod
            for at, (one, state) in enumerate(zip(self.wide, row, strict=True)):
                if state is SKIP:
                    if one.name == "InterPodAffinity" and pod.has_terms:
                        row[at] = self._anew(one, asks)
                elif not isinstance(state, Status | Only):
                    one.shift(state, asks, pod, node, 1)
        node.add(pod)

    def _anew(self, one: Filter, pod: Pod) -> Any:
        """A pod with terms of its own came: others may be concerned now."""
        from dashpot.model.placement.snapshot import Snapshot

        cluster = self.world.instance.cluster
        return one.prepare(pod, Snapshot(self.nodes, cluster.namespaces, cluster.objects))


def greedy(world: World, *, seed: int = 0, orders: int = ORDERS) -> Placement:
    """The best placement of several orders; it ends at the first that misses nobody."""
    chance = random.Random(seed)
    best: Placement | None = None
    for turn in range(orders):
        found = _once(world, _order(world, chance if turn else None))
        if best is None or len(found.missed) < len(best.missed):
            best = found
        if not best.missed:
            break
    assert best is not None
    return best


def _order(world: World, chance: random.Random | None) -> list[int]:
    """Templates, those with the fewest places first, then the largest; perturbed by chance."""
    templates = world.instance.templates
    sizes = _sizes(world)

    def key(index: int) -> tuple[float, float]:
        places = sum(len(k.nodes) for at, k in enumerate(world.classes) if world.admissible(index, at))
        wiggle = chance.uniform(0.6, 1.4) if chance else 1.0
        spec = templates[index].pod.spec
        wide = bool(spec.get("topologySpreadConstraints")) or templates[index].pod.has_terms
        return (0 if wide else 1) * places * wiggle, -sizes[index] * wiggle

    return sorted(range(len(templates)), key=key)


def _sizes(world: World) -> list[float]:
    """The largest share of the cluster's mean node that a pod of each template takes."""
    nodes = world.instance.cluster.nodes
    means: dict[str, float] = {}
    for node in nodes:
        for name, amount in node.allocatable.items():
            means[name] = means.get(name, 0.0) + amount / len(nodes)
    return [
        max((amount / means[name] for name, amount in t.pod.asks.items() if means.get(name)), default=0.0)
        for t in world.instance.templates
    ]


def _once(world: World, order: Sequence[int]) -> Placement:
    table = Table.of(world)
    found = Placement()
    for index in order:
        template = world.instance.templates[index]
        pod = template.pod
        names = [name for name in pod.asks if pod.asks[name] > 0 and (name in BASIC or scalar(name))]
        open_ = [node for node in table.nodes if world.admissible(index, world.by_node[node.name])]
        if not any(state is not SKIP for state in table.states[index]) and not pod.ports:
            _fill(table, template.members, names, open_, found)
            continue
        for member in template.members:
            node = _best(table, index, pod, names, open_)
            if node is None:
                found.missed.append(member)
                continue
            table.place(member, node)
            found.at[member.uid] = node.name
    return found


def _fill(table: Table, members: Sequence[Pod], names: list[str], nodes: list[NodeView], found: Placement) -> None:
    """Alike pods that only need room: the fullest node takes as many as it can, then the next."""
    asks = members[0].asks
    rows: list[tuple[float, int, int, NodeView]] = []
    for node in nodes:
        room = [node.allocatable.get(name, 0) - node.used.get(name, 0) for name in names]
        fits = min((free // asks[name] for free, name in zip(room, names, strict=True)), default=len(members))
        fits = min(fits, node.allocatable.get("pods", 0) - len(node.pods))
        if fits > 0:
            left = sum(free / node.allocatable[name] for free, name in zip(room, names, strict=True))
            rows.append((left, len(rows), fits, node))
    rows.sort()
    waiting = list(members)
    for _, _, fits, node in rows:
        for _ in range(min(fits, len(waiting))):
            pod = waiting.pop()
            table.place(pod, node)
            found.at[pod.uid] = node.name
    found.missed += waiting


def _best(table: Table, index: int, pod: Pod, names: list[str], nodes: list[NodeView]) -> NodeView | None:
    """The fullest node that still takes the pod."""
    best: NodeView | None = None
    least = 0.0
    asks = pod.asks
    for node in nodes:
        free, used = node.allocatable, node.used
        if len(node.pods) >= free.get("pods", 0):
            continue
        left = 0.0
        for name in names:
            room = free.get(name, 0) - used.get(name, 0) - asks[name]
            if room < 0:
                break
            left += room / free[name]
        else:
            if (
                (best is None or left < least)
                and (not pod.ports or _ports_free(pod, node))
                and table.admits(index, node)
            ):
                best, least = node, left
    return best


def _ports_free(pod: Pod, node: NodeView) -> bool:
    from dashpot.model.placement.static import ports

    return ports(pod, node).ok
