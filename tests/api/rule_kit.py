"""Valid objects of each kind, changes to them, and what the rules of Kubernetes' own kinds tell of the result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Cause
from dashpot.runtime.api.crd.default import copied
from dashpot.runtime.api.rules import builtin_rules

Object = dict[str, Any]
TABLE = msgspec.json.decode(Path(__file__).with_name("rule_cases.json").read_bytes())
BASES: dict[str, Object] = TABLE["bases"]
CASES: list[list[Any]] = TABLE["cases"]
PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def resource(kind: str) -> Resource:
    group, _, plural = kind.rpartition("/")
    return Resource(
        group=group,
        version="v1",
        kind="X",
        plural=plural,
        singular="x",
        namespaced=True,
        storage_group=group,
        storage_version="v1",
    )


def changed(kind: str, changes: Object) -> Object:
    """The valid object of a kind with some paths set."""
    obj: Object = copied({"metadata": {"name": "x"}, **BASES[kind]})
    if kind == "apps/statefulsets":
        obj["kind"] = "StatefulSet"
    for path, value in changes.items():
        amended(obj, path, value)
    return obj


def amended(obj: Object, path: str, value: Any) -> Object:
    """The object with a path (`spec.containers[0].name`) set, in place; None takes away what is there."""
    steps: list[Any] = [int(at) if at else name for name, at in PART.findall(path)]
    place: Any = obj
    for step in steps[:-1]:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    if value is None:
        del place[steps[-1]]
    else:
        place[steps[-1]] = copied(value)
    return obj


def causes(kind: str, obj: Object, old: Object | None = None, subresource: str = "") -> list[Cause]:
    return builtin_rules().check(resource(kind), obj, old, subresource)


def told(kind: str, change: Object, old: Object | None = None) -> list[str]:
    """The same of the object with some paths set, as texts; `old` is what is set in the object before an update."""
    before = None if old is None else changed(kind, old)
    return [str(cause) for cause in causes(kind, changed(kind, change), before)]
