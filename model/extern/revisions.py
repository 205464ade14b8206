"""ControllerRevisions: the versions of a template that StatefulSets and DaemonSets keep.

Source: pkg/controller/history/controller_history.go; the data is a patch of the owner that replaces its template.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashpot.model.extern import workloads
from dashpot.model.extern.workloads import Kept, Object, at, number

HASH = "controller-revision-hash"


def data_of(owner: Object) -> Object:
    """What a revision of the owner's template holds."""
    template = {**(at(owner, "spec", "template") or {}), "$patch": "replace"}
    return {"spec": {"template": template}}


def template_in(data: Any) -> Any:
    """The template that a revision holds, or None."""
    found = at(data, "spec", "template")
    return {k: v for k, v in found.items() if k != "$patch"} if isinstance(found, dict) else None


def digest(owner: Object, collisions: int) -> str:
    """The hash in the name of the revision of the owner's present template."""
    return workloads.template_hash(data_of(owner), collisions or None)


def same(owner: Object, revision: Kept) -> bool:
    """Whether a revision holds the owner's present template."""
    return workloads.alike(template_in(at(revision.json, "data")), at(owner, "spec", "template"))


def serial(revision: Kept) -> int:
    """The number of a revision."""
    return number(revision.json, "revision")


def spare(revisions: Sequence[Kept], used: Sequence[str], limit: int) -> list[Kept]:
    """The oldest revisions beyond the limit of those that nobody uses."""
    free = [r for r in revisions if str(at(r.json, "metadata", "name")) not in used]
    return sorted(free, key=serial)[: max(0, len(free) - limit)]
