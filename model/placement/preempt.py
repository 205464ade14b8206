"""Preemption (S54 to S57): which pods would have to go so that a more important one fits, and where it costs least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen

from dashpot.model.objects import selector as selectors
from dashpot.model.placement.cycle import Nominations, Prepared, State, Unfit, copies, judged, prepare, shift
from dashpot.model.placement.message import preempted
from dashpot.model.placement.plugin import Filter
from dashpot.model.placement.shape import Code, NodeView, Pod, Status
from dashpot.model.placement.snapshot import Snapshot

Object = dict[str, Any]
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."
WAITING = "not eligible due to a terminating pod on the nominated node."
PERCENT, ABSOLUTE = 10, 100
"""Of the nodes that are tried: minCandidateNodesPercentage and minCandidateNodesAbsolute."""
OFFSET = 1 << 31
"""Added to each priority before they are summed, so that more victims never weigh less."""


@frozen
class Candidate:
    """A node, the pods that would have to go, the most important first, and how many of them a budget would forbid."""

    node: str
    victims: tuple[Pod, ...]
    violations: int


def ineligible(pod: Pod, cluster: Snapshot, statuses: Mapping[str, Status]) -> str:
    """Why a pod may not preempt at all; "" if it may (S54)."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return NEVER
    name = (pod.object.get("status") or {}).get("nominatedNodeName")
    node = cluster.by_name.get(name or "")
    if node is None or statuses.get(node.name, Status()).code is Code.UNRESOLVABLE:
        return ""
    if any(other.priority < pod.priority and _going(other) for other in node.pods.values()):
        return WAITING
    return ""


def _going(pod: Pod) -> bool:
    conditions = (pod.object.get("status") or {}).get("conditions") or ()
    return pod.terminating and any(
        one.get("type") == "DisruptionTarget"
        and one.get("status") == "True"
        and one.get("reason") == "PreemptionByScheduler"
        for one in conditions
    )


def candidates(
    pod: Pod,
    cluster: Snapshot,
    filters: Sequence[Filter],
    *,
    now: float,
    statuses: Mapping[str, Status] | None = None,
    nominations: Nominations | None = None,
    offset: int = 0,
    percent: int = PERCENT,
    absolute: int = ABSOLUTE,
    failed: dict[str, Status] | None = None,
) -> dict[str, Candidate]:
    """Nodes on which taking pods away would help, by name (S55).

    now       seconds; when a pod that has not started is taken to have started
    statuses  of the cycle that failed: nodes that are unresolvable are not tried; None: all are
    offset    where the walk begins
    failed    is filled with what the nodes say that were tried in vain
    """
    ready = prepare(pod, cluster, filters)
    if not isinstance(ready, Prepared):
        return {}
    known = statuses or {}
    nodes = [n for n in cluster.nodes if known.get(n.name, Status()).code is not Code.UNRESOLVABLE]
    enough = min(len(nodes), max(len(nodes) * percent // 100, absolute))
    found: dict[str, Candidate] = {}
    budgets = cluster.objects.get("PodDisruptionBudget", ())
    for at in range(len(nodes)):
        node = nodes[(offset + at) % len(nodes)]
        one = on_node(pod, node, ready.states, budgets, now=now, nominated=(nominations or {}).get(node.name, ()))
        if isinstance(one, Candidate):
            found[node.name] = one
        elif failed is not None:
            failed[node.name] = one
        if len(found) >= enough and any(not one.violations for one in found.values()):
            break
    return found


def attempted(
    pod: Pod,
    cluster: Snapshot,
    filters: Sequence[Filter],
    outcome: Unfit,
    *,
    now: float,
    nominations: Nominations | None = None,
    offset: int = 0,
) -> tuple[dict[str, Candidate], str]:
    """Where a pod that fits nowhere could stand if others went, by node; if nowhere, the scheduler's words (S61)."""
    why = ineligible(pod, cluster, outcome.statuses)
    if why:
        return {}, f"preemption: {why}"
    failed: dict[str, Status] = {}
    found: dict[str, Candidate] = {}
    if outcome.refused is None:
        found = candidates(
            pod,
            cluster,
            filters,
            now=now,
            statuses=outcome.statuses,
            nominations=nominations,
            offset=offset,
            failed=failed,
        )
    return found, "" if found else preempted([failed.get(node.name) for node in cluster.nodes])


def on_node(
    pod: Pod,
    node: NodeView,
    states: Sequence[State],
    budgets: Sequence[Object],
    *,
    now: float,
    nominated: Sequence[Pod] = (),
) -> Candidate | Status:
    """The fewest and least important pods of a node that would have to go (S56); or why none would help."""
    lower = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lower:
        return Status(Code.UNRESOLVABLE, (NO_VICTIMS,), "DefaultPreemption")
    there, moved = node.copy(), copies(states)
    for other in lower:
        there.remove(other.uid)
        shift(moved, pod, other, node, -1)
    status = judged(pod, there, moved, nominated)
    if not status.ok:
        return status
    lower.sort(key=lambda other: _importance(other, now))
    victims: list[Pod] = []
    violations = 0
    violating, others = split(lower, budgets)
    for group in (violating, others):
        for other in group:
            there.add(other)
            shift(moved, pod, other, node, 1)
            if judged(pod, there, moved, nominated).ok:
                continue
            there.remove(other.uid)
            shift(moved, pod, other, node, -1)
            victims.append(other)
            violations += group is violating
    victims.sort(key=lambda other: _importance(other, now))
    return Candidate(node.name, tuple(victims), violations)


def split(pods: Sequence[Pod], budgets: Sequence[Object]) -> tuple[list[Pod], list[Pod]]:
    """Pods whose going a budget would forbid, and the others, each in the given order."""
    left = [int((one.get("status") or {}).get("disruptionsAllowed") or 0) for one in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        forbidden = False
        for at, budget in enumerate(budgets):
            if _guards(budget, pod):
                left[at] -= 1
                forbidden |= left[at] < 0
        (violating if forbidden else others).append(pod)
    return violating, others


def _guards(budget: Object, pod: Pod) -> bool:
    if not pod.labels or (budget.get("metadata") or {}).get("namespace", "") != pod.namespace:
        return False
    selector = selectors.from_object((budget.get("spec") or {}).get("selector"))
    if selector.empty or not selector.matches(pod.labels):
        return False
    return pod.name not in ((budget.get("status") or {}).get("disruptedPods") or {})


def picks(found: Mapping[str, Candidate], *, now: float) -> list[str]:
    """The nodes where it costs least, by the rules one after another (S57); any of what is left may be taken."""
    rows = list(found.values())
    for cost in (
        lambda one: one.violations,
        lambda one: one.victims[0].priority if one.victims else -OFFSET,
        lambda one: sum(victim.priority + OFFSET for victim in one.victims),
        lambda one: len(one.victims),
        lambda one: -_earliest(one, now),
    ):
        if len(rows) > 1:
            least = min(map(cost, rows))
            rows = [one for one in rows if cost(one) == least]
    return [one.node for one in rows]


def _earliest(one: Candidate, now: float) -> float:
    """When the first of the most important victims started."""
    if not one.victims:
        return now
    top = max(victim.priority for victim in one.victims)
    return min(started(victim, now) for victim in one.victims if victim.priority == top)


def _importance(pod: Pod, now: float) -> tuple[int, float]:
    """Ascending: the most important pod is the first."""
    return -pod.priority, started(pod, now)


def started(pod: Pod, now: float) -> float:
    """Seconds since 1970; `now` for a pod that has not started."""
    told = (pod.object.get("status") or {}).get("startTime")
    if told is None:
        return now
    if isinstance(told, str):
        return datetime.fromisoformat(told).timestamp()
    return float(told)
