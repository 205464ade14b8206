"""What kubernetes.vpa computes: what containers used, which size that recommends, and pods of that size.

A recommendation is a percentile of what the containers of a name used in all pods, with a margin. Sources: the vertical
autoscaler's recommender (pkg/recommender/logic, release 1.4): target, lower and upper bound at 90, 50 and 95 percent,
margin 15 percent, at least 25m and 250Mi for a pod; KEP-1287 for what a resize may change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dashpot.model.extern import hpa, metrics
from dashpot.model.extern.workloads import Kept, Object, at, moment
from dashpot.model.objects.quantity import BINARY, QuantityError, parse, whole

RESOURCES = ("cpu", "memory")
TARGET, LOWER, UPPER = 0.90, 0.50, 0.95
MARGIN = 1.15
LEAST = {"cpu": 25, "memory": 250 * 1024 * 1024 * 1000}
"""Thousandths, for a pod; divided among its containers."""
MATURE_MS = 300_000
"""For how long there must have been samples before a pod is resized."""
KEPT_MS = 24 * 3_600_000
MOST = 2000
"""Samples that are kept of each container and resource."""

selects = hpa.selects


def key(a: Kept) -> str:
    """What names an autosizer among those of all namespaces."""
    return hpa.key(a)


def path(a: Kept, scale: Kept) -> str:
    """Where it is asked what the pods use, below /apis."""
    return metrics.resource_path(str(at(a.json, "metadata", "namespace") or ""), hpa.selector_of(scale))


def observed(samples: Sequence[Object], answer: Kept | None) -> list[Object]:
    """The samples with those of an answer: `{container, resource, at, value}`, each measurement once."""
    rows = answer.json.get("items") if answer is not None else None
    made = [dict(one) for one in samples]
    known = {(s["pod"], s["container"], s["resource"], s["at"]) for s in made}
    for row in rows if isinstance(rows, list) else ():
        pod, when = str(at(row, "metadata", "name")), moment(row.get("timestamp")) or 0
        for container in row.get("containers") or ():
            for resource in RESOURCES:
                value = metrics.milli(at(container, "usage", resource))
                name = str(container.get("name"))
                if value is not None and (pod, name, resource, when) not in known:
                    made.append({"pod": pod, "container": name, "resource": resource, "at": when, "value": value})
    newest = max((s["at"] for s in made), default=0)
    kept = [s for s in made if s["at"] > newest - KEPT_MS]
    return kept[-MOST * len({(s["container"], s["resource"]) for s in kept}) :] if kept else []


def percentile(values: Sequence[int], share: float) -> int:
    """The least value that at least this share of them do not exceed; 0 of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked), max(1, math.ceil(share * len(ranked)))) - 1] if ranked else 0


def recommended(a: Kept, samples: Sequence[Object]) -> list[Object]:
    """What each container should ask for: `{containerName, target, lowerBound, upperBound}`, by name."""
    by_container: dict[str, dict[str, list[int]]] = {}
    for s in samples:
        by_container.setdefault(str(s["container"]), {}).setdefault(str(s["resource"]), []).append(int(s["value"]))
    found = []
    for name, used in sorted(by_container.items()):
        row: Object = {"containerName": name}
        for bound, share in (("target", TARGET), ("lowerBound", LOWER), ("upperBound", UPPER)):
            row[bound] = {
                resource: _text(resource, _bounded(a, resource, percentile(used[resource], share), len(by_container)))
                for resource in RESOURCES
                if resource in used
            }
        found.append(row)
    return found


def _bounded(a: Kept, resource: str, used: int, containers: int) -> int:
    """With its margin, and within what is allowed."""
    made = max(math.ceil(used * MARGIN), LEAST[resource] // containers)
    least = metrics.milli(at(a.json, "spec", "minAllowed", resource))
    most = metrics.milli(at(a.json, "spec", "maxAllowed", resource))
    made = made if least is None else max(least, made)
    return made if most is None else min(most, made)


def _text(resource: str, milli: int) -> str:
    if resource == "cpu":
        return metrics.amount(milli)
    return str(whole(-(-milli // 1000), BINARY))


def mature(samples: Sequence[Object]) -> bool:
    """Whether there have been samples for long enough."""
    times = [int(s["at"]) for s in samples]
    return bool(times) and max(times) - min(times) >= MATURE_MS


# ---------------------------------------------------------------- pods
def _changes(container: Object, row: Object) -> Object:
    """The requests to change: those that are there and outside of the bounds."""
    asked = at(container, "resources", "requests") or {}
    found: Object = {}
    for resource, target in (row.get("target") or {}).items():
        have = metrics.milli(asked.get(resource))
        low, high = metrics.milli(at(row, "lowerBound", resource)), metrics.milli(at(row, "upperBound", resource))
        if have is not None and low is not None and high is not None and not low <= have <= high:
            found[resource] = target
    return found


def _rows(recommendation: Any) -> dict[str, Object]:
    rows = recommendation if isinstance(recommendation, list) else ()
    return {str(row.get("containerName")): row for row in rows if isinstance(row, dict)}


def misfits(pods: Iterable[Kept], recommendation: Any) -> list[Kept]:
    """The pods that run and ask for what is outside of the bounds."""
    rows = _rows(recommendation)
    return [
        pod
        for pod in pods
        if at(pod.json, "status", "phase") == "Running"
        and at(pod.json, "metadata", "deletionTimestamp") is None
        and any(_changes(c, rows.get(str(c.get("name")), {})) for c in at(pod.json, "spec", "containers") or ())
    ]


def resized(size: Kept, recommendation: Any) -> list[Object]:
    """The containers with the requests that are recommended; limits keep their ratio to them."""
    rows = _rows(recommendation)
    made = []
    for container in at(size.json, "spec", "containers") or ():
        changes = _changes(container, rows.get(str(container.get("name")), {}))
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        told = {name: _scaled(name, limits[name], requests[name], changes[name]) for name in changes if name in limits}
        new: Object = {**resources, "requests": {**requests, **changes}}
        if limits:
            new["limits"] = {**limits, **told}
        made.append({**container, "resources": new} if changes else container)
    return made


def _scaled(resource: str, limit: Any, had: Any, wanted: str) -> str:
    try:
        before, after, most = parse(str(had)).milli, parse(wanted).milli, parse(str(limit)).milli
    except QuantityError:
        return str(limit)
    if not before or most == before:
        return wanted if most == before else str(limit)
    return _text(resource, most * after // before)
