"""Scores by what is left: LeastAllocated, MostAllocated, RequestedToCapacityRatio, balanced (S6, S41, S42)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from dashpot.model.placement.plugin import MOST, SKIP, Skip
from dashpot.model.placement.request import scalar
from dashpot.model.placement.shape import NodeView, Pod
from dashpot.model.placement.snapshot import Snapshot

Weights = tuple[tuple[str, int], ...]
"""Resource → weight."""
Shape = tuple[tuple[int, int], ...]
"""Utilisation in percent → score from 0 to 10."""

EVEN: Weights = (("cpu", 1), ("memory", 1))
GUESSED = ("cpu", "memory")
"""Resources for which a container that asks for nothing counts for something."""


@frozen
class FitScore:
    """NodeResourcesFit as a score."""

    strategy: str = "LeastAllocated"
    resources: Weights = EVEN
    shape: Shape = ()
    name: str = "NodeResourcesFit"

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """The weighted mean over the resources."""
        return [self._of(pod, node) for node in nodes]

    def _of(self, pod: Pod, node: NodeView) -> int:
        total = weights = 0
        for name, weight in self.resources:
            asked = pod.counted.get(name, 0) if name in GUESSED else pod.asks.get(name, 0)
            capacity = node.allocatable.get(name, 0)
            if not capacity or (scalar(name) and not pod.asks.get(name)):
                continue
            used = node.counted.get(name, 0) if name in GUESSED else node.used.get(name, 0)
            points = self._points(used + asked, capacity)
            if self.strategy == "RequestedToCapacityRatio" and points <= 0:
                continue
            total += points * weight
            weights += weight
        if not weights:
            return 0
        if self.strategy == "RequestedToCapacityRatio":
            return math.floor(total / weights + 0.5)
        return total // weights

    def _points(self, wanted: int, capacity: int) -> int:
        match self.strategy:
            case "LeastAllocated":
                return 0 if wanted > capacity else (capacity - wanted) * MOST // capacity
            case "MostAllocated":
                return min(wanted, capacity) * MOST // capacity
            case _:
                return along(self.shape, MOST if wanted > capacity else wanted * MOST // capacity)


def along(shape: Shape, utilisation: int) -> int:
    """The broken line through the shape, scores times ten, level beyond its ends. Cut toward zero, as Go does."""
    last = (0, 0)
    for at, point in enumerate(shape):
        if utilisation <= point[0]:
            if at == 0:
                return point[1] * 10
            rise = (point[1] - last[1]) * 10 * (utilisation - last[0])
            return last[1] * 10 + int(rise / (point[0] - last[0]))
        last = point
    return last[1] * 10


@frozen
class BalancedAllocation:
    """NodeResourcesBalancedAllocation: higher where the resources would be used alike."""

    resources: tuple[str, ...] = ("cpu", "memory")
    name: str = "NodeResourcesBalancedAllocation"

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """SKIP for a pod that asks for none of the resources."""
        if not any(pod.asks.get(name) for name in self.resources):
            return SKIP
        return [self.of(pod, node) for node in nodes]

    def of(self, pod: Pod, node: NodeView) -> int:
        """One node's score, from what pods really ask for."""
        shares = [
            min(1.0, (node.used.get(name, 0) + pod.asks.get(name, 0)) / node.allocatable[name])
            for name in self.resources
            if node.allocatable.get(name) and (not scalar(name) or pod.asks.get(name))
        ]
        if len(shares) == 2:
            deviation = abs(shares[0] - shares[1]) / 2
        elif len(shares) > 2:
            mean = sum(shares) / len(shares)
            deviation = math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))
        else:
            deviation = 0.0
        return int((1 - deviation) * MOST)
