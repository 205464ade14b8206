"""Scopes of quotas: a quota may count only some pods, or claims of some volume attributes classes.

Source: kubernetes pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dashpot.model.quota.podresources import amounts

Object = dict[str, Any]


def scopes_of(quota: Object) -> list[Object]:
    """All that a quota demands of what it counts, as requirements `{scopeName, operator, values}`."""
    spec = quota.get("spec") or {}
    found = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*found, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def in_scope(requirements: list[Object], group: str, plural: str, one: Object) -> bool:
    """Whether an object meets all requirements; kinds without scopes meet none."""
    if not requirements:
        return True
    if group:
        return False
    if plural == "pods":
        return all(_pod_meets(requirement, one) for requirement in requirements)
    if plural == "persistentvolumeclaims":
        return all(_claim_meets(requirement, one) for requirement in requirements)
    return False


def _pod_meets(requirement: Object, pod: Object) -> bool:
    spec = pod.get("spec") or {}
    name = requirement.get("scopeName")
    if name == "PriorityClass":
        chosen = spec.get("priorityClassName")
        return _selects(requirement, [chosen] if chosen else [])
    test = TESTS.get(str(name))
    if test is None:
        return False
    return test(spec) == (requirement.get("operator") != "DoesNotExist")


def _claim_meets(requirement: Object, claim: Object) -> bool:
    if requirement.get("scopeName") != "VolumeAttributesClass":
        return False
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    wish = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), wish)
    return _selects(requirement, [name for name in names if name])


def _selects(requirement: Object, names: list[str]) -> bool:
    values = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return any(name in values for name in names)
        case "NotIn":
            return not any(name in values for name in names)
        case "DoesNotExist":
            return not names
    return bool(names)


def _terminating(spec: Object) -> bool:
    deadline = spec.get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _best_effort(spec: Object) -> bool:
    """Whether nothing in the pod asks for compute."""
    for resources in _resources(spec):
        for which in ("requests", "limits"):
            found = amounts(resources.get(which))
            if any(found.get(name) for name in ("cpu", "memory")):
                return False
    return True


def _resources(spec: Object) -> Iterator[Object]:
    yield spec.get("resources") or {}
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            yield container.get("resources") or {}


def _cross_namespace(spec: Object) -> bool:
    """Whether an affinity term looks into other namespaces."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        about = affinity.get(kind) or {}
        terms = [*(about.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
        for weighted in about.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            terms.append(weighted.get("podAffinityTerm") or {})
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


TESTS: dict[str, Callable[[Object], bool]] = {
    "Terminating": _terminating,
    "NotTerminating": lambda spec: not _terminating(spec),
    "BestEffort": _best_effort,
    "NotBestEffort": lambda spec: not _best_effort(spec),
    "CrossNamespacePodAffinity": _cross_namespace,
}
