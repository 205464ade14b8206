"""The plugins that look at one node alone, over the plain rules of `static` and `score` (S24 to S29, S39, S40)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from dashpot.model.placement import score, static
from dashpot.model.placement.allocation import FitScore
from dashpot.model.placement.match import node_selector, node_term
from dashpot.model.placement.plugin import MOST, SKIP, Only, Plain, Skip
from dashpot.model.placement.shape import Code, NodeView, Pod, Status
from dashpot.model.placement.snapshot import Snapshot

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"


class NodeUnschedulable(Plain):
    """S24."""

    name = "NodeUnschedulable"

    def admits(self, pod: Pod, node: NodeView, state: Any) -> Status:
        """A cordoned node takes only who tolerates that."""
        return static.unschedulable(pod, node)


class NodeName(Plain):
    """S25."""

    name = "NodeName"

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """Only a pod that names its node is asked about."""
        return None if pod.spec.get("nodeName") else SKIP

    def admits(self, pod: Pod, node: NodeView, state: Any) -> Status:
        """It takes no other."""
        return static.node_name(pod, node)


class TaintToleration(Plain):
    """S26, S39."""

    name = "TaintToleration"

    def admits(self, pod: Pod, node: NodeView, state: Any) -> Status:
        """The first hard taint that nothing tolerates refuses."""
        return static.taints(pod, node)

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """Fewer soft taints that nothing tolerates are better."""
        return score.soft_taints(pod, nodes)


@frozen
class NodeAffinity(Plain):
    """S27, S40. `added`: the addedAffinity of the profile."""

    added: Object = field(factory=dict)
    name: str = "NodeAffinity"

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """SKIP without any requirement; the only nodes where every term names some."""
        required = ((pod.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
        if required is None and not pod.spec.get("nodeSelector") and not self.added.get(REQUIRED):
            return SKIP
        names = named(required) if required is not None else None
        if names is None:
            return None
        if not names:
            return Status(Code.UNRESOLVABLE, (CONFLICT,), self.name)
        return Only(names)

    def admits(self, pod: Pod, node: NodeView, state: Any) -> Status:
        """The profile's own requirement first, then the pod's."""
        added = self.added.get(REQUIRED)
        if added is not None and not node_selector(added, node.object):
            return Status(Code.UNRESOLVABLE, (ENFORCED,), self.name)
        return static.affinity(pod, node)

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """The weights of the preferred terms that select a node; SKIP without any."""
        own = ((pod.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED) or ()
        terms = [*own, *(self.added.get(PREFERRED) or ())]
        if not terms:
            return SKIP
        sums = [
            sum(one["weight"] for one in terms if node_term(one.get("preference") or {}, node.object)) for node in nodes
        ]
        most = max(sums, default=0)
        return [MOST * one // most if most else 0 for one in sums]


def named(required: Object) -> frozenset[str] | None:
    """The only nodes that a required node affinity can mean, where every term has names; else None."""
    found: frozenset[str] = frozenset()
    for term in required.get("nodeSelectorTerms") or ():
        rows = [
            frozenset(one.get("values") or ())
            for one in term.get("matchFields") or ()
            if one.get("key") == "metadata.name" and one.get("operator") == "In"
        ]
        if not rows:
            return None
        found |= frozenset.intersection(*rows)
    return found if required.get("nodeSelectorTerms") else None


class NodePorts(Plain):
    """S28."""

    name = "NodePorts"

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """SKIP for a pod without host ports."""
        return None if pod.ports else SKIP

    def admits(self, pod: Pod, node: NodeView, state: Any) -> Status:
        """One user of a host port at each address."""
        return static.ports(pod, node)


@frozen
class NodeResourcesFit(Plain):
    """S29, S41. `ignored`: extended resources that are not looked at; `ignored_groups`: their prefixes before `/`."""

    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    score: FitScore = field(factory=FitScore)
    name: str = "NodeResourcesFit"

    def admits(self, pod: Pod, node: NodeView, state: Any) -> Status:
        """Room for one more pod and for what it asks."""
        return static.fit(pod, node, self._ignores if self.ignored or self.ignored_groups else None)

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """By what is left, as the strategy says."""
        return self.score.rate(pod, nodes, cluster)

    def _ignores(self, name: str) -> bool:
        return name in self.ignored or name.partition("/")[0] in self.ignored_groups
