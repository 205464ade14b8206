"""When something last moved about an object: what moves is at work, however long it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from dashpot.runtime.doctor.reading import Object, Reading, condition, moment

BENIGN = ("", "ContainerCreating", "PodInitializing")
"""Reasons for which a container waits that are no errors."""
PERIOD_S = 10
FAILURES = 3
"""What a probe has where it says nothing."""
PARENTS = ("ReplicaSet", "Job", "Pod")
"""Kinds that controllers make for another object."""


class Progress:
    """What moves in a cluster, as one reading shows it."""

    def __init__(self, seen: Reading) -> None:
        self._seen = seen
        self._children: dict[str, list[tuple[str, Object]]] = defaultdict(list)
        for kind in PARENTS:
            for obj in seen.of(kind):
                for owner in obj["metadata"].get("ownerReferences") or ():
                    if owner.get("controller"):
                        self._children[str(owner.get("uid"))].append((kind, obj))

    def moved(self, kind: str, obj: Object) -> float:
        """Seconds since 1970 at which it, or something that was made for it, last made progress."""
        if kind == "Pod":
            return pod_moved(obj)
        times = [_made(obj), spec_written(obj)]
        if kind not in ("ReplicaSet", "StatefulSet", "DaemonSet", "Job"):
            times += _transitions(obj)
        if kind == "Deployment" and condition(obj, "Progressing").get("status") == "True":
            times.append(moment(condition(obj, "Progressing").get("lastUpdateTime")) or 0.0)
        if kind == "Namespace" and obj["metadata"].get("deletionTimestamp"):
            inside = [one["metadata"] for one in self._seen.of("Pod")]
            mine = [meta for meta in inside if meta.get("namespace") == obj["metadata"]["name"]]
            times += [moment(meta.get("deletionTimestamp")) or 0.0 for meta in mine]
        times += [self.moved(below, child) for below, child in self._children[str(obj["metadata"].get("uid"))]]
        return max(times)


def _made(obj: Object) -> float:
    meta = obj["metadata"]
    return max(moment(meta.get("creationTimestamp")) or 0.0, moment(meta.get("deletionTimestamp")) or 0.0)


def spec_written(obj: Object) -> float:
    """When somebody last wrote more of it than its status; 0 where that is not kept."""
    fields = obj["metadata"].get("managedFields") or ()
    return max((moment(one.get("time")) or 0.0 for one in fields if not one.get("subresource")), default=0.0)


def written(objects: Iterable[Object]) -> float:
    """When one of them was last written; 0 where that is not kept."""
    fields = (one for obj in objects for one in obj["metadata"].get("managedFields") or ())
    return max((moment(one.get("time")) or 0.0 for one in fields), default=0.0)


def _transitions(obj: Object) -> list[float]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return [moment(one.get("lastTransitionTime")) or 0.0 for one in conditions]


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [one for name in ("initContainerStatuses", "containerStatuses") for one in status.get(name) or ()]


def error_of(pod: Object) -> str:
    """`container NAME: REASON` of a container that cannot run, or does not stay; empty where all do."""
    for one in _containers(pod):
        waiting = str(((one.get("state") or {}).get("waiting") or {}).get("reason") or "")
        if waiting not in BENIGN:
            return f"container {one['name']}: {waiting}"
    return ""


def _fails(pod: Object) -> bool:
    status = pod.get("status") or {}
    unready = condition(pod, "Ready").get("status") != "True" and status.get("phase") != "Succeeded"
    restarted = any(one.get("restartCount") for one in _containers(pod))
    return status.get("phase") == "Failed" or bool(error_of(pod)) or (restarted and unready)


def pod_moved(pod: Object) -> float:
    """When a pod last got on. One that fails does not, however often it is tried; a probe has the time it asks for."""
    times = [moment(pod["metadata"].get("deletionTimestamp")) or 0.0]
    if _fails(pod):
        # its creation is no progress either: whoever replaces pods that fail gets nowhere
        return max(times)
    conditions = (pod.get("status") or {}).get("conditions") or ()
    unplaced = condition(pod, "PodScheduled").get("status") == "False"
    times += [moment(one.get("lastTransitionTime")) or 0.0 for one in conditions if not unplaced]
    times.append(moment(pod["metadata"].get("creationTimestamp")) or 0.0)
    ready = condition(pod, "Ready").get("status") == "True" or unplaced
    return max(times) + (0.0 if ready else patience((pod.get("spec") or {}).get("containers") or ()))


def patience(containers: Sequence[Object]) -> float:
    """Seconds that the probes of containers leave them to become ready."""
    found = 0.0
    for one in containers:
        startup, readiness = one.get("startupProbe"), one.get("readinessProbe") or {}
        own = float(readiness.get("initialDelaySeconds") or 0)
        if startup:
            period, failures = startup.get("periodSeconds") or PERIOD_S, startup.get("failureThreshold") or FAILURES
            own += float(startup.get("initialDelaySeconds") or 0) + float(period) * float(failures)
        found = max(found, own)
    return found
