"""An expression after parsing and checking: nodes with their types, free of the library that made them."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen


@frozen
class Type:
    """A static type: `int`, `list` of one parameter, `map` of two, `message` or `abstract` with a name."""

    kind: str
    params: tuple[Type, ...] = ()
    name: str = ""


DYN = Type("dyn")


@frozen(eq=False)
class Node:
    """What all nodes have: their static type."""

    type: Type = field(kw_only=True)


@frozen(eq=False)
class Const(Node):
    """A literal."""

    value: Any


@frozen(eq=False)
class Ident(Node):
    """A variable, or the name of a type."""

    name: str


@frozen(eq=False)
class Select(Node):
    """`operand.field`; `has(operand.field)` if `test`."""

    operand: Node
    field: str
    test: bool


@frozen(eq=False)
class Call(Node):
    """A function or operator; `member` says that the first argument stood before a dot."""

    function: str
    args: tuple[Node, ...]
    member: bool


@frozen(eq=False)
class ListLiteral(Node):
    """`[a, ?b]`: `optional` are the places of the items with a question mark."""

    items: tuple[Node, ...]
    optional: frozenset[int]


@frozen(eq=False)
class MapLiteral(Node):
    """`{k: v, ?k: v}`: key, value, whether optional."""

    entries: tuple[tuple[Node, Node, bool], ...]


@frozen(eq=False)
class Loop(Node):
    """A macro, taken apart: an accumulator over the items of a range."""

    variable: str
    source: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args
        case ListLiteral():
            return node.items
        case MapLiteral():
            return tuple(part for key, value, _ in node.entries for part in (key, value))
        case Loop():
            return (node.source, node.start, node.condition, node.step, node.result)
    return ()


def weight(node: Node) -> int:
    """How many nodes: the steps of one pass without loops."""
    return 1 + sum(weight(child) for child in children(node))
