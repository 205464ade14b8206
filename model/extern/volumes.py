"""What kubernetes.volumes computes.

Sources: component-helpers storage/volume (helpers.go, pv_helpers.go), pkg/controller/volume/persistentvolume,
pkg/controller/volume/pvcprotection, ephemeral volumes of pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from collections.abc import Iterable

from dashpot.model.extern import labels
from dashpot.model.extern.workloads import Kept, Object, at, created
from dashpot.model.objects import quantity

DEFAULT = "storageclass.kubernetes.io/is-default-class"
HOSTNAME = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
ENDED = ("Succeeded", "Failed")


def fits(volume: Kept, claim: Kept) -> bool:
    """Whether a volume is of the kind that a claim asks for: its access modes, its mode, and the claim's selector."""
    have, asked = at(volume.json, "spec") or {}, at(claim.json, "spec") or {}
    if not set(asked.get("accessModes") or ()) <= set(have.get("accessModes") or ()):
        return False
    if (have.get("volumeMode") or "Filesystem") != (asked.get("volumeMode") or "Filesystem"):
        return False
    if (have.get("volumeAttributesClassName") or "") != (asked.get("volumeAttributesClassName") or ""):
        return False
    selector = asked.get("selector")
    return selector is None or labels.matches(selector, at(volume.json, "metadata", "labels"))


def mismatch(volume: Kept, claim: Kept) -> str:
    """Why a claim cannot have the volume that it names, in upstream's words; "" if it can."""
    have, asked = at(volume.json, "spec") or {}, at(claim.json, "spec") or {}
    if at(volume.json, "metadata", "deletionTimestamp"):
        return f'the volume is marked for deletion "{_name(volume)}"'
    if _amount(at(have, "capacity", "storage")) < _amount(at(asked, "resources", "requests", "storage")):
        return "requested PV is too small"
    if (have.get("storageClassName") or "") != (asked.get("storageClassName") or ""):
        return "storageClassName does not match"
    if (have.get("volumeAttributesClassName") or "") != (asked.get("volumeAttributesClassName") or ""):
        return "VolumeAttributesClassName does not match"
    if (have.get("volumeMode") or "Filesystem") != (asked.get("volumeMode") or "Filesystem"):
        return "incompatible volumeMode"
    if not set(asked.get("accessModes") or ()) <= set(have.get("accessModes") or ()):
        return "incompatible accessMode"
    return ""


def default_class(classes: Iterable[Kept]) -> str | None:
    """The class that claims get which name none: the newest of those marked as default, of equals the first by name."""
    marked = [c for c in classes if at(c.json, "metadata", "annotations", DEFAULT) == "true"]
    best = min(marked, key=lambda c: (-created(c.json), _name(c)), default=None)
    return None if best is None else _name(best)


def size_of(volume: Kept) -> int:
    """The capacity of a volume, in billionths of a byte."""
    return _amount(at(volume.json, "spec", "capacity", "storage"))


def claims_of(pod: Kept) -> list[str]:
    """The names of the claims that a pod mounts, those of its ephemeral volumes included."""
    found = []
    for volume in at(pod.json, "spec", "volumes") or ():
        name = at(volume, "persistentVolumeClaim", "claimName")
        if name:
            found.append(str(name))
        elif volume.get("ephemeral"):
            found.append(f"{_name(pod)}-{volume.get('name')}")
    return found


def mentions(pod: Kept, claim: Kept) -> bool:
    """Whether a pod mounts a claim. The claim of an ephemeral volume is one only if the pod owns it."""
    name = _name(claim)
    for volume in at(pod.json, "spec", "volumes") or ():
        if at(volume, "persistentVolumeClaim", "claimName") == name:
            return True
        if volume.get("ephemeral") and f"{_name(pod)}-{volume.get('name')}" == name:
            uid = at(pod.json, "metadata", "uid")
            return any(
                ref.get("controller") and ref.get("uid") == uid
                for ref in at(claim.json, "metadata", "ownerReferences") or ()
            )
    return False


def scratch(pod: Kept) -> list[str]:
    """The names of the claims of a pod's ephemeral volumes."""
    return [f"{_name(pod)}-{v.get('name')}" for v in at(pod.json, "spec", "volumes") or () if v.get("ephemeral")]


def _template(pod: Kept, claim: str) -> Object:
    for volume in at(pod.json, "spec", "volumes") or ():
        if volume.get("ephemeral") and f"{_name(pod)}-{volume.get('name')}" == claim:
            return dict(at(volume, "ephemeral", "volumeClaimTemplate") or {})
    return {}


def scratch_labels(pod: Kept, claim: str) -> Object:
    """The labels of such a claim."""
    return dict(at(_template(pod, claim), "metadata", "labels") or {})


def scratch_annotations(pod: Kept, claim: str) -> Object:
    """Its annotations."""
    return dict(at(_template(pod, claim), "metadata", "annotations") or {})


def scratch_spec(pod: Kept, claim: str) -> Object:
    """Its spec."""
    return dict(at(_template(pod, claim), "spec") or {})


def waiting_pod(claim: Kept, pods: Iterable[Kept]) -> str | None:
    """The first by name of the pods that wait for a node and have not ended; None if none does."""
    names = [_name(p) for p in pods if at(p.json, "status", "phase") not in ENDED]
    return min(names, default=None)


def in_tree(provisioner: str) -> bool:
    """Whether a provisioner would be one of Kubernetes' own, of which there are none."""
    return provisioner.startswith("kubernetes.io/")


def volume_name(claim: Kept) -> str:
    """What the volume is called that is made for a claim."""
    return f"pvc-{at(claim.json, 'metadata', 'uid')}"


def volume_spec(claim: Kept, storage_class: Kept, directory: str) -> Object:
    """The spec of a volume that is made for a claim: a directory below another one, on the node that was selected."""
    asked, chosen = at(claim.json, "spec") or {}, storage_class.json
    meta = at(claim.json, "metadata") or {}
    spec: Object = {
        "capacity": {"storage": at(asked, "resources", "requests", "storage")},
        "accessModes": list(asked.get("accessModes") or ()),
        "persistentVolumeReclaimPolicy": chosen.get("reclaimPolicy") or "Delete",
        "storageClassName": _name(storage_class),
        "volumeMode": asked.get("volumeMode") or "Filesystem",
        "hostPath": {"path": f"{directory}/{volume_name(claim)}", "type": "DirectoryOrCreate"},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta.get("namespace"),
            "name": meta.get("name"),
            "uid": meta.get("uid"),
            "resourceVersion": meta.get("resourceVersion"),
        },
    }
    if chosen.get("mountOptions"):
        spec["mountOptions"] = list(chosen["mountOptions"])
    node = at(meta, "annotations", SELECTED)
    if node:
        here = {"key": HOSTNAME, "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return spec


def enlarged(claim: Kept) -> Object | None:
    """The capacity that a bound claim asks for, if that is more than it has; else None."""
    asked = at(claim.json, "spec", "resources", "requests", "storage")
    have = at(claim.json, "status", "capacity") or {}
    return {**have, "storage": asked} if _amount(asked) > _amount(have.get("storage")) else None


def _amount(text: object) -> int:
    """A quantity in billionths; 0 for what is none."""
    try:
        return quantity.parse(str(text or "0")).nano
    except quantity.QuantityError:
        return 0


def _name(one: Kept) -> str:
    return str(at(one.json, "metadata", "name") or "")
