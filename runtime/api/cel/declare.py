"""From the schema of a value to its CEL type: what fields there are, and how JSON is read as CEL values.

The checker knows objects as protocol messages: each object schema becomes one, its fields under their escaped names.
Values stay JSON: a field that JSON has no type for (times, bytes, doubles) is converted when it is read. Sources:
k8s.io/apiserver pkg/cel/common/schemas.go and pkg/cel/escaping.go, release 1.34.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

from dashpot.runtime.api.cel.times import duration, timestamp
from dashpot.runtime.api.cel.values import CelError, EvaluationError

Object = dict[str, Any]
Reader = Callable[[Any], Any]
FIELD = descriptor_pb2.FieldDescriptorProto
PLAIN = {
    "bool": FIELD.TYPE_BOOL,
    "int": FIELD.TYPE_INT64,
    "double": FIELD.TYPE_DOUBLE,
    "string": FIELD.TYPE_STRING,
    "bytes": FIELD.TYPE_BYTES,
}
WELL_KNOWN = {
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
    "dyn": ".google.protobuf.Value",
}
RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "
    "while".split()
)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SERIAL = itertools.count(1)


@frozen
class Field:
    """One field of a message: its name in the object, and how its value is read (None: as it is)."""

    real: str
    reader: Reader | None


@define(eq=False)
class Declarations:
    """Variables for the checker: the spelling of their types, their messages and how to read them."""

    types: dict[str, str] = field(factory=dict)
    readers: dict[str, Reader] = field(factory=dict)
    messages: dict[str, dict[str, Field]] = field(factory=dict)
    """By the name of the message: its fields by their escaped names."""
    schemas: dict[str, Object] = field(factory=dict)
    """The schema of each variable that has one."""
    pool: Any = None


def escape(name: str) -> str | None:
    """A property's name as expressions write it; None where no expression can."""
    if name in RESERVED:
        return f"__{name}__"
    changed = name.replace("__", "__underscores__")
    changed = changed.replace(".", "__dot__").replace("-", "__dash__").replace("/", "__slash__")
    return changed if IDENTIFIER.fullmatch(changed) else None


def declare(variables: Mapping[str, Object | str]) -> Declarations:
    """The declarations for variables, each a structural schema or a CEL type spelled out (`dyn`, `list<string>`)."""
    found = Declarations()
    messages = _Messages(found)
    for name, what in variables.items():
        if isinstance(what, str):
            found.types[name] = what
            continue
        optional = what.get("x-dashpot-optional", False)
        spelled, reader = messages.kind(what) or ("dyn", None)
        found.types[name] = f"optional_type<{spelled}>" if optional else spelled
        found.schemas[name] = what
        if reader is not None:
            found.readers[name] = reader
    messages.finish()
    return found


class _Messages:
    """Makes the messages of a pool."""

    def __init__(self, found: Declarations) -> None:
        self.found = found
        self.package = f"dashpot.schema{next(SERIAL)}"
        self.file = descriptor_pb2.FileDescriptorProto(name=f"{self.package}.proto", package=self.package)
        self.file.syntax = "proto3"
        self.known: dict[int, tuple[str, Object]] = {}
        """By identity; the schema is kept so that its identity stays its own."""

    def finish(self) -> None:
        """Puts the messages into a pool, with those of the protocol that they use."""
        if not self.file.message_type:
            return
        pool = descriptor_pool.DescriptorPool()
        for module in (struct_pb2, timestamp_pb2, duration_pb2):
            copied = descriptor_pb2.FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(copied)
            pool.Add(copied)
            self.file.dependency.append(copied.name)
        try:
            pool.Add(self.file)
        except TypeError as error:
            raise CelError(f"compilation failed: {error}") from None
        self.found.pool = pool

    def kind(self, schema: Object) -> tuple[str, Reader | None] | None:
        """The type of a schema and its reader; None where expressions cannot see such a value."""
        if schema.get("x-kubernetes-int-or-string"):
            return "dyn", None
        match schema.get("type"):
            case "object":
                return self.mapping(schema)
            case "array":
                inner = self.kind(schema.get("items") or {})
                return None if inner is None else (f"list<{inner[0]}>", _each(inner[1]))
            case "string":
                return STRINGS.get(schema.get("format", ""), ("string", None))
            case "boolean":
                return "bool", None
            case "integer":
                return "int", None
            case "number":
                return "double", _double
        return None

    def mapping(self, schema: Object) -> tuple[str, Reader | None] | None:
        """The type of an object: a map where names are free, else a message."""
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            inner = self.kind(extra)
            return None if inner is None else (f"map<string, {inner[0]}>", _values(inner[1]))
        if extra is True and not schema.get("properties"):
            return "map<string, dyn>", None
        return self.message(schema), None

    def message(self, schema: Object) -> str:
        """The name of the message of an object schema."""
        known = self.known.get(id(schema))
        if known is not None:
            return known[0]
        name = f"{self.package}.M{len(self.known)}"
        self.known[id(schema)] = (name, schema)
        made = self.file.message_type.add(name=name.rsplit(".", 1)[1])
        made.options.deprecated_legacy_json_field_conflicts = True  # `a_b` and `aB` may stand side by side.
        fields: dict[str, Field] = {}
        self.found.messages[name] = fields
        taken = {escape(real) for real in properties(schema)}
        for real, inner in properties(schema).items():
            escaped = escape(real)
            kind = self.kind(inner) if escaped is not None else None
            if escaped is None or kind is None:
                continue
            fields[escaped] = Field(real, kind[1])
            self.add(made, escaped, len(fields), kind[0], taken)
            taken.add(_entry(escaped))
        return name

    def add(self, made: Any, name: str, number: int, kind: str, taken: set[str | None]) -> None:
        """Adds a field to a message; what a protocol message cannot hold becomes dynamic. `taken`: names."""
        slot = made.field.add(name=name, number=number, label=FIELD.LABEL_OPTIONAL, json_name=f"f{number}")
        if kind.startswith("list<"):
            slot.label = FIELD.LABEL_REPEATED
            kind = kind[5:-1]
        elif kind.startswith("map<") and _entry(name) not in taken:
            slot.label = FIELD.LABEL_REPEATED
            entry = made.nested_type.add(name=_entry(name))
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_STRING)
            self.typed(entry.field.add(name="value", number=2, label=FIELD.LABEL_OPTIONAL), kind[12:-1])
            slot.type = FIELD.TYPE_MESSAGE
            slot.type_name = f".{self.package}.{made.name}.{entry.name}"
            return
        self.typed(slot, kind)

    def typed(self, slot: Any, kind: str) -> None:
        """Sets the type of a field."""
        if kind in PLAIN:
            slot.type = PLAIN[kind]
            return
        slot.type = FIELD.TYPE_MESSAGE
        if kind.startswith("list<"):
            slot.type_name = ".google.protobuf.ListValue"
        elif kind.startswith("map<"):
            slot.type_name = ".google.protobuf.Struct"
        else:
            slot.type_name = WELL_KNOWN.get(kind, f".{kind}")


def properties(schema: Object) -> Object:
    """The properties of an object schema, with those that every embedded resource has."""
    found: Object = schema.get("properties") or {}
    if not schema.get("x-kubernetes-embedded-resource"):
        return found
    metadata = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}
    return {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, **found, "metadata": metadata}


def _entry(name: str) -> str:
    """How a map entry's message is called after its field: the protocol's own rule. `a_b` and `aB` share a name."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _each(reader: Reader | None) -> Reader | None:
    return None if reader is None else lambda items: [None if item is None else reader(item) for item in items]


def _values(reader: Reader | None) -> Reader | None:
    if reader is None:
        return None
    return lambda items: {key: None if item is None else reader(item) for key, item in items.items()}


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise EvaluationError("failed to decode base64") from None


def _date(value: Any) -> Any:
    return timestamp(f"{value}T00:00:00Z" if "T" not in value else value)


STRINGS: dict[str, tuple[str, Reader | None]] = {
    "byte": ("bytes", _bytes),
    "date": ("timestamp", _date),
    "date-time": ("timestamp", timestamp),
    "duration": ("duration", duration),
}
