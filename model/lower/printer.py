"""Nodes as Python expressions over one packed state, with shared nodes named once."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from dashpot.model.core import Node
from dashpot.model.lower.layout import Layout

CUT = 20
"""Every so many levels a node gets a name of its own, far below the depth at which Python's parser gives up."""

INLINE_TABLE = 24
"""Tables up to this length are printed where they are used; longer ones become globals."""


class Uses:
    """How often nodes are used in one block: [node, occurrences in the text, evaluations a visit (weight)] by id."""

    def __init__(self) -> None:
        self.found: dict[int, list[Any]] = {}

    def add(self, node: Node, weight: float, count: int = 1) -> None:
        """Count one more use."""
        known = self.found.get(node.id)
        if known is not None:
            known[1] += count
            known[2] += weight
        elif node.op != "const":
            self.found[node.id] = [node, count, weight]


class Printer:
    """Prints nodes; `names` are the nodes that have a local variable at this point of the text."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.names: dict[int, str] = {}
        self.globals: dict[str, object] = {}
        self._tables: dict[tuple[int, ...], str] = {}
        self._depth: dict[int, int] = {}

    def depth(self, node: Node) -> int:
        """The height of a node's expression, counted anew above each cut."""
        found = self._depth.get(node.id)
        if found is not None:
            return found
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [a for a in top.args if a.id not in self._depth]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._depth[top.id] = 1 + max((self._depth[a.id] % CUT for a in top.args), default=0)
        return self._depth[node.id]

    def plan(self, uses: Uses) -> list[Node]:
        """The nodes worth a local variable in a block, in the order in which they can be computed.

        A node is named where its expected evaluations in the block reach one and the text would repeat it.
        Arguments have smaller ids than what is made of them, so that one pass from the highest id down sees
        every use of a node before the node.
        """
        found, names = uses.found, self.names
        heap = [-key for key in found]
        heapify(heap)
        chosen: list[Node] = []
        while heap:
            key = -heappop(heap)
            if key in names:
                continue
            node, count, weight = found[key]
            if weight >= 1 and (count >= 2 or self.depth(node) == CUT):
                chosen.append(node)
                count, weight = 1, 1.0
            if node.op == "cell":
                continue
            if node.op == "min" or node.op == "max":
                count, weight = 2 * count, 2 * weight
            for arg in node.args:
                known = found.get(arg.id)
                if known is not None:
                    known[1] += count
                    known[2] += weight
                elif arg.op != "const":
                    found[arg.id] = [arg, count, weight]
                    heappush(heap, -arg.id)
        chosen.reverse()
        return chosen

    def raw_cell(self, index: int) -> str:
        """The stored bits of a cell (its value less `lo`)."""
        layout = self.layout
        shift, width = layout.shift[index], layout.width[index]
        if width == 0:
            return "0"
        shifted = f"s >> {shift}" if shift else "s"
        return f"({shifted})" if shift + width == layout.bits else f"({shifted} & {(1 << width) - 1})"

    def value(self, node: Node) -> str:
        """An expression for the value of a node."""
        name = self.names.get(node.id)
        if name is not None:
            return name
        op, args = node.op, node.args
        if op == "const":
            return str(node.value) if node.value >= 0 else f"({node.value})"
        if op == "cell":
            lo = self.layout.lo[node.value]
            raw = self.raw_cell(node.value)
            return raw if lo == 0 else f"({raw} {'+' if lo > 0 else '-'} {abs(lo)})"
        if op in _JOIN:
            return "(" + _JOIN[op].join([self.value(a) for a in args]) + ")"
        if op in ("eq", "lt"):
            return f"({self.test(node)})"
        if op == "not":
            # A test may be any number that is not 0 (a masked bit); a value is 0 or 1.
            return f"(not {self.test(args[0])})"
        if op == "ite":
            return f"({self.value(args[1])} if {self.test(args[0])} else {self.value(args[2])})"
        if op == "table":
            return f"{self.table(node.values)}[{self.value(args[0])}]"
        a, b = self.value(args[0]), self.value(args[1])
        if op == "min":
            return f"({a} if {a} < {b} else {b})"
        if op == "max":
            return f"({a} if {a} > {b} else {b})"
        if args[0].lo >= 0 and args[1].lo > 0:
            return f"({a} // {b})" if op == "div" else f"({a} % {b})"
        return f"truncated({a}, {b})" if op == "div" else f"({a} - {b} * truncated({a}, {b}))"

    def test(self, node: Node, negated: bool = False) -> str:
        """An expression that is true in Python's sense when the node is 1 (0 if negated), without outer brackets."""
        name = self.names.get(node.id)
        if name is not None:
            return f"not {name}" if negated else name
        op, args = node.op, node.args
        if op == "not":
            return self.test(args[0], not negated)
        if op == "eq":
            return self._equal(args[0], args[1], "!=" if negated else "==")
        if op == "lt":
            return f"{self.value(args[0])} {'>=' if negated else '<'} {self.value(args[1])}"
        if op in ("and", "or"):
            word = " and " if (op == "and") != negated else " or "
            return "(" + word.join([self.test(a, negated) for a in args]) + ")"
        if op == "cell" and self.layout.lo[node.value] == 0 and self.layout.width[node.value]:
            text = f"s & {self.layout.mask(node.value):#x}"
        else:
            text = self.value(node)
        return f"not {text}" if negated else text

    def _equal(self, a: Node, b: Node, sign: str) -> str:
        if b.op == "const" and a.op == "cell" and a.id not in self.names:
            layout = self.layout
            index = a.value
            return f"s & {layout.mask(index):#x} {sign} {b.value - layout.lo[index] << layout.shift[index]:#x}"
        return f"{self.value(a)} {sign} {self.value(b)}"

    def all_of(self, nodes: Iterable[Node]) -> str:
        """A test that all nodes hold; comparisons of unnamed cells with constants become one masked comparison."""
        mask = bits = 0
        rest: list[str] = []
        first = 0
        for node in nodes:
            cell, value = subject(node)
            plain = cell.op == "cell" and cell.id not in self.names and node.id not in self.names
            if plain and self.layout.width[cell.value]:
                if mask == 0:
                    first = len(rest)
                mask |= self.layout.mask(cell.value)
                bits |= value - self.layout.lo[cell.value] << self.layout.shift[cell.value]
            else:
                rest.append(self.test(node))
        if mask:
            rest.insert(first, f"s & {mask:#x} == {bits:#x}")
        return " and ".join(rest) if rest else "True"

    def table(self, values: tuple[int, ...]) -> str:
        """A tuple literal or the name of a global that holds it."""
        if len(values) <= INLINE_TABLE:
            return f"({', '.join(map(str, values))},)"
        name = self._tables.get(values)
        if name is None:
            name = f"T{len(self._tables)}"
            self._tables[values] = name
            self.globals[name] = values
        return name

    def bind(self, nodes: Iterable[Node], pad: str, lines: list[str]) -> list[int]:
        """Print assignments that name nodes; returns their ids, for `release` at the end of the block."""
        bound: list[int] = []
        for node in nodes:
            text = self.value(node)
            if text.startswith("(") and text.endswith(")") and node.op not in ("table",):
                text = text[1:-1]
            name = f"c{node.value}" if node.op == "cell" else f"x{node.id}"
            lines.append(f"{pad}{name} = {text}")
            self.names[node.id] = name
            bound.append(node.id)
        return bound

    def release(self, bound: Iterable[int]) -> None:
        """Forget names whose block has ended."""
        for key in bound:
            del self.names[key]


_JOIN = {"and": " and ", "or": " or ", "add": " + ", "sub": " - ", "mul": " * "}


def subject(node: Node) -> tuple[Node, int]:
    """What a conjunct tests, and the value it demands: tests of one subject for different values exclude each other.

    `eq(x, 3)` → (x, 3), `not b` → (b, 0), `b` → (b, 1). A comparison of two variables is its own subject.
    """
    if _is_match(node):
        return node.args[0], node.args[1].value
    if node.op == "not" and not _is_match(node.args[0]):
        return node.args[0], 0
    return node, 1


def _is_match(node: Node) -> bool:
    return node.op == "eq" and node.args[1].op == "const"
