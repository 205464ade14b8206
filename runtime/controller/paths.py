"""Paths into JSON, as `at "…"` writes them: `spec.host`, `metadata.labels['app']`, `spec.containers[0].image`,
`status.conditions[type=Ready].status`.

Reading finds None where there is nothing; writing copies what lies on the way, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attrs import frozen

Object = dict[str, Any]


@frozen
class Entry:
    """The element of a list whose `key` is `value`."""

    key: str
    value: str


Step: TypeAlias = str | int | Entry
Path: TypeAlias = tuple[Step, ...]

LONGEST = 100_000
"""The highest index that a write may ask for in a list."""

_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<q>['"])(?P<quoted>.*?)(?P=q)\]"""
    r"""|\[(?P<key>[^=\[\]'"]+)=(?P<value>[^\]]*)\]"""
)


class PathError(ValueError):
    """A text that is no path; says where."""


def parse(text: str) -> Path:
    """The steps of a path; PathError."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise PathError(f"{text!r} is no path: I do not understand {text[at:]!r}")
        if found["name"] is not None:
            steps.append(found["name"])
        elif found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["key"] is not None:
            steps.append(Entry(found["key"].strip(), found["value"].strip().strip("'\"")))
        else:
            steps.append(found["quoted"])
        at = found.end()
    if not steps or not isinstance(steps[0], str):
        raise PathError(f"{text!r} is no path: it begins with the name of a field")
    return tuple(steps)


def getter(path: Path) -> Callable[[Any], Any]:
    """Reads a path: the value there, or None."""
    if all(isinstance(step, str) for step in path):
        return _names(tuple(str(step) for step in path))
    return lambda value: get(value, path)


def _names(names: tuple[str, ...]) -> Callable[[Any], Any]:
    if len(names) == 2:
        outer, inner = names

        def two(value: Any) -> Any:
            part = value.get(outer)
            return part.get(inner) if isinstance(part, dict) else None

        return two

    def all_(value: Any) -> Any:
        for name in names:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    return all_


def get(value: Any, path: Path) -> Any:
    """The value at a path, or None."""
    for step in path:
        if isinstance(step, str):
            if not isinstance(value, dict):
                return None
            value = value.get(step)
        elif not isinstance(value, list):
            return None
        elif isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            value = next((row for row in value if isinstance(row, dict) and row.get(step.key) == step.value), None)
    return value


def place(rows: Any, entry: Entry) -> int | None:
    """The index of the element that an entry names; None if there is none."""
    for index, row in enumerate(rows or ()):
        if isinstance(row, dict) and row.get(entry.key) == entry.value:
            return index
    return None


def put(value: Any, path: Sequence[Step], new: Any, *, null: bool = False) -> Any:
    """A copy with `new` at the path. None takes the field or the entry out, unless `null` says to write it."""
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        fields = dict(value) if isinstance(value, dict) else {}
        if rest:
            if new is None and not null and not isinstance(fields.get(step), dict | list):
                return fields
            fields[step] = put(fields.get(step), rest, new, null=null)
        elif new is None and not null:
            fields.pop(step, None)
        else:
            fields[step] = new
        return fields
    rows = list(value) if isinstance(value, list) else []
    if isinstance(step, int):
        return _put_at(rows, step, rest, new, null)
    index = place(rows, step)
    if index is None:
        if new is None and not null:
            return rows
        index = len(rows)
        rows.append({step.key: step.value})
    if rest:
        rows[index] = put(rows[index], rest, new, null=null)
    elif new is None:
        del rows[index]
    else:
        rows[index] = new
    return rows


def _put_at(rows: list[Any], index: int, rest: Sequence[Step], new: Any, null: bool) -> list[Any]:
    if index > LONGEST:
        raise PathError(f"index {index} is beyond what a list may hold")
    while len(rows) <= index:
        rows.append({})
    rows[index] = put(rows[index], rest, new, null=null) if rest else new
    return rows
