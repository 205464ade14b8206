"""Rules of pods that look at several containers at once, and of what every container has: names, ports, mounts, probes.

Source: pkg/apis/core/validation/validation.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dashpot.model.objects.metadata import validate_annotations, validate_labels
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
from dashpot.runtime.api.rules.pod_env import ENV_CALLS
from dashpot.runtime.api.rules.pod_placement import PLACEMENT_CALLS
from dashpot.runtime.api.rules.pod_resources import RESOURCE_CALLS
from dashpot.runtime.api.rules.pod_security import SECURITY_CALLS
from dashpot.runtime.api.rules.pod_updates import UPDATE_CALLS
from dashpot.runtime.api.rules.pod_volumes import VOLUME_CALLS
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
PORT_TEXT: Final = "must be between 1 and 65535, inclusive"
PROTOCOLS: Final = ["SCTP", "TCP", "UDP"]
PROPAGATIONS: Final = ["Bidirectional", "HostToContainer", "None"]
RECURSIONS: Final = ["Disabled", "Enabled", "IfPossible"]
EPHEMERAL_TEXT: Final = "cannot be set for an Ephemeral Container"
_port_name = TEXTS["port-name"]
_descending = TEXTS["descending-path"]


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
                mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
                if not mounts and not devices:
                    continue
                if known is None:
                    known = _known(value, scene)
                place = ((trail, listed), at)
                if mounts:
                    _mounted(mounts, devices, known, container, (place, "volumeMounts"), scene.causes)
                if devices:
                    _attached(devices, mounts, known, (place, "volumeDevices"), scene.causes)

    return check


CLAIM: Final[Object] = {"persistentVolumeClaim": {}}


def _known(spec: Object, scene: Scene) -> dict[str, Object]:
    """The volumes of a pod; a StatefulSet adds one for each template of a claim."""
    known = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    if scene.object.get("kind") == "StatefulSet":
        for each in (scene.object.get("spec") or {}).get("volumeClaimTemplates") or ():
            known[(each.get("metadata") or {}).get("name", "")] = CLAIM
    return known


def _mounted(
    rows: list[Object], devices: Any, known: dict[str, Object], container: Object, trail: Trail, causes: list[Cause]
) -> None:
    seen: set[str] = set()
    blocks = {device.get("name"): device.get("devicePath") for device in devices} if devices else {}
    for at, row in enumerate(rows):
        name, where = row.get("name") or "", row.get("mountPath") or ""
        if not name:
            causes.append(required(spelled((trail, at), "name")))
        if name not in known:
            causes.append(not_found(spelled((trail, at), "name"), name))
        if not where:
            causes.append(required(spelled((trail, at), "mountPath")))
        if where in seen:
            causes.append(invalid_value(spelled((trail, at), "mountPath"), where, "must be unique"))
        seen.add(where)
        if blocks:
            if name in blocks:
                text = "must not already exist in volumeDevices"
                causes.append(invalid_value(spelled((trail, at), "name"), name, text))
            if where in blocks.values():
                text = "must not already exist as a path in volumeDevices"
                causes.append(invalid_value(spelled((trail, at), "mountPath"), where, text))
        if len(row) > 2:
            _mount_options(row, at, (known.get(name) or {}).get("image") is not None, container, trail, causes)


def _mount_options(row: Object, at: int, image: bool, container: Object, trail: Trail, causes: list[Cause]) -> None:
    """What a mount may say beside its name and path; upstream tells most of it without the index."""
    path, expression = row.get("subPath") or "", row.get("subPathExpr") or ""
    for field, text in (("subPath", path), ("subPathExpr", expression)):
        if text and image:
            causes.append(invalid_value(spelled((trail, at), field), text, "not allowed in image volume sources"))
        if field == "subPathExpr" and path and expression:
            told = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid_value(spelled((trail, at), field), text, told))
        if text:
            causes += [invalid_value(spelled(trail, field), text, wrong) for wrong in _descending(text)]
    spread, recursion = row.get("mountPropagation"), row.get("recursiveReadOnly")
    if spread is not None:
        if spread not in PROPAGATIONS:
            causes.append(not_supported(spelled(trail, "mountPropagation"), spread, PROPAGATIONS))
        elif spread == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            text = "Bidirectional mount propagation is available only to privileged containers"
            causes.append(forbidden_field(spelled(trail, "mountPropagation"), text))
    if recursion is None or recursion == "Disabled":
        return
    where = spelled(trail, "recursiveReadOnly")
    if recursion not in RECURSIONS:
        causes.append(not_supported(where, recursion, RECURSIONS))
        return
    if not row.get("readOnly"):
        causes.append(forbidden_field(where, "may only be specified when readOnly is true"))
    if spread is not None and spread != "None":
        causes.append(forbidden_field(where, "may only be specified when mountPropagation is None or not specified"))


def _attached(rows: Any, mounts: Any, known: dict[str, Object], trail: Trail, causes: list[Cause]) -> None:
    """Block devices: from claims, each once, and not mounted as well."""
    paths: set[str] = set()
    seen: set[str] = set()
    mounted = {mount.get("name"): mount.get("mountPath") for mount in mounts}
    for at, row in enumerate(rows):
        name, where, place = row.get("name") or "", row.get("devicePath") or "", (trail, at)
        volume = known.get(name)
        if not name:
            causes.append(required(spelled(place, "name")))
        if name in seen:
            causes.append(invalid_value(spelled(place, "name"), name, "must be unique"))
        if volume is None:
            causes.append(not_found(spelled(place, "name"), name))
        elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            causes.append(invalid_value(spelled(place, "name"), name, text))
        if not where:
            causes.append(required(spelled(place, "devicePath")))
        if where in paths:
            causes.append(invalid_value(spelled(place, "devicePath"), where, "must be unique"))
        if ".." in where.split("/"):
            text = "can not contain backsteps ('..')"
            causes.append(invalid_value(spelled(place, "devicePath"), where, text))
        else:
            paths.add(where)
        if name in mounted:
            causes.append(invalid_value(spelled(place, "name"), name, "must not already exist in volumeMounts"))
        if where in mounted.values():
            text = "must not already exist as a path in volumeMounts"
            causes.append(invalid_value(spelled(place, "devicePath"), where, text))
        if name:
            seen.add(name)


def _ports(entry: Object) -> Check:
    """The ports of a container."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        rows = value.get("ports")
        if not rows:
            return
        causes = scene.causes
        seen: set[str] = set()
        for at, port in enumerate(rows):
            name, number, host = port.get("name"), port.get("containerPort"), port.get("hostPort")
            if name:
                if wrong := _port_name(name):
                    path = spelled(trail, f"ports[{at}].name")
                    causes += [invalid_value(path, name, text) for text in wrong]
                elif name in seen:
                    causes.append(duplicate(spelled(trail, f"ports[{at}].name"), name))
                seen.add(name)
            if not number:
                causes.append(required(spelled(trail, f"ports[{at}].containerPort")))
            elif not 1 <= number <= 65535:
                causes.append(invalid_value(spelled(trail, f"ports[{at}].containerPort"), number, PORT_TEXT))
            if host and not 1 <= host <= 65535:
                causes.append(invalid_value(spelled(trail, f"ports[{at}].hostPort"), host, PORT_TEXT))
            protocol = port.get("protocol")
            if protocol and protocol not in PROTOCOLS:
                causes.append(not_supported(spelled(trail, f"ports[{at}].protocol"), protocol, PROTOCOLS))

    return check


def _host_ports(entry: Object) -> Check:
    """No two ports of a pod want the same port of the host; on the host's network they are that port."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        taken: set[str] = set()
        on_host, is_pod = value.get("hostNetwork"), trail == ((), "spec")
        for at, container in enumerate(value.get("containers") or ()):
            ports = container.get("ports")
            if not ports:
                continue
            _host_taken(ports, taken, (((trail, "containers"), at), "ports"), scene.causes)
            for index, port in enumerate(ports if on_host else ()):
                host = port.get("hostPort") or 0
                if (is_pod or host) and host != (port.get("containerPort") or 0):
                    path = spelled(trail, f"containers[{at}].ports[{index}].hostPort")
                    text = "must match `containerPort` when `hostNetwork` is true"
                    scene.causes.append(invalid_value(path, host, text))
        for container in value.get("initContainers") or ():
            if container.get("ports"):
                # these run one by one, and upstream counts each as the first
                _host_taken(container["ports"], set(), (((trail, "initContainers"), 0), "ports"), scene.causes)

    return check


def _host_taken(ports: list[Object], taken: set[str], trail: Trail, causes: list[Cause]) -> None:
    for at, port in enumerate(ports):
        number = port.get("hostPort")
        if number:
            key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{number}"
            if key in taken:
                causes.append(duplicate(spelled((trail, at), "hostPort"), key))
            taken.add(key)


def _handler(entry: Object) -> Check:
    """A probe or hook does exactly one thing."""
    kinds: list[str] = entry["fields"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        given = [kind for kind in kinds if value.get(kind) is not None]
        if not given:
            scene.causes.append(required(spelled(trail), "must specify a handler type"))
        for kind in given[1:]:
            path = spelled(trail, kind)
            scene.causes.append(forbidden_field(path, "may not specify more than 1 handler type"))

    return check


def _headers(entry: Object) -> Check:
    """The headers that a probe sends."""
    rule = TEXTS["http-header"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for header in value.get("httpHeaders") or ():
            name = header.get("name") or ""
            for text in rule(name):
                scene.causes.append(invalid_value(spelled(trail, "httpHeaders"), name, text))

    return check


def _sleep(entry: Object) -> Check:
    """A hook sleeps no longer than the pod has to stop."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        seconds, most = value.get("seconds", 0), (scene.spec or {}).get("terminationGracePeriodSeconds")
        if type(most) is int and not 0 <= seconds <= most:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({most})"
            scene.causes.append(invalid_value(spelled(trail), seconds, text))

    return check


def _init(entry: Object) -> Check:
    """Only an init container that goes on running has probes and hooks."""
    text = "may not be set for init containers without restartPolicy=Always"

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if value.get("restartPolicy") != "Always":
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if value.get(field) is not None:
                    scene.causes.append(forbidden_field(spelled(trail, field), text))

    return check


def _ephemeral(entry: Object) -> Check:
    """Ephemeral containers mount no part of a volume, and look at a container that there is."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        rows = value.get("ephemeralContainers")
        if not rows:
            return
        others = {each.get("name") for listed in LISTS[:2] for each in value.get(listed) or ()}
        for at, container in enumerate(rows):
            place, target = ((trail, "ephemeralContainers"), at), container.get("targetContainerName")
            if target and target not in others:
                scene.causes.append(not_found(spelled(place, "targetContainerName"), target))
            for index, mount in enumerate(container.get("volumeMounts") or ()):
                for field in ("subPath", "subPathExpr"):
                    if mount.get(field):
                        path = spelled(place, f"volumeMounts[{index}].{field}")
                        scene.causes.append(forbidden_field(path, EPHEMERAL_TEXT))

    return check


def _template(entry: Object) -> Check:
    """The metadata of a template, told as if it stood in the template; and no ephemeral containers."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        meta = value.get("metadata") or {}
        if meta.get("labels"):
            scene.causes += validate_labels(meta["labels"], spelled(trail, "labels"))
        if meta.get("annotations"):
            path = spelled(trail, "annotations")
            scene.causes += validate_annotations(meta["annotations"], path)
            scene.causes += _noted(meta["annotations"], value.get("spec") or {}, path)
        if (value.get("spec") or {}).get("ephemeralContainers"):
            path = spelled(trail, "spec.ephemeralContainers")
            scene.causes.append(forbidden_field(path, "ephemeral containers not allowed in pod template"))

    return check


def _annotations(entry: Object) -> Check:
    """The annotations of a pod that mean something to Kubernetes."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        notes = (value.get("metadata") or {}).get("annotations")
        if notes:
            scene.causes += _noted(notes, value.get("spec") or {}, "metadata.annotations")

    return check


def _noted(notes: dict[str, str], spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    mirror, cost = "kubernetes.io/config.mirror", "controller.kubernetes.io/pod-deletion-cost"
    if mirror in notes and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        causes.append(invalid_value(f"{path}[{mirror}]", notes[mirror], text))
    if cost in notes:
        text = notes[cost]
        digits = text.removeprefix("-")
        plain = digits.isascii() and digits.isdigit() and len(digits) <= 10 and (text == "0" or text[0] != "0")
        if not plain or not -(2**31) <= int(text) < 2**31:
            causes.append(invalid_value(f"{path}[{cost}]", text, "must be a 32bit integer"))
    return causes


POD_CALLS: dict[str, Callable[[Object], Check]] = {
    "containerNames": _names,
    "mounts": _mounts,
    "ports": _ports,
    "hostPorts": _host_ports,
    "handler": _handler,
    "httpHeaders": _headers,
    "sleep": _sleep,
    "initContainer": _init,
    "ephemeral": _ephemeral,
    "template": _template,
    "podAnnotations": _annotations,
    **ENV_CALLS,
    **PLACEMENT_CALLS,
    **RESOURCE_CALLS,
    **SECURITY_CALLS,
    **UPDATE_CALLS,
    **VOLUME_CALLS,
}
