"""What kubernetes.pdb computes.

Sources: pkg/controller/disruption/disruption.go, component-helpers apps/poddisruptionbudget, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dashpot.model.extern import labels
from dashpot.model.extern.workloads import Kept, Object, at, is_ready, moment, number, scaled, written
from dashpot.model.objects.registry import builtin

TIMEOUT_MS = 2 * 60 * 1000
"""How long a pod that was evicted may stay before it counts again."""
TYPE = "DisruptionAllowed"

Scales = dict[str, tuple[str, int]]
"""By an owner's uid: whose scale counts for it, and that scale."""
Asked = Mapping[str, int | None]
"""By the uid of an owner of another kind: the replicas that its scale subresource says."""


def selects(budget: Kept, pod: Kept) -> bool:
    """Whether the budget is for the pod. An empty selector selects all, an absent one none."""
    return labels.matches(at(budget.json, "spec", "selector"), at(pod.json, "metadata", "labels"))


def matters(old: Kept, new: Kept) -> bool:
    """Whether a change of a pod may change a budget: its labels, owners, readiness or deletion."""
    return _seen(old.json) != _seen(new.json)


def _seen(pod: Object) -> tuple[Any, ...]:
    meta = pod.get("metadata") or {}
    return meta.get("labels"), meta.get("ownerReferences"), bool(meta.get("deletionTimestamp")), is_ready(pod)


# ---------------------------------------------------------------- evicted pods
def _due(budget: Kept, pod: Kept) -> int | None:
    """When a pod that was evicted, and is not going yet, counts again; None for others."""
    name, meta = pod.json["metadata"].get("name"), pod.json["metadata"]
    since = moment(at(budget.json, "status", "disruptedPods", str(name)))
    return None if since is None or meta.get("deletionTimestamp") else since + TIMEOUT_MS


def counts(budget: Kept, pod: Kept, now: int) -> bool:
    """Whether the pod is healthy: ready, not going, nor evicted in the last two minutes."""
    due = _due(budget, pod)
    return (
        not at(pod.json, "metadata", "deletionTimestamp") and not (due is not None and due > now) and is_ready(pod.json)
    )


def disrupted(budget: Kept, pods: Sequence[Kept], now: int) -> Object:
    """The evicted pods that are still expected to go."""
    had = at(budget.json, "status", "disruptedPods") or {}
    names = [str(p.json["metadata"]["name"]) for p in pods if (due := _due(budget, p)) is not None and due >= now]
    return {name: had[name] for name in sorted(names)}


def overdue(budget: Kept, pod: Kept, now: int) -> bool:
    """Whether the pod was expected to be gone by now."""
    due = _due(budget, pod)
    return due is not None and due < now


def waits(budget: Kept, pods: Sequence[Kept], now: int) -> bool:
    """Whether an evicted pod is still expected to go."""
    return bool(disrupted(budget, pods, now))


def until_due(budget: Kept, pods: Sequence[Kept], now: int) -> int:
    """Milliseconds until the first of them is overdue."""
    due = [one for p in pods if (one := _due(budget, p)) is not None and one >= now]
    return max(1, min(due, default=now) - now + 1)


# ---------------------------------------------------------------- how many there should be
def by_owners(budget: Kept) -> bool:
    """Whether the budget goes by what the owners of its pods are to have: maxUnavailable, or a percentage."""
    spec = budget.json.get("spec") or {}
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def scales(sets: Sequence[Kept], deployments: Sequence[Kept], others: Sequence[Kept], more: Sequence[Kept]) -> Scales:
    """Of each owner's uid: whose scale counts, and that scale. A ReplicaSet of a Deployment stands for that."""
    made = {_uid(one): (_uid(one), _replicas(one)) for group in (deployments, others, more) for one in group}
    for one in sets:
        owner = _controller(one)
        if owner is None or owner.get("kind") != "Deployment":
            made[_uid(one)] = _uid(one), _replicas(one)
        elif owner.get("uid") in made:
            made[_uid(one)] = made[str(owner["uid"])]
    return made


def _uid(one: Kept) -> str:
    return str(one.json["metadata"].get("uid"))


def _replicas(one: Kept) -> int:
    return number(one.json, "spec", "replicas", default=1)


def _controller(one: Kept) -> Object | None:
    refs = at(one.json, "metadata", "ownerReferences") or ()
    return next((ref for ref in refs if ref.get("controller")), None)


def ownerless(pods: Sequence[Kept]) -> bool:
    """Whether a pod has no controlling owner."""
    return any(_controller(p) is None for p in pods)


def _owners(pods: Sequence[Kept]) -> Iterator[tuple[Kept, str]]:
    """The pods that have a controlling owner, and its uid."""
    for pod in pods:
        owner = _controller(pod)
        if owner is not None:
            yield pod, str(owner.get("uid"))


def strangers(pods: Sequence[Kept], known: Scales) -> list[Kept]:
    """One pod of each owner of which the caches know no scale."""
    found: dict[str, Kept] = {}
    for pod, uid in _owners(pods):
        if uid not in known:
            found.setdefault(uid, pod)
    return list(found.values())


def problem(pods: Sequence[Kept], known: Scales, asked: Asked) -> str:
    """Why it is not known how many pods there should be: an owner whose scale nobody knows, nor said when it was
    `asked`; "" if it is known."""
    lost = [pod for pod, uid in _owners(pods) if uid not in known and asked.get(uid) is None]
    if not lost:
        return ""
    pod = min(lost, key=lambda p: str(p.json["metadata"]["name"]))
    owner = _controller(pod) or {}
    group, _, version = str(owner.get("apiVersion") or "").rpartition("/")
    resource = builtin().by_kind(group, version, str(owner.get("kind")))
    if resource is not None and resource.subresource("scale") is None:
        return f"{resource.qualified} does not implement the scale subresource"
    return f'found no controllers for pod "{pod.json["metadata"]["name"]}"'


def expected(budget: Kept, pods: Sequence[Kept], known: Scales, asked: Asked) -> int:
    """How many pods there should be: the sum of the owners' scales; of a fixed minAvailable, those that there are."""
    if not by_owners(budget):
        return len(pods) if at(budget.json, "spec", "minAvailable") is not None else 0
    found = dict(known.get(uid) or (uid, asked.get(uid) or 0) for _, uid in _owners(pods))
    return sum(found.values())


def desired(budget: Kept, total: int) -> int:
    """How many must stay healthy. Percentages are rounded up, on both sides."""
    spec = budget.json.get("spec") or {}
    if spec.get("maxUnavailable") is not None:
        return max(0, total - scaled(spec["maxUnavailable"], total, up=True))
    return scaled(spec.get("minAvailable") or 0, total, up=True)


# ---------------------------------------------------------------- what people read
def selector_text(budget: Kept) -> str:
    """The selector as kubectl writes one."""
    selector = at(budget.json, "spec", "selector") or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        key, values = term.get("key"), ",".join(term.get("values") or ())
        match term.get("operator"):
            case "In" | "NotIn" as how:
                parts.append(f"{key} {how.lower()} ({values})")
            case "Exists":
                parts.append(f"{key}")
            case _:
                parts.append(f"!{key}")
    return ",".join(parts)


def conditions(budget: Kept, allowed: bool, now: int) -> Any:
    """The conditions with DisruptionAllowed, for the generation that is being counted."""
    generation = number(budget.json, "metadata", "generation")
    return _put(budget, allowed, "SufficientPods" if allowed else "InsufficientPods", "", generation, now)


def failing(budget: Kept, message: str, now: int) -> Any:
    """The conditions of a budget that cannot be counted; of the generation that was counted last."""
    return _put(budget, False, "SyncFailed", message, number(budget.json, "status", "observedGeneration"), now)


def _put(budget: Kept, holds: bool, reason: str, message: str, generation: int, now: int) -> list[Object]:
    rows = at(budget.json, "status", "conditions") or ()
    before: Object = next((row for row in rows if row.get("type") == TYPE), {})
    status = "True" if holds else "False"
    moved = before.get("lastTransitionTime") if before.get("status") == status else None
    row: Object = {"type": TYPE, "status": status, "observedGeneration": generation}
    row |= {"lastTransitionTime": moved or written(now), "reason": reason, "message": message}
    if not generation:
        del row["observedGeneration"]
    return [*(one for one in rows if one.get("type") != TYPE), row]
