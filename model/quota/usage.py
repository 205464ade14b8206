"""What an object uses of a quota, by kind: counts of all kinds; compute of pods, ports of services, storage of claims.

Source: kubernetes pkg/quota/v1/evaluator/core, k8s.io/apiserver pkg/quota/v1/generic, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen

from dashpot.model.objects import quantity
from dashpot.model.objects.resource import Resource
from dashpot.model.quota.podresources import Amounts, amounts, larger, pod_amounts

Object = dict[str, Any]
CREATE, UPDATE = "CREATE", "UPDATE"
ONE = quantity.whole(1)
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Counting them would write more than it keeps."""
ALIASES = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas"})
"""Kinds whose count also goes by the plural alone."""
COMPUTE = ("cpu", "memory", "ephemeral-storage")
DEMANDED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Quotas on these make every container say what it needs."""
CLASS_MARK = ".storageclass.storage.k8s.io/"
HUGEPAGES = "hugepages-"


@frozen
class Evaluator:
    """How one kind is measured."""

    usage: Callable[[Object], Amounts]
    covers: Callable[[str], bool]
    """Whether a name in a quota is about this kind."""
    writes: frozenset[tuple[str, str]]
    """`(operation, subresource)` that can use more."""
    missing: Callable[[Object, Iterable[str]], str] = lambda one, names: ""
    """What an object would have to say, because of the names in a quota; empty if it says all."""


def evaluator(resource: Resource) -> Evaluator | None:
    """How a kind is measured; None for one that no quota counts."""
    if not resource.namespaced or (resource.group, resource.plural) in IGNORED:
        return None
    if not resource.group and resource.plural in CORE:
        return CORE[resource.plural]
    name = f"count/{resource.qualified}"
    names = frozenset({name, resource.plural} if not resource.group and resource.plural in ALIASES else {name})
    used = dict.fromkeys(sorted(names), ONE)
    return Evaluator(lambda one: dict(used), names.__contains__, frozenset({(CREATE, "")}))


def ended(pod: Object) -> bool:
    """Whether the pod has ended."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _pod_usage(pod: Object) -> Amounts:
    used: Amounts = {"count/pods": ONE}
    if ended(pod):
        return used
    used["pods"] = ONE
    spec, status = pod.get("spec") or {}, pod.get("status")
    for name, amount in pod_amounts(spec, "requests", status).items():
        used.update((key, amount) for key in _request_names(name))
    for name, amount in pod_amounts(spec, "limits", status).items():
        if name in COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def _request_names(name: str) -> Iterator[str]:
    """The names under which quotas know a request."""
    if name in COMPUTE or name.startswith(HUGEPAGES):
        yield name
        yield f"requests.{name}"
    elif "/" in name and not name.partition("/")[0].endswith("kubernetes.io"):
        yield f"requests.{name}"


def _pod_covers(name: str) -> bool:
    if name in ("pods", "count/pods"):
        return True
    kind, _, rest = name.partition(".")
    if kind in ("requests", "limits") and rest in COMPUTE:
        return True
    if kind == "requests" and (rest.startswith(HUGEPAGES) or ("/" in rest and "kubernetes.io/" not in rest)):
        return True
    return name in COMPUTE or name.startswith(HUGEPAGES)


def _pod_missing(pod: Object, names: Iterable[str]) -> str:
    """`must specify cpu for: a,b; memory for: a`."""
    demanded = DEMANDED.intersection(names)
    spec = pod.get("spec") or {}
    if not demanded or _pod_level(spec, demanded):
        return ""
    lacking: dict[str, set[str]] = {}
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            said = {key for name in resources.get("requests") or () for key in _request_names(name)}
            said |= {f"limits.{name}" for name in resources.get("limits") or () if name in COMPUTE}
            for name in demanded - said:
                lacking.setdefault(name, set()).add(container.get("name", ""))
    if not lacking:
        return ""
    parts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(parts)}"


def _pod_level(spec: Object, demanded: frozenset[str]) -> bool:
    """Whether the pod as a whole says all that is demanded."""
    resources = spec.get("resources") or {}
    said = {key for name in resources.get("requests") or () for key in _request_names(name)}
    said |= {f"limits.{name}" for name in resources.get("limits") or () if name in COMPUTE}
    return demanded <= said


def _service_usage(service: Object) -> Amounts:
    used: Amounts = {"count/services": ONE, "services": ONE}
    used["services.nodeports"] = used["services.loadbalancers"] = quantity.ZERO
    spec = service.get("spec") or {}
    ports = spec.get("ports") or ()
    if spec.get("type") == "NodePort":
        used["services.nodeports"] = quantity.whole(len(ports))
    elif spec.get("type") == "LoadBalancer":
        allocated = spec.get("allocateLoadBalancerNodePorts")
        count = len(ports) if allocated is not False else sum(1 for port in ports if port.get("nodePort"))
        used["services.nodeports"] = quantity.whole(count)
        used["services.loadbalancers"] = ONE
    return used


def _claim_usage(claim: Object) -> Amounts:
    used: Amounts = {"count/persistentvolumeclaims": ONE, "persistentvolumeclaims": ONE}
    spec = claim.get("spec") or {}
    requests = amounts((spec.get("resources") or {}).get("requests"))
    held = amounts((claim.get("status") or {}).get("allocatedResources"))
    storage = larger({k: v for k, v in requests.items() if k == "storage"}, held).get("storage")
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    name = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    if name:
        used[f"{name}{CLASS_MARK}persistentvolumeclaims"] = ONE
    if storage is not None:
        used["requests.storage"] = storage
        if name:
            used[f"{name}{CLASS_MARK}requests.storage"] = storage
    return used


def _claim_covers(name: str) -> bool:
    known = ("persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage")
    return name in known or CLASS_MARK in name


def _service_covers(name: str) -> bool:
    return name in ("services", "count/services", "services.nodeports", "services.loadbalancers")


CORE = {
    "pods": Evaluator(_pod_usage, _pod_covers, frozenset({(CREATE, ""), (UPDATE, "resize")}), _pod_missing),
    "services": Evaluator(_service_usage, _service_covers, frozenset({(CREATE, ""), (UPDATE, "")})),
    "persistentvolumeclaims": Evaluator(_claim_usage, _claim_covers, frozenset({(CREATE, ""), (UPDATE, "")})),
}
