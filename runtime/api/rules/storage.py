"""Rules of volumes, claims, Secrets and ConfigMaps that look at several parts at once.

Source: pkg/apis/core/validation/validation.go and pkg/apis/storage/validation, release 1.34.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

import msgspec

from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.objects.status import Cause, forbidden_field, invalid_value, required
from dashpot.runtime.api.rules.place import Trail, bare, find, in_order, same, spelled
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
SECRET_SIZE = 1024 * 1024
NOT_SOURCES = frozenset(
    (
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
        *("storageClassName", "volumeAttributesClassName", "volumeMode"),
    )
)
NEEDED = {
    "kubernetes.io/service-account-token": (),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
EMPTY: Object = {}


def _stuff(entry: Object) -> Check:
    """Keys and size of a Secret's or ConfigMap's data."""
    fields: list[str] = entry["fields"]
    coded = entry.get("coded", False)
    rule = TEXTS["config-key"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        size = 0
        seen: set[str] = set()
        for field in fields:
            data = value.get(field)
            if not data:
                continue
            for key, item in data.items():
                for text in rule(key):
                    scene.causes.append(invalid_value(spelled(trail, f"{field}[{key}]"), key, text))
                if key in seen:
                    text = f"duplicate of key present in {fields[0]}"
                    scene.causes.append(invalid_value(spelled(trail, f"{field}[{key}]"), key, text))
                length = len(item) if item else 0
                size += length * 3 // 4 if coded or field == "binaryData" else length
            seen.update(data)
        if size > SECRET_SIZE:
            text = f"Too long: may not be more than {SECRET_SIZE} bytes"
            # the whole of a ConfigMap has a path without a name, which upstream writes as []
            path = spelled(trail, fields[0]) if coded else "[]"
            scene.causes.append(Cause(path, text, "FieldValueTooLong"))

    return check


def _frozen(entry: Object) -> Check:
    """Data that was marked immutable stays."""
    fields = entry["fields"]
    text = entry["message"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is None or not scene.old.get("immutable"):
            return
        if not value.get("immutable"):
            scene.causes.append(forbidden_field("immutable", text))
        for field in fields:
            if not same(value.get(field), scene.old.get(field)):
                scene.causes.append(forbidden_field(field, text))

    return check


def _secret_type(entry: Object) -> Check:
    """What the type of a Secret demands of its data."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        kind, data = value.get("type"), value.get("data") or EMPTY
        for key in NEEDED.get(kind or "", ()):
            if key not in data:
                scene.causes.append(required(f"data[{key}]"))
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            scene.causes.append(required("data[username]"))
            scene.causes.append(required("data[password]"))
        if kind == "kubernetes.io/service-account-token":
            name = "kubernetes.io/service-account.name"
            if not (find(value, "metadata.annotations") or EMPTY).get(name):
                scene.causes.append(required(f"metadata.annotations[{name}]"))
        for kinds, key in (
            ("kubernetes.io/dockercfg", ".dockercfg"),
            ("kubernetes.io/dockerconfigjson", ".dockerconfigjson"),
        ):
            if kind == kinds and key in data and not _json(data[key]):
                scene.causes.append(invalid_value(f"data[{key}]", "<secret contents redacted>", "invalid JSON"))

    return check


def _json(coded: str) -> bool:
    try:
        found = msgspec.json.decode(base64.b64decode(coded))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return False
    return isinstance(found, dict)


VOLUME_SOURCES: Final = tuple(
    "hostPath gcePersistentDisk awsElasticBlockStore glusterfs flocker nfs rbd quobyte cephfs iscsi cinder fc azureFile"
    " vsphereVolume photonPersistentDisk portworxVolume azureDisk scaleIO local storageos csi".split()
)
"""The sources of a persistent volume in the order in which upstream looks at them."""


def _volume(entry: Object) -> Check:
    """A persistent volume has exactly one source."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        found = [name for name, item in value.items() if name not in NOT_SOURCES and item is not None]
        given = in_order(found, VOLUME_SOURCES)
        if not given:
            scene.causes.append(required(spelled(trail), "must specify a volume type"))
        for name in given[1:]:
            scene.causes.append(forbidden_field(spelled(trail, name), "may not specify more than 1 volume type"))

    return check


def _volume_update(entry: Object) -> Check:
    """The source of a persistent volume is fixed."""
    message = entry["message"]

    def source(spec: Object) -> Any:
        return bare({name: item for name, item in spec.items() if name not in NOT_SOURCES})

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is not None and type(old) is dict and source(value) != source(old):
            scene.causes.append(forbidden_field(spelled(trail), message))

    return check


def _claim_update(entry: Object) -> Check:
    """The spec of a claim is fixed; a bound one may grow (and take back what it did not get), be bound once, and get a
    class where it had none."""
    message, shrink = entry["message"], entry["shrink"]

    def fixed(spec: Object, *, bound: bool) -> Any:
        kept = {name: item for name, item in spec.items() if name not in ("volumeName", "volumeAttributesClassName")}
        if bound:
            resources = dict(kept.get("resources") or {})
            requests = {name: item for name, item in (resources.get("requests") or {}).items() if name != "storage"}
            kept["resources"] = {**resources, "requests": requests}
        return bare(kept)

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is None or type(old) is not dict or value == old:
            return
        path = spelled(trail)
        bound = find(scene.old, "status.phase") == "Bound"
        renamed = old.get("volumeName") and value.get("volumeName") != old["volumeName"]
        before = (
            old
            if old.get("storageClassName") is not None
            else {**old, "storageClassName": value.get("storageClassName")}
        )
        if renamed or fixed(value, bound=bound) != fixed(before, bound=bound):
            scene.causes.append(forbidden_field(path, message))
        now, was = find(value, "resources.requests.storage"), find(old, "resources.requests.storage")
        held = find(scene.old, "status.capacity.storage")
        if bound and now is not None and was is not None and _less(now, was) and (held is None or not _less(held, now)):
            scene.causes.append(forbidden_field(f"{path}.resources.requests.storage", shrink))

    return check


def _less(left: Any, right: Any) -> bool:
    try:
        return parse(str(left)) < parse(str(right))
    except QuantityError:
        return False


def _limits(entry: Object) -> Check:
    """An item of a LimitRange: min ≤ defaultRequest ≤ default ≤ max."""
    pairs = (
        ("min", "max", "min value {0} is greater than max value {1}"),
        ("min", "defaultRequest", "min value {0} is greater than default request value {1}"),
        ("defaultRequest", "max", "default request value {0} is greater than max value {1}"),
        ("defaultRequest", "default", "default request value {0} is greater than default limit value {1}"),
        ("min", "default", "min value {0} is greater than default value {1}"),
        ("default", "max", "default value {0} is greater than max value {1}"),
    )

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for low, high, text in pairs:
            lower, upper = value.get(low) or EMPTY, value.get(high) or EMPTY
            for name, item in lower.items():
                if name in upper and _less(upper[name], item):
                    field = low if low != "min" or high == "max" else high
                    told = text.format(item, upper[name])
                    scene.causes.append(invalid_value(spelled(trail, f"{field}[{name}]"), str(item), told))

    return check


STORAGE_CALLS: dict[str, Callable[[Object], Check]] = {
    "stuff": _stuff,
    "frozen": _frozen,
    "secretType": _secret_type,
    "volume": _volume,
    "volumeUpdate": _volume_update,
    "claimUpdate": _claim_update,
    "limits": _limits,
}
