"""What kubernetes.daemonset computes.

Sources: pkg/controller/daemon (daemon_controller.go, update.go), util/daemonset_util.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashpot.model.extern import labels, revisions, workloads
from dashpot.model.extern.workloads import Kept, Object, at, number, scaled
from dashpot.model.placement.match import node_selector, untolerated

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
AUTOMATIC = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)
"""Taints that every pod of a DaemonSet tolerates; those on the host's network tolerate one more."""
HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")
FIELDS = "metadata.name"


def selects(d: Kept, pod: Kept) -> bool:
    """Whether the selector selects the pod."""
    return labels.matches(at(d.json, "spec", "selector"), at(pod.json, "metadata", "labels"), empty=False)


# ---------------------------------------------------------------- nodes
def _tolerations(spec: Mapping[str, Any]) -> list[Object]:
    automatic = [*AUTOMATIC, HOST_NETWORK] if spec.get("hostNetwork") else list(AUTOMATIC)
    return [
        *(spec.get("tolerations") or ()),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in automatic),
    ]


def _taints(node: Object) -> list[Object]:
    taints: list[Object] = list(at(node, "spec", "taints") or ())
    if at(node, "spec", "unschedulable") and not any(t.get("key") == UNSCHEDULABLE for t in taints):
        taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule"})
    return taints


def _chosen(spec: Mapping[str, Any], node: Object) -> bool:
    """Whether nodeName, nodeSelector and the required affinity allow the node."""
    name, have = at(node, "metadata", "name"), at(node, "metadata", "labels") or {}
    if spec.get("nodeName") and spec["nodeName"] != name:
        return False
    if any(have.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    required = at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or node_selector(required, node)


def _blocked(d: Object, node: Object, effects: tuple[str, ...]) -> bool:
    spec = at(d, "spec", "template", "spec") or {}
    return untolerated(_taints(node), _tolerations(spec), effects) is not None


def should_run(d: Kept, node: Kept) -> bool:
    """Whether the node is to have a pod."""
    spec = at(d.json, "spec", "template", "spec") or {}
    return _chosen(spec, node.json) and not _blocked(d.json, node.json, ("NoSchedule", "NoExecute"))


def may_stay(d: Kept, node: Kept) -> bool:
    """Whether a pod that is there may go on: taints that only forbid to come do not matter."""
    spec = at(d.json, "spec", "template", "spec") or {}
    return _chosen(spec, node.json) and not _blocked(d.json, node.json, ("NoExecute",))


def target(pod: Kept) -> str:
    """The node that a pod is on or, by its affinity, for; "" for none."""
    found = at(pod.json, "spec", "nodeName")
    if found:
        return str(found)
    required = at(pod.json, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in at(required, "nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == FIELDS and field.get("operator") == "In" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""


# ---------------------------------------------------------------- pods
def pod_labels(d: Kept, digest: str) -> Object:
    """The labels of a new pod: the template's, its hash and its generation."""
    made = {**workloads.template_labels(at(d.json, "spec", "template")), revisions.HASH: digest}
    generation = at(d.json, "metadata", "annotations", "deprecated.daemonset.template.generation")
    return {**made, **({"pod-template-generation": generation} if generation else {})}


def pod_annotations(d: Kept) -> Object:
    """Its annotations."""
    return workloads.template_annotations(at(d.json, "spec", "template"))


def pod_spec(d: Kept, node: str) -> Object:
    """Its spec: for that node alone, with the automatic tolerations.

    What the template's affinity requires of nodes has been asked, and is replaced.
    """
    spec = workloads.template_spec(at(d.json, "spec", "template"))
    terms = [{"matchFields": [{"key": FIELDS, "operator": "In", "values": [node]}]}]
    affinity = dict(spec.get("affinity") or {})
    nodes = dict(affinity.get("nodeAffinity") or {})
    nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    spec["affinity"] = {**affinity, "nodeAffinity": nodes}
    spec["tolerations"] = _tolerations(spec)
    return spec


def available(d: Kept, pod: Kept, now: int) -> bool:
    """Whether the pod has been ready for minReadySeconds."""
    return workloads.available(pod.json, number(d.json, "spec", "minReadySeconds"), now)


def until_available(d: Kept, pods: Sequence[Kept], now: int) -> int:
    """Milliseconds until the next ready pod becomes available."""
    return workloads.until_available([p.json for p in pods], number(d.json, "spec", "minReadySeconds"), now)


def age(pod: Kept) -> int:
    """When the pod was made, in ms."""
    return workloads.created(pod.json)


# ---------------------------------------------------------------- updates
def surge(d: Kept, wanted: int) -> int:
    """How many nodes may have a second pod during an update; rounded up."""
    return scaled(at(d.json, "spec", "updateStrategy", "rollingUpdate", "maxSurge") or 0, wanted, up=True)


def unavailable(d: Kept, wanted: int) -> int:
    """How many nodes may be without an available pod; rounded up, and 1 if there is no surge either."""
    asked = at(d.json, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
    found = scaled(1 if asked is None else asked, wanted, up=True)
    return 1 if found == 0 and surge(d, wanted) == 0 else found


# ---------------------------------------------------------------- revisions
def digest(d: Kept, collisions: int) -> str:
    """The hash of the present template."""
    return revisions.digest(d.json, collisions)


def digest_of(revision: Kept) -> str:
    """The hash that a revision is labelled with."""
    return str(at(revision.json, "metadata", "labels", revisions.HASH) or "")


def revision_data(d: Kept) -> Any:
    """What a revision holds."""
    return revisions.data_of(d.json)


def revision_labels(d: Kept, value: str) -> Object:
    """Its labels."""
    return {**workloads.template_labels(at(d.json, "spec", "template")), revisions.HASH: value}


def same_revision(d: Kept, revision: Kept) -> bool:
    """Whether a revision holds the present template."""
    return revisions.same(d.json, revision)


def spare(d: Kept, all_: Sequence[Kept], pods: Sequence[Kept]) -> list[Kept]:
    """Revisions that can go: no pod is of them, they are not the present one, and there are too many."""
    hashes = {str(at(p.json, "metadata", "labels", revisions.HASH) or "") for p in pods}
    used = [str(at(r.json, "metadata", "name")) for r in all_ if revisions.same(d.json, r) or digest_of(r) in hashes]
    return revisions.spare(all_, used, number(d.json, "spec", "revisionHistoryLimit", default=10))


def is_updated(pod: Kept, value: str) -> bool:
    """Whether the pod is of the present template."""
    return bool(at(pod.json, "metadata", "labels", revisions.HASH) == value)
