"""Objects against the schema of their kind: one compiled walk that checks, cleans and canonicalises in place.

A schema is compiled once into closures, a struct each, linked by name. The walk of an object looks at each field once:
ordinary strings, numbers and booleans pass without a call; nested structs, lists, maps and leaves with a form of their
own are steps. Where something is wrong is worked out only when something is (`Mismatch` collects its path while it
travels up; unknown fields are found again by identity).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from attrs import frozen

from dashpot.model.objects import schema_leaf as leaf
from dashpot.model.objects.schema_json import TOLD, decode_json
from dashpot.model.objects.schema_leaf import DROP, Mismatch, mismatch
from dashpot.model.objects.schema_required import Check, Checks
from dashpot.model.objects.schema_zero import keeps_empty, keeps_list, keeps_zero
from dashpot.model.objects.status import Cause, Object, StatusError, bad_request

__all__ = ["Compiler", "Lookup", "Shape", "compiler", "decode_json", "shape"]

Trouble = list[tuple[Object, str]]
Walk = Callable[[Any, Trouble], Any]

_LOW, _HIGH = -(2**31), 2**31 - 1
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


class Lookup(Protocol):
    """Where schemas come from: the registry of built-in kinds."""

    def type_name(self, group: str, version: str, kind: str) -> str:
        """The definition of a kind. KeyError if there is none."""
        ...

    def definition(self, name: str) -> Object:
        """A schema by its definition name. KeyError if there is none."""
        ...


@frozen(eq=False)
class Shape:
    """The compiled schema of one kind (or of one type, whose `kind` is then empty)."""

    kind: str
    version: str
    walk: Walk
    check: Check

    def decode(self, obj: Object) -> list[str]:
        """Checks types and cleans in place; the first hundred problems that a strict decoder has:
        `unknown field "spec.x"`.

        Unknown fields, nulls, and what Go leaves out are removed; quantities and times become canonical. StatusError
        400 in Go's words for a value of a wrong type.
        """
        trouble: Trouble = []
        try:
            self.walk(obj, trouble)
        except Mismatch as error:
            raise self.refused(error.told()) from None
        except RecursionError:
            raise self.refused("exceeded max depth") from None
        if not trouble:
            return []
        found = [f'unknown field "{path}"' for path in _paths(obj, trouble[:TOLD])]
        for container, key in trouble:
            container.pop(key, None)
        return found

    def refused(self, why: str) -> StatusError:
        """400: the object cannot be handled as what it says it is."""
        if not self.kind:
            return bad_request(why)
        return bad_request(f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}')

    def strict(self, problems: list[str]) -> StatusError:
        """400 for `fieldValidation=Strict`: all unknown and duplicate fields."""
        return self.refused(f"strict decoding error: {', '.join(problems)}")

    def validate(self, obj: Object) -> list[Cause]:
        """What the schema asks for beyond types: required fields, and values out of a closed list."""
        causes: list[Cause] = []
        self.check(obj, None, causes)
        if causes:
            causes = []
            self.check(obj, "", causes)  # once more, for the paths
        return causes


class Compiler:
    """Shapes by kind and by type name, each compiled on first use and kept."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._structs: dict[str, Walk] = {}
        self._shapes: dict[tuple[str, str, str], Shape] = {}
        self._checks = Checks(lookup.definition)

    def shape(self, group: str, version: str, kind: str) -> Shape:
        """The shape of a kind. KeyError if the registry has none."""
        key = (group, version, kind)
        found = self._shapes.get(key)
        if found is None:
            name = self._lookup.type_name(group, version, kind)
            found = self._shapes[key] = Shape(kind, version, self._named(name), self._checks.named(name))
        return found

    def named(self, name: str) -> Shape:
        """The shape of a type by its definition name (ObjectMeta of custom resources). KeyError if there is none."""
        key = ("", "", name)
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = Shape("", "", self._named(name), self._checks.named(name))
        return found

    def _named(self, name: str) -> Walk:
        found = self._structs.get(name)
        if found is None:
            schema = self._lookup.definition(name)
            found = self._struct(name, schema) if "properties" in schema else self._special(name, schema)
        return found

    def _special(self, name: str, schema: Object) -> Walk:
        step = _lifted(leaf.micro if name == _MICRO_TIME else _leaf("", "", schema, required=True))
        self._structs[name] = step
        return step

    def _struct(self, name: str, schema: Object) -> Walk:
        fields: dict[str, Any] = {}
        rare: dict[str, leaf.Step] = {}
        struct = name.rpartition(".")[2]
        walk = self._structs[name] = _struct_walk(struct, f"{_package(name)}.{struct}", fields, rare)
        required = frozenset(schema.get("required") or ())
        for key, field in schema["properties"].items():
            self._field(struct, key, field, key in required, fields, rare)
        return walk

    def _field(
        self, struct: str, key: str, field: Object, required: bool, fields: dict[str, Any], rare: dict[str, leaf.Step]
    ) -> None:
        """Enters one field: a Python type for what passes at sight (what else it may be is in `rare`), or a walk."""
        kind, form = field.get("type"), field.get("format")
        if "$ref" in field or kind in ("array", "object") or form == "byte":
            fields[key] = self._nested(field, keeps_list(struct, key, required=required))
            return
        step = _leaf(struct, key, field, required=required)
        plain = {"string": str, "boolean": bool, "integer": int}.get(kind or "")
        if plain is None:
            fields[key] = _lifted(step)
        else:
            fields[key], rare[key] = plain, step

    def _nested(self, schema: Object, keep_empty: bool) -> Walk:
        """A reference, a list, a map or bytes. Empty lists and maps are left out where Go does."""
        if "$ref" in schema:
            return self._named(_target(schema))
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return _lifted(leaf.anything)
        kind = schema.get("type")
        if kind == "array":
            items = schema["items"]
            return _list_walk(self._item(items), _go_type(items), keep_empty=keep_empty)
        if kind == "object" and "additionalProperties" in schema:
            items = schema["additionalProperties"]
            if "$ref" in items and _target(items) == _QUANTITY:
                return _map_walk(_lifted(leaf.amount), "resource.Quantity", keep_empty=keep_empty)
            return _map_walk(self._item(items), _go_type(items), keep_empty=keep_empty)
        if kind == "object":
            return _lifted(leaf.anything)
        return _lifted(_leaf("", "", schema, required=True))

    def _item(self, schema: Object) -> Walk | None:
        """How the items of a list or map are walked; None for strings, which need no step."""
        if schema.get("type") == "string" and schema.get("format") != "byte":
            return None
        return self._nested(schema, True)


def _target(schema: Object) -> str:
    reference: str = schema["$ref"]
    return reference.rpartition("/")[2]


def _package(name: str) -> str:
    """The Go package of a definition: `v1`, `intstr`, `resource`."""
    return name.split(".")[-2]


def _go_type(schema: Object) -> str:
    """How Go writes a type."""
    if "$ref" in schema:
        name = _target(schema)
        return f"{_package(name)}.{name.rpartition('.')[2]}"
    kind, form = schema.get("type"), schema.get("format")
    if kind == "array":
        return f"[]{_go_type(schema['items'])}"
    if kind == "object":
        items = schema.get("additionalProperties")
        return f"map[string]{_go_type(items)}" if items else "map[string]interface {}"
    if kind == "string":
        return "[]uint8" if form == "byte" else "string"
    return {"boolean": "bool", "number": "float64"}.get(kind or "", form or "int64")


def _leaf(struct: str, key: str, schema: Object, *, required: bool) -> leaf.Step:
    """The step of a schema without parts."""
    kind, form = schema.get("type"), schema.get("format")
    if form == "quantity":
        return leaf.quantity
    if form == "int-or-string":
        return leaf.int_or_string
    if form == "date-time":
        return leaf.seconds
    if form == "byte":
        return leaf.base64_bytes
    if kind == "string":
        return leaf.text_step(keep_empty=not struct or keeps_empty(struct, key, required=required))
    if kind == "boolean":
        return leaf.boolean_step(keep_false=not struct or keeps_zero(struct, key, required=required))
    if kind == "integer":
        bits = 32 if form == "int32" else 64
        return leaf.integer_step(bits, keep_zero=not struct or keeps_zero(struct, key, required=required))
    return leaf.number if kind == "number" else leaf.anything


def _lifted(step: leaf.Step) -> Walk:
    """A leaf's step as a walk: it has no unknown fields to report."""

    def walk(value: Any, trouble: Trouble) -> Any:
        return step(value)

    return walk


def _struct_walk(struct: str, go_type: str, fields: dict[str, Any], rare: dict[str, leaf.Step]) -> Walk:
    """The walk of an object with known fields; `fields` and `rare` may still be filled afterwards (recursive types)."""
    get = fields.get

    def walk(value: Any, trouble: Trouble) -> Any:
        if value.__class__ is not dict:
            if value is None:
                return DROP
            raise mismatch(value, go_type)
        gone: list[str] | None = None
        key = ""
        try:
            for key, item in value.items():
                step = get(key)
                kind = item.__class__
                if step is kind and item and (kind is not int or _LOW <= item <= _HIGH):
                    continue
                if step is None:
                    trouble.append((value, key))
                    continue
                new = rare[key](item) if step.__class__ is type else step(item, trouble)
                if new is not item:
                    if new is DROP:
                        gone = [key] if gone is None else [*gone, key]
                    else:
                        value[key] = new
        except Mismatch as error:
            if not error.struct:
                error.struct = struct
            error.parts.append(key)
            raise
        if gone is not None:
            for key in gone:
                del value[key]
        return value

    return walk


def _list_walk(item_walk: Walk | None, go_item: str, *, keep_empty: bool) -> Walk:
    """The walk of a list; `item_walk` None means strings."""
    blank: Any = "" if item_walk is None else 0 if go_item.startswith("int") else None

    def walk(value: Any, trouble: Trouble) -> Any:
        if value.__class__ is not list:
            if value is None:
                return DROP
            raise mismatch(value, f"[]{go_item}")
        if item_walk is None:
            for at, item in enumerate(value):
                if item.__class__ is not str:
                    if item is not None:
                        raise mismatch(item, go_item)
                    value[at] = ""
        else:
            for at, item in enumerate(value):
                new = item_walk(item, trouble)
                if new is not item:
                    value[at] = ({} if blank is None else blank) if new is DROP else new
        return value if value or keep_empty else DROP

    return walk


def _map_walk(item_walk: Walk | None, go_item: str, *, keep_empty: bool) -> Walk:
    """The walk of a map; `item_walk` None means strings."""

    def walk(value: Any, trouble: Trouble) -> Any:
        if value.__class__ is not dict:
            if value is None:
                return DROP
            raise mismatch(value, f"map[string]{go_item}")
        if item_walk is None:
            for key, item in value.items():
                if item.__class__ is not str:
                    if item is not None:
                        raise mismatch(item, go_item)
                    value[key] = ""
        else:
            for key, item in value.items():
                new = item_walk(item, trouble)
                if new is not item:
                    value[key] = _zero(go_item) if new is DROP else new
        return value if value or keep_empty else DROP

    return walk


def _zero(go_type: str) -> Any:
    """What Go writes for a null among the values of a map."""
    if go_type.startswith("[]"):
        return []
    return "0" if go_type == "resource.Quantity" else {}


def _paths(root: Object, trouble: Trouble) -> list[str]:
    """The paths of fields, in the order in which they were found: `spec.containers[0].y`. A place is a chain of parts
    until it is told: there may be many, and few are."""
    wanted = {id(container) for container, _ in trouble}
    found: dict[int, Place] = {}
    stack: list[tuple[Any, Place]] = [(root, ())]
    while stack and len(found) < len(wanted):
        value, place = stack.pop()
        if id(value) in wanted:
            found[id(value)] = place
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        stack += [(item, (place, part)) for part, item in inner if isinstance(item, (dict, list))]
    return [_told((found[id(box)], key)) for box, key in trouble if id(box) in found]


Place = tuple[Any, ...]
"""Where a value lies: the place of its container, and its key or index there; () for the root."""


def _told(place: Place) -> str:
    parts: list[str] = []
    while place:
        place, part = place
        parts.append(f"[{part}]" if isinstance(part, int) else f".{part}")
    return "".join(reversed(parts)).removeprefix(".")


_compilers: dict[int, tuple[Lookup, Compiler]] = {}


def compiler(lookup: Lookup) -> Compiler:
    """The compiler of a registry, made once."""
    entry = _compilers.get(id(lookup))
    if entry is None:
        entry = _compilers[id(lookup)] = (lookup, Compiler(lookup))
    return entry[1]


def shape(group: str, version: str, kind: str, lookup: Lookup) -> Shape:
    """The shape of a kind, compiled on first use. KeyError if the registry does not know the kind."""
    return compiler(lookup).shape(group, version, kind)
