"""The core IR: what every backend reads, and all that it reads.

A `System` (model/system) is a finite transition system over *cells* (bounded integers); its guards,
assignments and predicates are scalar `Node`s of one hash-consed `Graph`. Objects, lists, caches and
automata are gone: the kernel unrolled them over the slots of the scope. Nodes are shared, so an
expression is a DAG; a backend names each shared node once (a let-binding).

Every node has a range `lo..hi` known at construction; booleans are 0..1. Nothing is partial: a division
has a divisor whose range excludes zero, a table index lies within its table. No overflow, no evaluation
order, no Python object: the same graph prints as Python, C and SMT-LIB.
"""

from __future__ import annotations

from collections.abc import Iterable

from dashpot.model.fault import SpecError

MOST_NODES = 1_000_000
"""Terms of one world beyond which its scope is called too large: about half a gigabyte."""


class Node:
    """One operation over nodes; compare with `is`, since equal nodes of one `Graph` are the same object.

    const  value                 cell  index of the cell read (pre-state)
    not a                        and, or  two or more args, flattened, booleans
    eq, lt  two args → boolean   add, sub, mul, div, mod, min, max  two args (div truncates, mod has the
                                 sign of the dividend, as CEL)
    ite  test, then, other       table  one arg: values[arg]
    """

    __slots__ = ("args", "hi", "id", "lo", "op", "value", "values")

    def __init__(
        self, op: str, args: tuple[Node, ...], value: int, values: tuple[int, ...], lo: int, hi: int, id: int
    ) -> None:
        self.op = op
        self.args = args
        self.value = value
        self.values = values
        self.lo = lo
        self.hi = hi
        self.id = id

    @property
    def is_const(self) -> bool:
        return self.op == "const"

    def __repr__(self) -> str:
        if self.op == "const":
            return str(self.value)
        if self.op == "cell":
            return f"c{self.value}"
        tail = f", {list(self.values)}" if self.values else ""
        return f"{self.op}({', '.join(map(repr, self.args))}{tail})"


class Graph:
    """The factory of nodes: folds constants, flattens, shares. One graph a world."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[object, ...], Node] = {}
        self.false = self.const(0)
        self.true = self.const(1)

    def __len__(self) -> int:
        return len(self._nodes)

    def _make(
        self, op: str, args: tuple[Node, ...], lo: int, hi: int, value: int = 0, values: tuple[int, ...] = ()
    ) -> Node:
        key = (op, value, values, *[a.id for a in args])
        node = self._nodes.get(key)
        if node is None:
            if len(self._nodes) >= MOST_NODES:
                raise SpecError("D317", f"this check unrolls to more than {MOST_NODES:,} terms in its scope")
            node = Node(op, args, value, values, lo, hi, len(self._nodes))
            self._nodes[key] = node
        return node

    def const(self, value: int) -> Node:
        return self._make("const", (), value, value, value)

    def cell(self, index: int, lo: int, hi: int, weak: bool = False) -> Node:
        """The cell's value. A *weak* read keeps no cell alive: where nothing else needs it, it may be reset."""
        if lo == hi:
            return self.const(lo)
        return self._make("cell", (), lo, hi, index, (1,) if weak else ())

    def truth(self, value: int) -> Node:
        """true or false."""
        return self.true if value else self.false

    def not_(self, a: Node) -> Node:
        if a.op == "const":
            return self.truth(not a.value)
        if a.op == "not":
            return a.args[0]
        return self._make("not", (a,), 0, 1)

    def and_(self, *args: Node) -> Node:
        return self._junction("and", args, self.true, self.false)

    def or_(self, *args: Node) -> Node:
        return self._junction("or", args, self.false, self.true)

    def _junction(self, op: str, args: Iterable[Node], unit: Node, zero: Node) -> Node:
        seen: dict[int, Node] = {}
        for arg in args:
            for part in arg.args if arg.op == op else (arg,):
                if part is zero:
                    return zero
                if part is not unit:
                    seen[part.id] = part
        for part in seen.values():
            if part.op == "not" and part.args[0].id in seen:
                return zero
        parts = tuple(seen.values())
        if not parts:
            return unit
        return parts[0] if len(parts) == 1 else self._make(op, parts, 0, 1)

    def eq(self, a: Node, b: Node) -> Node:
        if a is b:
            return self.true
        if a.hi < b.lo or b.hi < a.lo:
            return self.false
        if a.op == "const" and b.op == "const":
            return self.truth(a.value == b.value)
        if a.op == "const":
            a, b = b, a
        if b.op == "const":
            if (a.lo, a.hi) == (0, 1) and a.op in ("not", "and", "or", "eq", "lt"):
                return a if b.value else self.not_(a)
            if a.op == "ite" and (a.args[1].op == "const" or a.args[2].op == "const"):
                return self.ite(a.args[0], self.eq(a.args[1], b), self.eq(a.args[2], b))
            if a.op == "table":
                hits = [i for i, v in enumerate(a.values) if v == b.value]
                if len(hits) <= 1:
                    return self.eq(a.args[0], self.const(hits[0])) if hits else self.false
        elif a.id > b.id:
            a, b = b, a
        return self._make("eq", (a, b), 0, 1)

    def ne(self, a: Node, b: Node) -> Node:
        return self.not_(self.eq(a, b))

    def lt(self, a: Node, b: Node) -> Node:
        if a.hi < b.lo:
            return self.true
        if a.lo >= b.hi:
            return self.false
        return self._make("lt", (a, b), 0, 1)

    def le(self, a: Node, b: Node) -> Node:
        return self.not_(self.lt(b, a))

    def add(self, a: Node, b: Node) -> Node:
        if a.op == "const":
            a, b = b, a
        if b.op == "const":
            if b.value == 0:
                return a
            if a.op == "const":
                return self.const(a.value + b.value)
            if a.op == "add" and a.args[1].op == "const":
                return self.add(a.args[0], self.const(a.args[1].value + b.value))
        return self._make("add", (a, b), a.lo + b.lo, a.hi + b.hi)

    def sub(self, a: Node, b: Node) -> Node:
        if b.op == "const":
            return self.add(a, self.const(-b.value))
        if a is b:
            return self.const(0)
        return self._make("sub", (a, b), a.lo - b.hi, a.hi - b.lo)

    def mul(self, a: Node, b: Node) -> Node:
        corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        if min(corners) == max(corners):
            return self.const(corners[0])
        for x, y in ((a, b), (b, a)):
            if x.op == "const" and x.value == 1:
                return y
        return self._make("mul", (a, b), min(corners), max(corners))

    def div(self, a: Node, b: Node) -> Node:
        """a / b truncated towards zero; the range of b must exclude 0."""
        assert not b.lo <= 0 <= b.hi, "a divisor may be zero"
        if a.op == "const" and b.op == "const":
            return self.const(truncated(a.value, b.value))
        bound = max(abs(a.lo), abs(a.hi))
        lo = 0 if a.lo >= 0 and b.lo > 0 else -bound
        return self._make("div", (a, b), lo, bound)

    def mod(self, a: Node, b: Node) -> Node:
        """a - b * (a / b): has the sign of a; the range of b must exclude 0."""
        assert not b.lo <= 0 <= b.hi, "a divisor may be zero"
        if a.op == "const" and b.op == "const":
            return self.const(a.value - b.value * truncated(a.value, b.value))
        bound = max(abs(b.lo), abs(b.hi)) - 1
        return self._make("mod", (a, b), -bound if a.lo < 0 else 0, bound if a.hi > 0 else 0)

    def ite(self, test: Node, then: Node, other: Node) -> Node:
        if test.op == "const":
            return then if test.value else other
        if then is other:
            return then
        if test.op == "not":
            return self.ite(test.args[0], other, then)
        if then is self.true and other is self.false:
            return test
        if then is self.false and other is self.true:
            return self.not_(test)
        if then.hi <= 1 and then.lo >= 0 and other.hi <= 1 and other.lo >= 0:
            if other is self.false:
                return self.and_(test, then)
            if then is self.true:
                return self.or_(test, other)
            if then is self.false:
                return self.and_(self.not_(test), other)
            if other is self.true:
                return self.or_(self.not_(test), then)
        if then.op == "ite" and then.args[0] is test:
            then = then.args[1]
        if other.op == "ite" and other.args[0] is test:
            other = other.args[2]
        if then is other:
            return then
        return self._make("ite", (test, then, other), min(then.lo, other.lo), max(then.hi, other.hi))

    def table(self, values: tuple[int, ...], index: Node) -> Node:
        assert index.lo >= 0 and index.hi < len(values), "a table index may lie outside its table"
        if index.op == "const":
            return self.const(values[index.value])
        used = values[index.lo : index.hi + 1]
        if min(used) == max(used):
            return self.const(used[0])
        if all(v == i for i, v in enumerate(values)):
            return index
        return self._make("table", (index,), min(used), max(used), values=values)

    def min_(self, a: Node, b: Node) -> Node:
        if a.hi <= b.lo or a is b:
            return a
        if b.hi <= a.lo:
            return b
        return self._make("min", (a, b), min(a.lo, b.lo), min(a.hi, b.hi))

    def max_(self, a: Node, b: Node) -> Node:
        if a.lo >= b.hi or a is b:
            return a
        if b.lo >= a.hi:
            return b
        return self._make("max", (a, b), max(a.lo, b.lo), max(a.hi, b.hi))

    def sum(self, args: Iterable[Node]) -> Node:
        total = self.const(0)
        for arg in args:
            total = self.add(total, arg)
        return total

    def clamp(self, a: Node, lo: int, hi: int) -> Node:
        """a, held within lo..hi."""
        return self.min_(self.max_(a, self.const(lo)), self.const(hi))


def truncated(a: int, b: int) -> int:
    """a / b rounded towards zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q
