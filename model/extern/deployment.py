"""What kubernetes.deployment computes.

Sources: pkg/controller/deployment (sync.go, rolling.go, progress.go, recreate.go), util/deployment_util.go. The texts
of conditions are what `kubectl rollout status` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashpot.model.extern import labels, workloads
from dashpot.model.extern.workloads import Kept, Object, alike, at, number, scaled

HASH = "pod-template-hash"
PREFIX = "deployment.kubernetes.io/"
REVISION, HISTORY = PREFIX + "revision", PREFIX + "revision-history"
DESIRED, MOST = PREFIX + "desired-replicas", PREFIX + "max-replicas"
OWN = frozenset(
    (REVISION, HISTORY, DESIRED, MOST, "kubectl.kubernetes.io/last-applied-configuration",
     "deprecated.deployment.rollback.to"),
)  # fmt: skip
"""Annotations of a Deployment that its sets do not take over."""
NO_DEADLINE = 2**31 - 1
LONGEST_HISTORY = 2000


def _annotation(json: Object, key: str) -> str | None:
    found = at(json, "metadata", "annotations", key)
    return found if isinstance(found, str) else None


def revision_of(rs: Kept) -> int:
    """The revision that a set carries; 0 for none."""
    text = _annotation(rs.json, REVISION) or ""
    return int(text) if text.isdigit() else 0


def selects(d: Kept, rs: Kept) -> bool:
    """Whether the selector of a Deployment selects a set."""
    return labels.matches(at(d.json, "spec", "selector"), at(rs.json, "metadata", "labels"), empty=False)


def same_template(one: Any, other: Any) -> bool:
    """Whether two templates are equal apart from the label with the hash."""
    return alike(one, other, HASH)


def age(rs: Kept) -> int:
    """When the set was made, in ms: older ones come first."""
    return workloads.created(rs.json)


def scaled_text(name: str, had: int, size: int) -> str:
    """What the event of a scaling says."""
    return f"Scaled {'up' if size > had else 'down'} replica set {name} from {had} to {size}"


def pod_hash(template: Any, collisions: int) -> str:
    """The value of pod-template-hash."""
    return workloads.template_hash(template, collisions or None)


def hashed(template: Any, value: str) -> Any:
    """The template of a new set: with the label."""
    return workloads.with_label(template, HASH, value)


def set_selector(selector: Any, value: str) -> Any:
    """The selector of a new set: with the label."""
    wanted = {**((selector or {}).get("matchLabels") or {}), HASH: value}
    return {**(selector or {}), "matchLabels": wanted}


def set_labels(template: Any, value: str) -> Object:
    """The labels of a new set."""
    return {**workloads.template_labels(template), HASH: value}


def surge(d: Kept) -> int:
    """How many pods more than wanted there may be: rounded up; 0 unless the update rolls."""
    return _fenceposts(d.json)[0]


def unavailable(d: Kept) -> int:
    """How many pods may be missing: rounded down, but 1 if there may be no surge either; never more than all."""
    return min(_fenceposts(d.json)[1], number(d.json, "spec", "replicas"))


def _fenceposts(d: Object) -> tuple[int, int]:
    """Source: util.ResolveFenceposts."""
    if at(d, "spec", "strategy", "type") == "Recreate" or number(d, "spec", "replicas") == 0:
        return 0, 0
    rolling = at(d, "spec", "strategy", "rollingUpdate") or {}
    total = number(d, "spec", "replicas")
    more = scaled(rolling.get("maxSurge", "25%"), total, up=True)
    less = scaled(rolling.get("maxUnavailable", "25%"), total, up=False)
    return more, 1 if more == 0 and less == 0 else less


def annotated(d: Kept, rs: Kept | None, revision: int) -> Object:
    """The annotations of the new set: the Deployment's, its revision and, where it had others, their history."""
    have = dict(at(rs.json, "metadata", "annotations") or {}) if rs is not None else {}
    made = {**have, **{k: v for k, v in (at(d.json, "metadata", "annotations") or {}).items() if k not in OWN}}
    before = have.get(REVISION) or ""
    if not before.isdigit() or int(before) < revision:
        made[REVISION] = str(revision)
        if before:
            past = [p for p in (have.get(HISTORY) or "").split(",") if p]
            past.append(before)
            while len(",".join(past)) > LONGEST_HISTORY:
                del past[0]
            made[HISTORY] = ",".join(past)
    if rs is None:
        made |= wished(d, have)
    return made


def wished(d: Kept, annotations: Any) -> Object:
    """Annotations with what the set is scaled for: the wanted number of pods, and the most."""
    total = number(d.json, "spec", "replicas")
    return {**(annotations or {}), DESIRED: str(total), MOST: str(total + surge(d))}


def numbered(d: Kept, revision: int) -> Object:
    """The annotations of the Deployment with its revision."""
    return {**(at(d.json, "metadata", "annotations") or {}), REVISION: str(revision)}


def is_numbered(d: Kept, revision: int) -> bool:
    """Whether the Deployment carries that revision."""
    return _annotation(d.json, REVISION) == str(revision)


def resized(d: Kept, rs: Kept) -> bool:
    """Whether a set was last scaled for another number of pods than is wanted now."""
    text = _annotation(rs.json, DESIRED) or ""
    return text.isdigit() and int(text) != number(d.json, "spec", "replicas")


def saturated(d: Kept, rs: Kept) -> bool:
    """Whether the new set has all pods, and all available."""
    text, total = _annotation(rs.json, DESIRED), number(d.json, "spec", "replicas")
    return (
        number(rs.json, "spec", "replicas") == total
        and text == str(total)
        and number(rs.json, "status", "availableReplicas") == total
    )


def share(d: Kept, sets: Sequence[Kept], rs: Kept) -> int:
    """The size of a set when all are scaled in proportion, the largest first; what is left over goes to the first.

    Source: sync.go (scale), util.GetReplicaSetProportion.
    """
    active = [r for r in sets if number(r.json, "spec", "replicas") > 0]
    total = number(d.json, "spec", "replicas")
    allowed = total + surge(d) if total else 0
    to_add = allowed - sum(number(r.json, "spec", "replicas") for r in active)
    # Growing: larger sets first, newer ones among equals; shrinking: older ones among equals.
    newer = -1 if to_add > 0 else 1
    active.sort(key=lambda r: (-number(r.json, "spec", "replicas"), newer * workloads.created(r.json)))
    sizes: dict[str, int] = {}
    added = 0
    for r in active:
        have = number(r.json, "spec", "replicas")
        part = _proportion(d, r, to_add, added) if to_add else 0
        sizes[str(at(r.json, "metadata", "name"))] = have + part
        added += part
    if active and to_add:
        first = str(at(active[0].json, "metadata", "name"))
        sizes[first] = max(0, sizes[first] + to_add - added)
    name = str(at(rs.json, "metadata", "name"))
    return sizes.get(name, number(rs.json, "spec", "replicas"))


def _proportion(d: Kept, rs: Kept, to_add: int, added: int) -> int:
    left = to_add - added
    have = number(rs.json, "spec", "replicas")
    if have == 0 or left == 0:
        return 0
    total = number(d.json, "spec", "replicas")
    text = _annotation(rs.json, MOST) or ""
    most = int(text) if text.isdigit() and int(text) else number(d.json, "status", "replicas")
    if total == 0:
        part = -have
    elif most == 0:
        part = 0
    else:
        part = _rounded(have * (total + surge(d)), most) - have
    return min(part, left) if to_add > 0 else max(part, left)


def _rounded(numerator: int, denominator: int) -> int:
    """Halves go up, as integer.RoundToInt32 has them for positive numbers."""
    return (2 * numerator + denominator) // (2 * denominator)


def history(d: Kept) -> int:
    """How many old sets are kept."""
    return number(d.json, "spec", "revisionHistoryLimit", default=10)


# ---------------------------------------------------------------- conditions
def _made(type_: str, status: str, reason: str, message: str) -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def _put(rows: Any, made: Object, now: int) -> list[Object]:
    return workloads.put_condition(rows, made, now, touched=True)


def _bounded(d: Object) -> bool:
    limit = at(d, "spec", "progressDeadlineSeconds")
    return isinstance(limit, int) and limit != NO_DEADLINE


def noted(d: Kept, reason: str, message: str, now: int) -> Any:
    """The conditions with Progressing for a reason: pauses, resumptions and failures to make a set are told at once."""
    status = {"DeploymentPaused": "Unknown", "DeploymentResumed": "Unknown", "ReplicaSetCreateError": "False"}
    rows = at(d.json, "status", "conditions")
    if not _bounded(d.json):
        return rows
    before = workloads.condition(d.json, "Progressing")
    if before is not None and before.get("reason") == "ProgressDeadlineExceeded" and reason.startswith("Deployment"):
        return rows
    return _put(rows, _made("Progressing", status.get(reason, "True"), reason, message), now)


def pausing(d: Kept) -> str:
    """Which reason is due because the Deployment was paused or resumed: DeploymentPaused, DeploymentResumed or ""."""
    before = workloads.condition(d.json, "Progressing")
    if not _bounded(d.json) or (before is not None and before.get("reason") == "ProgressDeadlineExceeded"):
        return ""
    told = before is not None and before.get("reason") == "DeploymentPaused"
    paused = bool(at(d.json, "spec", "paused"))
    return "DeploymentPaused" if paused and not told else "DeploymentResumed" if told and not paused else ""


def conditions(d: Kept, sets: Sequence[Kept], new: Kept | None, judged: bool, now: int) -> Any:
    """The conditions that stand with what is there. `judged`: progress is, too (not while the Deployment is paused or
    scaled).

    Sources: sync.go (calculateStatus), progress.go (syncRolloutStatus).
    """
    json = d.json
    rows = at(json, "status", "conditions") or []
    enough = _total(sets, "availableReplicas") >= number(json, "spec", "replicas") - unavailable(d)
    if enough:
        available = _made("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        available = _made(
            "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        )
    rows = _put(rows, available, now)
    if judged:
        rows = _progress(d, sets, new, rows, now)
        failure = next((f for r in sets if (f := workloads.condition(r.json, "ReplicaFailure")) is not None), None)
        rows = workloads.without_condition(rows, "ReplicaFailure")
        if failure is not None:
            there = at(json, "status", "conditions") or ()
            old = [c for c in there if c.get("type") == "ReplicaFailure"]
            told = _made("ReplicaFailure", failure["status"], failure.get("reason", ""), failure.get("message", ""))
            rows = _put([*rows, *old], told, now)
    return rows


def _total(sets: Sequence[Kept], name: str) -> int:
    return sum(number(r.json, "status", name) for r in sets)


def _progress(d: Kept, sets: Sequence[Kept], new: Kept | None, rows: Any, now: int) -> list[Object]:
    json = d.json
    if not _bounded(json):
        return workloads.without_condition(rows, "Progressing")
    before = workloads.condition(json, "Progressing")
    name = at(new.json, "metadata", "name") if new is not None else ""
    subject = f'ReplicaSet "{name}"' if new is not None else f'Deployment "{at(json, "metadata", "name")}"'
    total = number(json, "spec", "replicas")
    updated = number(new.json, "status", "replicas") if new is not None else 0
    complete = updated == total and _total(sets, "replicas") == total and _total(sets, "availableReplicas") >= total
    if before is None and new is not None:
        found = _made("Progressing", "True", "FoundNewReplicaSet", f'Found new replica set "{name}"')
        rows, before = _put(rows, found, now), found
    settled = (before or {}).get("reason") == "NewReplicaSetAvailable" and updated == number(
        json, "status", "updatedReplicas"
    )
    if complete and not (settled and _total(sets, "replicas") == number(json, "status", "replicas")):
        text = f"{subject} has successfully progressed."
        return _put(rows, _made("Progressing", "True", "NewReplicaSetAvailable", text), now)
    if settled and _total(sets, "replicas") == updated:
        return list(rows)
    if _progressing(json, sets, updated, new):
        stamp = workloads.written(now)
        told = _made("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.")
        since = before["lastTransitionTime"] if before and before.get("status") == "True" and (
            "lastTransitionTime" in before
        ) else stamp  # fmt: skip
        kept = workloads.without_condition(rows, "Progressing")
        return [*kept, {**told, "lastTransitionTime": since, "lastUpdateTime": stamp}]
    if awaits(d) and until_deadline(d, now) == 0:
        text = f"{subject} has timed out progressing."
        return _put(rows, _made("Progressing", "False", "ProgressDeadlineExceeded", text), now)
    return list(rows)


def _progressing(json: Object, sets: Sequence[Kept], updated: int, new: Kept | None) -> bool:
    """Whether more pods are new, ready or available, or fewer are old, than the status says."""
    old, was = _total(sets, "replicas") - updated, number(json, "status", "replicas")
    return (
        updated > number(json, "status", "updatedReplicas")
        or old < was - number(json, "status", "updatedReplicas")
        or _total(sets, "readyReplicas") > number(json, "status", "readyReplicas")
        or _total(sets, "availableReplicas") > number(json, "status", "availableReplicas")
    )


def awaits(d: Kept) -> bool:
    """Whether a deadline for progress runs."""
    before = workloads.condition(d.json, "Progressing")
    settled = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused")
    return before is not None and before.get("reason") not in settled and _bounded(d.json)


def until_deadline(d: Kept, now: int) -> int:
    """Milliseconds until the deadline for progress passes; 0 when it has."""
    before = workloads.condition(d.json, "Progressing") or {}
    since = workloads.moment(before.get("lastUpdateTime")) or now
    return max(0, since + 1000 * number(d.json, "spec", "progressDeadlineSeconds", default=600) - now)
