"""The filters that look at one node alone: S24 to S29. Each answers in the scheduler's words; v1.34."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.placement.match import required_here, tolerates, untolerated
from dashpot.model.placement.request import extended, scalar
from dashpot.model.placement.shape import OK, Code, NodeView, Pod, Status

Object = dict[str, Any]
Filter = Callable[[Pod, NodeView], Status]

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
BASIC = ("cpu", "memory", "ephemeral-storage")


def unschedulable(pod: Pod, node: NodeView) -> Status:
    """NodeUnschedulable (S24): a cordoned node takes only who tolerates that."""
    if (node.object.get("spec") or {}).get("unschedulable"):
        if not any(tolerates(one, CORDON) for one in pod.spec.get("tolerations") or ()):
            return Status(Code.UNRESOLVABLE, ("node(s) were unschedulable",), "NodeUnschedulable")
    return OK


def node_name(pod: Pod, node: NodeView) -> Status:
    """NodeName (S25): a pod that names its node takes no other."""
    wanted = pod.spec.get("nodeName")
    if wanted and wanted != node.name:
        return Status(Code.UNRESOLVABLE, ("node(s) didn't match the requested node name",), "NodeName")
    return OK


def taints(pod: Pod, node: NodeView) -> Status:
    """TaintToleration (S26): the first hard taint that nothing tolerates refuses."""
    found = untolerated(node.taints, pod.spec.get("tolerations") or (), ("NoSchedule", "NoExecute"))
    if found is None:
        return OK
    reason = f"node(s) had untolerated taint {{{found.get('key', '')}: {found.get('value') or ''}}}"
    return Status(Code.UNRESOLVABLE, (reason,), "TaintToleration")


def affinity(pod: Pod, node: NodeView) -> Status:
    """NodeAffinity (S27): `nodeSelector` and the required terms."""
    if required_here(pod.spec, node.object):
        return OK
    return Status(Code.UNRESOLVABLE, ("node(s) didn't match Pod's node affinity/selector",), "NodeAffinity")


def ports(pod: Pod, node: NodeView) -> Status:
    """NodePorts (S28): one user of a host port at each address."""
    if pod.ports:
        for other in node.pods.values():
            if any(clash(mine, theirs) for mine in pod.ports for theirs in other.ports):
                reason = "node(s) didn't have free ports for the requested pod ports"
                return Status(Code.UNSCHEDULABLE, (reason,), "NodePorts")
    return OK


def fit(pod: Pod, node: NodeView, ignores: Callable[[str], bool] | None = None) -> Status:
    """NodeResourcesFit (S29): room for one more pod and for what it asks; every reason is told. `ignores`: extended
    resources that somebody else looks after."""
    reasons: list[str] = []
    hopeless = False
    if len(node.pods) + 1 > node.allocatable.get("pods", 0):
        reasons.append("Too many pods")
        hopeless = node.allocatable.get("pods", 0) < 1
    for name in (*BASIC, *(name for name in pod.asks if name not in BASIC and scalar(name))):
        if ignores is not None and extended(name) and ignores(name):
            continue
        wanted, all_of_it = pod.asks.get(name, 0), node.allocatable.get(name, 0)
        if wanted > 0 and wanted > all_of_it - node.used.get(name, 0):
            reasons.append(f"Insufficient {name}")
            hopeless |= wanted > all_of_it
    if not reasons:
        return OK
    return Status(Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, tuple(reasons), "NodeResourcesFit")


FILTERS: tuple[Filter, ...] = (unschedulable, node_name, taints, affinity, ports, fit)
"""In the order in which the scheduler asks (S13); the first that refuses ends a node."""


def admits(pod: Pod, node: NodeView) -> Status:
    """What all of them say."""
    for one in FILTERS:
        status = one(pod, node)
        if not status.ok:
            return status
    return OK


def clash(mine: tuple[str, str, int], theirs: tuple[str, str, int]) -> bool:
    """Whether two host ports, each an address, a protocol and a number, cannot be used on one node (S28)."""
    return mine[1:] == theirs[1:] and (mine[0] == theirs[0] or "0.0.0.0" in (mine[0], theirs[0]))
