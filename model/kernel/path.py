"""A step under construction: one way through a rule, with what was assumed and what is assigned.

Rules of the kernel are written in direct style: `if path.branch(test): …`. `every_way` runs a rule again
for each combination of undecided tests and choices, so one rule becomes one guarded update a way.
"""

from __future__ import annotations

from collections.abc import Callable

from dashpot.model.core import Graph, Node
from dashpot.model.fault import SpecError
from dashpot.model.span import NOWHERE, Span
from dashpot.model.system import Cell, Obligation

MOST_WAYS = 5_000
"""Ways through one rule beyond which a scope is called too large."""


class Dead(Exception):
    """This way cannot happen: an assumption is false."""


class Spill(Exception):
    """This way leaves the scope: what cannot be held overflowed. What lies beyond is not explored."""


class Path:
    """One way through a rule."""

    def __init__(self, g: Graph, cells: list[Cell], script: list[int]) -> None:
        self.g = g
        self.cells = cells
        self.script = script
        self.widths: list[int] = []
        self.taken: list[int] = []
        self.overlay: dict[int, Node] = {}
        self.guard: list[Node] = []
        self.known: dict[int, int] = {}
        self.obligations: list[Obligation] = []
        self.detail: list[str] = []
        self.changes: list[tuple[str, str]] = []
        self.created: list[tuple[str, int]] = []
        self.commits: list[tuple[str, int, Node]] = []
        self.reads: list[tuple[str, int]] = []
        self.decided: list[tuple[Span, bool]] = []
        self.notes: dict[str, object] = {}
        self._memo: dict[int, Node] = {}
        self.quiet = False  # a term of a property: nothing may be chosen, ties go by slot

    # ------------------------------------------------------------------ state
    def get(self, cell: int) -> Node:
        """The value of a cell at this point of the step."""
        node = self.overlay.get(cell)
        if node is None:
            c = self.cells[cell]
            node = self.g.cell(cell, c.lo, c.hi)
            value = self.known.get(node.id)
            if value is not None:
                return self.g.const(value)
        return node

    def set(self, cell: int, node: Node) -> None:
        c = self.cells[cell]
        assert c.lo <= node.lo and node.hi <= c.hi, f"{c.name}: {node.lo}..{node.hi} outside {c.lo}..{c.hi}"
        self.overlay[cell] = node

    def set_if(self, test: Node, cell: int, node: Node) -> None:
        self.set(cell, self.g.ite(test, node, self.get(cell)))

    # ------------------------------------------------------------------ forks
    def assume(self, node: Node) -> None:
        """Go on only where `node` holds."""
        node = self.resolve(node)
        if node is self.g.true:
            return
        if node is self.g.false:
            raise Dead
        for part in node.args if node.op == "and" else (node,):
            if part.id not in self.known:
                self.guard.append(part)
                self._learn(part, 1)
                self._memo.clear()

    def branch(self, node: Node, span: Span = NOWHERE) -> bool:
        """Which way a test goes on this way; both are explored where it is open."""
        node = self.resolve(node)
        if node.is_const:
            result = bool(node.value)
        else:
            result = bool(self.choose(2))
            self.assume(node if result else self.g.not_(node))
        if span is not NOWHERE:
            self.decided.append((span, result))
        return result

    def choose(self, n: int) -> int:
        """One of 0..n-1, each explored."""
        if n <= 0:
            raise Dead
        at = len(self.taken)
        pick = self.script[at] if at < len(self.script) else 0
        self.taken.append(pick)
        self.widths.append(n)
        return pick

    # ------------------------------------------------------------------ what is known
    def _learn(self, node: Node, value: int) -> None:
        self.known[node.id] = value
        g = self.g
        if node.op == "not":
            self._learn(node.args[0], 1 - value)
        elif (node.op == "and" and value) or (node.op == "or" and not value):
            for arg in node.args:
                self._learn(arg, value)
        elif node.op == "eq" and value:
            a, b = node.args
            if b.op == "const":
                self.known[a.id] = b.value
            elif a.op == "const":
                self.known[b.id] = a.value
        elif node.op == "cell" and node.lo == 0 and node.hi == 1:
            self.known[g.not_(node).id] = 1 - value

    def resolve(self, node: Node, depth: int = 6) -> Node:
        """`node`, simplified by what this way has assumed."""
        value = self.known.get(node.id)
        if value is not None:
            return self.g.const(value)
        if depth == 0 or not node.args:
            return node
        found = self._memo.get(node.id)
        if found is None:
            found = self._memo[node.id] = self._simpler(node, depth)
        return found

    def _simpler(self, node: Node, depth: int) -> Node:
        g = self.g
        match node.op:
            case "not":
                return g.not_(self.resolve(node.args[0], depth - 1))
            case "and":
                return g.and_(*[self.resolve(a, depth - 1) for a in node.args])
            case "or":
                return g.or_(*[self.resolve(a, depth - 1) for a in node.args])
            case "eq":
                return g.eq(*[self.resolve(a, depth - 1) for a in node.args])
            case "lt":
                return g.lt(*[self.resolve(a, depth - 1) for a in node.args])
            case "ite":
                test = self.resolve(node.args[0], depth - 1)
                if test.is_const:
                    return self.resolve(node.args[1 if test.value else 2], depth - 1)
                return g.ite(test, node.args[1], node.args[2])
            case "table":
                return g.table(node.values, self.resolve(node.args[0], depth - 1))
            case _:
                return node

    def assigned(self) -> tuple[tuple[int, Node], ...]:
        """The cells that this step changes, with what they become."""
        out = []
        for cell, node in self.overlay.items():
            c = self.cells[cell]
            now = self.g.cell(cell, c.lo, c.hi)
            node = self.resolve(node)
            if node is not now and not (node.is_const and self.known.get(now.id) == node.value):
                out.append((cell, node))
        return tuple(out)


def every_way(g: Graph, cells: list[Cell], rule: Callable[[Path], None], span: Span = NOWHERE) -> list[Path]:
    """All ways through a rule that are not plainly impossible."""
    ways: list[Path] = []
    script: list[int] = []
    for _ in range(MOST_WAYS):
        path = Path(g, cells, script)
        try:
            rule(path)
        except Dead:
            pass
        else:
            ways.append(path)
        taken, widths = path.taken, path.widths
        while taken and taken[-1] + 1 >= widths[-1]:
            taken.pop()
            widths.pop()
        if not taken:
            return ways
        script = [*taken[:-1], taken[-1] + 1]
    raise SpecError(
        "D305",
        f"this body has more than {MOST_WAYS} ways through one step in this scope",
        span,
        "make the scope smaller, or split the step",
    )
