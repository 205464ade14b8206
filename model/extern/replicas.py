"""How many replicas a measurement asks for: the arithmetic of the horizontal autoscaler.

Pods are their JSON, values thousandths, times milliseconds since 1970. What cannot be computed is Unmeasured, in
upstream's words. Source: pkg/controller/podautoscaler/replica_calculator.go, metrics/utilization.go of release 1.34.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from dashpot.model.extern.metrics import Sample, Unmeasured, milli
from dashpot.model.extern.workloads import Object, at, moment

TOLERANCE = 0.1
READINESS_DELAY_MS = 30_000
CPU_INITIALIZATION_MS = 300_000


@frozen
class Tolerance:
    """By how much a ratio may be off without consequence, below 1 and above."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def within(self, ratio: float) -> bool:
        """Whether the ratio is as good as 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@frozen
class Proposal:
    """How many replicas, and what was measured: thousandths for each pod (or in all), percent of what was asked for."""

    replicas: int
    value: int
    percent: int | None = None


@frozen
class Groups:
    """Pods by what their samples are worth: how many count, and the names of those that are not ready, of those without
    a sample, and of those that are going or failed."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def group(pods: Iterable[Object], samples: Mapping[str, Sample], resource: str, now: int) -> Groups:
    """Who counts. Only for `cpu` it matters how long a pod has been ready."""
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in pods:
        name, status = str(at(pod, "metadata", "name")), pod.get("status") or {}
        if at(pod, "metadata", "deletionTimestamp") is not None or status.get("phase") == "Failed":
            ignored.add(name)
        elif status.get("phase", "Pending") == "Pending":
            unready.add(name)
        elif name not in samples:
            missing.add(name)
        elif resource == "cpu" and _too_early(status, samples[name], now):
            unready.add(name)
        else:
            ready += 1
    return Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _too_early(status: Object, sample: Sample, now: int) -> bool:
    """Whether a pod's use of processors tells only how it starts."""
    condition = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    begun = moment(status.get("startTime"))
    if condition is None or begun is None:
        return True
    moved = moment(condition.get("lastTransitionTime")) or 0
    if begun + CPU_INITIALIZATION_MS > now:
        return condition.get("status") == "False" or sample.at < moved + sample.window
    return condition.get("status") == "False" and begun + READINESS_DELAY_MS > moved


def requests(pods: Iterable[Object], resource: str, container: str = "") -> dict[str, int]:
    """What each pod asks for; Unmeasured where a container asks for nothing."""
    found: dict[str, int] = {}
    for pod in pods:
        name = str(at(pod, "metadata", "name"))
        whole = milli(at(pod, "spec", "resources", "requests", resource))
        if whole is not None and not container:
            found[name] = whole
            continue
        sidecars = [c for c in at(pod, "spec", "initContainers") or () if c.get("restartPolicy") == "Always"]
        total = 0
        for one in [*(at(pod, "spec", "containers") or ()), *sidecars]:
            if container and one.get("name") != container:
                continue
            asked = milli(at(one, "resources", "requests", resource))
            if asked is None:
                raise Unmeasured(f"missing request for {resource} in container {one.get('name')} of Pod {name}")
            total += asked
        found[name] = total
    return found


# ---------------------------------------------------------------- ratios
def _utilization(values: Mapping[str, int], asked: Mapping[str, int], target: int) -> tuple[float, int, int]:
    """How much of what they asked for pods use, against the target: the ratio, percent, and the mean use."""
    known = [name for name in values if name in asked]
    total, wanted = sum(values[name] for name in known), sum(asked[name] for name in known)
    if wanted == 0:
        raise Unmeasured("no metrics returned matched known pods")
    percent = total * 100 // wanted
    return percent / target, percent, total // len(known)


def _usage(values: Mapping[str, int], target: int) -> tuple[float, int]:
    mean = sum(values.values()) // len(values)
    return mean / target, mean


def _counted(samples: Mapping[str, Sample], groups: Groups) -> dict[str, int]:
    out = groups.unready | groups.ignored
    return {name: sample.value for name, sample in samples.items() if name not in out}


def _turns(before: float, after: float) -> bool:
    """Whether assumptions about pods that tell nothing would turn the direction."""
    return (before < 1.0 < after) or (after < 1.0 < before)


def _settled(current: int, ratio: float, again: float, count: int, tolerance: Tolerance) -> int:
    """The proposal once all pods have a value: none against the direction of what was measured."""
    if tolerance.within(again) or _turns(ratio, again):
        return current
    made = math.ceil(again * count)
    if (again < 1.0 and made > current) or (again > 1.0 and made < current):
        return current
    return made


def _pods(pods: Iterable[Object]) -> list[Object]:
    found = list(pods)
    if not found:
        raise Unmeasured("no pods returned by selector while calculating replica count")
    return found


def by_utilization(
    current: int,
    target: int,
    resource: str,
    samples: Mapping[str, Sample],
    pods: Iterable[Object],
    now: int,
    *,
    container: str = "",
    tolerance: Tolerance | None = None,
) -> Proposal:
    """For a share (percent) of what pods ask for. Unmeasured.

    A pod without a sample is taken to use what it asked for (or the target, if that is more) where there is too little
    to do, and nothing where there is too much; a pod that is not ready, nothing where there is too much.
    """
    tolerance = tolerance or Tolerance()
    rows = _pods(pods)
    groups = group(rows, samples, resource, now)
    values = _counted(samples, groups)
    if not values:
        raise Unmeasured("did not receive metrics for targeted pods (pods might be unready)")
    asked = requests(rows, resource, container)
    ratio, percent, mean = _utilization(values, asked, target)
    rebalance = bool(groups.unready) and ratio > 1.0
    if not rebalance and not groups.missing:
        replicas = current if tolerance.within(ratio) else math.ceil(ratio * groups.ready)
        return Proposal(replicas, mean, percent)
    if ratio < 1.0:
        values |= {name: asked[name] * max(100, target) // 100 for name in groups.missing}
    elif ratio > 1.0:
        values |= dict.fromkeys(groups.missing, 0)
    if rebalance:
        values |= dict.fromkeys(groups.unready, 0)
    again, _, _ = _utilization(values, asked, target)
    return Proposal(_settled(current, ratio, again, len(values), tolerance), mean, percent)


def by_average(
    current: int,
    target: int,
    samples: Mapping[str, Sample],
    pods: Iterable[Object],
    now: int,
    *,
    resource: str = "",
    tolerance: Tolerance | None = None,
) -> Proposal:
    """For a mean value of each pod. Unmeasured."""
    tolerance = tolerance or Tolerance()
    groups = group(_pods(pods), samples, resource, now)
    values = _counted(samples, groups)
    if not values:
        raise Unmeasured("did not receive metrics for targeted pods (pods might be unready)")
    ratio, mean = _usage(values, target)
    rebalance = bool(groups.unready) and ratio > 1.0
    if not rebalance and not groups.missing:
        return Proposal(current if tolerance.within(ratio) else math.ceil(ratio * groups.ready), mean)
    values |= dict.fromkeys(groups.missing, target if ratio < 1.0 else 0)
    if rebalance:
        values |= dict.fromkeys(groups.unready, 0)
    again, _ = _usage(values, target)
    return Proposal(_settled(current, ratio, again, len(values), tolerance), mean)


def by_value(
    current: int, target: int, value: int, pods: Iterable[Object], tolerance: Tolerance | None = None
) -> Proposal:
    """For one value in all: as many of the ready pods as it is of the target. Unmeasured."""
    tolerance = tolerance or Tolerance()
    ratio = value / target
    if current == 0:
        return Proposal(math.ceil(ratio), value)
    if tolerance.within(ratio):
        return Proposal(current, value)
    rows = list(pods)
    if not rows:
        raise Unmeasured("unable to calculate ready pods: no pods returned by selector while calculating replica count")
    return Proposal(math.ceil(ratio * sum(map(is_ready, rows))), value)


def by_share(counted: int, target: int, value: int, tolerance: Tolerance | None = None) -> Proposal:
    """For one value that is divided among the pods. `counted`: the replicas that the target's status tells."""
    tolerance = tolerance or Tolerance()
    replicas = counted
    if counted == 0 or not tolerance.within(value / (target * counted)):
        replicas = math.ceil(value / target)
    return Proposal(replicas, math.ceil(value / counted) if counted else value)


def is_ready(pod: Object) -> bool:
    """Whether a pod runs and is ready."""
    status: Any = pod.get("status") or {}
    return status.get("phase") == "Running" and any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()
    )
