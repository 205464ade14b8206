"""PodTopologySpread (S35, S36, S43): pods of one sort spread over the values of a label of nodes. v1.34."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from attrs import define, field, frozen

from dashpot.model.objects import selector as selectors
from dashpot.model.objects.selector import Selector
from dashpot.model.placement.match import required_here, untolerated
from dashpot.model.placement.plugin import MOST, SKIP, Skip
from dashpot.model.placement.shape import OK, Code, NodeView, Pod, Status
from dashpot.model.placement.snapshot import Snapshot

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED = "node(s) didn't match pod topology spread constraints"
SYSTEM: tuple[Object, ...] = (
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT, "maxSkew": 3},
    {"topologyKey": ZONE, "whenUnsatisfiable": SOFT, "maxSkew": 5},
)
"""The constraints of pods that have none, with defaultingType System."""


@frozen
class Constraint:
    """One constraint of a pod, its selector read."""

    key: str
    skew: int
    least: int
    selector: Selector
    by_affinity: bool
    by_taints: bool

    @staticmethod
    def of(one: Object, labels: dict[str, str], selector: Selector | None = None) -> Constraint:
        """From the API's object; `labels` are the pod's, for matchLabelKeys."""
        chosen = selector if selector is not None else _selector(one, labels)
        return Constraint(
            one.get("topologyKey", ""),
            int(one.get("maxSkew", 1)),
            int(one.get("minDomains") or 1),
            chosen,
            one.get("nodeAffinityPolicy", "Honor") == "Honor",
            one.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )

    def counts_in(self, pod: Pod, node: NodeView) -> bool:
        """Whether the node counts at all: its policies of inclusion."""
        if self.by_affinity and not required_here(pod.spec, node.object):
            return False
        if not self.by_taints:
            return True
        return untolerated(node.taints, pod.spec.get("tolerations") or (), ("NoSchedule", "NoExecute")) is None

    def matching(self, node: NodeView, namespace: str) -> int:
        """How many pods of a node are of the sort."""
        return node.matching(namespace, self.selector)


def _selector(one: Object, labels: dict[str, str]) -> Selector:
    found = selectors.from_object(one.get("labelSelector"))
    keys = [key for key in one.get("matchLabelKeys") or () if key in labels]
    if not keys or found.never:
        return found
    more = tuple(selectors.Requirement(key, "=", (labels[key],)) for key in keys)
    return Selector((*found.requirements, *more))


@define(eq=False)
class _State:
    """constraints and, for each, domain → pods of the sort, and the least of them (None: to be found again)."""

    constraints: tuple[Constraint, ...]
    counts: list[dict[str, int]] = field(factory=list)
    least: list[int | None] = field(factory=list)

    def fewest(self, at: int) -> int:
        """The pods of the emptiest domain of a constraint; 0 while there are too few domains (minDomains)."""
        found = self.least[at]
        if found is None:
            counts = self.counts[at]
            enough = len(counts) >= self.constraints[at].least
            found = self.least[at] = min(counts.values()) if enough else 0
        return found


class PodTopologySpread:
    """Filter and score. `defaults`: constraints of pods that have none; None: the system's."""

    name = "PodTopologySpread"

    def __init__(self, defaults: Sequence[Object] | None = None) -> None:
        self._system = defaults is None
        self._defaults: Sequence[Object] = SYSTEM if defaults is None else defaults

    # -- filter -------------------------------------------------------------------------------------------------

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """Counts the pods of each domain; SKIP without hard constraints."""
        constraints = self._constraints(pod, cluster, HARD)
        if not constraints:
            return SKIP
        state = _State(constraints, [{} for _ in constraints], [None] * len(constraints))
        for node in cluster.nodes:
            labels = node.labels
            if not all(one.key in labels for one in constraints):
                continue
            for one, counts in zip(constraints, state.counts, strict=True):
                if one.counts_in(pod, node):
                    value = labels[one.key]
                    counts[value] = counts.get(value, 0) + one.matching(node, pod.namespace)
        return state

    def admits(self, pod: Pod, node: NodeView, state: _State) -> Status:
        """Whether one pod more in the node's domain keeps every skew."""
        for at, one in enumerate(state.constraints):
            value = node.labels.get(one.key)
            if value is None:
                return Status(Code.UNRESOLVABLE, (MISSING,), self.name)
            own = 1 if one.selector.matches(pod.labels) else 0
            if state.counts[at].get(value, 0) + own - state.fewest(at) > one.skew:
                return Status(Code.UNSCHEDULABLE, (SKEWED,), self.name)
        return OK

    def copied(self, state: _State) -> _State:
        """Other counts, the same constraints."""
        return _State(state.constraints, [dict(counts) for counts in state.counts], list(state.least))

    def shift(self, state: _State, pod: Pod, other: Pod, node: NodeView, by: Literal[1, -1]) -> None:
        """Counts one pod more or less."""
        labels = node.labels
        if other.namespace != pod.namespace or not all(one.key in labels for one in state.constraints):
            return
        for at, one in enumerate(state.constraints):
            if one.selector.matches(other.labels) and one.counts_in(pod, node):
                counts, value = state.counts[at], labels[one.key]
                before = counts.get(value)
                counts[value] = (before or 0) + by
                # only the emptiest domain that gains, or one that loses, can change what the least is
                if before is None or by < 0 or before == state.least[at]:
                    state.least[at] = None

    # -- score --------------------------------------------------------------------------------------------------

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """Higher where fewer pods of the sort are; rarer keys weigh less (the logarithm of their domains)."""
        constraints = self._constraints(pod, cluster, SOFT)
        if not constraints:
            return SKIP
        whole = bool(pod.spec.get("topologySpreadConstraints")) or not self._system
        ignored = {n.name for n in nodes if whole and not all(one.key in n.labels for one in constraints)}
        scored = [node for node in nodes if node.name not in ignored]
        tallies = [_tally(one, scored) for one in constraints]
        for node in cluster.nodes:
            if whole and not all(one.key in node.labels for one in constraints):
                continue
            for one, tally in zip(constraints, tallies, strict=True):
                value = node.labels.get(one.key, "")
                if value in tally and one.counts_in(pod, node):
                    tally[value] += one.matching(node, pod.namespace)
        weights = [
            math.log((len(scored) if one.key == HOSTNAME else len(tally)) + 2)
            for one, tally in zip(constraints, tallies, strict=True)
        ]
        raw: dict[str, int] = {}
        for node in scored:
            total = 0.0
            for one, tally, weight in zip(constraints, tallies, weights, strict=True):
                if one.key in node.labels:
                    own = one.key == HOSTNAME
                    here = one.matching(node, pod.namespace) if own else tally[node.labels[one.key]]
                    total += here * weight + (one.skew - 1)
            raw[node.name] = _rounded(total)
        return _normal(raw, nodes)

    # -- constraints --------------------------------------------------------------------------------------------

    def _constraints(self, pod: Pod, cluster: Snapshot, when: str) -> tuple[Constraint, ...]:
        own = pod.spec.get("topologySpreadConstraints") or ()
        if own:
            return tuple(Constraint.of(one, pod.labels) for one in own if one.get("whenUnsatisfiable") == when)
        wanted = [one for one in self._defaults if one.get("whenUnsatisfiable") == when]
        if not wanted:
            return ()
        selector = default_selector(pod, cluster)
        if selector.empty:
            return ()
        return tuple(Constraint.of(one, pod.labels, selector) for one in wanted)


def default_selector(pod: Pod, cluster: Snapshot) -> Selector:
    """Pods like this one: the labels of the Services that select it, and the selector of what owns it (S43)."""
    found: list[selectors.Requirement] = []
    for service in cluster.objects.get("Service", ()):
        labels = (service.get("spec") or {}).get("selector")
        if service["metadata"].get("namespace", "") == pod.namespace and labels:
            one = selectors.from_labels(labels)
            if one.matches(pod.labels):
                found += one.requirements
    owner = next((ref for ref in pod.object["metadata"].get("ownerReferences") or () if ref.get("controller")), None)
    if owner is not None and owner.get("kind") in ("ReplicaSet", "StatefulSet", "ReplicationController"):
        keeper = cluster.named(owner["kind"], pod.namespace, owner.get("name", ""))
        if keeper is not None:
            said = (keeper.get("spec") or {}).get("selector")
            plain = owner["kind"] == "ReplicationController"
            found += (selectors.from_labels(said) if plain else selectors.from_object(said)).requirements
    return Selector(tuple(dict.fromkeys(found)))


def _tally(one: Constraint, nodes: Sequence[NodeView]) -> dict[str, int]:
    """A zero for each domain of the nodes; hosts are counted one by one."""
    return {} if one.key == HOSTNAME else {node.labels.get(one.key, ""): 0 for node in nodes}


def _rounded(x: float) -> int:
    """Half away from zero, as Go rounds."""
    return math.floor(x + 0.5) if x >= 0 else -math.floor(-x + 0.5)


def _normal(raw: dict[str, int], nodes: Sequence[NodeView]) -> list[int]:
    """0 to 100, the higher the fewer; 0 for a node that is ignored."""
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)
    if most == 0:
        return [MOST if node.name in raw else 0 for node in nodes]
    return [MOST * (most + least - raw[node.name]) // most if node.name in raw else 0 for node in nodes]
