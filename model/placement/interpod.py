"""InterPodAffinity (S11, S37, S44): pods that want to be near other pods, or far from them. v1.34."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from attrs import define, field, frozen

from dashpot.model.objects import selector as selectors
from dashpot.model.objects.selector import Selector
from dashpot.model.placement.plugin import MOST, SKIP, Skip
from dashpot.model.placement.shape import OK, Code, NodeView, Pod, Status
from dashpot.model.placement.snapshot import Labels, Snapshot

Object = dict[str, Any]
Pair = tuple[str, str]
"""A label of nodes and its value: a domain."""

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@frozen
class Term:
    """One term: which pods, and over which label of nodes near or far is meant."""

    key: str
    namespaces: frozenset[str]
    by_labels: Selector
    selector: Selector
    weight: int = 0

    def matches(self, pod: Pod, namespace_labels: Labels) -> bool:
        """Whether the pod is one of those that the term speaks of."""
        if pod.namespace not in self.namespaces and not self.by_labels.matches(namespace_labels):
            return False
        return self.selector.matches(pod.labels)


@frozen
class Terms:
    """All terms of a pod."""

    near: tuple[Term, ...] = ()
    far: tuple[Term, ...] = ()
    rather_near: tuple[Term, ...] = ()
    rather_far: tuple[Term, ...] = ()


NONE = Terms()


def terms_of(pod: Pod) -> Terms:
    """The terms of a pod, read once."""
    if not pod.has_terms:
        return NONE
    found = pod.remembered.get("terms")
    if found is None:
        affinity = pod.spec.get("affinity") or {}
        near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        found = pod.remembered["terms"] = Terms(
            tuple(_term(one, pod) for one in near.get(REQUIRED) or ()),
            tuple(_term(one, pod) for one in far.get(REQUIRED) or ()),
            tuple(_weighted(one, pod) for one in near.get(PREFERRED) or ()),
            tuple(_weighted(one, pod) for one in far.get(PREFERRED) or ()),
        )
    known: Terms = found
    return known


def _term(one: Object, pod: Pod, weight: int = 0) -> Term:
    names, by_labels = one.get("namespaces") or (), one.get("namespaceSelector")
    if not names and by_labels is None:
        names = (pod.namespace,)
    return Term(
        one.get("topologyKey", ""),
        frozenset(names),
        selectors.from_object(by_labels),
        selectors.from_object(one.get("labelSelector")),
        weight,
    )


def _weighted(one: Object, pod: Pod) -> Term:
    return _term(one.get("podAffinityTerm") or {}, pod, int(one.get("weight", 0)))


@define(eq=False)
class _State:
    """Pods by domain: those that the pod's affinity means (all terms at once), those that its anti-affinity means, and
    those whose own anti-affinity means the pod."""

    terms: Terms
    labels: Labels
    cluster: Snapshot
    near: dict[Pair, int] = field(factory=dict)
    far: dict[Pair, int] = field(factory=dict)
    against: dict[Pair, int] = field(factory=dict)


class InterPodAffinity:
    """Filter and score. `hard`: what another pod's required affinity to this one is worth in the score."""

    name = "InterPodAffinity"

    def __init__(self, hard: int = 1, ignore_existing: bool = False) -> None:
        self._hard = hard
        self._ignore_existing = ignore_existing

    # -- filter -------------------------------------------------------------------------------------------------

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """Counts by domain; SKIP where neither the pod nor any other has such terms."""
        terms = terms_of(pod)
        state = _State(terms, cluster.labels_of(pod.namespace), cluster)
        wide = bool(terms.near or terms.far)
        for node in cluster.nodes:
            for other in (node.pods if wide else node.termed).values():
                self._count(state, pod, other, node, 1)
        if not wide and not state.against:
            return SKIP
        return state

    def admits(self, pod: Pod, node: NodeView, state: _State) -> Status:
        """Affinity first, then the pod's anti-affinity, then that of others."""
        if not self._near(pod, node, state):
            return Status(Code.UNRESOLVABLE, (AFFINITY,), self.name)
        labels = node.labels
        if any(state.far.get((t.key, labels[t.key]), 0) > 0 for t in state.terms.far if t.key in labels):
            return Status(Code.UNSCHEDULABLE, (ANTI,), self.name)
        if state.against and any(state.against.get(pair, 0) > 0 for pair in labels.items()):
            return Status(Code.UNSCHEDULABLE, (EXISTING,), self.name)
        return OK

    @staticmethod
    def _near(pod: Pod, node: NodeView, state: _State) -> bool:
        labels, terms = node.labels, state.terms.near
        if not all(term.key in labels for term in terms):
            return False
        if all(state.near.get((term.key, labels[term.key]), 0) > 0 for term in terms):
            return True
        # the first of a group that wants to be together has nobody to be near to
        return not state.near and all(term.matches(pod, state.labels) for term in terms)

    def copied(self, state: _State) -> _State:
        """Other counts, the same terms."""
        return _State(state.terms, state.labels, state.cluster, dict(state.near), dict(state.far), dict(state.against))

    def shift(self, state: _State, pod: Pod, other: Pod, node: NodeView, by: Literal[1, -1]) -> None:
        """Counts one pod more or less."""
        self._count(state, pod, other, node, by)

    @staticmethod
    def _count(state: _State, pod: Pod, other: Pod, node: NodeView, by: int) -> None:
        labels = node.labels
        near, far = state.terms.near, state.terms.far
        theirs = state.cluster.labels_of(other.namespace)
        if near and all(term.matches(other, theirs) for term in near):
            _add(state.near, ((term.key, labels[term.key]) for term in near if term.key in labels), by)
        _add(state.far, ((t.key, labels[t.key]) for t in far if t.key in labels and t.matches(other, theirs)), by)
        against = terms_of(other).far
        _add(
            state.against,
            ((t.key, labels[t.key]) for t in against if t.key in labels and t.matches(pod, state.labels)),
            by,
        )

    # -- score --------------------------------------------------------------------------------------------------

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """Higher near those that it would rather be near to, and that would rather have it near."""
        terms = terms_of(pod)
        own = bool(terms.rather_near or terms.rather_far)
        if self._ignore_existing and not own:
            return SKIP
        worth: dict[Pair, int] = {}
        mine = cluster.labels_of(pod.namespace)
        for node in cluster.nodes:
            for other in (node.pods if own else node.termed).values():
                self._weigh(worth, pod, terms, mine, other, node, cluster)
        if not worth:
            return SKIP
        sums = [sum(worth.get(pair, 0) for pair in node.labels.items()) for node in nodes]
        least, most = min(sums, default=0), max(sums, default=0)
        return [int(MOST * (one - least) / (most - least)) if most > least else 0 for one in sums]

    def _weigh(
        self,
        worth: dict[Pair, int],
        pod: Pod,
        terms: Terms,
        mine: Labels,
        other: Pod,
        node: NodeView,
        cluster: Snapshot,
    ) -> None:
        labels, theirs, others = node.labels, cluster.labels_of(other.namespace), terms_of(other)
        said = [(term, term.weight, other, theirs) for term in terms.rather_near]
        said += [(term, -term.weight, other, theirs) for term in terms.rather_far]
        if self._hard > 0:
            said += [(term, self._hard, pod, mine) for term in others.near]
        said += [(term, term.weight, pod, mine) for term in others.rather_near]
        said += [(term, -term.weight, pod, mine) for term in others.rather_far]
        for term, weight, whom, whose in said:
            if term.key in labels and term.matches(whom, whose):
                pair = term.key, labels[term.key]
                worth[pair] = worth.get(pair, 0) + weight


def _add(counts: dict[Pair, int], pairs: Iterable[Pair], by: int) -> None:
    for pair in pairs:
        count = counts.get(pair, 0) + by
        if count:
            counts[pair] = count
        else:
            counts.pop(pair, None)
