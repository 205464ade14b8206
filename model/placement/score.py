"""Scores of nodes that a pod fits, 0 to 100 each (rules S6, S39, S41, S42, S40): the resource and taint ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashpot.model.placement.match import node_term, tolerates
from dashpot.model.placement.shape import NodeView, Pod

Object = dict[str, Any]

WEIGHTS = {"taints": 3, "affinity": 2, "least": 1, "balanced": 1}


def totals(pod: Pod, nodes: Sequence[NodeView]) -> list[int]:
    """The weighted sum of each node."""
    taints = soft_taints(pod, nodes)
    affinity = preferences(pod, nodes)
    return [
        WEIGHTS["taints"] * taints[at]
        + WEIGHTS["affinity"] * affinity[at]
        + WEIGHTS["least"] * least_allocated(pod, node)
        + WEIGHTS["balanced"] * balanced(pod, node)
        for at, node in enumerate(nodes)
    ]


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


def least_allocated(pod: Pod, node: NodeView) -> int:
    """S41: the mean over processor and memory of what stays free, in percent."""
    parts = []
    for name in ("cpu", "memory"):
        capacity = node.allocatable.get(name, 0)
        if capacity:
            wanted = pod.counted.get(name, 0) + node.counted.get(name, 0)
            parts.append(0 if wanted > capacity else (capacity - wanted) * 100 // capacity)
    return sum(parts) // len(parts) if parts else 0


def balanced(pod: Pod, node: NodeView) -> int:
    """S42: how alike the use of processor and memory would be; a pod that asks for neither is not scored."""
    if not any(pod.asks.get(name) for name in ("cpu", "memory")):
        return 0
    shares = [
        min(1.0, (node.used.get(name, 0) + pod.asks.get(name, 0)) / node.allocatable[name])
        for name in ("cpu", "memory")
        if node.allocatable.get(name, 0)
    ]
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - deviation) * 100)


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
