"""Plugins by name, with their arguments as a KubeSchedulerConfiguration v1 has them (S13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.placement.allocation import EVEN, BalancedAllocation, FitScore
from dashpot.model.placement.cycle import Profile
from dashpot.model.placement.image import ImageLocality
from dashpot.model.placement.interpod import InterPodAffinity
from dashpot.model.placement.local import (
    NodeAffinity,
    NodeName,
    NodePorts,
    NodeResourcesFit,
    NodeUnschedulable,
    TaintToleration,
)
from dashpot.model.placement.spread import PodTopologySpread

Object = dict[str, Any]


def _fit(args: Object) -> NodeResourcesFit:
    strategy = args.get("scoringStrategy") or {}
    named = strategy.get("resources")
    ratio = (strategy.get("requestedToCapacityRatio") or {}).get("shape") or ()
    score = FitScore(
        strategy.get("type", "LeastAllocated"),
        EVEN if named is None else tuple((one["name"], int(one.get("weight") or 1)) for one in named),
        tuple((int(one.get("utilization") or 0), int(one.get("score") or 0)) for one in ratio),
    )
    ignored = frozenset(args.get("ignoredResources") or ())
    return NodeResourcesFit(ignored, frozenset(args.get("ignoredResourceGroups") or ()), score)


def _spread(args: Object) -> PodTopologySpread:
    listed = args.get("defaultingType") == "List"
    return PodTopologySpread(args.get("defaultConstraints") or () if listed else None)


def _balanced(args: Object) -> BalancedAllocation:
    named = tuple(one["name"] for one in args.get("resources") or ())
    return BalancedAllocation(named or ("cpu", "memory"))


def _interpod(args: Object) -> InterPodAffinity:
    hard = args.get("hardPodAffinityWeight")
    return InterPodAffinity(1 if hard is None else int(hard), bool(args.get("ignorePreferredTermsOfExistingPods")))


PLUGINS: dict[str, Callable[[Object], Any]] = {
    "NodeUnschedulable": lambda args: NodeUnschedulable(),
    "NodeName": lambda args: NodeName(),
    "TaintToleration": lambda args: TaintToleration(),
    "NodeAffinity": lambda args: NodeAffinity(args.get("addedAffinity") or {}),
    "NodePorts": lambda args: NodePorts(),
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _interpod,
    "NodeResourcesBalancedAllocation": _balanced,
    "ImageLocality": lambda args: ImageLocality(),
}
"""Name → what makes it of its arguments, in the order in which they are asked."""

FILTERS = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "PodTopologySpread", "InterPodAffinity",
)  # fmt: skip
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


class UnknownPlugin(ValueError):
    """A name that no plugin has."""


def plugin(name: str, args: Object) -> Any:
    """A plugin with its arguments; UnknownPlugin."""
    made = PLUGINS.get(name)
    if made is None:
        raise UnknownPlugin(f"there is no plugin '{name}'; there are: {', '.join(PLUGINS)}")
    return made(args)


def default() -> Profile:
    """The default profile."""
    made = {name: plugin(name, {}) for name in PLUGINS}
    return Profile(tuple(made[name] for name in FILTERS), tuple((made[n], weight) for n, weight in WEIGHTS.items()))
