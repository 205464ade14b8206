"""What kubernetes.quota computes: how much of each limit is used. What counts as how much is dashpot.model.quota's.

Sources: pkg/controller/resourcequota/resource_quota_controller.go; apiserver pkg/quota/v1 (CalculateUsage).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from dashpot.model.extern.workloads import Kept, Object, at, moment, number
from dashpot.model.objects import quantity
from dashpot.model.objects.resource import Resource
from dashpot.model.quota.podresources import Amounts, add
from dashpot.model.quota.scopes import in_scope, scopes_of
from dashpot.model.quota.usage import ALIASES, CORE, ONE, ended, evaluator

MEASURED_MAX = 50_000
_measured: dict[tuple[str, str], Amounts] = {}
"""What versions of pods use, by uid and resourceVersion: measured once."""


class _View(Protocol):
    @property
    def resource(self) -> Resource: ...


class Served(Kept, Protocol):
    """An object that knows where it is served."""

    @property
    def view(self) -> _View:
        """How it is seen."""
        ...


def replenishes(old: Kept, new: Kept) -> bool:
    """Whether a change of a pod may change what it uses: it ended, or its resources are others."""
    return ended(old.json) != ended(new.json) or _resources(old.json) != _resources(new.json)


def _resources(pod: Object) -> list[Any]:
    spec, kinds = pod.get("spec") or {}, ("containers", "initContainers")
    own = [c.get("resources") for kind in kinds for c in spec.get(kind) or ()]
    held = [c.get("allocatedResources") for c in at(pod, "status", "containerStatuses") or ()]
    return [spec.get("resources"), own, held if any(own) else None]


def remeasured_service(old: Kept, new: Kept) -> bool:
    """Whether a change of a service may change what it uses."""
    return bool(old.json.get("spec") != new.json.get("spec"))


def remeasured_claim(old: Kept, new: Kept) -> bool:
    """Whether a change of a claim may change what it uses: what it asks for, or what it was allocated."""
    said = [(one.json.get("spec"), at(one.json, "status", "allocatedResources")) for one in (old, new)]
    return said[0] != said[1]


def used(
    quota: Kept,
    pods: Sequence[Kept],
    services: Sequence[Kept],
    claims: Sequence[Kept],
    others: Sequence[Served],
    now: int,
) -> Object:
    """How much is used of each limit of the quota; what cannot be measured stays as it was.

    others: all objects of the namespace, by their metadata.
    """
    hard = at(quota.json, "spec", "hard") or {}
    requirements = scopes_of(quota.json)
    total: Amounts = {name: quantity.ZERO for name in hard if _measurable(name)}
    for plural, group in (("pods", pods), ("services", services), ("persistentvolumeclaims", claims)):
        names = [name for name in hard if CORE[plural].covers(name)]
        if names:
            inside = (one.json for one in group if in_scope(requirements, "", plural, one.json))
            _sum(total, names, (_usage(plural, one, now) for one in inside))
    if not requirements:
        _count(total, others)
    before = at(quota.json, "status", "used") or {}
    known = {name: str(total[name]) if name in total else before.get(name) for name in hard}
    return {name: text for name, text in known.items() if text is not None}


def _measurable(name: str) -> bool:
    return name.startswith("count/") or name in ALIASES or any(measure.covers(name) for measure in CORE.values())


def _sum(total: Amounts, names: Sequence[str], usages: Iterable[Amounts]) -> None:
    for usage in usages:
        for name in names:
            amount = usage.get(name)
            if amount is not None:
                total[name] = total[name] + amount


def _usage(plural: str, one: Object, now: int) -> Amounts:
    if plural != "pods":
        return CORE[plural].usage(one)
    meta = one.get("metadata") or {}
    key = str(meta.get("uid") or ""), str(meta.get("resourceVersion") or "")
    found = _measured.get(key) if all(key) else None
    if found is None:
        found = CORE[plural].usage(one)
        if len(_measured) >= MEASURED_MAX:
            _measured.clear()
        _measured[key] = found
    return {"count/pods": ONE} if _overstays(one, now) else found


def _overstays(pod: Object, now: int) -> bool:
    """Whether a pod should be gone: a lost node must not keep its owner from making another one."""
    since = moment(at(pod, "metadata", "deletionTimestamp"))
    grace = at(pod, "metadata", "deletionGracePeriodSeconds")
    if since is None or grace is None:
        return False
    return now > since + number(pod, "metadata", "deletionGracePeriodSeconds") * 1000


def _count(total: Amounts, others: Sequence[Served]) -> None:
    """Adds how many there are of each kind that is not measured otherwise."""
    counts: dict[str, int] = {}
    resources: dict[str, Resource] = {}
    for one in others:
        resource = one.view.resource
        counts[resource.qualified] = counts.get(resource.qualified, 0) + 1
        resources[resource.qualified] = resource
    for name, resource in resources.items():
        measure = evaluator(resource)
        if measure is None or measure is CORE.get(name):
            continue
        usage = {key: quantity.whole(counts[name]) for key in measure.usage({})}
        total.update({key: value for key, value in add(total, usage).items() if key in total})
