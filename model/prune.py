"""Takes out of a system what no question about it can depend on, so that states which differ only there are one.

The shape stays: cells and updates keep their indices, so that a trace of the pruned system reads as one of the
original. A dropped cell keeps its initial value for ever (and takes no bits); a dropped update never fires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from dashpot.model.core import Graph, Node
from dashpot.model.passing import without_dead_locals
from dashpot.model.reading import Reading
from dashpot.model.system import Cell, Obligation, RankClass, System, Update


def prune(system: System) -> System:
    """The system with the same verdicts and fewer states: dead updates, dead locals, and cells nobody reads go."""
    system = _without_constants(system)
    system = without_dead_locals(system)
    return _without_unread_cells(system)


def _without_constants(system: System) -> System:
    """Replace cells that no update assigns by their value; updates whose guard is then false never fire."""
    assigned = {index for update in system.updates for index, _ in update.assigns}
    ranked = {index for rank in system.ranks for index in rank.cells}
    fixed = {cell.index: cell.initial for cell in system.cells if cell.index not in assigned | ranked}
    folded = _Folding(system.terms, fixed)
    updates = tuple(_folded(update, folded, system.terms) for update in system.updates)
    goals = tuple(
        evolve(
            goal, alive=folded.of(goal.alive), premise=folded.of(goal.premise), body=folded.of(goal.body)
        )
        for goal in system.goals
    )  # fmt: skip
    return evolve(system, updates=updates, goals=goals)


def _folded(update: Update, folded: _Folding, terms: Graph) -> Update:
    guard = tuple(node for node in map(folded.of, update.guard) if node is not terms.true)
    if terms.and_(*guard) is terms.false:
        return evolve(update, guard=(terms.false,), assigns=(), obligations=())
    obligations = (Obligation(o.property, folded.of(o.holds), o.about, o.what, o.span) for o in update.obligations)
    return evolve(
        update, guard=guard, assigns=tuple((index, folded.of(node)) for index, node in update.assigns),
        obligations=tuple(o for o in obligations if o.holds is not terms.true),
    )  # fmt: skip


class _Folding:
    """Nodes with some cells replaced by constants, made anew in the same graph."""

    def __init__(self, terms: Graph, fixed: dict[int, int]) -> None:
        self._terms = terms
        self._fixed = fixed
        self._known: dict[int, Node] = {}

    def of(self, node: Node) -> Node:
        stack = [node]
        while stack:
            top = stack[-1]
            if top.id in self._known:
                stack.pop()
                continue
            missing = [arg for arg in top.args if arg.id not in self._known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._known[top.id] = self._made(top, [self._known[arg.id] for arg in top.args])
        return self._known[node.id]

    def _made(self, node: Node, args: Sequence[Node]) -> Node:
        g = self._terms
        if node.op == "cell":
            return g.const(self._fixed[node.value]) if node.value in self._fixed else node
        if all(new is old for new, old in zip(args, node.args, strict=True)):
            return node
        match node.op:
            case "not":
                return g.not_(args[0])
            case "and":
                return g.and_(*args)
            case "or":
                return g.or_(*args)
            case "ite":
                return g.ite(args[0], args[1], args[2])
            case "table":
                return g.table(node.values, args[0])
            case "min" | "max" | "eq" | "lt" | "add" | "sub" | "mul" | "div" | "mod":
                name = f"{node.op}_" if node.op in ("min", "max") else node.op
                made: Node = getattr(g, name)(args[0], args[1])
                return made
        raise AssertionError(f"no operation {node.op}")


def _without_unread_cells(system: System) -> System:
    """The cone of influence of guards, obligations, goals, observed predicates and the cells marked `root`."""
    read = Reading()
    needed = read.all(_asked(system))
    for cell in system.cells:
        needed |= cell.root << cell.index
    into: dict[int, int] = {}
    for update in system.updates:
        needed |= read.all(update.guard) | read.all(o.holds for o in update.obligations)
        for index, node in update.assigns:
            into[index] = into.get(index, 0) | read.of(node)
    fresh = needed
    while fresh:
        following = 0
        while fresh:
            index = (fresh & -fresh).bit_length() - 1
            fresh &= fresh - 1
            following |= into.get(index, 0)
        fresh = following & ~needed
        needed |= following
    ranked = {index for rank in system.ranks for index in rank.cells}
    kept = [needed >> cell.index & 1 and (cell.index in into or cell.index in ranked) for cell in system.cells]
    return _keep(system, kept)


def _asked(system: System) -> Iterator[Node]:
    yield from (node for _, node in system.observed)
    for goal in system.goals:
        yield from (goal.alive, goal.premise, goal.body)
        yield from (node for _, node in goal.parts)


def _keep(system: System, kept: Sequence[object]) -> System:
    cells = tuple(cell if keep else _frozen(cell) for cell, keep in zip(system.cells, kept, strict=True))
    updates = tuple(
        update if all(kept[index] for index, _ in update.assigns)
        else evolve(update, assigns=tuple(a for a in update.assigns if kept[a[0]]))
        for update in system.updates
    )  # fmt: skip
    shrunk = [RankClass(tuple(i for i in rank.cells if kept[i]), rank.floor) for rank in system.ranks]
    ranks = tuple(rank for rank in shrunk if rank.cells)
    return evolve(system, cells=cells, updates=updates, ranks=ranks)


def _frozen(cell: Cell) -> Cell:
    """A cell that keeps its initial value."""
    texts = None if cell.texts is None else (cell.text(cell.initial),)
    return evolve(cell, lo=cell.initial, hi=cell.initial, texts=texts)
