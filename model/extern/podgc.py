"""What kubernetes.podgc computes. Source: pkg/controller/podgc/gc_controller.go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dashpot.model.extern.node import full_name
from dashpot.model.extern.workloads import Kept, Object, at, condition, created, put_condition

__all__ = ["disrupted", "full_name", "oldest", "out_of_service"]

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def out_of_service(node: Kept) -> bool:
    """Whether a node is said to be off, by a taint, and is not ready: nobody will end the pods there."""
    if (condition(node.json, "Ready") or {}).get("status") == "True":
        return False
    return any(taint.get("key") == OUT_OF_SERVICE for taint in at(node.json, "spec", "taints") or ())


def disrupted(pod: Kept, now_ms: int) -> list[Object]:
    """The conditions of a pod that is deleted because its node is gone."""
    made = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }
    return put_condition(at(pod.json, "status", "conditions") or [], made, now_ms)


def oldest(pods: Iterable[Kept], count: int) -> Sequence[Kept]:
    """The first of some pods that go: those that a kubelet evicted, then by age, then by name."""
    return sorted(pods, key=lambda pod: (not _evicted(pod), created(pod.json), at(pod.json, "metadata", "name")))[
        :count
    ]


def _evicted(pod: Kept) -> bool:
    return bool(at(pod.json, "status", "phase") == "Failed" and at(pod.json, "status", "reason") == "Evicted")
