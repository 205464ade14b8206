"""Parsing and checking, by the CEL library of its C++ authors; the only module that knows it.

Its parser nests 32 levels at most (chains of `&&` and `||` do not count), cel-go's 250. Another engine fits in by
giving `check`: a tree with types, or CelError. The library serialises what it has checked as
the protocol message cel.expr.CheckedExpr (cel-spec proto/cel/expr/{checked,syntax}.proto), read here field by field.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from attrs import define, field
from cel_expr_python import cel  # type: ignore[import-untyped]

from dashpot.runtime.api.cel.signatures import signatures
from dashpot.runtime.api.cel.tree import (
    DYN,
    Call,
    Const,
    Ident,
    ListLiteral,
    Loop,
    MapLiteral,
    Node,
    Select,
    Type,
)
from dashpot.runtime.api.cel.values import CelError, UInt

MAX_LENGTH = 64 * 1024
MAX_DEPTH = 120
MOST_ENVIRONMENTS = 64
PRIMITIVES = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
WELL_KNOWN = ("dyn", "dyn", "timestamp", "duration")
STRUCT = re.compile(r" not found in struct '[^']*'")
MESSAGE = re.compile(r"\bdashpot\.schema\d+\.M\d+\b")
HEAD = re.compile(r"^[A-Z_]+: ")
TAIL = re.compile(r" \[[A-Z_]+\]$")


def _spelled(kind: str) -> dict[str, Any]:
    """A type as the library's configuration has it: its name and its parameters."""
    head, bracket, rest = kind.strip().partition("<")
    if not bracket:
        return {"type_name": head}
    parts, depth, part = [], 0, ""
    for char in rest[:-1]:
        depth += (char == "<") - (char == ">")
        if char == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += char
    return {"type_name": head, "params": [_spelled(each) for each in (*parts, part)]}


def _functions() -> dict[str, dict[str, Any]]:
    named: dict[str, dict[str, Any]] = {}
    for number, (name, parameters, result, member) in enumerate(signatures()):
        kinds = [_spelled(parameter) for parameter in parameters]
        overload: dict[str, Any] = {"id": f"kubernetes_{number}_{name}", "args": kinds, "return": _spelled(result)}
        if member:
            overload |= {"target": kinds[0], "args": kinds[1:]}
        named.setdefault(name, {"name": name, "overloads": []})["overloads"].append(overload)
    return named


FUNCTIONS = _functions()
WORDS = {name: name.rsplit(".", 1)[-1] for name in FUNCTIONS}
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@define(eq=False)
class Checker:
    """Checks expressions over some variables, each with its type spelled out (`list<string>`).

    An environment of the library takes milliseconds to make with all functions, so each has only those that the
    expression may mean; `pool` holds the messages that the types name.
    """

    variables: Mapping[str, str]
    pool: Any = None
    _made: dict[frozenset[str], Any] = field(factory=dict)

    def check(self, expression: str) -> Node:
        """The tree; CelError with one message for each error, in upstream's words."""
        if len(expression) > MAX_LENGTH:
            raise CelError(f"compilation failed: the expression is longer than {MAX_LENGTH} characters")
        words = set(WORD.findall(expression))
        functions = frozenset(name for name, word in WORDS.items() if word in words)
        try:
            environment = self._made.get(functions)
            if environment is None:
                if len(self._made) >= MOST_ENVIRONMENTS:
                    self._made.clear()
                environment = self._made[functions] = self.environment(functions)
            data = environment.compile(expression).serialize()
        except (RuntimeError, ValueError) as error:
            raise CelError(f"compilation failed: {told(str(error))}") from None
        return _Reader(data).tree()

    def environment(self, functions: frozenset[str]) -> Any:
        """The library's environment with some of the functions."""
        configuration: dict[str, Any] = {
            "extensions": [{"name": "optional"}, {"name": "math"}, {"name": "bindings"}],
            "functions": [FUNCTIONS[name] for name in sorted(functions)],
            "variables": [{"name": name, **_spelled(spelled)} for name, spelled in self.variables.items()],
        }
        if "string" in functions:
            # A name has to be declared in one place, and `string` of an address is Kubernetes' own.
            configuration["stdlib"] = {"exclude_functions": [{"name": "string"}]}
        # The configuration is YAML, of which JSON is a part; types given as objects lose the parameters of optionals.
        text = msgspec.json.encode(configuration).decode()
        return cel.NewEnv(self.pool, config=cel.NewEnvConfigFromYaml(text))


def told(message: str) -> str:
    """The library's message as cel-go would say it: without its status and without names of generated types."""
    text = TAIL.sub("", HEAD.sub("", message))
    return MESSAGE.sub("object", STRUCT.sub("", text))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol message: number, and int or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif kind == 1:
            yield tag >> 3, data[at : at + 8]
            at += 8
        elif kind == 2:
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            yield tag >> 3, data[at : at + 4]
            at += 4


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _type(data: bytes) -> Type:
    for number, value in _fields(data):
        if number == 2:
            return Type("null")
        if number in (3, 4):
            plain = Type(PRIMITIVES[value])
            return plain if number == 3 else DYN
        if number == 5:
            return Type(WELL_KNOWN[value])
        if number in (6, 7):
            inner = tuple(_type(part) for _, part in _fields(value))
            return Type("list" if number == 6 else "map", inner)
        if number == 9:
            return Type("message", name=value.decode())
        if number == 11:
            return Type("type")
        if number == 14:
            parts = list(_fields(value))
            name = next(part.decode() for at, part in parts if at == 1)
            return Type("abstract", tuple(_type(part) for at, part in parts if at == 2), name)
    return DYN


def _const(data: bytes) -> Any:
    for number, value in _fields(data):
        match number:
            case 1:
                return None
            case 2:
                return bool(value)
            case 3:
                return _signed(value)
            case 4:
                return UInt(value)
            case 5:
                return struct.unpack("<d", value)[0]
            case 6:
                return value.decode()
            case 7:
                return bytes(value)
    return None


class _Reader:
    """Makes the tree from a serialised CheckedExpr."""

    def __init__(self, data: bytes) -> None:
        checked = next(value for number, value in _fields(data) if number == 2)
        self.types: dict[int, Type] = {}
        self.names: dict[int, str] = {}
        self.root = b""
        for number, value in _fields(checked):
            if number == 4:
                self.root = value
            elif number == 3:
                pair = dict(_fields(value))
                self.types[_signed(pair.get(1, 0))] = _type(pair[2])
            elif number == 2:
                pair = dict(_fields(value))
                name = next((part.decode() for at, part in _fields(pair[2]) if at == 1), "")
                self.names[pair.get(1, 0)] = name

    def tree(self) -> Node:
        """The root."""
        return self.node(self.root, MAX_DEPTH)

    def node(self, data: bytes, depth: int) -> Node:
        """One Expr; CelError where the expression is nested too deeply."""
        if depth == 0:
            raise CelError(f"compilation failed: the expression is nested deeper than {MAX_DEPTH} levels")
        ident = 0
        found: Node | None = None
        for number, value in _fields(data):
            if number == 2:
                ident = value
            else:
                found = self.inner(number, value, self.types.get(ident, DYN), ident, depth - 1)
        if found is None:
            raise CelError("compilation failed: empty expression")
        return found

    def inner(self, number: int, data: bytes, kind: Type, ident: int, depth: int) -> Node:
        """The variant of an Expr with the given field number."""
        if number == 3:
            return Const(_const(data), type=kind)
        if number == 4:
            name = next((value.decode() for _, value in _fields(data)), "")
            return Ident(self.names.get(ident, name) or name, type=kind)
        if number == 5:
            if ident in self.names:
                return Ident(self.names[ident], type=kind)
            parts = dict(_fields(data))
            return Select(self.node(parts[1], depth), parts.get(2, b"").decode(), bool(parts.get(3)), type=kind)
        if number == 6:
            return self.call(data, kind, depth)
        if number == 7:
            return self.listing(data, kind, depth)
        if number == 8:
            return self.mapping(data, kind, depth)
        parts = dict(_fields(data))
        return Loop(
            parts.get(1, b"").decode(),
            self.node(parts[2], depth),
            parts[3].decode(),
            self.node(parts[4], depth),
            self.node(parts[5], depth),
            self.node(parts[6], depth),
            self.node(parts[7], depth),
            type=kind,
        )

    def call(self, data: bytes, kind: Type, depth: int) -> Call:
        """A Call; its target becomes the first argument."""
        target: list[Node] = []
        args: list[Node] = []
        name = ""
        for number, value in _fields(data):
            if number == 1:
                target = [self.node(value, depth)]
            elif number == 2:
                name = value.decode()
            elif number == 3:
                args.append(self.node(value, depth))
        return Call(name, (*target, *args), bool(target), type=kind)

    def listing(self, data: bytes, kind: Type, depth: int) -> ListLiteral:
        """A CreateList."""
        items: list[Node] = []
        optional: set[int] = set()
        for number, value in _fields(data):
            if number == 1:
                items.append(self.node(value, depth))
            elif isinstance(value, int):
                optional.add(value)
            else:
                optional.update(value)
        return ListLiteral(tuple(items), frozenset(optional), type=kind)

    def mapping(self, data: bytes, kind: Type, depth: int) -> MapLiteral:
        """A CreateStruct without a name; messages cannot be made in an expression."""
        entries: list[tuple[Node, Node, bool]] = []
        for number, value in _fields(data):
            if number == 1:
                raise CelError(f"compilation failed: undeclared reference to '{value.decode()}' (in container '')")
            parts = dict(_fields(value))
            entries.append((self.node(parts[3], depth), self.node(parts[4], depth), bool(parts.get(5))))
        return MapLiteral(tuple(entries), type=kind)
