"""The small texts in table cells: ages, selectors, access modes, lists cut short.

Source: k8s.io/apimachinery pkg/util/duration, pkg/labels and pkg/apis/meta/v1; kubernetes pkg/printers, release 1.34.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

Object = dict[str, Any]

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

MINUTE, HOUR, DAY = 60, 3600, 86_400


@frozen
class Column:
    """One column, as Table.columnDefinitions has it. Priority 1 shows with `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Object:
        """The row of columnDefinitions."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


_TYPES = {"i": "integer", "b": "boolean", "d": "date"}

_DESCRIPTIONS = {
    "Name": "The object's name, unique among those of its kind in a namespace.",
    "Age": "How long ago the object was created.",
    "Created At": "When the object was created.",
    "Ready": "How many of those that should be ready are.",
    "Status": "The state in one word.",
    "Restarts": "How often containers were restarted, and when the last time was.",
    "Containers": "The names of the containers.",
    "Images": "The images of the containers.",
    "Selector": "Which pods belong to it.",
}


def columns(spec: str) -> tuple[Column, ...]:
    """Columns from words: `_` stands for a space, `*` after a name for priority 1, `:i`, `:b`, `:d` for a type other
    than string. The column `Name` has the format `name`, by which kubectl finds it."""
    return tuple(map(_column, spec.split()))


def _column(word: str) -> Column:
    word, _, kind = word.partition(":")
    name = word.rstrip("*").replace("_", " ")
    description = _DESCRIPTIONS.get(name, f"{name} of the object.")
    return Column(name, _TYPES.get(kind, "string"), "name" if name == "Name" else "", description, int("*" in word))


def seconds(text: Any) -> float | None:
    """A timestamp in seconds since 1970; None if it is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        if len(text) == 20 and text[19] == "Z":
            parts = (text[0:4], text[5:7], text[8:10], text[11:13], text[14:16], text[17:19])
            year, month, day, hour, minute, second = map(int, parts)
            return timegm((year, month, day, hour, minute, second))
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def human(span: float) -> str:
    """A duration as kubectl shows it: `5s`, `3m20s`, `26h`, `5d3h`, `2y100d`."""
    if span <= -2:
        return "<invalid>"
    whole = max(int(span), 0)
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * 365 * DAY:
        return f"{whole // DAY}d"
    if whole < 8 * 365 * DAY:
        return _two(whole, 365 * DAY, "y", DAY, "d")
    return f"{whole // DAY // 365}y"


def _two(whole: int, unit: int, name: str, lesser: int, lesser_name: str) -> str:
    rest = whole % unit // lesser
    return f"{whole // unit}{name}{rest}{lesser_name}" if rest else f"{whole // unit}{name}"


def since(text: Any, now: float) -> str:
    """How long ago a timestamp was."""
    then = seconds(text)
    return UNKNOWN if then is None else human(now - then)


def meta(obj: Object) -> Object:
    """The metadata; an empty one where there is none."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def spec(obj: Object) -> Object:
    """The spec; an empty one where there is none."""
    return at(obj, "spec")


def status(obj: Object) -> Object:
    """The status; an empty one where there is none."""
    return at(obj, "status")


def at(obj: Object, *path: str) -> Object:
    """A map below some keys; an empty one where there is none."""
    node: Any = obj
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def name(obj: Object) -> str:
    """The name."""
    found = meta(obj).get("name", "")
    return found if isinstance(found, str) else ""


def age(obj: Object, now: float) -> str:
    """How long ago the object was created."""
    return since(meta(obj).get("creationTimestamp"), now)


def labels(found: Any) -> str:
    """`a=b,c=d`, or `<none>`."""
    if not isinstance(found, dict) or not found:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(found.items()))


def selector(found: Any) -> str:
    """A label selector as one writes it: `a=b,c in (d,e),!f`; empty if it selects all or nothing."""
    if not isinstance(found, dict):
        return ""
    terms: list[tuple[str, str]] = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    for row in found.get("matchExpressions") or ():
        key, operator = str(row.get("key", "")), row.get("operator", "")
        values = ",".join(sorted(row.get("values") or ()))
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        terms.append((key, shown.get(operator, key)))
    return ",".join(term for _, term in sorted(terms, key=lambda row: row[0]))


def containers(pod_spec: Object) -> tuple[str, str]:
    """Names and images of the containers."""
    rows = [row for row in pod_spec.get("containers") or () if isinstance(row, dict)]
    return ",".join(row.get("name", "") for row in rows), ",".join(row.get("image", "") for row in rows)


MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(found: Any) -> str:
    """`RWO,ROX`."""
    return ",".join(short for mode, short in MODES.items() if mode in (found or ()))


def cut(items: Sequence[str], most: int, count: int | None = None) -> str:
    """The first few, `a,b,c + 2 more...`."""
    total = len(items) if count is None else count
    text = ",".join(items[:most])
    return f"{text} + {total - most} more..." if total > most else text


def cut_or_unset(items: Sequence[str]) -> str:
    """The first three, or `<unset>`."""
    return cut(items, 3) or UNSET


def join_host_port(host: str, port: Any) -> str:
    """`10.0.0.1:80`, `[fd00::1]:80`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def condition(rows: Iterable[Any], kind: str) -> Object | None:
    """The condition of that type."""
    return next((row for row in rows or () if isinstance(row, dict) and row.get("type") == kind), None)


def is_true(rows: Any, kind: str) -> bool:
    """Whether the condition of that type holds."""
    found = condition(rows, kind)
    return found is not None and found.get("status") == "True"
