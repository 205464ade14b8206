"""Quotas of namespaces that leave no room for the next pod of a workload, by the rules that charge them."""

from __future__ import annotations

from collections.abc import Iterator

from dashpot.model.objects.quantity import ZERO
from dashpot.model.objects.resource import Resource
from dashpot.model.quota.podresources import Amounts, amounts
from dashpot.model.quota.scopes import in_scope, scopes_of
from dashpot.model.quota.usage import evaluator
from dashpot.runtime.doctor.cause import Cause
from dashpot.runtime.doctor.progress import Progress
from dashpot.runtime.doctor.reading import WAIT_S, Object, Reading, condition, named

PODS = Resource("", "v1", "Pod", "pods", "pod", True, storage_group="", storage_version="v1")


def quotas(before: Reading, after: Reading) -> Iterator[Cause]:
    """Quotas that both looks show exhausted while a workload lacks pods and gets none."""
    known = {(named(quota), kind, named(obj)) for quota, kind, obj, _ in _exhausted(before)}
    progress = Progress(after)
    for quota, kind, obj, names in _exhausted(after):
        waits = (named(quota), kind, named(obj)) in known and after.at - progress.moved(kind, obj) > WAIT_S
        if waits:
            text = f"it leaves no {', '.join(names)} for the next pod of {kind} {named(obj)}"
            yield Cause("quota-exhausted", f"quota {named(quota)}", text, "raise it, or ask for less")


def _exhausted(seen: Reading) -> Iterator[tuple[Object, str, Object, list[str]]]:
    """Quota, kind and object that lacks pods, and what the quota has none left of."""
    limited = seen.of("ResourceQuota")
    if not limited:
        return
    for kind in ("ReplicaSet", "StatefulSet", "Job"):
        for obj in seen.of(kind):
            template = (obj.get("spec") or {}).get("template")
            if not template or not _lacks(kind, obj):
                continue
            pod = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
            for quota in limited:
                same = quota["metadata"].get("namespace") == obj["metadata"].get("namespace")
                if same and in_scope(scopes_of(quota), "", "pods", pod) and (names := _over(quota, _usage(pod))):
                    yield quota, kind, obj, names


def _lacks(kind: str, obj: Object) -> bool:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if kind != "Job":
        return bool(status.get("replicas", 0) < spec.get("replicas", 1))
    over = any(condition(obj, name).get("status") == "True" for name in ("Complete", "Failed"))
    return not over and not spec.get("suspend") and not status.get("active")


def _usage(pod: Object) -> Amounts:
    found = evaluator(PODS)
    return found.usage(pod) if found is not None else {}


def _over(quota: Object, usage: Amounts) -> list[str]:
    status = quota.get("status") or {}
    hard, used = amounts(status.get("hard")), amounts(status.get("used"))
    return sorted(name for name, most in hard.items() if used.get(name, ZERO) + usage.get(name, ZERO) > most)
