"""Pruning: fields that the schema does not know are dropped, and told.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/pruning, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Prune = Callable[[Any, str, list[str]], None]
EVERY = ("apiVersion", "kind", "metadata")


def pruner(schema: Object, *, root: bool = False) -> Prune | None:
    """A function (value, path, unknown paths found) that prunes in place; None where nothing can be unknown."""
    if schema.get("type") == "array" or "items" in schema:
        return _items(schema)
    properties: Object = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
    inner = {
        name: prune
        for name, child in properties.items()
        if not (embedded and name in EVERY) and (prune := pruner(child)) is not None
    }
    if extra:
        return _values(pruner(extra) if isinstance(extra, dict) else None)
    if schema.get("x-kubernetes-int-or-string") or (schema.get("type") not in ("object", None) and not properties):
        return None
    keep = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if keep and not inner:
        return None
    known = frozenset((*properties, *EVERY)) if embedded else frozenset(properties)
    return _object(known, inner, keep)


def _object(known: frozenset[str], inner: dict[str, Prune], keep: bool) -> Prune:
    def prune(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is not dict:
            return
        if not keep and not known >= value.keys():
            for name in [name for name in value if name not in known]:
                unknown.append(f"{path}.{name}" if path else name)
                del value[name]
        for name, child in inner.items():
            if name in value:
                child(value[name], f"{path}.{name}" if path else name, unknown)

    return prune


def _values(child: Prune | None) -> Prune | None:
    if child is None:
        return None

    def prune(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is dict:
            for name, item in value.items():
                child(item, f"{path}.{name}", unknown)

    return prune


def _items(schema: Object) -> Prune | None:
    child = pruner(schema.get("items") or {"x-kubernetes-preserve-unknown-fields": True})
    if child is None:
        return None

    def prune(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is list:
            for at, item in enumerate(value):
                child(item, f"{path}[{at}]", unknown)

    return prune
