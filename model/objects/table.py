"""Tables, meta.k8s.io/v1: how kubectl sees objects. Which columns a resource has, and the cells of its objects.

Sources: kubernetes pkg/printers/internalversion; apiextensions-apiserver pkg/registry/customresource/tableconvertor;
apiserver pkg/registry/rest/table.go for kinds without a printer; release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from attrs import define, field

from dashpot.model.objects import table_cluster, table_network, table_pods, table_policy, table_workloads
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.table_path import PathError, compile_path
from dashpot.model.objects.table_text import Column, human, meta, name, seconds
from dashpot.model.objects.table_text import columns as from_words

Object = dict[str, Any]
Cells = Callable[[Object, float], list[Any]]

API_VERSION = "meta.k8s.io/v1"
INCLUDE = ("Object", "Metadata", "None")
"""What `includeObject` may ask for; nothing asked means Metadata."""


@define(eq=False)
class Printer:
    """The columns of a resource, and the function that fills them: object and time (seconds since 1970) to cells."""

    columns: tuple[Column, ...]
    cells: Cells
    conditions: Callable[[Object], Any] | None = None
    definitions: list[Object] = field(init=False)
    """columnDefinitions; shared, never change them."""

    def __attrs_post_init__(self) -> None:
        self.definitions = [column.definition() for column in self.columns]

    def line(self, obj: Object, now: float, include: str = "Metadata") -> Object:
        """One element of Table.rows."""
        row: Object = {"cells": self.cells(obj, now)}
        if self.conditions is not None:
            conditions = self.conditions(obj)
            if conditions:
                row["conditions"] = conditions
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = partial(obj)
        return row

    def table(
        self, objects: Iterable[Object], now: float, include: str = "Metadata", list_meta: Object | None = None
    ) -> Object:
        """A Table of many objects; `list_meta` is the metadata of the list (resourceVersion, continue …)."""
        return {
            "kind": "Table",
            "apiVersion": API_VERSION,
            "metadata": list_meta or {},
            "columnDefinitions": self.definitions,
            "rows": [self.line(obj, now, include) for obj in objects],
        }

    def row(self, obj: Object, now: float, include: str = "Metadata", first: bool = True) -> Object:
        """A Table of one object, as `get NAME` and watches send it; in a watch only the first has columns."""
        version = meta(obj).get("resourceVersion")
        return {
            "kind": "Table",
            "apiVersion": API_VERSION,
            "metadata": {"resourceVersion": version} if version else {},
            "columnDefinitions": self.definitions if first else [],
            "rows": [self.line(obj, now, include)],
        }


def partial(obj: Object) -> Object:
    """PartialObjectMetadata: an object without what is in it."""
    return {"kind": "PartialObjectMetadata", "apiVersion": API_VERSION, "metadata": obj.get("metadata") or {}}


def _pod_conditions(obj: Object) -> Any:
    found = obj.get("status")
    return table_pods.COMPLETED.get(found.get("phase", "")) if isinstance(found, dict) else None


def _plain(obj: Object, now: float) -> list[Any]:
    """Name, and when created."""
    return [name(obj), meta(obj).get("creationTimestamp")]


_PLAIN = Printer(from_words("Name Created_At:d"), _plain)


def _guarded(cells: Cells, width: int) -> Cells:
    """A printer that shows no more than the name where an object's fields have types that its schema forbids."""

    def guarded(obj: Object, now: float) -> list[Any]:
        try:
            return cells(obj, now)
        except (AttributeError, KeyError, TypeError, ValueError):
            return [name(obj), *[None] * (width - 1)]

    return guarded


def _builtin() -> dict[tuple[str, str], Printer]:
    found = {("", "pods"): Printer(table_pods.COLUMNS, _guarded(table_pods.pod, 9), _pod_conditions)}
    for module in (table_workloads, table_network, table_cluster, table_policy):
        for key, (shown, cells) in module.PRINTERS.items():
            found[key] = Printer(shown, _guarded(cells, len(shown)))
    return found


_BUILTIN = _builtin()


def printer(resource: Resource, additional: Sequence[Object] | None = None) -> Printer:
    """How a resource is printed. `additional` are a custom resource's additionalPrinterColumns: keep the result, for
    paths are compiled here. Scales (`resource` of kind Scale) have columns of their own."""
    if resource.custom:
        return custom_printer(additional or ())
    if resource.kind == "Scale":
        return SCALE
    return _BUILTIN.get((resource.group, resource.plural), _PLAIN)


SCALE = _BUILTIN[("autoscaling", "scale")]
"""How the scale of any resource is printed."""


def custom_printer(additional: Sequence[Object]) -> Printer:
    """Name and the columns that a CustomResourceDefinition declares; Age where it declares none. PathError for a path
    that is none (validation of the definition refuses it before)."""
    if not additional:
        additional = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    shown = [*from_words("Name")]
    finders = []
    for row in additional:
        path = row.get("jsonPath", "")
        described = row.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
        kind = row.get("type", "string")
        shown.append(Column(row.get("name", ""), kind, row.get("format", ""), described, row.get("priority", 0)))
        finders.append((compile_path(path), kind))

    def cells(obj: Object, now: float) -> list[Any]:
        out: list[Any] = [name(obj)]
        for find, kind in finders:
            found = find(obj)
            out.append(_cell(kind, found[0], now) if found else None)
        return out

    return Printer(tuple(shown), cells)


def _cell(kind: str, value: Any, now: float) -> Any:
    """A value as a column of that type shows it; None where it does not fit."""
    if kind == "string":
        return _text(value)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return float(value) if number else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind == "date" and isinstance(value, str):
        then = seconds(value)
        return "<invalid>" if then is None else human(now - then)
    return None


def _text(value: Any) -> str:
    """As JSONPath prints values: strings bare, maps and lists as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    return msgspec.json.encode(value, order="sorted").decode()


def columns(resource: Resource, additional: Sequence[Object] | None = None) -> list[Column]:
    """The columns of a resource."""
    return list(printer(resource, additional).columns)


def cells(resource: Resource, obj: Object, now: float, additional: Sequence[Object] | None = None) -> list[Any]:
    """The cells of one object."""
    return printer(resource, additional).cells(obj, now)


def table(
    resource: Resource,
    rows: Iterable[Object],
    now: float,
    include: str = "Metadata",
    *,
    list_meta: Object | None = None,
    additional: Sequence[Object] | None = None,
) -> Object:
    """A Table of many objects."""
    return printer(resource, additional).table(rows, now, include, list_meta)


def row(
    resource: Resource,
    obj: Object,
    now: float,
    include: str = "Metadata",
    *,
    first: bool = True,
    additional: Sequence[Object] | None = None,
) -> Object:
    """A Table of one object."""
    return printer(resource, additional).row(obj, now, include, first)


__all__ = ["PathError", "Printer", "cells", "columns", "custom_printer", "partial", "printer", "row", "table"]
