"""Rules of what containers and pods ask for: names and amounts of resources, claims, how a resize restarts.

Source: pkg/apis/core/validation/validation.go (validateResourceRequirements, validatePodResources,
validateResizePolicy) and pkg/apis/core/helper, release 1.34; KEP-2837 for the pod as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dashpot.model.objects import names
from dashpot.model.objects.defaults_pod import aggregate
from dashpot.model.objects.quantity import Quantity, QuantityError, parse
from dashpot.model.objects.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    shown,
)
from dashpot.runtime.api.rules.place import Trail, spelled
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
COMPUTED: Final = frozenset(("cpu", "memory"))
CONTAINER: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
STANDARD: Final = frozenset(
    "cpu memory ephemeral-storage requests.cpu requests.memory requests.ephemeral-storage limits.cpu limits.memory"
    " limits.ephemeral-storage pods resourcequotas services replicationcontrollers secrets configmaps"
    " persistentvolumeclaims storage requests.storage services.nodeports services.loadbalancers".split()
)
INTEGER: Final = frozenset(
    "pods resourcequotas services replicationcontrollers secrets configmaps persistentvolumeclaims"
    " services.nodeports services.loadbalancers".split()
)
HUGE: Final = "hugepages-"
POD_LEVEL: Final = ["cpu", HUGE, "memory"]


def native(name: str) -> bool:
    """Whether a resource is Kubernetes' own: without a prefix, or with one of kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def extended(name: str) -> bool:
    """Whether a resource is a device or the like: counted in whole numbers, with a prefix of its own."""
    return not native(name) and not name.startswith("requests.") and not names.qualified(f"requests.{name}")


def overcommits(name: str) -> bool:
    """Whether less may be requested than the limit is."""
    return native(name) and not name.startswith(HUGE)


def _name(name: str, path: str, pod_level: bool) -> list[Cause]:
    """What is wrong with the name of a resource."""
    if wrong := names.qualified(name):
        return [invalid_value(path, name, text) for text in wrong]
    causes: list[Cause] = []
    if "/" not in name and name not in STANDARD and not name.startswith((HUGE, f"requests.{HUGE}")):
        causes.append(invalid_value(path, name, "must be a standard resource type or fully qualified"))
    if pod_level:
        if not causes and name not in COMPUTED and not name.startswith(HUGE):
            causes.append(not_supported(path, name, POD_LEVEL))
    elif "/" not in name:
        if name not in CONTAINER and not name.startswith(HUGE):
            causes.append(invalid_value(path, name, "must be a standard resource for containers"))
    elif not native(name) and not extended(name):
        causes.append(invalid_value(path, name, "doesn't follow extended resource name standard"))
    return causes


def _amount(name: str, number: Quantity, path: str) -> list[Cause]:
    """What is wrong with an amount: negative, part of a device, part of a page."""
    causes: list[Cause] = []
    if number.nano < 0:
        causes.append(invalid_value(path, str(number), "must be greater than or equal to 0"))
    if name in CONTAINER:
        return causes
    if number.milli % 1000 and (name in INTEGER or extended(name)):
        causes.append(invalid_value(path, str(number), "must be an integer"))
    if name.startswith(HUGE) and not _in_pages(name, number):
        causes.append(invalid_value(path, str(number), f"{number} is not positive integer multiple of {name}"))
    return causes


def _in_pages(name: str, number: Quantity) -> bool:
    try:
        page = parse(name.removeprefix(HUGE))
    except QuantityError:
        return False
    return page.nano > 0 and page.whole and number.value % page.value == 0


def _resources(entry: Object) -> Check:
    """Requests and limits are known resources and quantities; no request is above its limit.

    `level`: `pod` for those of the pod as a whole; `as`: the value is the map of that name alone.
    """
    pod_level, alone = entry.get("level") == "pod", entry.get("as", "")

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if alone:
            value = {alone: value}
        limits, requests = value.get("limits"), value.get("requests")
        causes = scene.causes
        known = _read(limits, "limits", trail, pod_level, causes) if limits else {}
        if requests:
            asked = _read(requests, "requests", trail, pod_level, causes)
            for name, wanted in asked.items():
                limit = known.get(name)
                if limit is None:
                    if not overcommits(name) and name not in (limits or ()):
                        text = "Limit must be set for non overcommitable resources"
                        causes.append(required(spelled(trail, "limits"), text))
                elif wanted.nano != limit.nano and not overcommits(name):
                    text = f"must be equal to {name} limit of {limit}"
                    causes.append(invalid_value(spelled(trail, "requests"), str(wanted), text))
                elif wanted.nano > limit.nano:
                    text = f"must be less than or equal to {name} limit of {limit}"
                    causes.append(invalid_value(spelled(trail, "requests"), str(wanted), text))
        given = {*(limits or ()), *(requests or ())} if limits or requests else ()
        if given and not COMPUTED & given and any(name.startswith(HUGE) for name in given):
            causes.append(forbidden_field(spelled(trail), "HugePages require cpu or memory"))
        if value.get("claims"):
            _claims(value["claims"], pod_level, trail, scene)

    return check


def _read(amounts: Object, kind: str, trail: Trail, pod_level: bool, causes: list[Cause]) -> dict[str, Quantity]:
    """The quantities of a map."""
    found: dict[str, Quantity] = {}
    for name, text in amounts.items():
        try:
            number = found[name] = parse(text if type(text) is str else str(text))
        except QuantityError as error:
            causes.append(invalid_value(spelled(trail, f"{kind}[{name}]"), text, str(error)))
            continue
        if name in COMPUTED and number.nano >= 0:
            continue
        path = spelled(trail, f"{kind}[{name}]")
        causes += _name(name, path, pod_level)
        causes += _amount(name, number, path)
    return found


def _claims(claims: list[Object], pod_level: bool, trail: Trail, scene: Scene) -> None:
    """The claims that a container uses are claims of its pod (KEP-4381), each named once."""
    if pod_level:
        text = "claims cannot be set for Resources at pod-level"
        scene.causes.append(forbidden_field(spelled(trail, "claims"), text))
    offered = {claim.get("name") for claim in (scene.spec or {}).get("resourceClaims") or () if claim.get("name")}
    seen: set[str] = set()
    for at, claim in enumerate(claims):
        path = spelled(trail, f"claims[{at}]")
        name, request = claim.get("name"), claim.get("request")
        if not name:
            scene.causes.append(required(path))
            continue
        key = f"{name}/{request}" if request else name
        if request:
            scene.causes += [invalid_value(f"{path}.request", request, text) for text in names.dns_label(request)]
        if name in seen:
            scene.causes.append(duplicate(path, name))
        elif key in seen or (not request and any(each.startswith(f"{name}/") for each in seen)):
            scene.causes.append(duplicate(path, key))
        seen.add(key)
        if name not in offered:
            text = "must be one of the names in pod.spec.resourceClaims"
            text += f": {', '.join(sorted(offered))}" if offered else " which is empty"
            scene.causes.append(Cause(path, f"Not found: {shown(name)}: {text}", "FieldValueNotFound"))


def _consistent(entry: Object) -> Check:
    """What a pod as a whole requests is enough for its containers; no container's limit is above the pod's."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        whole = value.get("resources")
        if not whole:
            return
        try:
            for name, text in (whole.get("requests") or {}).items():
                together = aggregate(value, "requests", name)
                if together and parse(together) > parse(str(text)):
                    detail = f"must be greater than or equal to aggregate container requests of {parse(together)}"
                    path = spelled(trail, f"resources.requests[{name}]")
                    scene.causes.append(invalid_value(path, str(parse(str(text))), detail))
            most = {name: parse(str(text)) for name, text in (whole.get("limits") or {}).items()}
            containers: list[Object] = value.get("containers") or []
            for at, container in enumerate(containers):
                limits: Object = (container.get("resources") or {}).get("limits") or {}
                for name, text in limits.items():
                    if name in most and parse(str(text)) > most[name]:
                        detail = f"must be less than or equal to pod limits of {most[name]}"
                        # upstream builds the path below the pod's own resources
                        path = spelled(trail, f"resources.containers[{at}][{name}].limits")
                        scene.causes.append(invalid_value(path, str(parse(str(text))), detail))
        except QuantityError:
            return  # each amount is told where it stands

    return check


def _resize_policy(entry: Object) -> Check:
    """How a container takes a resize: once for CPU and once for memory."""
    policies = ["NotRequired", "RestartContainer"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        rows = value.get("resizePolicy")
        if not rows:
            return
        causes, path = scene.causes, spelled(trail, "resizePolicy")
        seen: set[Any] = set()
        never = (scene.spec or {}).get("restartPolicy") == "Never"
        for at, row in enumerate(rows):
            name, policy = row.get("resourceName"), row.get("restartPolicy")
            if name in seen:
                causes.append(duplicate(f"{path}[{at}]", name))
            seen.add(name)
            if not name:
                causes.append(required(path))
            elif name not in COMPUTED:
                causes.append(not_supported(path, name, ["cpu", "memory"]))
            if not policy:
                causes.append(required(path))
            elif policy not in policies:
                causes.append(not_supported(path, policy, policies))
            if never and policy != "NotRequired":
                text = "must be 'NotRequired' when `restartPolicy` is 'Never'"
                causes.append(invalid_value(path, policy or "", text))

    return check


def _pod_claims(entry: Object) -> Check:
    """The claims of a pod: named once, each from a claim or from a template."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        seen: set[str] = set()
        for at, claim in enumerate(value.get("resourceClaims") or ()):
            path, name = spelled(trail, f"resourceClaims[{at}]"), claim.get("name")
            if not name:
                scene.causes.append(required(f"{path}.name"))
            elif name in seen:
                scene.causes.append(duplicate(f"{path}.name", name))
            else:
                scene.causes += [invalid_value(f"{path}.name", name, text) for text in names.dns_label(name)]
                seen.add(name)
            sources = [
                each for each in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(each) is not None
            ]
            if len(sources) > 1:
                text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                scene.causes.append(invalid_value(path, claim, text))
            if not sources:
                text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
                scene.causes.append(invalid_value(path, claim, text))
            for each in sources:
                for text in names.dns_subdomain(claim[each]):
                    scene.causes.append(invalid_value(f"{path}.{each}", claim[each], text))

    return check


RESOURCE_CALLS: dict[str, Callable[[Object], Check]] = {
    "resources": _resources,
    "podResources": _consistent,
    "resizePolicy": _resize_policy,
    "podClaims": _pod_claims,
}
