"""What the server makes of an object before it is stored, a strategy a kind: status, generation, what is derived.

`on_create` comes after mutating admission and defaults and before validation, with name, uid and time of creation
filled in; `on_update` likewise, `generation` last of all. All work in place and are idempotent; values that are taken
over from the old object are shared with it. Source: pkg/registry/*/strategy.go, release 1.34.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from dashpot.model.objects.qos import qos_class
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Object

Prepare = Callable[[Object], None]
Update = Callable[[Object, Object], None]

_ADMISSION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"

_GENERATION: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): ("spec",),
    ("", "ReplicationController"): ("spec",),
    ("apps", "Deployment"): ("spec",),
    ("apps", "DaemonSet"): ("spec",),
    ("apps", "StatefulSet"): ("spec",),
    ("apps", "ReplicaSet"): ("spec",),
    ("batch", "Job"): ("spec",),
    ("batch", "CronJob"): ("spec",),
    ("policy", "PodDisruptionBudget"): ("spec",),
    ("networking.k8s.io", "Ingress"): ("spec",),
    ("networking.k8s.io", "IngressClass"): ("spec",),
    ("networking.k8s.io", "NetworkPolicy"): ("spec",),
    ("discovery.k8s.io", "EndpointSlice"): ("addressType", "endpoints", "ports"),
    (_FLOW, "FlowSchema"): ("spec",),
    (_FLOW, "PriorityLevelConfiguration"): ("spec",),
    (_ADMISSION, "MutatingWebhookConfiguration"): ("webhooks",),
    (_ADMISSION, "ValidatingWebhookConfiguration"): ("webhooks",),
    (_ADMISSION, "ValidatingAdmissionPolicy"): ("spec",),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): ("spec",),
    (_ADMISSION, "MutatingAdmissionPolicy"): ("spec",),
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): ("spec",),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("spec",),
    ("scheduling.k8s.io", "PriorityClass"): (),
    ("resource.k8s.io", "DeviceClass"): ("spec",),
    ("resource.k8s.io", "ResourceSlice"): ("spec",),
}
"""Kinds that carry a generation, and what of them is counted."""

_STATUS_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_META_RESET = frozenset(
    (
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("resource.k8s.io", "ResourceClaim"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("apiregistration.k8s.io", "APIService"),
        (_ADMISSION, "ValidatingAdmissionPolicy"),
        (_FLOW, "FlowSchema"),
        (_FLOW, "PriorityLevelConfiguration"),
    )
)
"""Kinds whose status cannot be written together with metadata; for others upstream lets labels through."""

_EMPTY_STATUS: dict[tuple[str, str], Callable[[], Object]] = {
    ("", "Namespace"): lambda: {"phase": "Active"},
    ("", "PersistentVolume"): lambda: {"phase": "Pending"},
    ("", "PersistentVolumeClaim"): lambda: {"phase": "Pending"},
    ("", "ReplicationController"): lambda: {"replicas": 0},
    ("", "Service"): lambda: {"loadBalancer": {}},
    ("apps", "ReplicaSet"): lambda: {"replicas": 0},
    ("apps", "StatefulSet"): lambda: {"replicas": 0, "availableReplicas": 0},
    ("apps", "DaemonSet"): lambda: {
        "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0
    },
    ("autoscaling", "HorizontalPodAutoscaler"): lambda: {"desiredReplicas": 0},
    ("networking.k8s.io", "Ingress"): lambda: {"loadBalancer": {}},
    ("policy", "PodDisruptionBudget"): lambda: {
        "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0
    },
    ("storage.k8s.io", "VolumeAttachment"): lambda: {"attached": False},
}  # fmt: skip
"""What Go writes for a status that nobody has set; `{}` for all others."""

_STATUS_AT_CREATE = frozenset((("", "Node"), ("apiextensions.k8s.io", "CustomResourceDefinition")))
"""Kinds that may be created with a status: kubelets do; a definition's storedVersions are its own."""


def on_create(resource: Resource, obj: Object) -> None:
    """Makes a new object what the server stores: status emptied, generation 1, derived fields set."""
    key = (resource.group, resource.kind)
    if resource.custom:
        obj["metadata"]["generation"] = 1
        if resource.subresource("status") is not None:
            obj.pop("status", None)
        return
    if key in _GENERATION:
        obj["metadata"]["generation"] = 1
    if resource.subresource("status") is not None and key not in _STATUS_AT_CREATE:
        empty = _EMPTY_STATUS.get(key)
        obj["status"] = empty() if empty is not None else {}
    prepare = _CREATE.get(key)
    if prepare is not None:
        prepare(obj)


def on_update(resource: Resource, obj: Object, old: Object, subresource: str = "") -> None:
    """Takes back what the endpoint must not change: status through the object, the rest through its subresource."""
    key = (resource.group, resource.kind)
    if subresource:
        through = _THROUGH.get((*key, subresource))
        if through is not None:
            through(obj, old)
        elif subresource == "status":
            _through_status(resource, obj, old)
        return
    if resource.subresource("status") is not None:
        _keep(obj, old, "status")
    prepare = _UPDATE.get(key)
    if prepare is not None:
        prepare(obj, old)


def generation(resource: Resource, obj: Object, old: Object, subresource: str = "") -> None:
    """Counts a change of what is counted: called last, after admission. Else the number stays what it was."""
    was = old["metadata"].get("generation")
    meta = obj["metadata"]
    if subresource in ("status", "approval", "finalize"):
        _keep(meta, old["metadata"], "generation")
        return
    if resource.custom:
        spared = ("metadata", "status") if resource.subresource("status") is not None else ("metadata",)
        changed = any(
            obj.get(key) != old.get(key) for key in {*obj, *old} if key not in spared and key not in ("apiVersion",)
        )
        meta["generation"] = (was or 1) + (1 if changed else 0)
        return
    counted = _GENERATION.get((resource.group, resource.kind))
    if counted is None:
        if was is None:
            meta.pop("generation", None)
        else:
            meta["generation"] = was
        return
    changed = any(obj.get(key) != old.get(key) for key in counted)
    if resource.kind == "Deployment" and resource.group == "apps":
        # rollout annotations are copied to the ReplicaSet: the controller must see them
        changed = changed or (meta.get("annotations") or {}) != (old["metadata"].get("annotations") or {})
    elif resource.kind == "EndpointSlice":
        changed = changed or (meta.get("labels") or {}) != (old["metadata"].get("labels") or {})
    meta["generation"] = (was or 0) + 1 if changed else was or 1


def _keep(obj: Object, old: Object, *keys: str) -> None:
    """Takes values over from the old object."""
    for key in keys:
        if key in old:
            obj[key] = old[key]
        else:
            obj.pop(key, None)


def _restore(obj: Object, old: Object, *spared: str) -> None:
    """Takes everything over from the old object but what is spared; metadata always is."""
    for key in [key for key in obj if key not in old]:
        if key not in spared:
            del obj[key]
    for key, value in old.items():
        if key not in spared and key != "metadata":
            obj[key] = value


def _reset_metadata(obj: Object, old: Object) -> None:
    """What a subresource must not change of metadata (upstream: ResetObjectMetaForStatus)."""
    _keep(obj["metadata"], old["metadata"], *_STATUS_METADATA)


def _through_status(resource: Resource, obj: Object, old: Object) -> None:
    _restore(obj, old, "metadata", "status")
    if resource.custom or (resource.group, resource.kind) in _META_RESET:
        _reset_metadata(obj, old)
    elif resource.kind == "Deployment":
        _keep(obj["metadata"], old["metadata"], "labels")


def _pod(obj: Object) -> None:
    spec = obj.get("spec") or {}
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    obj["status"] = status
    if spec.get("schedulingGates"):
        text = "Scheduling is blocked due to non-empty scheduling gates"
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text}
        ]


def _pod_status(obj: Object, old: Object) -> None:
    """Kubelets' writes: the spec, owners, quality class and generations seen stay."""
    _restore(obj, old, "metadata", "status")
    _keep(obj["metadata"], old["metadata"], "ownerReferences")
    status = obj.setdefault("status", {})
    was: Object = old.get("status") or {}
    for key in ("qosClass", "observedGeneration"):
        if not status.get(key) and was.get(key):
            status[key] = was[key]
    seen: dict[str, list[int]] = {}
    for condition in was.get("conditions") or ():
        seen.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration") or 0)
    for condition in status.get("conditions") or ():
        numbers = seen.get(condition.get("type", ""))
        number = numbers.pop(0) if numbers else 0
        if number and not condition.get("observedGeneration"):
            condition["observedGeneration"] = number


def _pod_ephemeral(obj: Object, old: Object) -> None:
    added = (obj.get("spec") or {}).get("ephemeralContainers")
    _restore(obj, old, "metadata")
    _reset_metadata(obj, old)
    spec = obj["spec"] = dict(old.get("spec") or {})
    spec.pop("ephemeralContainers", None)
    if added:
        spec["ephemeralContainers"] = added


def _pod_resize(obj: Object, old: Object) -> None:
    """Resources and resize policies of the same containers in the same order; anything else is left to validation."""
    new, was = obj.get("spec") or {}, old.get("spec") or {}
    lists: Object = {}
    for key in ("containers", "initContainers"):
        found, before = new.get(key) or [], was.get(key) or []
        if [c.get("name") for c in found] != [c.get("name") for c in before]:
            return
        if before:
            lists[key] = [_resized(a, b) for a, b in zip(found, before, strict=True)]
    _restore(obj, old, "metadata")
    _reset_metadata(obj, old)
    obj["spec"] = {**was, **lists}
    _keep(obj["spec"], new, "resources")


def _resized(new: Object, old: Object) -> Object:
    found = dict(old)
    _keep(found, new, "resources", "resizePolicy")
    return found


def _namespace(obj: Object) -> None:
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _namespace_update(obj: Object, old: Object) -> None:
    spec = obj.setdefault("spec", {})
    _keep(spec, old.get("spec") or {}, "finalizers")


def _namespace_finalize(obj: Object, old: Object) -> None:
    _keep(obj, old, "status")


def _secret(obj: Object) -> None:
    """stringData is written, never read: it overwrites data."""
    texts = obj.pop("stringData", None)
    if texts:
        data = obj.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _job(obj: Object) -> None:
    """The selector and the labels that make a job's pods its own; its uid is known by now."""
    spec = obj.get("spec") or {}
    if spec.get("manualSelector") or not isinstance(spec.get("template"), dict):
        return
    meta = obj["metadata"]
    name, uid = meta.get("name", ""), meta.get("uid", "")
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for key, value in (("job-name", name), ("controller-uid", uid)):
        for full in (key, f"batch.kubernetes.io/{key}"):
            if full not in labels:
                labels[full] = value
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", uid)
    if not meta.get("labels"):
        meta["labels"] = dict(labels)


def _claim(obj: Object) -> None:
    """The old and the new field for a data source say the same."""
    spec = obj.get("spec") or {}
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _service_account(obj: Object) -> None:
    if obj.get("secrets"):
        obj["secrets"] = [{"name": entry["name"]} if entry.get("name") else {} for entry in obj["secrets"]]


def _signing_request(obj: Object, old: Object) -> None:
    _keep(obj, old, "spec")


def _signing_status(obj: Object, old: Object) -> None:
    """The signer writes the certificate; approval has its own endpoint."""
    _restore(obj, old, "metadata", "status")
    _reset_metadata(obj, old)
    status = obj.setdefault("status", {})
    _conditions(status, old, keep=lambda kind: kind in ("Approved", "Denied"))


def _signing_approval(obj: Object, old: Object) -> None:
    """Approvers decide; they cannot issue."""
    _restore(obj, old, "metadata", "status")
    _reset_metadata(obj, old)
    status = obj.setdefault("status", {})
    _keep(status, old.get("status") or {}, "certificate")
    _conditions(status, old, keep=lambda kind: kind not in ("Approved", "Denied"))


def _conditions(status: Object, old: Object, keep: Callable[[str], bool]) -> None:
    """Takes conditions of the kinds that this endpoint does not write from the old object."""
    mine = [c for c in status.get("conditions") or () if not keep(c.get("type", ""))]
    theirs = [c for c in (old.get("status") or {}).get("conditions") or () if keep(c.get("type", ""))]
    if mine or theirs:
        status["conditions"] = theirs + mine
    else:
        status.pop("conditions", None)


def _one(prepare: Prepare) -> Update:
    def update(obj: Object, old: Object) -> None:
        prepare(obj)

    return update


_CREATE: dict[tuple[str, str], Prepare] = {
    ("", "Pod"): _pod,
    ("", "Namespace"): _namespace,
    ("", "Secret"): _secret,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "ServiceAccount"): _service_account,
    ("batch", "Job"): _job,
}

_UPDATE: dict[tuple[str, str], Update] = {
    ("", "Namespace"): _namespace_update,
    ("", "Secret"): _one(_secret),
    ("", "ServiceAccount"): _one(_service_account),
    ("certificates.k8s.io", "CertificateSigningRequest"): _signing_request,
}

_THROUGH: dict[tuple[str, str, str], Update] = {
    ("", "Pod", "status"): _pod_status,
    ("", "Pod", "ephemeralcontainers"): _pod_ephemeral,
    ("", "Pod", "resize"): _pod_resize,
    ("", "Namespace", "finalize"): _namespace_finalize,
    ("certificates.k8s.io", "CertificateSigningRequest", "status"): _signing_status,
    ("certificates.k8s.io", "CertificateSigningRequest", "approval"): _signing_approval,
}


def counts_generation(resource: Resource) -> bool:
    """Whether objects of a resource carry `metadata.generation`."""
    return resource.custom or (resource.group, resource.kind) in _GENERATION


def reset_fields(resource: Resource, subresource: str = "") -> list[tuple[str, ...]]:
    """Paths that an endpoint takes back, which an applier therefore cannot own (upstream: GetResetFields)."""
    if resource.subresource("status") is None:
        return []
    if subresource == "status":
        return [("spec",)] if not resource.custom else [("spec",), ("metadata",)]
    return [("status",)] if not subresource else []
