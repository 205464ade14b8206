"""One scheduling cycle (S15 to S22): which nodes a pod fits, how they rate, which are the best; or why none fits.

outcome = run(pod, snapshot, profile); outcome.best  # a Found: the runtime draws one of them, the checker tries each
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from dashpot.model.placement.plugin import SKIP, Filter, Only, Score, Skip
from dashpot.model.placement.shape import OK, Code, NodeView, Pod, Status
from dashpot.model.placement.snapshot import Snapshot

LEAST_LOOKED_AT = 100
"""Feasible nodes at which a walk ends in a big cluster, at least."""
Nominations = Mapping[str, Sequence[Pod]]
"""Node → pods that preemption has promised it to."""
State = tuple[Filter, Any]


@frozen
class Profile:
    """The plugins of one scheduler. `percentage` of nodes to score; None: by the size of the cluster."""

    filters: tuple[Filter, ...]
    scores: tuple[tuple[Score, int], ...] = ()
    percentage: int | None = None
    name: str = "default-scheduler"


@frozen
class Prepared:
    """The filters that are asked, with their states. `only`: nothing but these nodes, as `named_by` said."""

    states: tuple[State, ...]
    only: frozenset[str] | None = None
    named_by: tuple[str, ...] = ()


@frozen
class Refused:
    """A plugin that refused the pod before any node was looked at."""

    status: Status


@frozen
class Found:
    """Nodes that the pod fits, in walk order; `best` are those with the top score.

    points  node → plugin → score × weight; empty where one node alone fits: it is taken unscored
    walked  nodes that were looked at
    """

    feasible: tuple[str, ...]
    best: tuple[str, ...]
    points: dict[str, dict[str, int]]
    walked: int
    statuses: dict[str, Status] = field(factory=dict)


@frozen
class Unfit:
    """No node fits. `statuses` by node; `refused`: the status of a plugin that spoke before any node was looked at."""

    statuses: dict[str, Status]
    walked: int
    refused: Status | None = None

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that rejected some node: only what concerns them can help."""
        return frozenset(status.plugin for status in self.statuses.values() if status.plugin)


def wanted_nodes(count: int, percentage: int | None) -> int:
    """How many feasible nodes are enough in a cluster of so many (S18)."""
    if count < LEAST_LOOKED_AT:
        return count
    share = percentage or max(5, 50 - count // 125)
    return count if share >= 100 else max(LEAST_LOOKED_AT, count * share // 100)


def prepare(pod: Pod, cluster: Snapshot, filters: Sequence[Filter]) -> Prepared | Refused:
    """PreFilter of all (S15)."""
    states: list[State] = []
    only: frozenset[str] | None = None
    named: list[str] = []
    refused: Status | None = None
    for one in filters:
        state = one.prepare(pod, cluster)
        if state is SKIP:
            continue
        if isinstance(state, Status):
            if state.code is Code.UNRESOLVABLE:
                return Refused(state)
            refused = refused or state
            continue
        if isinstance(state, Only):
            only = state.names if only is None else only & state.names
            named.append(one.name)
            state = state.state
        states.append((one, state))
    if refused is not None:
        return Refused(refused)
    if only is not None and not only:
        together = f"plugin(s) [{' '.join(named)}] simultaneously" if len(named) > 1 else f"plugin {named[0]}"
        return Refused(Status(Code.UNRESOLVABLE, (f"node(s) didn't satisfy {together}",), named[-1]))
    return Prepared(tuple(states), only, tuple(named))


def admitted(pod: Pod, node: NodeView, states: Sequence[State]) -> Status:
    """What the filters say of a node; the first that refuses ends it."""
    for one, state in states:
        status = one.admits(pod, node, state)
        if not status.ok:
            return status
    return OK


def copies(states: Sequence[State]) -> list[State]:
    """States that can be shifted while the given ones stay."""
    return [(one, one.copied(state)) for one, state in states]


def shift(states: Sequence[State], pod: Pod, other: Pod, node: NodeView, by: Literal[1, -1]) -> None:
    """Another pod comes to the node, or goes from it, for all filters."""
    for one, state in states:
        one.shift(state, pod, other, node, by)


def judged(pod: Pod, node: NodeView, states: Sequence[State], nominated: Sequence[Pod] = ()) -> Status:
    """The same, beside pods that the node is promised to: with those that matter more, and without them (S19)."""
    others = [one for one in nominated if one.priority >= pod.priority and one.uid != pod.uid]
    if others:
        crowded, moved = node.copy(), copies(states)
        for other in others:
            crowded.add(other)
            shift(moved, pod, other, node, 1)
        status = admitted(pod, crowded, moved)
        if not status.ok:
            return status
    return admitted(pod, node, states)


def run(
    pod: Pod, cluster: Snapshot, profile: Profile, *, start: int = 0, nominations: Nominations | None = None
) -> Found | Unfit:
    """The whole cycle. `start`: the index at which the walk begins."""
    promised = nominations or {}
    ready = prepare(pod, cluster, profile.filters)
    if isinstance(ready, Refused):
        return Unfit({node.name: ready.status for node in cluster.nodes}, 0, ready.status)
    wished = cluster.by_name.get((pod.object.get("status") or {}).get("nominatedNodeName") or "")
    if wished is not None and judged(pod, wished, ready.states, promised.get(wished.name, ())).ok:
        return Found((wished.name,), (wished.name,), {}, 0)
    feasible, statuses = _walk(pod, cluster, ready, profile, start, promised)
    walked = len(feasible) + len(statuses)
    if not feasible:
        absent = Status(Code.UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{' '.join(ready.named_by)}]",), "")
        return Unfit({node.name: statuses.get(node.name, absent) for node in cluster.nodes}, walked)
    if len(feasible) == 1:
        return Found((feasible[0].name,), (feasible[0].name,), {}, walked, statuses)
    points = rated(pod, feasible, cluster, profile)
    sums = {name: sum(parts.values()) for name, parts in points.items()}
    top = max(sums.values())
    names = tuple(node.name for node in feasible)
    return Found(names, tuple(name for name in names if sums[name] == top), points, walked, statuses)


def _walk(
    pod: Pod, cluster: Snapshot, ready: Prepared, profile: Profile, start: int, promised: Nominations
) -> tuple[list[NodeView], dict[str, Status]]:
    nodes = cluster.nodes if ready.only is None else [node for node in cluster.nodes if node.name in ready.only]
    want = wanted_nodes(len(nodes), profile.percentage) if profile.scores else 1
    feasible: list[NodeView] = []
    statuses: dict[str, Status] = {}
    for at in range(len(nodes)):
        node = nodes[(start + at) % len(nodes)]
        status = judged(pod, node, ready.states, promised.get(node.name, ()))
        if status.ok:
            feasible.append(node)
            if len(feasible) >= want:
                break
        else:
            statuses[node.name] = status
    return feasible, statuses


def rated(pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot, profile: Profile) -> dict[str, dict[str, int]]:
    """node → plugin → score × weight; a plugin that skips is left out."""
    points: dict[str, dict[str, int]] = {node.name: {} for node in nodes}
    for one, weight in profile.scores:
        scores = one.rate(pod, nodes, cluster)
        if isinstance(scores, Skip):
            continue
        for node, score in zip(nodes, scores, strict=True):
            points[node.name][one.name] = score * weight
    return points
