"""What kubernetes.statefulset computes.

Sources: pkg/controller/statefulset/stateful_set_utils.go, stateful_set_control.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashpot.model.extern import labels, revisions, workloads
from dashpot.model.extern.workloads import Kept, Object, at, number

POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


def selects(s: Kept, pod: Kept) -> bool:
    """Whether the pod is one that the set may adopt: by its selector and by its name."""
    chosen = labels.matches(at(s.json, "spec", "selector"), at(pod.json, "metadata", "labels"), empty=False)
    parent, _, ordinal = str(at(pod.json, "metadata", "name")).rpartition("-")
    return chosen and parent == at(s.json, "metadata", "name") and ordinal.isdigit()


def first(s: Kept) -> int:
    """The lowest ordinal."""
    return number(s.json, "spec", "ordinals", "start")


def ordinal(s: Kept, pod: Kept) -> int:
    """The ordinal in a pod's name; -1 for none."""
    text = str(at(pod.json, "metadata", "name")).rpartition("-")[2]
    return int(text) if text.isdigit() else -1


def available(s: Kept, pod: Kept, now: int) -> bool:
    """Whether the pod has been ready for minReadySeconds."""
    return workloads.available(pod.json, number(s.json, "spec", "minReadySeconds"), now)


def until_available(s: Kept, pods: Sequence[Kept], now: int) -> int:
    """Milliseconds until the next ready pod becomes available."""
    return workloads.until_available([p.json for p in pods], number(s.json, "spec", "minReadySeconds"), now)


# ---------------------------------------------------------------- revisions
def revision_name(s: Kept, collisions: int) -> str:
    """The name of the revision of the present template."""
    return f"{at(s.json, 'metadata', 'name')}-{revisions.digest(s.json, collisions)}"


def revision_data(s: Kept) -> Any:
    """What it holds."""
    return revisions.data_of(s.json)


def revision_labels(s: Kept) -> Object:
    """The labels of a revision: those that the selector asks for."""
    return {**(at(s.json, "spec", "selector", "matchLabels") or {})}


def same_revision(s: Kept, revision: Kept) -> bool:
    """Whether a revision holds the present template."""
    return revisions.same(s.json, revision)


def spare(s: Kept, all_: Sequence[Kept], pods: Sequence[Kept]) -> list[Kept]:
    """Revisions that can go: no pod and no status names them, and there are more than revisionHistoryLimit."""
    used = [str(at(p.json, "metadata", "labels", revisions.HASH) or "") for p in pods]
    used += [str(at(s.json, "status", n) or "") for n in ("currentRevision", "updateRevision")]
    return revisions.spare(all_, used, number(s.json, "spec", "revisionHistoryLimit", default=10))


def has_revision(s: Kept, pod: Kept, revision: str) -> bool:
    """Whether the pod is of a revision."""
    return bool(at(pod.json, "metadata", "labels", revisions.HASH) == revision)


def early(s: Kept, index: int) -> bool:
    """Whether the pod of that ordinal, made now, is still of the current revision: it is below the partition."""
    strategy = at(s.json, "spec", "updateStrategy")
    if at(strategy, "type") == "OnDelete":
        return False
    return index - first(s) < number(strategy, "rollingUpdate", "partition")


def old_template(s: Kept, all_: Sequence[Kept]) -> Any:
    """The template of the current revision."""
    name = at(s.json, "status", "currentRevision")
    found = next((r for r in all_ if at(r.json, "metadata", "name") == name), None)
    template = revisions.template_in(at(found.json, "data")) if found is not None else None
    return template or at(s.json, "spec", "template")


# ---------------------------------------------------------------- pods
def pod_labels(s: Kept, template: Any, index: int, revision: str) -> Object:
    """The labels of a pod: the template's and those of its identity."""
    name = f"{at(s.json, 'metadata', 'name')}-{index}"
    own = {POD_NAME: name, POD_INDEX: str(index), revisions.HASH: revision}
    return {**workloads.template_labels(template), **own}


def pod_annotations(template: Any) -> Object:
    """Its annotations."""
    return workloads.template_annotations(template)


def pod_spec(s: Kept, template: Any, index: int) -> Object:
    """Its spec: host name, subdomain and a volume for each claim, instead of the template's volume of that name."""
    spec = workloads.template_spec(template)
    claims = [str(at(c, "metadata", "name")) for c in at(s.json, "spec", "volumeClaimTemplates") or ()]
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": claim_name(s, c, index)}} for c in claims]
    volumes += [v for v in spec.get("volumes") or () if v.get("name") not in claims]
    if volumes:
        spec["volumes"] = volumes
    service = at(s.json, "spec", "serviceName")
    return {
        **spec,
        "hostname": f"{at(s.json, 'metadata', 'name')}-{index}",
        **({"subdomain": service} if service else {}),
    }


# ---------------------------------------------------------------- claims
def claim_name(s: Kept, claim: str, index: int) -> str:
    """The name of a claim of a pod."""
    return f"{claim}-{at(s.json, 'metadata', 'name')}-{index}"


def claims(s: Kept, index: int) -> list[str]:
    """The names of the claims of a pod."""
    rows = at(s.json, "spec", "volumeClaimTemplates") or ()
    return [claim_name(s, str(at(c, "metadata", "name")), index) for c in rows]


def _claim(s: Kept, name: str) -> Object:
    rows = at(s.json, "spec", "volumeClaimTemplates") or ()
    part = f"-{at(s.json, 'metadata', 'name')}-"
    return next((c for c in rows if name.startswith(f"{at(c, 'metadata', 'name')}{part}")), {})


def claim_labels(s: Kept, name: str) -> Object:
    """The labels of a claim: its template's and those that the set's selector asks for."""
    return {
        **(at(_claim(s, name), "metadata", "labels") or {}),
        **(at(s.json, "spec", "selector", "matchLabels") or {}),
    }


def claim_spec(s: Kept, name: str) -> Object:
    """The spec of a claim."""
    return dict(at(_claim(s, name), "spec") or {})


def claims_go(s: Kept, when: str) -> bool:
    """Whether claims are deleted `whenDeleted` or `whenScaled`."""
    return bool(at(s.json, "spec", "persistentVolumeClaimRetentionPolicy", when) == "Delete")
