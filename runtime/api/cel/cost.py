"""What an expression may cost at worst, from the sizes that the schemas of its variables allow.

The figures are cel-go's (checker/cost.go) and Kubernetes' (k8s.io/apiserver pkg/cel/library/cost.go): one unit a
variable, field and call, a tenth of a unit a character, a round of a loop for each possible item.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from dashpot.runtime.api.cel.budget import REQUEST_BYTES
from dashpot.runtime.api.cel.declare import Declarations, properties
from dashpot.runtime.api.cel.tree import (
    Call,
    Const,
    Ident,
    ListLiteral,
    Loop,
    MapLiteral,
    Node,
    Select,
)

Object = dict[str, Any]
CHARACTER, REGEX = 0.1, 0.25
SMALLEST = {"integer": 1, "number": 1, "boolean": 4, "string": 2, "array": 2, "object": 2}
FORMATS = {"date": 12, "date-time": 23, "duration": 4}
LENGTHS = {"date": 10, "date-time": 36, "duration": 32}
ENDLESS = 10**30


@frozen
class Bound:
    """How large a value can be: `size` in characters or items; what its parts are, from a schema or a literal."""

    size: int = 1
    schema: Any = None
    item: Bound | None = None


ATOM = Bound()
UNKNOWN = Bound(REQUEST_BYTES)
TEXT_RESULTS = frozenset(
    "lowerAscii upperAscii trim reverse replace substring find charAt string strings.quote jsonpatch.escapeKey".split()
)
LIST_FUNCTIONS = frozenset("isSorted min max sum indexOf lastIndexOf join".split())


def estimate(node: Node, declared: Declarations) -> int:
    """The highest cost of one evaluation, in cel-go's units."""
    variables = {name: bound_of(schema) for name, schema in declared.schemas.items()}
    for name, spelled in declared.types.items():
        if name not in variables:
            variables[name] = ATOM if spelled in ("bool", "int", "double") else UNKNOWN
    cost, _ = _Estimator(declared).visit(node, variables)
    return min(ENDLESS, math.ceil(cost))


def bound_of(schema: Object | None) -> Bound:
    """The bound of a value of a schema."""
    if schema is None:
        return UNKNOWN
    return Bound(size_of(schema), schema)


def size_of(schema: Object) -> int:
    """The most items or characters of a value that a schema and a request allow."""
    match schema.get("type"):
        case "array":
            declared = schema.get("maxItems")
            return declared if declared is not None else (REQUEST_BYTES - 2) // (smallest(schema.get("items")) + 1)
        case "string":
            return _length(schema)
        case "object":
            extra = schema.get("additionalProperties")
            declared = schema.get("maxProperties")
            if not extra:
                return len(schema.get("properties") or ())
            inner = smallest(extra if isinstance(extra, dict) else None)
            return declared if declared is not None else (REQUEST_BYTES - 2) // (inner + 6)
        case "boolean" | "integer" | "number":
            return 1
    return REQUEST_BYTES


def _length(schema: Object) -> int:
    """Bytes of a text: four for each character of maxLength."""
    if schema.get("maxLength") is not None:
        return int(schema["maxLength"]) * 4
    if schema.get("enum"):
        return max(len(str(value)) for value in schema["enum"])
    return LENGTHS.get(schema.get("format", ""), REQUEST_BYTES - 2)


def smallest(schema: Object | None) -> int:
    """Bytes of the shortest JSON of a schema."""
    if not schema:
        return 1
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type", "")
    if kind == "string":
        return max(FORMATS.get(schema.get("format", ""), 2), 2 + (schema.get("minLength") or 0))
    if kind == "object" and schema.get("properties"):
        inner = schema["properties"]
        needed = [name for name in schema.get("required") or () if "default" not in inner.get(name, {})]
        return 2 + sum(len(name) + 3 + smallest(inner.get(name)) + 1 for name in needed)
    return SMALLEST.get(kind, 1)


def occurrences(schema: Object) -> int:
    """How often a value of a schema fits into a request: the bound where no list around it has one."""
    return REQUEST_BYTES // (smallest(schema) + 1)


class _Estimator:
    def __init__(self, declared: Declarations) -> None:
        self.declared = declared

    def visit(self, node: Node, scope: Mapping[str, Bound]) -> tuple[float, Bound]:
        """Cost and bound of a node."""
        match node:
            case Const():
                value = node.value
                return 0, Bound(len(value)) if isinstance(value, (str, bytes)) else ATOM
            case Ident():
                return 1, scope.get(node.name, ATOM)
            case Select():
                cost, bound = self.visit(node.operand, scope)
                return cost + 1, ATOM if node.test else self.field(node, bound)
            case ListLiteral():
                found = [self.visit(item, scope) for item in node.items]
                return 10 + sum(cost for cost, _ in found), Bound(len(found), item=largest([b for _, b in found]))
            case MapLiteral():
                pairs = [(self.visit(key, scope), self.visit(value, scope)) for key, value, _ in node.entries]
                cost = 30 + sum(key[0] + value[0] for key, value in pairs)
                return cost, Bound(len(pairs), item=largest([value[1] for _, value in pairs]))
            case Loop():
                return self.loop(node, scope)
            case Call():
                return self.call(node, scope)
        return 1, UNKNOWN

    def field(self, node: Select, bound: Bound) -> Bound:
        """The bound of a field: by the schema, else unknown."""
        return self.named(bound, node.operand.type.name, node.field)

    def named(self, bound: Bound, message: str, name: str) -> Bound:
        """The bound of a field of an object with a bound."""
        fields = self.declared.messages.get(message)
        real = fields[name].real if fields is not None and name in fields else name
        if not isinstance(bound.schema, dict):
            return bound.item or UNKNOWN
        inner = properties(bound.schema).get(real)
        extra = bound.schema.get("additionalProperties")
        return bound_of(inner if inner is not None else extra if isinstance(extra, dict) else None)

    def item(self, bound: Bound) -> Bound:
        """The bound of an item of a list, or a value of a map."""
        if bound.item is not None:
            return bound.item
        if not isinstance(bound.schema, dict):
            return UNKNOWN if bound.size > 1 else ATOM
        schema: Object = bound.schema
        if schema.get("type") == "array":
            return bound_of(schema.get("items"))
        extra = schema.get("additionalProperties")
        return bound_of(extra if isinstance(extra, dict) else None)

    def loop(self, node: Loop, scope: Mapping[str, Bound]) -> tuple[float, Bound]:
        """A macro: the body for each item of the range. What it gathers is as long as the range."""
        source_cost, source = self.visit(node.source, scope)
        start_cost, start = self.visit(node.start, scope)
        keys = node.source.type.kind == "map"
        item = Bound(min(REQUEST_BYTES, 253 * 4)) if keys and source.schema is None else self.item(source)
        if keys:
            item = Bound(REQUEST_BYTES)
        rounds = 0 if isinstance(node.source, ListLiteral) and not node.source.items else source.size
        inner = {**scope, node.variable: item, node.accumulator: start}
        condition, _ = self.visit(node.condition, inner)
        step, made = self.visit(node.step, inner)
        if start.size == 0 or node.type.kind == "list":
            inner[node.accumulator] = Bound(rounds, source.schema, made.item)
            if made.item is not None and made.item is not item:
                inner[node.accumulator] = Bound(rounds, None, made.item)
        result_cost, result = self.visit(node.result, inner)
        return source_cost + start_cost + rounds * (condition + step) + result_cost, result

    def call(self, node: Call, scope: Mapping[str, Bound]) -> tuple[float, Bound]:
        """An operator or function."""
        found = [self.visit(arg, scope) for arg in node.args]
        cost = sum(part for part, _ in found)
        bounds = [bound for _, bound in found]
        match node.function:
            case "_&&_" | "_||_" | "!_" | "@not_strictly_false" | "__not_strictly_false__":
                return cost + (1 if node.function == "!_" else 0), ATOM
            case "_?_:_":
                return found[0][0] + max(found[1][0], found[2][0]), larger(bounds[1], bounds[2])
            case "_[_]" | "_[?_]" | "_?._":
                return cost + 1, self.part(node, bounds[0])
            case "_+_" if node.type.kind in ("string", "bytes", "dyn"):
                size = bounds[0].size + bounds[1].size
                return cost + 1 + size * CHARACTER, Bound(size)
            case "_+_" if node.type.kind == "list":
                size = bounds[0].size + bounds[1].size
                return cost + 1, Bound(size, item=larger(self.item(bounds[0]), self.item(bounds[1])))
            case "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_":
                return cost + self.comparison(bounds), ATOM
            case "@in" | "_in_":
                return cost + (bounds[1].size if node.args[1].type.kind != "map" else 1), ATOM
        return self.function(node, cost, bounds)

    def part(self, node: Call, bound: Bound) -> Bound:
        """The bound of `a[b]` and `a.?b`."""
        key = node.args[1]
        operand = node.args[0].type
        if operand.kind == "abstract" and operand.params:
            operand = operand.params[0]
        if isinstance(key, Const) and isinstance(key.value, str):
            return self.named(bound, operand.name, key.value)
        return self.item(bound)

    def comparison(self, bounds: list[Bound]) -> float:
        """Two values side by side: as long as the shorter one."""
        smaller = min(bound.size for bound in bounds)
        return max(1.0, smaller * CHARACTER) if smaller > 1 else 1.0

    def function(self, node: Call, cost: float, bounds: list[Bound]) -> tuple[float, Bound]:
        """A function of the library."""
        sizes = [bound.size for bound in bounds] or [1]
        name = node.function
        text = bool(node.args) and node.args[0].type.kind in ("string", "bytes", "dyn")
        if name in ("matches", "find", "findAll"):
            cost += math.ceil((1 + sizes[0]) * CHARACTER) * max(1, math.ceil(sizes[1] * REGEX))
            return cost, ATOM if name == "matches" else Bound(sizes[0], item=Bound(sizes[0]))
        if name in ("startsWith", "endsWith"):
            return cost + math.ceil(sizes[1] * CHARACTER), ATOM
        if name == "contains" and text:
            return cost + math.ceil(sizes[0] * CHARACTER) * max(1, math.ceil(sizes[1] * CHARACTER)), ATOM
        if name.startswith("sets."):
            return cost + sizes[0] * sizes[1], ATOM
        if name in LIST_FUNCTIONS and not text:
            item = self.item(bounds[0])
            return cost + sizes[0] * max(1.0, item.size * CHARACTER), Bound(min(REQUEST_BYTES, sizes[0] * item.size))
        if name in ("size", "dyn", "type", "optional.of", "hasValue", "value", "orValue", "or"):
            return cost + 1, larger(*bounds[:2]) if len(bounds) > 1 else (ATOM if name == "size" else bounds[0])
        if text:
            size = sizes[0] * (max(1, sizes[2]) if name == "replace" and len(sizes) > 2 else 1)
            made = Bound(size, item=Bound(sizes[0])) if name in TEXT_RESULTS or name == "split" else ATOM
            return cost + 1 + math.ceil(sizes[0] * CHARACTER), made
        return cost + 1, ATOM


def larger(left: Bound, right: Bound) -> Bound:
    """The bound of either."""
    return left if left.size >= right.size else right


def largest(bounds: list[Bound]) -> Bound | None:
    """The bound of any; None of nothing."""
    return max(bounds, key=lambda bound: bound.size) if bounds else None
