"""From a checked tree to a closure over a frame: a list whose first slot counts the steps left, then the variables.

Steps are taken where work depends on data: a round of a loop costs the nodes of its body, an operation over a string
or list its size. So every expression ends, and soon, whatever the object holds.
"""

from __future__ import annotations

from typing import Any

from dashpot.runtime.api.cel import runs
from dashpot.runtime.api.cel.declare import Declarations
from dashpot.runtime.api.cel.functions import FRAMED, FUNCTIONS
from dashpot.runtime.api.cel.operators import BINARY, negated, optional_field, optional_index, picked
from dashpot.runtime.api.cel.runs import Frame, Run
from dashpot.runtime.api.cel.tree import (
    Call,
    Const,
    Ident,
    ListLiteral,
    Loop,
    MapLiteral,
    Node,
    Select,
    weight,
)
from dashpot.runtime.api.cel.values import (
    CelError,
    EvaluationError,
    Maybe,
    TypeName,
    equal,
    hashable,
    member,
    no_overload,
)

SAME = frozenset(("int", "string", "bool", "timestamp", "duration", "bytes"))
FREE = frozenset(("size", "type", "optional.of", "optional.ofNonZeroValue", "hasValue", "value"))
"""Functions that take as long whatever their argument holds."""
TYPES = {
    "bool": "bool",
    "int": "int",
    "uint": "uint",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "list": "list",
    "map": "map",
    "null_type": "null_type",
    "type": "type",
    "optional_type": "optional_type",
    "google.protobuf.Timestamp": "google.protobuf.Timestamp",
    "google.protobuf.Duration": "google.protobuf.Duration",
}


class Compiler:
    """Makes the closures of one expression; `slots` says where variables are in the frame."""

    def __init__(self, declared: Declarations, slots: dict[str, int]) -> None:
        self.declared = declared
        self.slots = slots
        self.size = len(slots) + 1

    def compile(self, node: Node) -> Run:
        """The closure of a node."""
        match node:
            case Const():
                value = node.value
                return lambda env: value
            case Ident():
                return self.ident(node)
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListLiteral():
                return self.listing(node)
            case MapLiteral():
                return self.mapping(node)
            case Loop():
                return self.loop(node)
        raise CelError("compilation failed: unknown expression")

    def ident(self, node: Ident) -> Run:
        """A variable or a type."""
        slot = self.slots.get(node.name)
        if slot is None:
            if node.name not in TYPES:
                raise CelError(f"compilation failed: undeclared reference to '{node.name}' (in container '')")
            value = TypeName(TYPES[node.name])
            return lambda env: value
        return lambda env: env[slot]

    def select(self, node: Select) -> Run:
        """`a.b` and `has(a.b)`. A field that is null counts as absent."""
        operand = self.compile(node.operand)
        fields = self.declared.messages.get(node.operand.type.name)
        known = fields.get(node.field) if fields is not None else None
        name = node.field if known is None else known.real
        if node.test:
            return runs.has(operand, name, fields is not None)
        reader = None if known is None else known.reader
        if fields is None:
            return lambda env: picked(operand(env), name)
        slot = self.slots.get(node.operand.name) if isinstance(node.operand, Ident) else None
        if reader is not None:
            return runs.read(operand, name, reader)
        return runs.field(operand, name) if slot is None else runs.direct(slot, name)

    def call(self, node: Call) -> Run:
        """Operators by their names, then functions."""
        match node.function, node.args:
            case "_&&_", (left, right):
                return runs.all_of(self.compile(left), self.compile(right), False)
            case "_||_", (left, right):
                return runs.all_of(self.compile(left), self.compile(right), True)
            case "_?_:_", (condition, yes, no):
                return runs.choice(self.compile(condition), self.compile(yes), self.compile(no))
            case "!_", (operand,):
                return runs.negation(self.compile(operand))
            case "-_", (operand,):
                inner = self.compile(operand)
                return lambda env: negated(inner(env))
            case "@not_strictly_false" | "__not_strictly_false__", (operand,):
                return runs.lenient(self.compile(operand))
            case "dyn", (operand,):
                return self.compile(operand)
            case ("matches", (text, Const() as pattern)):
                return runs.matches(self.compile(text), pattern.value)
            case "or" | "orValue", (left, right):
                return runs.otherwise(self.compile(left), self.compile(right), node.function == "or")
            case "_?._", (operand, Const() as name):
                return self.optional_select(operand, name.value)
            case "_[?_]", (operand, key):
                source, index = self.compile(operand), self.compile(key)
                return lambda env: optional_index(source(env), index(env))
        if len(node.args) == 2:
            made = self.binary(node)
            if made is not None:
                return made
        return self.function(node)

    def binary(self, node: Call) -> Run | None:
        """An operator of two operands: short where both have the same plain type."""
        left, right = (self.compile(arg) for arg in node.args)
        kinds = {arg.type.kind for arg in node.args}
        plain = len(kinds) == 1 and next(iter(kinds)) in SAME
        texts = plain and kinds <= {"string", "bytes"}
        match node.function:
            case "_==_" if texts:
                return runs.text_equal(left, right)
            case "_!=_" if texts:
                return runs.negation(runs.text_equal(left, right))
            case "_==_":
                if plain:
                    return lambda env: bool(left(env) == right(env))
                return lambda env: equal(left(env), right(env), env)
            case "_!=_":
                if plain:
                    return lambda env: bool(left(env) != right(env))
                return lambda env: not equal(left(env), right(env), env)
            case "@in" | "_in_":
                return lambda env: member(left(env), right(env), env)
        if plain and not texts:
            match node.function:
                case "_<_":
                    return lambda env: bool(left(env) < right(env))
                case "_<=_":
                    return lambda env: bool(left(env) <= right(env))
                case "_>_":
                    return lambda env: bool(left(env) > right(env))
                case "_>=_":
                    return lambda env: bool(left(env) >= right(env))
        operator = BINARY.get(node.function)
        return None if operator is None else lambda env: operator(left(env), right(env), env)

    def optional_select(self, operand: Node, field: str) -> Run:
        """`a.?b`."""
        source = self.compile(operand)
        fields = self.declared.messages.get(_inner(operand).name)
        known = fields.get(field) if fields is not None else None
        if known is None:
            return lambda env: optional_field(source(env), field, None)
        name, reader = known.real, known.reader
        return lambda env: optional_field(source(env), name, reader)

    def function(self, node: Call) -> Run:
        """A function of the library: called with its arguments, charged for the size of each and of its result."""
        args = [self.compile(arg) for arg in node.args]
        framed = FRAMED.get(node.function)
        if framed is not None:
            return runs.framed(framed, args)
        found = FUNCTIONS.get(node.function)
        if found is None:
            raise CelError(f"compilation failed: undeclared reference to '{node.function}' (in container '')")
        if node.function in FREE and len(args) == 1:
            operand = args[0]
            return lambda env: found(operand(env))
        if len(args) == 1:
            only = args[0]

            def unary(env: Frame) -> Any:
                value = only(env)
                runs.charge(env, value)
                return found(value)

            return unary

        def many(env: Frame) -> Any:
            values = [arg(env) for arg in args]
            for value in values:
                runs.charge(env, value)
            result = found(*values)
            if type(result) is str:
                runs.charge(env, result)
            return result

        return many

    def listing(self, node: ListLiteral) -> Run:
        """`[a, ?b]`."""
        items = [self.compile(item) for item in node.items]
        if not node.optional:
            if all(isinstance(item, Const) for item in node.items):
                fixed = [item.value for item in node.items if isinstance(item, Const)]
                return lambda env: fixed
            return lambda env: [item(env) for item in items]
        optional = node.optional

        def build(env: Frame) -> list[Any]:
            made: list[Any] = []
            for place, item in enumerate(items):
                value = item(env)
                if place not in optional:
                    made.append(value)
                elif not isinstance(value, Maybe):
                    raise no_overload()
                elif value.present:
                    made.append(value.value)
            return made

        return build

    def mapping(self, node: MapLiteral) -> Run:
        """`{k: v, ?k: v}`."""
        entries = [(self.compile(key), self.compile(value), optional) for key, value, optional in node.entries]

        def build(env: Frame) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key, value, optional in entries:
                name, item = hashable(key(env)), value(env)
                if name in made:
                    raise EvaluationError("Failed with repeated key")
                if optional:
                    if not isinstance(item, Maybe):
                        raise no_overload()
                    if not item.present:
                        continue
                    item = item.value
                made[name] = item
            return made

        return build

    def loop(self, node: Loop) -> Run:
        """A comprehension: `cel.bind`, one of the usual macros, or whatever else."""
        source = self.compile(node.source)
        if isinstance(node.source, ListLiteral) and not node.source.items:
            return self.bound(node)
        outer = dict(self.slots)
        start = self.compile(node.start)
        item, accumulator = self.slot(node.variable), self.slot(node.accumulator)
        made = self.macro(node, source, item)
        if made is None:
            condition, step, result = (self.compile(part) for part in (node.condition, node.step, node.result))
            made = runs.general(source, start, condition, step, result, item, accumulator, weight(node.step))
        self.slots = outer
        return made

    def bound(self, node: Loop) -> Run:
        """`cel.bind(name, value, expression)`: a loop over nothing."""
        outer = dict(self.slots)
        start = self.compile(node.start)
        slot = self.slot(node.accumulator)
        result = self.compile(node.result)
        self.slots = outer

        def run(env: Frame) -> Any:
            env[slot] = start(env)
            return result(env)

        return run

    def slot(self, name: str) -> int:
        """A new place in the frame."""
        self.slots = {**self.slots, name: self.size}
        self.size += 1
        return self.size - 1

    def macro(self, node: Loop, source: Run, item: int) -> Run | None:
        """`all`, `exists`, `exists_one`, `map`, `filter`, known by their steps."""
        step = node.step
        if not isinstance(step, Call):
            return None
        cost = weight(step)
        match step.function, step.args:
            case "_&&_", (Ident(name=name), predicate) if name == node.accumulator and _gives(node):
                return runs.quantifier(source, self.compile(predicate), item, cost, True)
            case "_||_", (Ident(name=name), predicate) if name == node.accumulator and _gives(node):
                return runs.quantifier(source, self.compile(predicate), item, cost, False)
            case "_+_", (Ident(name=name), ListLiteral(items=(value,), optional=optional)) if not optional:
                if name == node.accumulator and _gives(node):
                    return runs.mapped(source, None, self.compile(value), item, cost)
            case "_?_:_", (predicate, Call(function="_+_", args=(Ident(name=name), added)), Ident()):
                if name != node.accumulator:
                    return None
                if isinstance(added, ListLiteral) and len(added.items) == 1 and not added.optional and _gives(node):
                    return runs.mapped(source, self.compile(predicate), self.compile(added.items[0]), item, cost)
                if isinstance(added, Const) and added.value == 1 and isinstance(node.result, Call):
                    return runs.only_one(source, self.compile(predicate), item, cost)
        return None


def _gives(node: Loop) -> bool:
    return isinstance(node.result, Ident) and node.result.name == node.accumulator


def _inner(node: Node) -> Any:
    kind = node.type
    return kind.params[0] if kind.kind == "abstract" and kind.params else kind
