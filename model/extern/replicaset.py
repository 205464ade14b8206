"""What kubernetes.replicaset computes. Sources: pkg/controller/replicaset/replica_set.go, replica_set_utils.go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashpot.model.extern import labels, workloads
from dashpot.model.extern.workloads import Kept, Object, at, number


def selects(rs: Kept, pod: Kept) -> bool:
    """Whether the set's selector selects the pod."""
    return labels.matches(at(rs.json, "spec", "selector"), at(pod.json, "metadata", "labels"), empty=False)


def template_labels(template: Any) -> Object:
    """The labels of a new pod."""
    return workloads.template_labels(template)


def template_annotations(template: Any) -> Object:
    """The annotations of a new pod."""
    return workloads.template_annotations(template)


def template_finalizers(template: Any) -> list[str]:
    """The finalizers of a new pod."""
    return workloads.template_finalizers(template)


def template_spec(template: Any) -> Object:
    """The spec of a new pod."""
    return workloads.template_spec(template)


def pod_prefix(name: str) -> str:
    """What generated names of a set's pods begin with: its name and a hyphen, unless that were no name."""
    return f"{name}-" if len(name) < 253 else name


def settled(pod: Kept) -> int:
    """How far the phase of a pod is: Pending, Unknown, anything else."""
    return {"Pending": 0, "Unknown": 1}.get(str(at(pod.json, "status", "phase")), 2)


def deletion_cost(pod: Kept) -> int:
    """The pod's deletion cost: lower goes first."""
    return workloads.deletion_cost(pod.json)


def crowd(pod: Kept, pods: Sequence[Kept]) -> int:
    """How many of the pods stand on the pod's node."""
    node = at(pod.json, "spec", "nodeName")
    return sum(at(p.json, "spec", "nodeName") == node and workloads.is_active(p.json) for p in pods)


def youth(pod: Kept, now: int) -> int:
    """How long the pod has been ready, on a scale of powers of two of seconds: younger goes first."""
    since = workloads.ready_since(pod.json)
    return max(0, (now - since) // 1000).bit_length() if since is not None else 0


def restarts(pod: Kept) -> int:
    """The most restarts of a container."""
    return workloads.restarts(pod.json)


def age(pod: Kept, now: int) -> int:
    """How old the pod is, on a scale of powers of two of seconds."""
    return max(0, (now - workloads.created(pod.json)) // 1000).bit_length()


def labelled(rs: Kept, pod: Kept) -> bool:
    """Whether the pod has all labels of the set's template."""
    wanted = workloads.template_labels(at(rs.json, "spec", "template"))
    have = at(pod.json, "metadata", "labels") or {}
    return all(have.get(k) == v for k, v in wanted.items())


def available(rs: Kept, pod: Kept, now: int) -> bool:
    """Whether the pod has been ready for minReadySeconds."""
    return workloads.available(pod.json, number(rs.json, "spec", "minReadySeconds"), now)


def until_available(rs: Kept, pods: Sequence[Kept], now: int) -> int:
    """Milliseconds until the next ready pod becomes available."""
    return workloads.until_available([p.json for p in pods], number(rs.json, "spec", "minReadySeconds"), now)


def failing(rs: Kept, reason: str, message: str, now: int) -> Any:
    """The conditions with ReplicaFailure; unless it is there with that reason."""
    made = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": message}
    return workloads.put_condition(at(rs.json, "status", "conditions"), made, now)


def recovered(rs: Kept) -> Any:
    """The conditions without ReplicaFailure; null for none."""
    return workloads.without_condition(at(rs.json, "status", "conditions"), "ReplicaFailure") or None
