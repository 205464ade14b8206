"""The answer to a question of placement: the cheapest engine that is certain gives it."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from dashpot.checker.feasibility.classes import World, world
from dashpot.checker.feasibility.facts import Fact, facts
from dashpot.checker.feasibility.greedy import Placement, greedy
from dashpot.checker.feasibility.instance import Instance
from dashpot.checker.feasibility.relax import Refuted, refute
from dashpot.model.placement.cycle import Refused as RefusedPod
from dashpot.model.placement.cycle import admitted, prepare
from dashpot.model.placement.shape import NodeView, Pod
from dashpot.model.placement.snapshot import Snapshot

CHECKED_TOGETHER = 4000
"""Pods of a placement up to which each is checked beside all others."""


@frozen
class Feasible:
    """A placement in which the filters accept every new pod beside all others."""

    placement: dict[str, str]


@frozen
class Infeasible:
    """Constraints that cannot hold together. `minimal`: each is needed, as a checked placement without it shows."""

    core: tuple[Fact, ...]
    minimal: bool = False


@frozen
class Unknown:
    """No certain answer: why, the best placement, and the pods that it misses."""

    why: str
    placement: dict[str, str] = field(factory=dict)
    missed: tuple[Pod, ...] = ()


Verdict = Feasible | Infeasible | Unknown


def decide(instance: Instance, *, seed: int = 0, told: Callable[[str], None] = lambda text: None) -> Verdict:
    """Whether the pods of a question can be placed, whoever comes first."""
    here = world(instance)
    told("facts")
    found = refute(here, facts(here))
    if isinstance(found, Refuted):
        return Infeasible(found.core)
    told("trying placements")
    best = greedy(here, seed=seed)
    if instance.unread:
        return Unknown("; ".join(instance.unread), best.at, tuple(best.missed))
    if not best.missed:
        wrong = unaccepted(instance, best)
        if not wrong:
            return Feasible(best.at)
        return Unknown(f"the filters do not accept {wrong[0].name} beside all others", best.at, tuple(wrong))
    why = "no placement was found and none was excluded"
    return Unknown(why if found.known else f"{why}: the solver ran out of time", best.at, tuple(best.missed))


def unaccepted(instance: Instance, placement: Placement) -> list[Pod]:
    """The new pods that the filters do not accept in the end, each beside all others."""
    nodes = [node.copy() for node in instance.cluster.nodes]
    cluster = Snapshot(nodes, instance.cluster.namespaces, instance.cluster.objects)
    by_name = {node.name: node for node in nodes}
    pods = {pod.uid: pod for pod in instance.pods}
    for uid, name in placement.at.items():
        by_name[name].add(pods[uid])
    wrong = []
    for template in instance.templates:
        places: dict[str, Pod] = {}
        for pod in template.members:
            if pod.uid in placement.at:
                places.setdefault(placement.at[pod.uid], pod)
        for name, pod in places.items():
            if not _accepted(instance, cluster, by_name[name], pod):
                wrong.append(pod)
    return wrong


def _accepted(instance: Instance, cluster: Snapshot, node: NodeView, pod: Pod) -> bool:
    """Whether the filters accept the pod on its node, were it the last to come."""
    node.remove(pod.uid)
    try:
        ready = prepare(pod, cluster, instance.profile.filters)
        return not isinstance(ready, RefusedPod) and admitted(pod, node, ready.states).ok
    finally:
        node.add(pod)


def places(found: World) -> str:
    """How large the question is, in a line."""
    pods = sum(template.count for template in found.instance.templates)
    kinds = f"{len(found.instance.templates)} sort{'s' * (len(found.instance.templates) != 1)}"
    return f"{pods} pods of {kinds}, {len(found.instance.cluster.nodes)} nodes of {len(found.classes)} classes"
