"""What the workload controllers compute alike: pods made from templates, readiness, conditions, counts and hashes.

Sources: pkg/controller/controller_utils.go, pkg/api/v1/pod/util.go, pkg/controller/deployment/util.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

Object = dict[str, Any]

SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of hashes in names: none that spell words (apimachinery's rand.SafeEncodeString)."""


class Kept(Protocol):
    """An object of a spec: `json` is the whole of it."""

    @property
    def json(self) -> Object:
        """The object as the API serves it."""
        ...


def at(value: Any, *path: str) -> Any:
    """The value below some names, or None."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def number(value: Any, *path: str, default: int = 0) -> int:
    """The whole number below some names."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def moment(text: Any) -> int | None:
    """A time of the API (RFC 3339) in milliseconds since 1970; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return None


def written(ms: int) -> str:
    """Milliseconds since 1970 as the API writes a time: in whole seconds."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---------------------------------------------------------------- hashes
def fnv32a(data: bytes) -> int:
    """FNV-1a of 32 bits."""
    total = 0x811C9DC5
    for byte in data:
        total = ((total ^ byte) * 0x01000193) & 0xFFFFFFFF
    return total


def canonical(value: Any) -> bytes:
    """A JSON value as bytes that do not depend on the order of its fields; absent and null are the same."""
    return msgspec.json.encode(_bare(value), order="deterministic")


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _bare(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_bare(v) for v in value]
    return value


def safe(total: int) -> str:
    """A hash as a part of a name."""
    return "".join(SAFE[ord(digit) % len(SAFE)] for digit in str(total))


def template_hash(template: Any, collisions: int | None = None) -> str:
    """The hash of a pod template (`pod-template-hash`); `collisions` salts it."""
    data = canonical(template)
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe(fnv32a(data))


# ---------------------------------------------------------------- templates
def template_labels(template: Any) -> Object:
    """The labels of a pod that is made from a template."""
    return dict(at(template, "metadata", "labels") or {})


def template_annotations(template: Any) -> Object:
    """The annotations of such a pod."""
    return dict(at(template, "metadata", "annotations") or {})


def template_finalizers(template: Any) -> list[str]:
    """Its finalizers."""
    return list(at(template, "metadata", "finalizers") or ())


def template_spec(template: Any) -> Object:
    """Its spec."""
    return dict(at(template, "spec") or {})


def without_label(template: Any, key: str) -> Any:
    """A template without one of its labels."""
    meta = dict(at(template, "metadata") or {})
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != key}
    meta.pop("labels", None)
    if labels:
        meta["labels"] = labels
    return {**(template or {}), "metadata": meta}


def with_label(template: Any, key: str, value: str) -> Any:
    """A template with one more label."""
    meta = dict(at(template, "metadata") or {})
    meta["labels"] = {**(meta.get("labels") or {}), key: value}
    return {**(template or {}), "metadata": meta}


def alike(one: Any, other: Any, ignored: str = "") -> bool:
    """Whether two templates say the same, apart from one label."""
    if ignored:
        one, other = without_label(one, ignored), without_label(other, ignored)
    return bool(_bare(one) == _bare(other))


# ---------------------------------------------------------------- pods
def condition(json: Object, type_: str) -> Object | None:
    """The condition of a type in the status of an object, or None."""
    rows = at(json, "status", "conditions")
    return next((c for c in rows or () if c.get("type") == type_), None)


def is_ready(pod: Object) -> bool:
    """Whether a pod's condition Ready is True."""
    found = condition(pod, "Ready")
    return found is not None and found.get("status") == "True"


def is_active(pod: Object) -> bool:
    """Whether a pod neither ended nor terminates."""
    return at(pod, "status", "phase") not in ("Succeeded", "Failed") and not at(pod, "metadata", "deletionTimestamp")


def ready_since(pod: Object) -> int | None:
    """When the pod became ready, in ms; None while it is not."""
    return moment((condition(pod, "Ready") or {}).get("lastTransitionTime")) if is_ready(pod) else None


def available(pod: Object, least_s: int, now_ms: int) -> bool:
    """Whether a pod has been ready for `least_s` seconds (0: it need only be ready)."""
    if not is_ready(pod):
        return False
    if least_s <= 0:
        return True
    since = ready_since(pod)
    return since is not None and since + least_s * 1000 <= now_ms


def until_available(pods: Sequence[Object], least_s: int, now_ms: int) -> int:
    """Milliseconds until the next of the ready pods becomes available; at least 1 s."""
    due = [since + least_s * 1000 - now_ms for p in pods if (since := ready_since(p)) is not None]
    return max(1000, min((d for d in due if d > 0), default=1000))


def deletion_cost(pod: Object) -> int:
    """controller.kubernetes.io/pod-deletion-cost; what is no whole number of 32 bits counts as 0."""
    text = at(pod, "metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost")
    if not isinstance(text, str) or not text.lstrip("-").isdigit() or (text[:1] == "0" and text != "0"):
        return 0
    value = int(text)
    return value if -(2**31) <= value < 2**31 else 0


def restarts(pod: Object) -> int:
    """The highest number of restarts among the pod's containers."""
    return max((number(c, "restartCount") for c in at(pod, "status", "containerStatuses") or ()), default=0)


def created(json: Object) -> int:
    """When an object was made, in ms."""
    return moment(at(json, "metadata", "creationTimestamp")) or 0


# ---------------------------------------------------------------- counts and conditions
def scaled(value: Any, total: int, *, up: bool) -> int:
    """A count or a percentage of `total`, rounded up or down (intstr.GetScaledValueFromIntOrPercent)."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        whole = int(value[:-1]) * total
        return -(-whole // 100) if up else whole // 100
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else 0


def put_condition(rows: Any, made: Object, now_ms: int, *, touched: bool = False) -> list[Object]:
    """The conditions with `made` instead of the one of its type; the time of transition stays while the status does.

    A condition with the same status and reason stays as it is. `touched`: the condition has a lastUpdateTime.
    """
    before = next((c for c in rows or () if c.get("type") == made["type"]), None)
    if before and before.get("status") == made["status"] and before.get("reason") == made.get("reason"):
        return list(rows)
    stamp = written(now_ms)
    row = {**made, "lastTransitionTime": stamp}
    if touched:
        row["lastUpdateTime"] = stamp
    if before and before.get("status") == made["status"]:
        row["lastTransitionTime"] = before.get("lastTransitionTime", stamp)
    return [*(c for c in rows or () if c.get("type") != made["type"]), row]


def without_condition(rows: Any, type_: str) -> list[Object]:
    """The conditions without that of a type."""
    return [c for c in rows or () if c.get("type") != type_]
