"""Where a rule is asked: a value, what it was before, and its path, which is only spelled out for a cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Object = dict[str, Any]
Trail = tuple[Any, ...]
"""A path as nested pairs: (trail of what contains it, name or index). The root is ()."""


def spelled(trail: Trail, field: str = "") -> str:
    """`spec.containers[0].name`. `field` is added: `name`, `ports[0].port`."""
    parts: list[str] = []
    while trail:
        trail, part = trail
        parts.append(f"[{part}]" if isinstance(part, int) else part if part.startswith("[") else f".{part}")
    text = "".join(reversed(parts))
    if field:
        text += field if field.startswith("[") else f".{field}"
    return text.removeprefix(".")


def find(value: Any, path: str) -> Any:
    """The value at a simple path below; None if there is none."""
    for part in path.split("."):
        if type(value) is not dict:
            return None
        value = value.get(part)
    return value


def bare(value: Any) -> Any:
    """A value without what means nothing: null and empty lists, maps and texts are absent (Go's semantic equality)."""
    if type(value) is dict:
        return {key: inner for key, item in value.items() if (inner := bare(item)) is not None} or None
    if type(value) is list:
        return [bare(item) for item in value] or None
    return None if value == "" and type(value) is str else value


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal to Kubernetes: absent and empty are the same."""
    return bool(left == right or bare(left) == bare(right))


def in_order(names: Iterable[str], order: Sequence[str]) -> list[str]:
    """Names as a list orders them, and those that it lacks behind them by the alphabet."""
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))
