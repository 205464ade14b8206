"""What metadata must be, on create and on update: causes for a 422, in upstream's words and order.

Source: k8s.io/apimachinery pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation; pkg/apis/core/validation
(finalizers of built-in kinds).
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects import names
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import CAUSES, Cause, Object, forbidden_field, invalid_value, required, shown

ANNOTATIONS_SIZE = 256 * 1024
MANAGER_LENGTH = 128
SUBRESOURCE_LENGTH = 256

_STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def validate_metadata(resource: Resource, obj: Object) -> list[Cause]:
    """What is wrong with the metadata of a new object, name and namespace already filled in."""
    meta: Object = obj.get("metadata") or {}
    causes: list[Cause] = []
    rule = names.rule_of(resource.group, resource.plural)
    prefix = meta.get("generateName")
    if prefix:
        causes += [invalid_value("metadata.generateName", prefix, text) for text in rule(names.masked(prefix))]
    name = meta.get("name")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [invalid_value("metadata.name", name, text) for text in rule(name)]
    namespace = meta.get("namespace")
    if resource.namespaced:
        if not namespace:
            causes.append(required("metadata.namespace"))
        else:
            causes += [invalid_value("metadata.namespace", namespace, text) for text in names.dns_label(namespace)]
    elif namespace:
        causes.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    generation = meta.get("generation")
    if generation is not None and generation < 0:
        causes.append(invalid_value("metadata.generation", generation, "must be greater than or equal to 0"))
    return causes + _common(meta, standard=_standard(resource))


def validate_metadata_update(resource: Resource, obj: Object, old: Object) -> list[Cause]:
    """What is wrong with the metadata of a changed object; what the server fills in itself is there already."""
    meta: Object = obj.get("metadata") or {}
    was: Object = old.get("metadata") or {}
    causes: list[Cause] = []
    if was.get("deletionTimestamp") is not None:
        extra = sorted(set(meta.get("finalizers") or ()) - set(was.get("finalizers") or ()))
        if extra:
            told = ", ".join(map(shown, extra))
            text = "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
            causes.append(forbidden_field("metadata.finalizers", f"{text}{told}}}"))
    if not meta.get("resourceVersion"):
        causes.append(invalid_value("metadata.resourceVersion", "", "must be specified for an update"))
    if (meta.get("generation") or 0) < (was.get("generation") or 0):
        causes.append(invalid_value("metadata.generation", meta.get("generation") or 0, "must not be decremented"))
    for key in _FIXED:
        if meta.get(key) != was.get(key) and (meta.get(key) or was.get(key)):
            shown_value = meta.get(key, "" if key in _FIXED[:3] else None)
            causes.append(invalid_value(f"metadata.{key}", shown_value, "field is immutable"))
    return causes + _common(meta, standard=_standard(resource))


def _standard(resource: Resource) -> bool:
    """Core validation knows the finalizers without a slash; extension servers take any qualified name."""
    return not resource.custom and resource.group not in ("apiextensions.k8s.io", "apiregistration.k8s.io")


def _common(meta: Object, *, standard: bool) -> list[Cause]:
    """What holds on create and on update; nothing to look at costs nothing."""
    causes: list[Cause] = []
    if labels := meta.get("labels"):
        causes += validate_labels(labels, "metadata.labels")
    if annotations := meta.get("annotations"):
        causes += validate_annotations(annotations, "metadata.annotations")
    if owners := meta.get("ownerReferences"):
        causes += _owners(owners, "metadata.ownerReferences")
    if finalizers := meta.get("finalizers"):
        causes += _finalizers(finalizers, "metadata.finalizers", standard=standard)
    if managed := meta.get("managedFields"):
        causes += _managed(managed, "metadata.managedFields")
    return causes


def validate_labels(labels: dict[str, str], path: str) -> list[Cause]:
    """Labels of an object, or the matchLabels of a selector."""
    causes: list[Cause] = []
    for key, value in labels.items():
        if len(causes) >= CAUSES:
            break
        if wrong := names.qualified(key):
            causes += [invalid_value(path, key, text) for text in wrong]
        if wrong := names.label_value(value):
            causes += [invalid_value(path, value, text) for text in wrong]
    return causes


def validate_annotations(annotations: dict[str, str], path: str) -> list[Cause]:
    """Annotations: keys as labels have them, in either case; 256 KiB in all."""
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        if len(causes) >= CAUSES:
            break
        if wrong := names.qualified(key.lower()):
            causes += [invalid_value(path, key, text) for text in wrong]
        size += len(key) + len(value)
    if size > ANNOTATIONS_SIZE or (
        size * 4 > ANNOTATIONS_SIZE and _utf8(annotations) > ANNOTATIONS_SIZE  # characters are up to 4 bytes
    ):
        causes.append(too_long(path, ANNOTATIONS_SIZE))
    return causes


def _utf8(texts: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode("utf-8", "surrogatepass")) for key, value in texts.items())


def too_long(path: str, limit: int) -> Cause:
    """`PATH: Too long: may not be more than LIMIT bytes`."""
    return Cause(path, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")


def _owners(owners: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    controller = ""
    for owner in owners:
        if len(causes) >= CAUSES:
            break
        group_version = owner.get("apiVersion") or ""
        if not group_version or group_version.endswith("/"):
            causes.append(invalid_value(f"{path}.apiVersion", group_version, "version must not be empty"))
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                causes.append(invalid_value(f"{path}.{key}", "", "must not be empty"))
        if group_version == "v1" and owner.get("kind") == "Event":
            causes.append(invalid_value(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                text = 'Only one reference can have Controller set to true. Found "true" in references for'
                causes.append(invalid_value(path, owners, f"{text} {controller} and {name}"))
            else:
                controller = name
    return causes


def _finalizers(finalizers: list[str], path: str, *, standard: bool) -> list[Cause]:
    causes: list[Cause] = []
    for name in finalizers:
        if len(causes) >= CAUSES:
            break
        causes += [invalid_value(path, name, text) for text in names.qualified(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid_value(path, finalizers, text))
    if standard:
        for at, name in enumerate(finalizers):
            if len(causes) >= CAUSES:
                break
            if "/" not in name and name not in _STANDARD_FINALIZERS:
                text = "name is neither a standard finalizer name nor is it fully qualified"
                causes.append(invalid_value(f"{path}[{at}]", name, text))
    return causes


def _managed(entries: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for at, entry in enumerate(entries):
        if len(causes) >= CAUSES:
            break
        here = f"{path}[{at}]"
        if entry.get("operation") not in ("Apply", "Update"):
            causes.append(invalid_value(f"{here}.operation", entry.get("operation", ""), "must be `Apply` or `Update`"))
        if entry.get("fieldsType") and entry["fieldsType"] != "FieldsV1":
            causes.append(invalid_value(f"{here}.fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        causes += validate_manager(entry.get("manager") or "", f"{here}.manager")
        if len(entry.get("subresource") or "") > SUBRESOURCE_LENGTH:
            causes.append(too_long(f"{here}.subresource", SUBRESOURCE_LENGTH))
    return causes


def validate_manager(manager: str, path: str) -> list[Cause]:
    """The name of a field manager: at most 128 bytes, all of them printable."""
    causes = [too_long(path, MANAGER_LENGTH)] if len(manager.encode("utf-8", "surrogatepass")) > MANAGER_LENGTH else []
    if not manager.isprintable():
        at = next(at for at, char in enumerate(manager) if not char.isprintable())
        text = f"invalid character U+{ord(manager[at]):04X} (at position {at})"
        causes.append(invalid_value(path, manager, text))
    return causes


def validate_selector(selector: Any, path: str) -> list[Cause]:
    """A LabelSelector object; None is fine."""
    if not selector:
        return []
    causes = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for at, term in enumerate(selector.get("matchExpressions") or ()):
        if len(causes) >= CAUSES:
            break
        here, operator, values = f"{path}.matchExpressions[{at}]", term.get("operator", ""), term.get("values")
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                causes.append(required(f"{here}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden_field(f"{here}.values", text))
        else:
            causes.append(invalid_value(f"{here}.operator", operator, "not a valid selector operator"))
        causes += [
            invalid_value(f"{here}.key", term.get("key", ""), text) for text in names.qualified(term.get("key", ""))
        ]
        for index, value in enumerate(values or ()):
            if len(causes) >= CAUSES:
                break
            causes += [invalid_value(f"{here}.values[{index}]", value, text) for text in names.label_value(value)]
    return causes
