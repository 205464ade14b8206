"""The reference backend: a System as specialised Python over packed states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dashpot.model.core import Node, truncated
from dashpot.model.interpret import evaluate
from dashpot.model.lower.layout import Layout, lay_out, renumberer
from dashpot.model.lower.printer import Printer, Uses
from dashpot.model.lower.source import Source, Style
from dashpot.model.system import Obligation, System


class Backend:
    """Compiled functions over packed states of one system.

    initial     the packed first state
    layout      where each cell lies
    alarms      (state, update index) of each firing that broke an obligation since the list was last cleared;
                filled by `successors` and by `targets` as a side effect
    """

    def __init__(self, system: System, checked: bool = False) -> None:
        self.system = system
        self.layout: Layout = lay_out(system)
        self.alarms: list[tuple[int, int]] = []
        self._ranks = {
            f"rank{k}": renumberer(self.layout, rank.cells, rank.floor) for k, rank in enumerate(system.ranks)
        }
        self._checked = checked
        self._successors: Callable[[int], list[int]] | None = None
        self._predicates: dict[tuple[int, ...], list[Callable[[int], int]]] = {}
        self._bits: dict[tuple[int, ...], Callable[[int], int]] = {}
        self._tests: dict[int, list[Callable[[int], int]]] = {}
        initial = self.layout.pack([cell.initial for cell in system.cells])
        for rank in self._ranks.values():
            initial = rank(initial)
        self.initial = initial

    @property
    def successors(self) -> Callable[[int], list[int]]:
        """state → [update index, successor, update index, successor, …], one pair a fired update, in their order."""
        if self._successors is None:
            function = self.compiled(Style())
            self._successors = self._with_checks(function) if self._checked else function
        return self._successors

    def targets(
        self, watched: Iterable[int] = (), seen: Callable[[int], object] | None = None
    ) -> Callable[[int], list[int]]:
        """state → [successor, …]: `successors` without indices; `seen` is told of each watched update that fires."""
        return self.compiled(Style(indexed=False, watched=frozenset(watched)), seen)

    def compiled(self, style: Style, seen: Callable[[int], object] | None = None) -> Callable[[int], list[int]]:
        """A successor function in one style."""
        source = Source(self.system, self.layout, style)
        text = source.text()
        space = self._space(source.printer)
        space["seen"] = seen
        found: Callable[[int], list[int]] = _function(text, space, "successors")
        return found

    def broken(self, state: int, update_index: int) -> list[Obligation]:
        """The obligations that firing an update in a state breaks."""
        obligations = self.system.updates[update_index].obligations
        tests = self._tests.get(update_index)
        if tests is None:
            tests = self._tests[update_index] = self.predicates([o.holds for o in obligations])
        return [o for o, holds in zip(obligations, tests, strict=True) if not holds(state)]

    def predicate(self, node: Node) -> Callable[[int], int]:
        """A node's value as a function of the packed state."""
        return self.predicates([node])[0]

    def predicates(self, nodes: Sequence[Node]) -> list[Callable[[int], int]]:
        """`predicate` for many nodes, compiled at once and remembered."""
        key = tuple(node.id for node in nodes)
        if key not in self._predicates:
            self._predicates[key] = self._compile_predicates(nodes)
        return self._predicates[key]

    def _compile_predicates(self, nodes: Sequence[Node]) -> list[Callable[[int], int]]:
        printer = Printer(self.layout)
        lines: list[str] = []
        for k, node in enumerate(nodes):
            _define(printer, f"p{k}", [node], printer.value, lines)
        space = self._space(printer)
        exec(compile("\n".join(lines), "<predicates>", "exec"), space)
        return [space[f"p{k}"] for k in range(len(nodes))]

    def bits(self, nodes: Sequence[Node]) -> Callable[[int], int]:
        """Many boolean nodes as one function: bit k of its result is the value of nodes[k]. Remembered, too."""
        key = tuple(node.id for node in nodes)
        if key not in self._bits:
            self._bits[key] = self._compile_bits(nodes)
        return self._bits[key]

    def _compile_bits(self, nodes: Sequence[Node]) -> Callable[[int], int]:
        printer = Printer(self.layout)
        lines: list[str] = []

        def text(*_: Node) -> str:
            terms = [f"{printer.value(n)} << {k}" if k else printer.value(n) for k, n in enumerate(nodes)]
            return " | ".join(terms) or "0"

        _define(printer, "bits", nodes, text, lines)
        found: Callable[[int], int] = _function("\n".join(lines), self._space(printer), "bits")
        return found

    def unpack(self, state: int) -> tuple[int, ...]:
        """The cell values of a packed state, by cell index."""
        return self.layout.unpack(state)

    def pack(self, values: Sequence[int]) -> int:
        """The packed form of cell values (by cell index)."""
        return self.layout.pack(values)

    def _space(self, printer: Printer) -> dict[str, Any]:
        return {"truncated": truncated, "bad": self.alarms.append, **self._ranks, **printer.globals}

    def _with_checks(self, function: Callable[[int], list[int]]) -> Callable[[int], list[int]]:
        ranked = {index for rank in self.system.ranks for index in rank.cells}

        def successors(state: int) -> list[int]:
            found = function(state)
            memo: dict[int, int] = {}
            for update_index in found[::2]:
                for index, node in self.system.updates[update_index].assigns:
                    value = evaluate(node, lambda i: self.layout.read(i, state), memo)
                    cell = self.system.cells[index]
                    if not cell.lo <= value <= cell.hi + (index in ranked):
                        raise AssertionError(f"update {update_index} sets {cell.name} to {value}")
            return found

        return successors


def _function(text: str, space: dict[str, Any], name: str) -> Any:
    exec(compile(text, f"<{name}>", "exec"), space)
    return space[name]


def _define(printer: Printer, name: str, roots: Sequence[Node], text: Callable[[Node], str], lines: list[str]) -> None:
    uses = Uses()
    for root in roots:
        uses.add(root, 1.0)
    lines.append(f"def {name}(s):")
    bound = printer.bind(printer.plan(uses), " ", lines)
    lines.append(f" return {text(roots[0]) if roots else 0}")
    printer.release(bound)


def compile_system(system: System, checked: bool = False) -> Backend:
    """Compile a system; `checked` asserts at every step that assigned values are within their cells (slow, for tests).

    States of cells up to about 60 bits in all are Python's small integers and fast; there is no limit.
    """
    return Backend(system, checked)
