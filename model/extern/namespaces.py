"""What kubernetes.namespaces computes: which namespace is meant, and the conditions of one that ends.

Sources: pkg/controller/namespace/deletion (status_condition_utils.go), release 1.34. The texts are what `kubectl
describe namespace` shows of a namespace that does not end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from dashpot.model.extern.workloads import Kept, Object, at, written

FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Type → reason and message where nothing is wrong."""


class Named(Kept, Protocol):
    """An object of any kind: `key_name` is its resource and name (`deployments.apps/web`)."""

    @property
    def key_name(self) -> str:
        """Resource, group and name."""
        ...


def space(namespace: Kept) -> str:
    """The name by which objects say that they are in a namespace."""
    return str(at(namespace.json, "metadata", "name") or "")


def conditions(
    namespace: Kept, left: Sequence[Named], lost: Sequence[Kept], refused: bool, now_ms: int
) -> list[Object]:
    """The conditions of a namespace that ends: `left` is what it still holds, `lost` the APIs that do not answer."""
    wrong: dict[str, tuple[str, str]] = {}
    if lost:
        groups = sorted(f"{at(a.json, 'spec', 'group')}/{at(a.json, 'spec', 'version')}" for a in lost)
        why = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in groups)
        text = f"Discovery failed for some groups, {len(groups)} failing: unable to retrieve the complete list of "
        wrong["NamespaceDeletionDiscoveryFailure"] = "DiscoveryFailed", f"{text}server APIs: {why}"
    if refused:
        text = "Failed to delete all resource types, 1 remaining: the API server denies a deletion"
        wrong["NamespaceDeletionContentFailure"] = "ContentDeletionFailed", text
    if left:
        rows = _counted(_resource(o) for o in left)
        text = ", ".join(f"{name} has {count} resource instances" for name, count in rows)
        wrong["NamespaceContentRemaining"] = "SomeResourcesRemain", f"Some resources are remaining: {text}"
    rows = _counted(name for o in left for name in at(o.json, "metadata", "finalizers") or ())
    if rows:
        text = ", ".join(f"{name} in {count} resource instances" for name, count in rows)
        wrong["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {text}",
        )
    before = at(namespace.json, "status", "conditions") or ()
    known = {row.get("type"): row for row in before if isinstance(row, dict)}
    made = [_condition(type_, known.get(type_), wrong.get(type_), now_ms) for type_ in FINE]
    return [*(row for type_, row in known.items() if type_ not in FINE), *made]


def _resource(obj: Named) -> str:
    """`deployments.apps`, `pods.`: the group stands behind the point, empty as it may be."""
    name = obj.key_name.partition("/")[0]
    return name if "." in name else f"{name}."


def _counted(names: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(names).items())


def _condition(type_: str, old: Object | None, wrong: tuple[str, str] | None, now_ms: int) -> Object:
    status = "True" if wrong else "False"
    reason, message = wrong or FINE[type_]
    since = old.get("lastTransitionTime") if old is not None and old.get("status") == status else None
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or written(now_ms),
    }
