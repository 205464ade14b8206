"""Rules of environment variables and of what a pod tells its containers about itself (downward API).

Source: pkg/apis/core/validation/validation.go (ValidateEnv, ValidateEnvFrom, validateObjectFieldSelector,
validateContainerResourceFieldSelector), pkg/apis/core/pods/helpers.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dashpot.model.objects import names
from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.objects.status import Cause, invalid_value, not_supported, required
from dashpot.runtime.api.rules.place import Trail, spelled
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
ENV_FIELDS: Final = [
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
]
FILE_FIELDS: Final = ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"]
KNOWN_FIELDS: Final = frozenset(
    (*ENV_FIELDS, *FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host")
)
RESOURCES: Final = [
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
]
HUGE: Final = ("requests.hugepages-", "limits.hugepages-")
UNITS: Final = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
KINDS: Final = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
_env_name = TEXTS["env-name"]


def field_ref(ref: Object, fields: list[str], path: str) -> list[Cause]:
    """What is wrong with a reference to a field of the pod; `fields` are those that may be read as a whole."""
    version, field = ref.get("apiVersion", "v1"), ref.get("fieldPath")
    where = f"{path}.fieldPath"
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(where)]
    if field in fields and version == "v1":
        return []
    if version != "v1":
        text = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid_value(where, field, text)]
    base, bracket, key = field.removesuffix("']").partition("['")
    if field.endswith("']") and bracket and base:
        if base not in ("metadata.annotations", "metadata.labels"):
            text = f"error converting fieldPath: field label does not support subscript: {field}"
            return [invalid_value(where, field, text)]
        key = key.lower() if base == "metadata.annotations" else key
        return [invalid_value(path, key, text) for text in names.qualified(key)]
    if field not in KNOWN_FIELDS:
        text = f"error converting fieldPath: field label not supported: {field}"
        return [invalid_value(where, field, text)]
    plain = "spec.nodeName" if field == "spec.host" else field
    return [] if plain in fields else [not_supported(where, plain, fields)]


def resource_ref(ref: Object, path: str, in_file: bool) -> list[Cause]:
    """What is wrong with a reference to a request or limit; in files it names its container."""
    causes: list[Cause] = []
    resource = ref.get("resource") or ""
    if in_file and not ref.get("containerName"):
        causes.append(required(f"{path}.containerName"))
    elif not resource:
        causes.append(required(f"{path}.resource"))
    elif resource not in RESOURCES and not resource.startswith(HUGE):
        causes.append(not_supported(f"{path}.resource", resource, RESOURCES))
    divisor = ref.get("divisor")
    if divisor not in (None, "", "0", "1"):
        causes += _divisor(resource, str(divisor), f"{path}.divisor")
    return causes


def _divisor(resource: str, text: str, path: str) -> list[Cause]:
    try:
        found = str(parse(text))
    except QuantityError as error:
        return [invalid_value(path, text, str(error))]
    kind = resource.partition(".")[2]
    if found == "0":
        return []
    if kind == "cpu":
        wrong = "" if found in ("1m", "1") else "only divisor's values 1m and 1 are supported with the cpu resource"
    else:
        told = "hugepages" if resource.startswith(HUGE) else KINDS.get(kind, "")
        supported = not told or found in UNITS.split(", ")
        wrong = "" if supported else f"only divisor's values {UNITS} are supported with the {told} resource"
    return [invalid_value(path, resource, wrong)] if wrong else []


def _key_ref(ref: Object, path: str) -> list[Cause]:
    """A key of a ConfigMap or Secret."""
    name, key = ref.get("name") or "", ref.get("key")
    causes = [invalid_value(f"{path}.name", name, text) for text in names.dns_subdomain(name)]
    if not key:
        return [*causes, required(f"{path}.key")]
    return causes + [invalid_value(f"{path}.key", key, text) for text in TEXTS["config-key"](key)]


def _value_from(variable: Object, source: Object, path: str) -> list[Cause]:
    """Where a variable's value comes from: one source, and no value beside it."""
    given = [kind for kind in SOURCES if source.get(kind) is not None]
    causes: list[Cause] = []
    for kind in given:
        ref, where = source[kind], f"{path}.{kind}"
        if kind == "fieldRef":
            causes += field_ref(ref, ENV_FIELDS, where)
        elif kind == "resourceFieldRef":
            causes += resource_ref(ref, where, in_file=False)
        elif kind != "fileKeyRef":
            causes += _key_ref(ref, where)
    if not given:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        causes.append(invalid_value(path, "", text))
    elif variable.get("value"):
        causes.append(invalid_value(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        causes.append(invalid_value(path, "", "may not have more than one field specified at a time"))
    return causes


def _env(entry: Object) -> Check:
    """The variables of a container: names without `=`, a value or one source of it."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for at, variable in enumerate(value.get("env") or ()):
            name, source = variable.get("name"), variable.get("valueFrom")
            if not name:
                scene.causes.append(required(spelled(trail, f"env[{at}].name")))
            else:
                for text in _env_name(name):
                    scene.causes.append(invalid_value(spelled(trail, f"env[{at}].name"), name, text))
            if source is not None:
                scene.causes += _value_from(variable, source, spelled(trail, f"env[{at}].valueFrom"))

    return check


def _env_from(entry: Object) -> Check:
    """Variables that come from a ConfigMap or a Secret as a whole."""
    kinds = ("configMapRef", "secretRef")

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        causes = scene.causes
        for at, row in enumerate(value.get("envFrom") or ()):
            prefix = row.get("prefix")
            if prefix:
                for text in _env_name(prefix):
                    causes.append(invalid_value(spelled(trail, f"envFrom[{at}].prefix"), prefix, text))
            given = [kind for kind in kinds if row.get(kind) is not None]
            for kind in given:
                name = row[kind].get("name")
                path = spelled(trail, f"envFrom[{at}].{kind}.name")
                if not name:
                    causes.append(required(path))
                else:
                    # the name may be a prefix upstream: a dash at its end passes
                    checked = name[:-1] + "a" if name.endswith("-") else name
                    causes += [invalid_value(path, name, text) for text in names.dns_subdomain(checked)]
            if len(given) != 1:
                text = "may not have more than one field specified at a time"
                if not given:
                    text = "must specify one of: `configMapRef` or `secretRef`"
                causes.append(invalid_value(spelled(trail, "envFrom"), "", text))

    return check


ENV_CALLS: dict[str, Callable[[Object], Check]] = {"env": _env, "envFrom": _env_from}
