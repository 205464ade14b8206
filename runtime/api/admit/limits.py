"""LimitRanger: requests and limits that a pod or claim leaves out are filled in; those out of range are refused.

Source: kubernetes plugin/pkg/admission/limitranger, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from dashpot.model.objects import quantity
from dashpot.model.objects.quantity import Quantity
from dashpot.model.objects.resource import Resource
from dashpot.model.quota.podresources import Amounts, amounts, pod_amounts
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.refusal import aggregate, refuse
from dashpot.runtime.api.view import View

ANNOTATION = "kubernetes.io/limit-ranger"


@frozen
class _Item:
    """One entry of a LimitRange: bounds for containers, pods or claims."""

    kind: str
    least: Amounts
    most: Amounts
    ratio: Amounts


@frozen
class _Limits:
    """One LimitRange: what containers get, and the bounds."""

    default: Mapping[str, str] = field(factory=dict)
    default_request: Mapping[str, str] = field(factory=dict)
    items: tuple[_Item, ...] = ()


class LimitRanger(Plugin):
    """Applies all LimitRanges of a namespace, in order of name."""

    name = "LimitRanger"

    def __init__(self, view: View) -> None:
        self._view = view
        self._version = -1
        self._by_namespace: dict[str, list[_Limits]] = {}

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """New pods and claims, claims that change, pods that are resized."""
        if resource.group or operation not in (CREATE, UPDATE):
            return False
        if resource.plural == "pods":
            return subresource == ("" if operation == CREATE else "resize")
        return resource.plural == "persistentvolumeclaims" and not subresource

    async def mutate(self, attributes: Attributes) -> None:
        """Fills in the defaults of new pods, and tells so in an annotation."""
        found = self._limits(attributes.namespace)
        if not found or attributes.resource.plural != "pods" or attributes.object is None:
            return
        for limits in found:
            _fill(attributes.object, limits)

    async def validate(self, attributes: Attributes) -> None:
        """Refuses what is out of range, naming every bound that is broken."""
        found = self._limits(attributes.namespace)
        if not found or attributes.object is None or "deletionTimestamp" in attributes.object["metadata"]:
            return
        for limits in found:
            if attributes.resource.plural == "pods":
                broken = list(_pod_faults(limits, attributes.object))
            else:
                broken = list(_claim_faults(limits, attributes.object))
            if broken:
                raise refuse(attributes, aggregate(broken))

    def _limits(self, namespace: str) -> list[_Limits] | None:
        version = self._view.version("", "limitranges")
        if version != self._version:
            self._by_namespace = {}
            for one in sorted(self._view.list("", "limitranges"), key=lambda r: str(r["metadata"]["name"])):
                self._by_namespace.setdefault(one["metadata"]["namespace"], []).append(_read(one))
            self._version = version
        return self._by_namespace.get(namespace)


def _read(one: Object) -> _Limits:
    """Compiles a LimitRange. Defaults of containers follow from each other: limit from max, request from limit, min."""
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}
    items = []
    for item in (one.get("spec") or {}).get("limits") or ():
        kind = str(item.get("type") or "")
        least, most = _texts(item, "min"), _texts(item, "max")
        if kind == "Container":
            given = {**most, **_texts(item, "default")}
            default.update(given)
            default_request.update({**least, **given, **_texts(item, "defaultRequest")})
        items.append(_Item(kind, amounts(least), amounts(most), amounts(_texts(item, "maxLimitRequestRatio"))))
    return _Limits(default, default_request, tuple(items))


def _texts(item: Object, name: str) -> dict[str, str]:
    return {key: str(value) for key, value in (item.get(name) or {}).items()}


def _fill(pod: Object, limits: _Limits) -> None:
    if not limits.default and not limits.default_request:
        return
    told = []
    spec = pod.get("spec") or {}
    for kind, noun in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            name = container.get("name")
            for key, word, defaults in (
                ("requests", "request", limits.default_request),
                ("limits", "limit", limits.default),
            ):
                present = resources.get(key) or {}
                added = {what: amount for what, amount in defaults.items() if what not in present}
                if added:
                    resources[key] = {**present, **added}
                    told.append(f"{', '.join(sorted(added))} {word} for {noun} {name}")
            container["resources"] = resources
    if told:
        metadata = pod["metadata"]
        text = f"LimitRanger plugin set: {'; '.join(told)}"
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: text}


def _pod_faults(limits: _Limits, pod: Object) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for item in limits.items:
        if item.kind == "Container":
            for kind in ("containers", "initContainers"):
                for container in spec.get(kind) or ():
                    resources = container.get("resources") or {}
                    yield from _faults(item, amounts(resources.get("requests")), amounts(resources.get("limits")))
        elif item.kind == "Pod":
            yield from _faults(item, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _faults(item: _Item, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in item.least.items():
        yield from _below(item.kind, name, bound, requests, limits)
    for name, bound in item.most.items():
        yield from _above(item.kind, name, bound, requests, limits)
    for name, bound in item.ratio.items():
        yield from _ratio(item.kind, name, bound, requests, limits)


def _below(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    told = f"minimum {name} usage per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        yield f"{told}.  No request is specified"
    elif request < bound:
        yield f"{told}, but request is {request}"
    elif limit is not None and limit < bound:
        yield f"{told}, but limit is {limit}"


def _above(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    told = f"maximum {name} usage per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        yield f"{told}.  No limit is specified"
    elif limit > bound:
        yield f"{told}, but limit is {limit}"
    elif request is not None and request > bound:
        yield f"{told}, but request is {request}"


def _ratio(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    told = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if not request:
        yield f"{told}, but no request is specified or request is 0"
    elif not limit:
        yield f"{told}, but no limit is specified or limit is 0"
    elif limit.nano * quantity.NANO > bound.nano * request.nano:
        yield f"{told}, but provided ratio is {limit.nano / request.nano:f}"


def _claim_faults(limits: _Limits, claim: Object) -> Iterator[str]:
    resources: Any = (claim.get("spec") or {}).get("resources") or {}
    requests = amounts(resources.get("requests"))
    for item in limits.items:
        if item.kind != "PersistentVolumeClaim":
            continue
        for name, bound in item.least.items():
            yield from _below(item.kind, name, bound, requests, amounts(resources.get("limits")))
        for name, bound in item.most.items():
            request = requests.get(name)
            told = f"maximum {name} usage per {item.kind} is {bound}"
            if request is None:
                yield f"{told}.  No request is specified"
            elif request > bound:
                yield f"{told}, but request is {request}"
