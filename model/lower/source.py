"""Generates the Python source of the successor function: nested tests, shared values, one expression an update."""

from __future__ import annotations

from attrs import frozen

from dashpot.model.core import Node
from dashpot.model.lower.assembly import Assembly, assemble
from dashpot.model.lower.layout import Layout
from dashpot.model.lower.printer import Printer, Uses, subject
from dashpot.model.lower.tree import Block, Leaf, Test, build
from dashpot.model.system import System, Update

ENTERED = 0.4
"""How likely a test is taken to succeed when it is weighed whether a value is computed before it or under it."""

FUNCTION_LEAVES = 200
"""Updates a function; larger blocks are split into several functions."""

CHAIN = 6
"""Alternatives tested one after the other; more of them are found by halving."""


@frozen
class Style:
    """What the generated function reports.

    indexed  successors are preceded by the index of their update
    alarms   broken obligations are reported as (state, update index) to `bad`
    watched  updates whose firing is reported to `seen` (an add method)
    """

    indexed: bool = True
    alarms: bool = True
    watched: frozenset[int] = frozenset()


class Source:
    """The text of one successor function and its helpers; `text()` defines `successors(s)`."""

    def __init__(self, system: System, layout: Layout, style: Style) -> None:
        self.system = system
        self.layout = layout
        self.style = style
        self.printer = Printer(layout)
        self._functions: list[list[str]] = []
        self._assemblies: dict[int, Assembly] = {}
        self._ranks = {index: k for k, rank in enumerate(system.ranks) for index in rank.cells}

    def text(self) -> str:
        """The whole module."""
        never = self.system.terms.false
        updates = enumerate(self.system.updates)
        items = [(index, update, update.guard) for index, update in updates if never not in update.guard]
        block = build(items)
        main = ["def successors(s):", " out = []", " a = out.append"]
        chunk: list[Leaf | Test] = []
        size = 0
        chunks: list[Block] = []
        for child in block.children:
            leaves = _leaves(child)
            if chunk and size + leaves > FUNCTION_LEAVES:
                chunks.append(Block(tuple(chunk)))
                chunk, size = [], 0
            chunk.append(child)
            size += leaves
        chunks.append(Block(tuple(chunk)))
        if len(chunks) == 1:
            self._block(chunks[0], " ", main, top=True)
        else:
            main += [f" {self._function(part)}(s, a)" for part in chunks]
        main.append(" return out")
        return "\n".join(line for lines in [*self._functions, main] for line in lines) + "\n"

    def _function(self, block: Block) -> str:
        """A helper function for a block; names of the caller are out of its sight."""
        kept, self.printer.names = self.printer.names, {}
        lines: list[str] = []
        self._block(block, " ", lines, top=True)
        self.printer.names = kept
        name = f"part{len(self._functions)}"
        self._functions.append([f"def {name}(s, a):", *(lines or [" pass"])])
        return name

    def _assembly(self, leaf: Leaf) -> Assembly:
        found = self._assemblies.get(leaf.index)
        if found is None:
            known = {}
            for conjunct in leaf.update.guard:
                node, value = subject(conjunct)
                if node.op == "cell":
                    known[node.value] = value
            found = self._assemblies[leaf.index] = assemble(self.layout, leaf.update.assigns, known)
        return found

    def _collect(self, block: Block, uses: Uses, weight: float) -> None:
        for child in block.children:
            if isinstance(child, Leaf):
                for conjunct in child.guard:
                    uses.add(conjunct, weight)
                self._collect_leaf(child, uses, weight * ENTERED if child.guard else weight)
            elif len(child.alternatives) == 1:
                _, conjunct, inner = child.alternatives[0]
                uses.add(conjunct, weight)
                self._collect(inner, uses, weight * ENTERED)
            else:
                count = len(child.alternatives)
                uses.add(child.subject, weight * count / 2, count)
                for _, _, inner in child.alternatives:
                    self._collect(inner, uses, weight / count)

    def _collect_leaf(self, leaf: Leaf, uses: Uses, weight: float) -> None:
        if self.style.alarms:
            for obligation in leaf.update.obligations:
                uses.add(obligation.holds, weight)
        self._assembly(leaf).parts.use(uses, weight)

    def _block(self, block: Block, pad: str, lines: list[str], top: bool = False) -> None:
        if not top and _size(block) > FUNCTION_LEAVES:
            lines.append(f"{pad}{self._function(block)}(s, a)")
            return
        uses = Uses()
        self._collect(block, uses, 1.0)
        bound = self.printer.bind(self.printer.plan(uses), pad, lines)
        for child in block.children:
            if isinstance(child, Leaf):
                self._leaf(child, pad, lines)
            else:
                self._test(child, pad, lines)
        self.printer.release(bound)

    def _leaf(self, leaf: Leaf, pad: str, lines: list[str]) -> None:
        if not leaf.guard:
            self._fire(leaf, pad, lines)
            return
        lines.append(f"{pad}if {self.printer.all_of(leaf.guard)}:")
        uses = Uses()
        self._collect_leaf(leaf, uses, 1.0)
        bound = self.printer.bind(self.printer.plan(uses), pad + " ", lines)
        self._fire(leaf, pad + " ", lines)
        self.printer.release(bound)

    def _fire(self, leaf: Leaf, pad: str, lines: list[str]) -> None:
        printer, style = self.printer, self.style
        holds = [o.holds for o in leaf.update.obligations if o.holds.op != "const" or not o.holds.value]
        if style.alarms and holds:
            lines.append(f"{pad}if not ({printer.all_of(holds)}): bad((s, {leaf.index}))")
        if leaf.index in style.watched:
            lines.append(f"{pad}seen({leaf.index})")
        if style.indexed:
            lines.append(f"{pad}a({leaf.index})")
        text = self._assembly(leaf).text(printer)
        for rank in self._touched(leaf.update):
            text = f"rank{rank}({text})"
        lines.append(f"{pad}a({text})")

    def _touched(self, update: Update) -> list[int]:
        return sorted({self._ranks[index] for index, _ in update.assigns if index in self._ranks})

    def _test(self, test: Test, pad: str, lines: list[str]) -> None:
        alternatives = list(test.alternatives)
        if len(alternatives) > CHAIN:
            self._halve(test, sorted(alternatives, key=lambda a: a[0]), pad, lines)
            return
        complete = len(alternatives) == test.subject.hi - test.subject.lo + 1
        for position, (_, conjunct, inner) in enumerate(alternatives):
            if position and complete and position == len(alternatives) - 1:
                lines.append(f"{pad}else:")
            else:
                lines.append(f"{pad}{'elif' if position else 'if'} {self.printer.test(conjunct)}:")
            self._block(inner, pad + " ", lines)

    def _halve(self, test: Test, alternatives: list[tuple[int, Node, Block]], pad: str, lines: list[str]) -> None:
        if len(alternatives) <= 3:
            self._test(Test(test.subject, tuple(alternatives)), pad, lines)
            return
        middle = len(alternatives) // 2
        lines.append(f"{pad}if {self.printer.value(test.subject)} < {alternatives[middle][0]}:")
        self._halve(test, alternatives[:middle], pad + " ", lines)
        lines.append(f"{pad}else:")
        self._halve(test, alternatives[middle:], pad + " ", lines)


def _size(block: Block) -> int:
    return sum(_leaves(child) for child in block.children)


def _leaves(child: Leaf | Test) -> int:
    return 1 if isinstance(child, Leaf) else sum(_size(inner) for _, _, inner in child.alternatives)
