"""The structural schema of a kind that a spec declares: what its types say, where its fields lie.

Source: apiextensions.k8s.io/v1 JSONSchemaProps, KEP-2337 (structural schemas), release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model import types as t
from dashpot.model.program import Field
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.paths import Entry, Path
from dashpot.runtime.controller.views import View, default_of

Object = dict[str, Any]
Constants = dict[str, Any]

OPAQUE: Object = {"x-kubernetes-preserve-unknown-fields": True}
ITEMS = 64
"""Of a list or map that a rule walks through. The API server refuses rules whose cost it cannot bound (KEP-2876: the
estimate takes the largest request for what has no `maxItems`)."""
LETTERS = 253
"""Of a string in it: the longest name that an object has."""
QUANTITY: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def schema_of(ty: t.Type, constants: Constants, name: str = "") -> Object:
    """The schema of a type; `name` is the JSON field, which says how a duration is written."""
    match ty:
        case t.Bool():
            return {"type": "boolean"}
        case t.Int(lo=lo, hi=hi):
            bounds = {"minimum": wide.bound(lo, constants), "maximum": wide.bound(hi, constants)}
            return {"type": "integer", "format": "int64", **{k: v for k, v in bounds.items() if v is not None}}
        case t.Generation():
            return {"type": "integer", "format": "int64"}
        case t.Enum(members=members):
            return {"type": "string", "enum": list(members)}
        case t.Duration():
            return {"type": "integer", "format": "int64"} if wide.in_seconds(name) else {"type": "string"}
        case t.Time():
            return {"type": "string", "format": "date-time"}
        case t.Quantity():
            return dict(QUANTITY)
        case t.Name() | t.Uid() | t.Version():
            return {"type": "string"}
        case t.Optional(inner=inner):
            return {**schema_of(inner, constants, name), "nullable": True}
        case t.Struct(fields=fields):
            return {"type": "object", "properties": {n: schema_of(f, constants, n) for n, f in fields}}
        case t.MapOf(value=value):
            return {"type": "object", "additionalProperties": schema_of(value, constants)}
        case t.ListOf(element=element, key=key):
            return _list(schema_of(element, constants), key, "atomic")
        case t.SetOf(element=element):
            items = schema_of(element, constants)
            return _list(items, None, "set" if items.get("type") in ("string", "integer", "boolean") else "atomic")
        case _:
            return dict(OPAQUE)


def _list(items: Object, key: str | None, kind: str) -> Object:
    if key is None:
        return {"type": "array", "items": items, "x-kubernetes-list-type": kind}
    keyed = {**items, "required": [key]}
    return {
        "type": "array",
        "items": keyed,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }


def field_schema(field: Field, path: Path, constants: Constants) -> Object:
    """The schema of a field: its type's, its default, and what holds between two versions."""
    last = next((step for step in reversed(path) if isinstance(step, str)), field.name)
    made = schema_of(field.type, constants, last)
    status = path[-3:-2] == ("conditions",) and path[-1] == "status"
    condition = len(path) > 1 and (status or isinstance(path[-2], Entry)) and isinstance(field.type, t.Bool)
    if condition:
        made = {"type": "string", "enum": ["True", "False", "Unknown"]}
    elif field.default is not None:
        default = default_of(field, constants)
        if default is not None:
            made["default"] = wide.writer(field.type, last)(default)
    if "type" in made:
        rules = []
        if field.immutable:
            rules.append({"rule": "self == oldSelf", "message": f"{field.name} is immutable"})
        if field.monotone:
            rules.append({"rule": "self >= oldSelf", "message": f"{field.name} never decreases"})
        if rules:
            made["x-kubernetes-validations"] = rules
    return made


def side_schema(view: View, side: str, constants: Constants) -> Object:
    """The whole object's schema, as far as the fields of one side say it: `properties` from the root."""
    root: Object = {"type": "object", "properties": {}}
    for field in view.declared.spec if side == "spec" else view.declared.status:
        path = view.path(side, field.name)
        if path[0] != "metadata":
            _place(root, path, field_schema(field, path, constants), required=field.required)
    return root


def _place(node: Object, path: Path, schema: Object, *, required: bool) -> None:
    """Puts a schema where a path leads, and makes what lies on the way. Of the entries of a list nothing is required,
    and nothing has a default: they need not be there."""
    step, rest = path[0], path[1:]
    if isinstance(step, Entry):
        node.update({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [step.key]})
        items = node.setdefault("items", {"type": "object", "properties": {}, "required": [step.key]})
        items["properties"].setdefault(step.key, {"type": "string"})
        items["x-kubernetes-preserve-unknown-fields"] = True
        _place(items, rest, _bare(schema), required=False)
        return
    if isinstance(step, int):
        node.update({"type": "array", "x-kubernetes-list-type": "atomic"})
        items = node.setdefault("items", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        if rest:
            items.setdefault("properties", {})
            _place(items, rest, _bare(schema), required=False)
        return
    node.setdefault("type", "object")
    properties = node.setdefault("properties", {})
    if not rest:
        properties[step] = {**properties.get(step, {}), **schema}
    else:
        _place(properties.setdefault(step, {}), rest, schema, required=required)
    if required and step not in node.setdefault("required", []):
        node["required"].append(step)


def _bare(schema: Object) -> Object:
    return {name: part for name, part in schema.items() if name not in ("default", "x-kubernetes-validations")}


def fill(node: Object) -> bool:
    """Gives objects an empty default where everything required below has one: so defaults appear in objects that leave
    them out. Whether the node itself may be left out."""
    for name, child in (node.get("properties") or {}).items():
        if child.get("type") == "object" and "default" not in child and child.get("properties"):
            inside = fill(child)
            deep = any("default" in part for part in child["properties"].values())
            if inside and deep and name not in node.get("required", ()):
                child["default"] = {}
    return not node.get("required")


def confine(root: Object, path: Path) -> None:
    """Bounds what lies at a path, all the way down, so that rules over it have a bounded cost."""
    node = root
    for step in path:
        node = node["properties"][step]
    _confine(node)


def _confine(node: Object) -> None:
    if node.get("type") == "array":
        node["maxItems"] = ITEMS
        _confine(node["items"])
    elif node.get("type") == "string" and "enum" not in node:
        node["maxLength"] = LETTERS
    elif "additionalProperties" in node:
        node["maxProperties"] = ITEMS
        _confine(node["additionalProperties"])
    for child in (node.get("properties") or {}).values():
        _confine(child)
