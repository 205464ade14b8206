"""What kubernetes.node computes.

Sources: pkg/controller/nodelifecycle/node_lifecycle_controller.go, pkg/controller/tainteviction/taint_eviction.go,
component-helpers node/topology (GetZoneKey), component-helpers scheduling/corev1 (GetMatchingTolerations).
"""

from __future__ import annotations

from typing import Any

from dashpot.model.extern.workloads import Kept, Object, at, condition, put_condition, written
from dashpot.model.placement.match import tolerates

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
"""The taints that a node gets for what it says of itself."""
OURS = {*BY_CONDITION.values(), UNSCHEDULABLE}
GIVEN_UP = (NOT_READY, UNREACHABLE)
POSTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet posts; that of the network is others' business."""
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
EXCLUDED = "node.kubernetes.io/exclude-disruption"


def _answer(node: Kept, type_: str = "Ready") -> str | None:
    found = condition(node.json, type_)
    return None if found is None else found.get("status")


def is_ready(node: Kept) -> bool:
    """Whether a node says that it is ready."""
    return _answer(node) == "True"


def posted(node: Kept) -> bool:
    """Whether anybody ever said of a node whether it is ready."""
    return _answer(node) is not None


def _interest(node: Kept) -> Any:
    said = [(c.get("type"), c.get("status")) for c in at(node.json, "status", "conditions") or ()]
    spec = at(node.json, "spec") or {}
    return said, spec.get("taints") or [], bool(spec.get("unschedulable")), zone(node), counts(node)


def stirred(before: Kept, after: Kept) -> bool:
    """Whether more than times has changed of what the controller looks at: conditions, taints, cordon, zone."""
    return before.json is not after.json and bool(_interest(before) != _interest(after))


def zone(node: Kept) -> str:
    """The region and zone of a node, as one name; "" without labels of either."""
    labels = at(node.json, "metadata", "labels") or {}
    region, area = labels.get(REGION) or "", labels.get(ZONE) or ""
    return f"{region}/{area}" if region or area else ""


def counts(node: Kept) -> bool:
    """Whether a node counts when it is told how many of its zone are well."""
    return EXCLUDED not in (at(node.json, "metadata", "labels") or {})


def lost(node: Kept, now_ms: int) -> list[Object]:
    """The conditions of a node that is not heard of: Unknown all that its kubelet posts."""
    rows = [dict(c) for c in at(node.json, "status", "conditions") or ()]
    known = {c.get("type"): c for c in rows}
    stamp = written(now_ms)
    for type_ in POSTED:
        row = known.get(type_)
        if row is None:
            rows.append(
                {
                    "type": type_,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": at(node.json, "metadata", "creationTimestamp"),
                    "lastTransitionTime": stamp,
                }
            )
        elif row.get("status") != "Unknown":
            row.update(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=stamp,
            )
    return rows


# ---------------------------------------------------------------- taints
def retainted(node: Kept, may: bool, calm: bool, now_ms: int) -> list[Object]:
    """The taints that a node should have: NoSchedule by its conditions, NoExecute while it is not ready.

    may    it may get a NoExecute taint now, having none; one of the two is replaced by the other at once
    calm   it has none, whatever its condition
    Taints of others stay, and so does the time of those that stay.
    """
    spec = at(node.json, "spec") or {}
    have: list[Object] = list(spec.get("taints") or ())
    said = {(c.get("type"), c.get("status")) for c in at(node.json, "status", "conditions") or ()}
    wanted = {(key, "NoSchedule") for said_, key in BY_CONDITION.items() if said_ in said}
    if spec.get("unschedulable"):
        wanted.add((UNSCHEDULABLE, "NoSchedule"))
    given_up = any(_of(taint) in ((key, "NoExecute") for key in GIVEN_UP) for taint in have)
    if not calm and (may or given_up):
        wanted |= {(key, "NoExecute") for said_, key in BY_CONDITION.items() if said_ in said and key in GIVEN_UP}
    kept = [taint for taint in have if not _ours(taint) or _of(taint) in wanted]
    missing = sorted(wanted - {_of(taint) for taint in kept}, key=lambda row: (row[1] == "NoExecute", row[0]))
    return kept + [{"key": key, "effect": effect, "timeAdded": written(now_ms)} for key, effect in missing]


def _of(taint: Object) -> tuple[Any, Any]:
    return taint.get("key"), taint.get("effect")


def _ours(taint: Object) -> bool:
    key, effect = _of(taint)
    return (effect == "NoSchedule" and key in OURS) or (effect == "NoExecute" and key in GIVEN_UP)


def executing(node: Kept) -> bool:
    """Whether a node has any taint that makes pods go."""
    return any(taint.get("effect") == "NoExecute" for taint in at(node.json, "spec", "taints") or ())


def patience(pod: Kept, node: Kept) -> int | None:
    """How many milliseconds a pod tolerates its node's NoExecute taints: 0 if it does not tolerate one of them, None if
    for ever. Of the tolerations that fit a taint the first counts."""
    tolerations = at(pod.json, "spec", "tolerations") or ()
    least: int | None = None
    for taint in at(node.json, "spec", "taints") or ():
        if taint.get("effect") != "NoExecute":
            continue
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return 0
        seconds = used.get("tolerationSeconds")
        if seconds is not None:
            bears = max(0, int(seconds)) * 1000
            least = bears if least is None else min(least, bears)
    return least


# ---------------------------------------------------------------- pods
def full_name(pod: Kept) -> str:
    """Namespace and name of a pod."""
    meta = at(pod.json, "metadata") or {}
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"


def rewoken(before: Kept, after: Kept) -> bool:
    """Whether a pod was placed, or tolerates something else."""
    old, new = at(before.json, "spec") or {}, at(after.json, "spec") or {}
    return old is not new and (
        old.get("nodeName") != new.get("nodeName") or old.get("tolerations") != new.get("tolerations")
    )


def disrupted(pod: Kept, now_ms: int) -> list[Object]:
    """The conditions of a pod that is deleted because of a taint of its node."""
    made = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }
    return put_condition(at(pod.json, "status", "conditions") or [], made, now_ms)
