"""Objects that are not what they should be: which controller should act, what it waits for, the last error.

An object counts when both readings show it unsettled in the same way, and nothing about it has moved for `WAIT_S`:
what moves is at work, not stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from dashpot.runtime.doctor.controllers import absent, failing
from dashpot.runtime.doctor.progress import Progress, error_of
from dashpot.runtime.doctor.reading import WAIT_S, Object, Reading, condition, moment, named

FAILURES = (
    "ReplicaFailure",
    "Failed",
    "FailureTarget",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
)
"""Conditions that are an error while they are True."""


@frozen
class Unsettled:
    """One object. `error` is empty where nobody told one."""

    kind: str
    name: str
    controller: str
    waits_for: str
    error: str = ""


def unsettled(before: Reading, after: Reading) -> list[Unsettled]:
    """All objects that both readings show unsettled alike."""
    errors, progress, idle = _errors(after), Progress(after), _idle_claims(after)
    found = []
    for kind, (controller, rule) in RULES.items():
        old = {one["metadata"].get("uid"): one for one in before.of(kind)}
        for obj in after.of(kind):
            meta = obj["metadata"]
            known = old.get(meta.get("uid"))
            waits = _wait(rule, obj)
            if not waits or known is None or _wait(rule, known) != waits or (kind, named(obj)) in idle:
                continue
            if after.at - (moment(meta.get("deletionTimestamp") or meta.get("creationTimestamp")) or 0.0) <= WAIT_S:
                continue
            if after.at - progress.moved(kind, obj) <= WAIT_S:
                continue
            who = _owner(meta) or _actor(kind, obj, controller)
            error = _failing(after, who, named(obj)) or errors.get(str(meta.get("uid")), "") or _failure(obj)
            if absent(after, who):
                error = f"{who} does not run: /metrics has no queue of it"
            found.append(Unsettled(kind, named(obj), who, waits, error))
    return found


def _owner(meta: Object) -> str:
    return "finalizer's owner" if meta.get("deletionTimestamp") and meta.get("finalizers") else ""


def _actor(kind: str, obj: Object, controller: str) -> str:
    if kind != "Pod":
        return controller
    spec = obj.get("spec") or {}
    if spec.get("schedulingGates"):
        return "scheduling gate's owner"
    name = spec.get("nodeName")
    return f"kubelet of {name}" if name else str(spec.get("schedulerName") or "default-scheduler")


def _failing(after: Reading, controller: str, name: str) -> str:
    """The last error of a controller about an object, as the controller's own figures tell it."""
    for one in failing(after):
        if one.key == name and one.controller == controller:
            return one.error
    return ""


def _idle_claims(after: Reading) -> set[tuple[str, str]]:
    """Claims that wait for their first consumer, and have none: nobody has to act."""
    late = {
        one["metadata"]["name"]
        for one in after.of("StorageClass")
        if one.get("volumeBindingMode") == "WaitForFirstConsumer"
    }
    used = {
        (pod["metadata"].get("namespace"), volume["persistentVolumeClaim"].get("claimName"))
        for pod in after.of("Pod")
        for volume in (pod.get("spec") or {}).get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    }
    return {
        ("PersistentVolumeClaim", named(claim))
        for claim in after.of("PersistentVolumeClaim")
        if (claim.get("spec") or {}).get("storageClassName") in late
        and (claim["metadata"].get("namespace"), claim["metadata"]["name"]) not in used
        and not claim["metadata"].get("deletionTimestamp")
    }


def _wait(rule: Callable[[Object, Object, Object], str], obj: Object) -> str:
    """What an object waits for; empty if it is settled."""
    meta = obj["metadata"]
    if meta.get("deletionTimestamp") and meta.get("finalizers"):
        return f"its finalizers to be removed: {', '.join(map(str, meta['finalizers']))}"
    return rule(obj, obj.get("spec") or {}, obj.get("status") or {})


def _errors(after: Reading) -> dict[str, str]:
    """The newest warning about each object, by uid."""
    found: dict[str, tuple[float, str]] = {}
    for event in after.of("Event"):
        if event.get("type") != "Warning":
            continue
        uid = str((event.get("involvedObject") or {}).get("uid") or "")
        series = (event.get("series") or {}).get("lastObservedTime")
        at = moment(series or event.get("lastTimestamp") or event.get("eventTime")) or 0.0
        if at >= found.get(uid, (0.0, ""))[0]:
            found[uid] = at, f"{event.get('reason', '')}: {event.get('message', '')}"
    return {uid: text for uid, (_, text) in found.items()}


def _failure(obj: Object) -> str:
    for kind in FAILURES:
        found = condition(obj, kind)
        if found.get("status") == "True":
            return f"{found.get('reason', '')}: {found.get('message', '')}"
    return ""


# -- what each kind waits for ---------------------------------------------------------------------------------------


def _behind(obj: Object, status: Object) -> str:
    generation, seen = obj["metadata"].get("generation", 0), status.get("observedGeneration", 0)
    return f"generation {generation} to be observed ({seen} is)" if seen < generation else ""


def _replicas(obj: Object, spec: Object, status: Object) -> str:
    """Deployments, ReplicaSets, StatefulSets."""
    if spec.get("paused"):
        return ""
    wanted = spec.get("replicas", 1)
    ready, there, fresh = (int(status.get(name, 0)) for name in ("readyReplicas", "replicas", "updatedReplicas"))
    if behind := _behind(obj, status):
        return behind
    if there != wanted and ready != wanted:
        return f"{wanted} pods to exist ({there} do, {ready} are ready)"
    if ready < wanted:
        return f"{wanted} pods to be ready ({ready} are)"
    if obj.get("kind") != "ReplicaSet" and "updatedReplicas" in status and fresh < wanted and not _on_delete(spec):
        return f"{wanted} pods to be of the newest template ({fresh} are)"
    return f"{there - wanted} pods to go" if there > wanted else ""


def _on_delete(spec: Object) -> bool:
    strategy = spec.get("updateStrategy") or {}
    return strategy.get("type") == "OnDelete" or bool((strategy.get("rollingUpdate") or {}).get("partition"))


def _daemons(obj: Object, spec: Object, status: Object) -> str:
    wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
    if behind := _behind(obj, status):
        return behind
    if ready < wanted:
        return f"{wanted} pods to be ready ({ready} are)"
    fresh = int(status.get("updatedNumberScheduled", 0))
    rolls = (spec.get("updateStrategy") or {}).get("type") != "OnDelete"
    return f"{wanted} pods to be of the newest template ({fresh} are)" if rolls and fresh < wanted else ""


def _job(obj: Object, spec: Object, status: Object) -> str:
    if condition(obj, "Complete").get("status") == "True" or spec.get("suspend"):
        return ""
    if condition(obj, "Failed").get("status") == "True":
        return "nothing more: it has failed"
    if not status.get("active") and not status.get("startTime"):
        return "its pods to be made"
    return "" if status.get("ready") else f"a pod to run ({status.get('active', 0)} are active, none is ready)"


def _pod(obj: Object, spec: Object, status: Object) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "its containers to stop"
    if status.get("phase") in ("Succeeded", "Failed"):
        return ""
    if not spec.get("nodeName"):
        return (
            f"a scheduling gate: {spec['schedulingGates'][0].get('name')}" if spec.get("schedulingGates") else "a node"
        )
    if error := error_of(obj):
        return error
    if status.get("phase") == "Pending":
        return "its containers to start"
    return "" if condition(obj, "Ready").get("status") == "True" else "its containers to be ready"


def _claim(obj: Object, spec: Object, status: Object) -> str:
    if status.get("phase") == "Lost":
        return f"its volume {spec.get('volumeName', '')}, which is gone"
    return "" if status.get("phase") == "Bound" else f"a volume of class {spec.get('storageClassName') or '(none)'}"


def _namespace(obj: Object, spec: Object, status: Object) -> str:
    if not obj["metadata"].get("deletionTimestamp"):
        return ""
    texts = (str(one.get("message")) for one in status.get("conditions") or () if one.get("status") == "True")
    told = "; ".join(text for text in texts if text and text != "None")
    return told or f"its content to go ({', '.join(spec.get('finalizers') or ())})"


def _node(obj: Object, spec: Object, status: Object) -> str:
    found = condition(obj, "Ready")
    return "" if found.get("status") == "True" else f"its kubelet: {found.get('message') or 'it has told no status'}"


def _service(obj: Object, spec: Object, status: Object) -> str:
    lacks = spec.get("type") == "LoadBalancer" and not (status.get("loadBalancer") or {}).get("ingress")
    return "an address of a load balancer" if lacks else ""


def _budget(obj: Object, spec: Object, status: Object) -> str:
    found = condition(obj, "DisruptionAllowed")
    failed = found.get("reason") == "SyncFailed"
    return _behind(obj, status) or (f"its pods to be counted: {found.get('message', '')}" if failed else "")


def _autoscaler(obj: Object, spec: Object, status: Object) -> str:
    for kind in ("AbleToScale", "ScalingActive"):
        found = condition(obj, kind)
        if found.get("status") == "False" and found.get("reason") != "ScalingDisabled":
            return f"{kind}: {found.get('message', '')}"
    return "" if status.get("conditions") else "its target to be measured"


Rule = Callable[[Any, Any, Any], str]
RULES: Mapping[str, tuple[str, Rule]] = {
    "Deployment": ("deployment-controller", _replicas),
    "ReplicaSet": ("replicaset-controller", _replicas),
    "StatefulSet": ("statefulset-controller", _replicas),
    "DaemonSet": ("daemonset-controller", _daemons),
    "Job": ("job-controller", _job),
    "Pod": ("kubelet or scheduler", _pod),
    "PersistentVolumeClaim": ("persistentvolume-binder-controller", _claim),
    "Namespace": ("namespace-controller", _namespace),
    "Node": ("kubelet", _node),
    "Service": ("service-lb-controller", _service),
    "PodDisruptionBudget": ("disruption-controller", _budget),
    "HorizontalPodAutoscaler": ("horizontal-pod-autoscaler-controller", _autoscaler),
}
"""Who acts on a kind (names of kube-controller-manager's --controllers), and how to tell that it has not."""
