"""Defaulting: what is missing gets the default of its schema; a null that is not allowed counts as missing.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/defaulting, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Default = Callable[[Any], None]
MISSING: Any = object()


def defaulter(schema: Object) -> Default | None:
    """A function that fills defaults into a value in place; None where the schema has none."""
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        return _values(defaulter(extra), bool(extra.get("nullable")), extra.get("default", MISSING))
    items = schema.get("items")
    if isinstance(items, dict):
        return _items(defaulter(items), bool(items.get("nullable")), items.get("default", MISSING))
    properties: Object = schema.get("properties") or {}
    rows = [
        (name, child.get("default", MISSING), bool(child.get("nullable")), defaulter(child))
        for name, child in properties.items()
    ]
    rows = [row for row in rows if row[1] is not MISSING or row[3] is not None]
    return _object(rows) if rows else None


def copied(value: Any) -> Any:
    """A copy of JSON that shares nothing."""
    if type(value) is dict:
        return {name: copied(item) for name, item in value.items()}
    if type(value) is list:
        return [copied(item) for item in value]
    return value


def _object(rows: list[tuple[str, Any, bool, Default | None]]) -> Default:
    def fill(value: Any) -> None:
        if type(value) is not dict:
            return
        for name, given, nullable, inner in rows:
            found = value.get(name, MISSING)
            if found is MISSING or (found is None and not nullable):
                if given is MISSING:
                    continue
                found = value[name] = copied(given)
            if inner is not None:
                inner(found)

    return fill


def _values(inner: Default | None, nullable: bool, given: Any) -> Default | None:
    if inner is None and given is MISSING:
        return None

    def fill(value: Any) -> None:
        if type(value) is not dict:
            return
        for name, item in value.items():
            if item is None and not nullable and given is not MISSING:
                value[name] = copied(given)
            elif inner is not None:
                inner(item)

    return fill


def _items(inner: Default | None, nullable: bool, given: Any) -> Default | None:
    if inner is None and given is MISSING:
        return None

    def fill(value: Any) -> None:
        if type(value) is not list:
            return
        for at, item in enumerate(value):
            if item is None and not nullable and given is not MISSING:
                value[at] = copied(given)
            elif inner is not None:
                inner(item)

    return fill
