"""Scores of nodes by taints and preferred affinity, 0 to 100 each (rules S39, S40)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashpot.model.placement.match import node_term, tolerates
from dashpot.model.placement.shape import NodeView, Pod

Object = dict[str, Any]


def soft_taints(pod: Pod, nodes: Sequence[NodeView]) -> list[int]:
    """S39: 100 where no taint PreferNoSchedule goes untolerated, 0 where most do."""
    counts = [_soft_taints(pod, node) for node in nodes]
    most = max(counts, default=0)
    return [100 - 100 * count // most if most else 100 for count in counts]


def preferences(pod: Pod, nodes: Sequence[NodeView]) -> list[int]:
    """S40: the weights of the preferred terms that select the node, 100 at the best."""
    sums = [_preferred(pod, node) for node in nodes]
    most = max(sums, default=0)
    return [100 * one // most if most else 0 for one in sums]


def _soft_taints(pod: Pod, node: NodeView) -> int:
    soft = [one for one in pod.spec.get("tolerations") or () if one.get("effect") in (None, "", "PreferNoSchedule")]
    return sum(
        1
        for taint in node.taints
        if taint.get("effect") == "PreferNoSchedule" and not any(tolerates(one, taint) for one in soft)
    )


def _preferred(pod: Pod, node: NodeView) -> int:
    wanted = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = wanted.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(term["weight"] for term in terms if node_term(term.get("preference") or {}, node.object))
