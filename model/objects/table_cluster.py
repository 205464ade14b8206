"""The cells of nodes, namespaces, events, configuration and storage.

Source: kubernetes pkg/printers/internalversion/printers.go, release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects import quantity
from dashpot.model.objects.table_text import (
    NONE,
    UNKNOWN,
    UNSET,
    Object,
    access_modes,
    age,
    at,
    columns,
    condition,
    meta,
    name,
    since,
    spec,
    status,
)

ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
DEFAULT_ATTRIBUTES = ("volumeattributesclass.kubernetes.io/is-default-class",)


def node(obj: Object, now: float) -> list[Any]:
    """State, roles, version; addresses and system."""
    found = status(obj)
    ready = condition(found.get("conditions") or (), "Ready")
    states = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if spec(obj).get("unschedulable"):
        states.append("SchedulingDisabled")
    info = at(obj, "status", "nodeInfo")
    system = [info.get(key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [
        name(obj),
        ",".join(states),
        ",".join(_roles(obj)) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(found, "InternalIP"),
        _address(found, "ExternalIP"),
        *system,
    ]


def _roles(obj: Object) -> list[str]:
    found = set()
    for key, value in (meta(obj).get("labels") or {}).items():
        if key.startswith(ROLE_PREFIX):
            found.add(key[len(ROLE_PREFIX) :])
        elif key == ROLE_LABEL:
            found.add(value)
    return sorted(found - {""})


def _address(found: Object, kind: str) -> str:
    return next((row.get("address", "") for row in found.get("addresses") or () if row.get("type") == kind), NONE)


def namespace(obj: Object, now: float) -> list[Any]:
    """Phase."""
    return [name(obj), status(obj).get("phase", ""), age(obj, now)]


def configmap(obj: Object, now: float) -> list[Any]:
    """How many entries it has."""
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def secret(obj: Object, now: float) -> list[Any]:
    """Type, and how many entries it has."""
    return [name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def serviceaccount(obj: Object, now: float) -> list[Any]:
    """How many secrets it has."""
    return [name(obj), len(obj.get("secrets") or ()), age(obj, now)]


def event(obj: Object, now: float) -> list[Any]:
    """When last seen, type, reason, about what; core/v1 and events.k8s.io/v1."""
    first = since(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"), now)
    stamp = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    last = since(stamp, now) if stamp else first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series:
        last, count = since(series.get("lastObservedTime"), now), series.get("count", 0)
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    target = about.get("kind", "").lower() + (f"/{about['name']}" if about.get("name") else "")
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        _source(obj),
        (obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
        name(obj),
    ]


def _source(obj: Object) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _class(obj: Object) -> str:
    """The storage class: the annotation of old, else the field."""
    found = (meta(obj).get("annotations") or {}).get(CLASS_ANNOTATION)
    return found if found is not None else spec(obj).get("storageClassName") or ""


def _phase(obj: Object) -> str:
    return "Terminating" if meta(obj).get("deletionTimestamp") else status(obj).get("phase", "")


def persistentvolume(obj: Object, now: float) -> list[Any]:
    """Size, modes, policy, state, claim, class."""
    wanted = spec(obj)
    claim = wanted.get("claimRef")
    return [
        name(obj),
        str(at(wanted, "capacity").get("storage", "0")),
        access_modes(wanted.get("accessModes")),
        wanted.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(obj),
        wanted.get("volumeAttributesClassName") or UNSET,
        status(obj).get("reason", ""),
        age(obj, now),
        wanted.get("volumeMode") or UNSET,
    ]


def persistentvolumeclaim(obj: Object, now: float) -> list[Any]:
    """State, volume, size, modes, class."""
    wanted, found = spec(obj), status(obj)
    bound = bool(wanted.get("volumeName"))
    return [
        name(obj),
        _phase(obj),
        wanted.get("volumeName", ""),
        str(at(found, "capacity").get("storage", "0")) if bound else "",
        access_modes(found.get("accessModes")) if bound else "",
        _class(obj),
        wanted.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        wanted.get("volumeMode") or UNSET,
    ]


def _default_name(obj: Object, annotations: tuple[str, ...]) -> str:
    found = meta(obj).get("annotations") or {}
    return name(obj) + (" (default)" if any(found.get(key) == "true" for key in annotations) else "")


def storageclass(obj: Object, now: float) -> list[Any]:
    """Provisioner, policy, binding mode, whether volumes may grow."""
    return [
        _default_name(obj, DEFAULT_CLASS),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def volumeattributesclass(obj: Object, now: float) -> list[Any]:
    """Driver."""
    return [_default_name(obj, DEFAULT_ATTRIBUTES), obj.get("driverName", ""), age(obj, now)]


def volumeattachment(obj: Object, now: float) -> list[Any]:
    """What is attached where."""
    wanted = spec(obj)
    volume = at(wanted, "source").get("persistentVolumeName") or ""
    attached = bool(status(obj).get("attached"))
    return [name(obj), wanted.get("attacher", ""), volume, wanted.get("nodeName", ""), attached, age(obj, now)]


def csinode(obj: Object, now: float) -> list[Any]:
    """How many drivers it has."""
    return [name(obj), len(spec(obj).get("drivers") or ()), age(obj, now)]


def csidriver(obj: Object, now: float) -> list[Any]:
    """What it requires."""
    wanted = spec(obj)
    tokens = wanted.get("tokenRequests")
    attach = wanted.get("attachRequired")
    return [
        name(obj),
        True if attach is None else attach,
        bool(wanted.get("podInfoOnMount")),
        bool(wanted.get("storageCapacity")),
        UNSET if tokens is None else ",".join(row.get("audience", "") for row in tokens),
        bool(wanted.get("requiresRepublish")),
        ",".join(wanted.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def csistoragecapacity(obj: Object, now: float) -> list[Any]:
    """Class and capacity."""
    capacity = obj.get("capacity")
    return [name(obj), obj.get("storageClassName", ""), UNSET if capacity is None else str(capacity)]


def resourcequota(obj: Object, now: float) -> list[Any]:
    """Used and hard, requests and limits apart."""
    hard, used = at(obj, "status", "hard"), at(obj, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for resource in sorted(hard):
        text = f"{resource}: {used.get(resource, '0')}/{hard[resource]}"
        (limits if resource.startswith("limits.") else requests).append(text)
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def usage(obj: Object, now: float) -> list[Any]:
    """What a node uses, or a pod's containers together; source: metrics-server pkg/api/table.go."""
    rows = obj.get("containers") or [obj]
    used = [_total([row.get("usage") or {} for row in rows], resource) for resource in ("cpu", "memory")]
    return [name(obj), *used, obj.get("window", "")]


def _total(rows: list[Object], resource: str) -> str:
    amounts = [quantity.parse(str(row[resource])) for row in rows if resource in row]
    return str(quantity.total(amounts)) if amounts else "0"


_EVENT = columns("Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*")

PRINTERS = {
    ("", "nodes"): (
        columns("Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*"),
        node,
    ),
    ("", "namespaces"): (columns("Name Status Age"), namespace),
    ("", "configmaps"): (columns("Name Data Age"), configmap),
    ("", "secrets"): (columns("Name Type Data Age"), secret),
    ("", "serviceaccounts"): (columns("Name Secrets Age"), serviceaccount),
    ("", "events"): (_EVENT, event),
    ("events.k8s.io", "events"): (_EVENT, event),
    ("", "persistentvolumes"): (
        columns(
            "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age"
            " VolumeMode*"
        ),
        persistentvolume,
    ),
    ("", "persistentvolumeclaims"): (
        columns("Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode*"),
        persistentvolumeclaim,
    ),
    ("", "resourcequotas"): (columns("Name Request Limit Age"), resourcequota),
    ("storage.k8s.io", "storageclasses"): (
        columns("Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age"),
        storageclass,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): (columns("Name DriverName Age"), volumeattributesclass),
    ("storage.k8s.io", "volumeattachments"): (columns("Name Attacher PV Node Attached:b Age"), volumeattachment),
    ("storage.k8s.io", "csinodes"): (columns("Name Drivers:i Age"), csinode),
    ("storage.k8s.io", "csidrivers"): (
        columns("Name AttachRequired:b PodInfoOnMount:b StorageCapacity:b TokenRequests RequiresRepublish:b Modes Age"),
        csidriver,
    ),
    ("storage.k8s.io", "csistoragecapacities"): (columns("Name StorageClassName Capacity"), csistoragecapacity),
    ("metrics.k8s.io", "nodes"): (columns("Name cpu memory Window"), usage),
    ("metrics.k8s.io", "pods"): (columns("Name cpu memory Window"), usage),
}
"""Columns and cells by group and plural."""
