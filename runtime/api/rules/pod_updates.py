"""Rules of what an update, a resize or an ephemeral container may change in a pod that exists.

Source: pkg/apis/core/validation/validation.go (ValidatePodUpdate, ValidatePodResize,
ValidatePodEphemeralContainersUpdate), release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dashpot.model.objects.qos import qos_class
from dashpot.model.objects.status import Cause, forbidden_field, invalid_value, shown
from dashpot.runtime.api.rules.place import Trail, bare, find, same, spelled
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
MIRROR: Final = "kubernetes.io/config.mirror"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _fixed_container(container: Any) -> Any:
    return {name: item for name, item in container.items() if name != "image"}


FREE: Final = frozenset(("activeDeadlineSeconds", "tolerations", "schedulingGates"))


def _fixed_spec(spec: Object, old: Object) -> Object:
    """A pod's spec without what an update may change."""
    fixed = {name: item for name, item in spec.items() if name not in FREE}
    for listed in ("containers", "initContainers"):
        if listed in fixed:
            fixed[listed] = [_fixed_container(container) for container in fixed[listed]]
    was = old.get("terminationGracePeriodSeconds")
    if isinstance(was, int) and was < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = was
    return fixed


def _pod_update(entry: Object) -> Check:
    """What may change in a pod that exists: images, a deadline that comes nearer, more tolerations; while it is gated
    also where it may run."""
    message = entry["message"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is None or type(old) is not dict:
            return
        _notes(scene.object, scene.old, scene.causes)
        if value == old:
            return
        causes = scene.causes
        path = spelled(trail)
        for listed in ("containers", "initContainers"):
            if len(value.get(listed) or ()) != len(old.get(listed) or ()):
                causes.append(forbidden_field(spelled(trail, listed), "pod updates may not add or remove containers"))
                return
        _deadline(value, old, path, causes)
        _more_tolerations(value.get("tolerations") or [], old.get("tolerations") or [], path, causes)
        _fewer_gates(value.get("schedulingGates") or [], old.get("schedulingGates") or [], path, causes)
        new, was = _fixed_spec(value, old), _fixed_spec(old, old)
        if old.get("schedulingGates"):
            _gated(new, was, path, causes)
        if same(new, was):
            return
        causes.append(forbidden_field(path, f"{message}\n{_difference(new, was)}"))

    return check


def _notes(new: Object, old: Object, causes: list[Cause]) -> None:
    """The annotation of a static pod's image comes and goes with the pod."""
    now, was = (find(pod, "metadata.annotations") or {} for pod in (new, old))
    if MIRROR in was and now.get(MIRROR) != was[MIRROR]:
        text = "may not remove or update mirror pod annotation"
        causes.append(forbidden_field(f"metadata.annotations[{MIRROR}]", text))
    elif MIRROR in now and MIRROR not in was:
        causes.append(forbidden_field(f"metadata.annotations[{MIRROR}]", "may not add mirror pod annotation"))


def _deadline(value: Object, old: Object, path: str, causes: list[Cause]) -> None:
    now, was = value.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    where = f"{path}.activeDeadlineSeconds"
    if now is not None:
        if not 0 <= now <= 2**31 - 1:
            causes.append(invalid_value(where, now, "must be between 0 and 2147483647, inclusive"))
        elif was is not None and now > was:
            causes.append(invalid_value(where, now, "must be less than or equal to previous value"))
    elif was is not None:
        causes.append(invalid_value(where, None, "must not update from a positive integer to nil value"))


def _more_tolerations(now: list[Any], was: list[Any], path: str, causes: list[Cause]) -> None:
    """Tolerations may be added; of those there were only the seconds may change."""

    def key(row: Object) -> Object:
        return {name: item for name, item in row.items() if name != "tolerationSeconds"}

    known = [bare(key(row)) for row in now]
    if any(bare(key(row)) not in known for row in was):
        text = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_field(f"{path}.tolerations", text))


def _fewer_gates(now: list[Any], was: list[Any], path: str, causes: list[Cause]) -> None:
    """Scheduling gates are only ever taken away."""
    known = {gate.get("name") for gate in was}
    for at, gate in enumerate(now):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            causes.append(forbidden_field(f"{path}.schedulingGates[{at}].name", text))


def _gated(new: Object, was: Object, path: str, causes: list[Cause]) -> None:
    """While a pod has scheduling gates, its choice of nodes may narrow (KEP-3838)."""
    before, after = was.pop("nodeSelector", None) or {}, new.pop("nodeSelector", None) or {}
    if any(after.get(key) != item for key, item in before.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.append(invalid_value(f"{path}.nodeSelector", after, text))
    affinity, earlier = dict(new.get("affinity") or {}), dict(was.get("affinity") or {})
    _narrowed(affinity.pop("nodeAffinity", None), earlier.pop("nodeAffinity", None), path, causes)
    new["affinity"], was["affinity"] = affinity, earlier


def _narrowed(new: Any, old: Any, path: str, causes: list[Cause]) -> None:
    before = find(old, f"{REQUIRED}.nodeSelectorTerms") or []
    after = find(new, f"{REQUIRED}.nodeSelectorTerms") or []
    where = f"{path}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if before and len(before) != len(after):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        causes.append(invalid_value(where, after, text))
        return
    for at, (term, earlier) in enumerate(zip(after, before, strict=False)):
        if not _only_more(term, earlier):
            text = "only additions are allowed (no mutations or deletions)"
            causes.append(invalid_value(f"{where}[{at}]", term, text))


def _only_more(term: Object, earlier: Object) -> bool:
    """Whether a term asks for all that it asked for; one that matched nothing stays so."""
    lists = [(term.get(name) or [], earlier.get(name) or []) for name in ("matchExpressions", "matchFields")]
    if not any(old for _, old in lists):
        return not any(new for new, _ in lists)
    return all(same(new[: len(old)], old) for new, old in lists)


def _difference(new: Object, was: Object) -> str:
    """The fields that differ, one a line with its sign."""
    lines: list[str] = []
    for name in sorted(new.keys() | was.keys()):
        before, after = was.get(name), new.get(name)
        if same(before, after):
            continue
        if before is not None:
            lines.append(f"- {name}: {shown(before)}")
        if after is not None:
            lines.append(f"+ {name}: {shown(after)}")
    return "\n".join(lines)


def _pod_resize(entry: Object) -> Check:
    """A resize changes CPU and memory of containers that run on, and takes no request or limit away."""
    message = entry["message"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if type(old) is not dict or scene.old is None:
            return
        refusal = _unsizable(value, old, scene.old)
        if refusal:
            scene.causes[:] = [forbidden_field("", refusal)]
            return
        causes, path = scene.causes, spelled(trail)
        if qos_class(value) != qos_class(old):
            text = "Pod QOS Class may not change as a result of resizing"
            causes.append(invalid_value(path, qos_class(value), text))
        fixed = True
        for listed in ("initContainers", "containers"):
            now, was = value.get(listed) or [], old.get(listed) or []
            if [row.get("name") for row in now] != [row.get("name") for row in was]:
                text = "containers may not be renamed or reordered on resize"
                causes.append(forbidden_field(spelled(trail, listed), text))
                return
            for at, (new, before) in enumerate(zip(now, was, strict=True)):
                place = spelled(trail, f"{listed}[{at}].resources")
                fixed = _resized(new, before, listed, place, path, causes) and fixed
        lists = ("containers", "initContainers")
        if fixed and not same(*({k: v for k, v in spec.items() if k not in lists} for spec in (value, old))):
            causes.append(forbidden_field(path, message))

    return check


def _unsizable(new: Object, old: Object, pod: Object) -> str:
    """Why a pod cannot be resized at all."""
    for spec in (old, new):
        whole = spec.get("resources") or {}
        if whole.get("requests") or whole.get("limits"):
            return "pods with pod-level resources cannot be resized"
    if MIRROR in (find(pod, "metadata.annotations") or {}):
        return "static pods cannot be resized"
    return "windows pods cannot be resized" if (old.get("os") or {}).get("name") == "windows" else ""


def _resized(new: Object, old: Object, listed: str, place: str, path: str, causes: list[Cause]) -> bool:
    """Whether a container changes in nothing but what may; causes say what does."""
    runs_on = listed == "containers" or new.get("restartPolicy") == "Always"
    if not runs_on:
        if same(new, old):
            return True
        causes.append(forbidden_field(path, "resources for non-sidecar init containers are immutable"))
        return False
    for kind in ("requests", "limits"):
        if _amounts(old, kind).keys() - _amounts(new, kind).keys():
            causes.append(forbidden_field(f"{place}.{kind}", f"resource {kind} cannot be removed"))
    if same(_unsized(new), _unsized(old)):
        return True
    which = "" if listed == "containers" else " for sidecar containers"
    causes.append(forbidden_field(path, f"only cpu and memory resources{which} are mutable"))
    return False


RESIZED = frozenset(("cpu", "memory"))


def _amounts(container: Object, kind: str) -> Object:
    found: Object = (container.get("resources") or {}).get(kind) or {}
    return found


def _unsized(container: Object) -> Object:
    resources = dict(container.get("resources") or {})
    for kind in ("limits", "requests"):
        resources[kind] = {name: item for name, item in _amounts(container, kind).items() if name not in RESIZED}
    return {**container, "resources": resources}


def _ephemeral_update(entry: Object) -> Check:
    """Ephemeral containers are only ever added; nothing else changes."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if type(old) is not dict or scene.old is None:
            return
        if MIRROR in (find(scene.old, "metadata.annotations") or {}):
            scene.causes[:] = [forbidden_field("", "static pods do not support ephemeral containers")]
            return
        now, was = value.get("ephemeralContainers") or [], old.get("ephemeralContainers") or []
        known = {container.get("name"): container for container in now}
        for container in was:
            found = known.get(container.get("name"))
            path = spelled(trail, "ephemeralContainers")
            told = f"existing ephemeral containers {shown(container.get('name'))} may not be"
            if found is None:
                scene.causes.append(forbidden_field(path, f"{told} removed\n"))
            elif not same(found, container):
                scene.causes.append(forbidden_field(path, f"{told} changed\n{_difference(found, container)}"))

    return check


UPDATE_CALLS: dict[str, Callable[[Object], Check]] = {
    "podUpdate": _pod_update,
    "podResize": _pod_resize,
    "ephemeralUpdate": _ephemeral_update,
}
