"""Rules of pods that look at several parts at once: names and references, resources, what an update may change.

Source: pkg/apis/core/validation/validation.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dashpot.model.objects.qos import qos_class
from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.objects.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    shown,
)
from dashpot.runtime.api.rules.place import Trail, bare, in_order, same, spelled
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
LISTS = ("initContainers", "containers", "ephemeralContainers")
OVERCOMMIT = ("cpu", "memory", "ephemeral-storage")


def not_found(path: str, value: Any) -> Cause:
    """`PATH: Not found: VALUE`."""
    return Cause(path, f"Not found: {shown(value)}", "FieldValueNotFound")


def _names(entry: Object) -> Check:
    """Containers of all kinds have different names."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        seen: set[str] = set()
        for listed in LISTS:
            for at, container in enumerate(value.get(listed) or ()):
                name = container.get("name")
                if not name:
                    continue
                if name in seen:
                    scene.causes.append(duplicate(spelled(trail, f"{listed}[{at}].name"), name))
                seen.add(name)

    return check


def _mounts(entry: Object) -> Check:
    """Mounts and devices name volumes of the pod, at different paths."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        known: dict[str, Object] | None = None
        for listed in LISTS:
            for at, container in enumerate(value.get(listed) or ()):
                for field, path in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
                    rows = container.get(field)
                    if not rows:
                        continue
                    if known is None:
                        known = {volume.get("name", ""): volume for volume in value.get("volumes") or ()}
                    _mounted(rows, path, known, (((trail, listed), at), field), scene)

    return check


def _mounted(rows: list[Object], path: str, known: dict[str, Object], trail: Trail, scene: Scene) -> None:
    if scene.object.get("kind") == "StatefulSet":
        templates = (scene.object.get("spec") or {}).get("volumeClaimTemplates") or ()
        known = {**known, **{(each.get("metadata") or {}).get("name", ""): each for each in templates}}
    seen: set[str] = set()
    for at, row in enumerate(rows):
        name, where = row.get("name"), row.get(path)
        if not name:
            scene.causes.append(required(spelled((trail, at), "name")))
        elif name not in known:
            scene.causes.append(not_found(spelled((trail, at), "name"), name))
        if not where:
            scene.causes.append(required(spelled((trail, at), path)))
        elif where in seen:
            scene.causes.append(invalid_value(spelled((trail, at), path), where, "must be unique"))
        seen.add(where or "")


def _host_ports(entry: Object) -> Check:
    """No two ports of a pod want the same port of the host."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        seen: set[tuple[Any, ...]] = set()
        for listed in ("containers",):
            for at, container in enumerate(value.get(listed) or ()):
                for index, port in enumerate(container.get("ports") or ()):
                    number = port.get("hostPort")
                    if not number:
                        continue
                    key = (port.get("protocol", "TCP"), port.get("hostIP", ""), number)
                    if key in seen:
                        path = f"{listed}[{at}].ports[{index}].hostPort"
                        shown_key = f"{key[0]}/{key[1]}/{number}"
                        scene.causes.append(duplicate(spelled(trail, path), shown_key))
                    seen.add(key)

    return check


def _resources(entry: Object) -> Check:
    """Requests and limits are quantities; no request is above its limit."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        limits, requests = value.get("limits") or {}, value.get("requests") or {}
        numbers: dict[str, dict[str, Any]] = {"limits": {}, "requests": {}}
        for kind, amounts in (("limits", limits), ("requests", requests)):
            for name, text in amounts.items():
                try:
                    number = numbers[kind][name] = parse(str(text))
                except QuantityError as error:
                    scene.causes.append(invalid_value(spelled(trail, f"{kind}[{name}]"), text, str(error)))
                    continue
                if number.nano < 0:
                    detail = "must be greater than or equal to 0"
                    scene.causes.append(invalid_value(spelled(trail, f"{kind}[{name}]"), str(text), detail))
                elif name not in OVERCOMMIT and not number.whole:
                    scene.causes.append(
                        invalid_value(spelled(trail, f"{kind}[{name}]"), str(text), "must be an integer")
                    )
        for name, wanted in numbers["requests"].items():
            limit = numbers["limits"].get(name)
            if limit is None:
                continue
            plain = name in OVERCOMMIT
            if (wanted > limit) if plain else (wanted != limit):
                must = "less than or equal to" if plain else "equal to"
                detail = f"must be {must} {name} limit of {limits[name]}"
                scene.causes.append(invalid_value(spelled(trail, "requests"), str(requests[name]), detail))

    return check


def _handler(entry: Object) -> Check:
    """A probe or hook does exactly one thing."""
    kinds = entry["fields"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        given = [kind for kind in kinds if value.get(kind) is not None]
        if not given:
            scene.causes.append(required(spelled(trail), "must specify a handler type"))
        for kind in given[1:]:
            path = spelled(trail, kind)
            scene.causes.append(forbidden_field(path, "may not specify more than 1 handler type"))

    return check


VOLUME_SOURCES: Final = tuple(
    "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs persistentVolumeClaim"
    " rbd cinder cephfs quobyte downwardAPI fc flocker configMap azureFile vsphereVolume photonPersistentDisk"
    " portworxVolume azureDisk storageos projected scaleIO csi ephemeral image".split()
)
"""The sources of a pod's volume as upstream looks at them: the first stands, the others are refused."""


def _volume_source(entry: Object) -> Check:
    """A volume has exactly one source."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        given = [name for name, source in value.items() if name != "name" and source is not None]
        if not given:
            scene.causes.append(required(spelled(trail), "must specify a volume type"))
        for name in in_order(given, VOLUME_SOURCES)[1:]:
            scene.causes.append(forbidden_field(spelled(trail, name), "may not specify more than 1 volume type"))

    return check


def _env_source(entry: Object) -> Check:
    """A variable has a value or exactly one source of it."""
    kinds = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        source = value.get("valueFrom")
        if source is None:
            return
        if value.get("value"):
            text = "may not be specified when `value` is not empty"
            scene.causes.append(invalid_value(spelled(trail, "valueFrom"), "", text))
        given = [kind for kind in kinds if source.get(kind) is not None]
        if not given:
            text = f"must specify one of: {', '.join(f'`{kind}`' for kind in kinds[:-2])} or `{kinds[-2]}`"
            scene.causes.append(invalid_value(spelled(trail, "valueFrom"), "", text))
        elif len(given) > 1:
            text = "may not have more than one field specified at a time"
            scene.causes.append(invalid_value(spelled(trail, "valueFrom"), "", text))

    return check


def _toleration(entry: Object) -> Check:
    """A toleration's operator, key, value and effect go together."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        key, operator = value.get("key") or "", value.get("operator") or "Equal"
        if not key and operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            scene.causes.append(invalid_value(spelled(trail, "operator"), value.get("operator", ""), text))
        if operator == "Exists" and value.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            scene.causes.append(invalid_value(spelled(trail, "operator"), value["value"], text))
        if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            scene.causes.append(invalid_value(spelled(trail, "effect"), value.get("effect", ""), text))

    return check


def _fixed_container(container: Any) -> Any:
    return {name: item for name, item in container.items() if name != "image"}


def _fixed_spec(spec: Object, old: Object) -> Object:
    """A pod's spec without what an update may change."""
    fixed = {name: item for name, item in spec.items() if name not in ("activeDeadlineSeconds", "tolerations")}
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
        if scene.old is None or type(old) is not dict or value == old:
            return
        causes = scene.causes
        path = spelled(trail)
        for listed in ("containers", "initContainers"):
            if len(value.get(listed) or ()) != len(old.get(listed) or ()):
                causes.append(forbidden_field(spelled(trail, listed), "pod updates may not add or remove containers"))
                return
        _deadline(value, old, path, causes)
        _more_tolerations(value.get("tolerations") or [], old.get("tolerations") or [], path, causes)
        new, was = _fixed_spec(value, old), _fixed_spec(old, old)
        if old.get("schedulingGates"):
            _gated(value, old, new, was, path, causes)
        if same(new, was):
            return
        causes.append(forbidden_field(path, f"{message}\n{_difference(new, was)}"))

    return check


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


def _gated(value: Object, old: Object, new: Object, was: Object, path: str, causes: list[Cause]) -> None:
    """While a pod has scheduling gates, gates may go and its choice of nodes may narrow."""
    gates = [gate.get("name") for gate in old["schedulingGates"]]
    for at, gate in enumerate(value.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            text = "only deletion is allowed, but found new scheduling gate " + shown(gate.get("name"))
            causes.append(forbidden_field(f"{path}.schedulingGates[{at}]", text))
    before, after = old.get("nodeSelector") or {}, value.get("nodeSelector") or {}
    if all(after.get(key) == item for key, item in before.items()):
        new.pop("nodeSelector", None)
        was.pop("nodeSelector", None)
    for field in ("schedulingGates", "affinity"):
        new.pop(field, None)
        was.pop(field, None)


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
    """A resize changes CPU and memory of containers, and takes none away."""
    message = entry["message"]

    def fixed(spec: Object) -> Object:
        found = dict(spec)
        for listed in ("containers", "initContainers"):
            found[listed] = [_unsized(container) for container in spec.get(listed) or ()]
        return found

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if type(old) is not dict:
            return
        for listed in ("containers", "initContainers"):
            names = [[row.get("name") for row in spec.get(listed) or ()] for spec in (value, old)]
            if names[0] != names[1]:
                text = "containers may not be renamed or reordered on resize"
                scene.causes.append(forbidden_field(spelled(trail, listed), text))
                return
        if not same(fixed(value), fixed(old)):
            scene.causes.append(forbidden_field(spelled(trail), message))
            return
        if qos_class(value) != qos_class(old):
            text = "Pod QOS Class may not change as a result of resizing"
            scene.causes.append(invalid_value(spelled(trail), qos_class(value), text))
        for listed in ("containers", "initContainers"):
            for at, (new, was) in enumerate(zip(value.get(listed) or (), old.get(listed) or (), strict=True)):
                for kind in ("limits", "requests"):
                    gone = _amounts(was, kind).keys() - _amounts(new, kind).keys()
                    if gone & RESIZED:
                        path = spelled(trail, f"{listed}[{at}].resources.{kind}")
                        scene.causes.append(forbidden_field(path, f"resource {kind} cannot be removed"))

    return check


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
        if type(old) is not dict:
            return
        now, was = value.get("ephemeralContainers") or [], old.get("ephemeralContainers") or []
        known = {container.get("name"): container for container in now}
        for at, container in enumerate(was):
            found = known.get(container.get("name"))
            path = spelled(trail, "ephemeralContainers")
            if found is None:
                text = f"existing ephemeral containers {shown(container.get('name'))} may not be removed"
                scene.causes.append(forbidden_field(path, text))
            elif not same(found, container):
                text = f"existing ephemeral containers {shown(container.get('name'))} may not be changed"
                scene.causes.append(forbidden_field(f"{path}[{at}]", text))

    return check


POD_CALLS: dict[str, Callable[[Object], Check]] = {
    "containerNames": _names,
    "mounts": _mounts,
    "hostPorts": _host_ports,
    "resources": _resources,
    "handler": _handler,
    "volumeSource": _volume_source,
    "envSource": _env_source,
    "toleration": _toleration,
    "podUpdate": _pod_update,
    "podResize": _pod_resize,
    "ephemeralUpdate": _ephemeral_update,
}
