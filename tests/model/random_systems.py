"""Small random systems, and the plain way to run them: what the engine is held against."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from dashpot.model.core import Graph, Node
from dashpot.model.interpret import evaluate
from dashpot.model.system import Cell, Goal, Label, Obligation, RankClass, Symmetry, System, Update

State = tuple[int, ...]


class Terms:
    """Random nodes over some cells."""

    def __init__(self, random: Random, graph: Graph, cells: list[Cell]) -> None:
        self.random = random
        self.g = graph
        self.leaves = [graph.cell(c.index, c.lo, c.hi) for c in cells]

    def number(self, depth: int) -> Node:
        """A random integer node; its values stay small."""
        g, pick = self.g, self.random.choice
        if depth == 0 or self.random.random() < 0.2:
            return pick([*self.leaves, g.const(self.random.randint(-2, 3))])
        a, b = self.number(depth - 1), self.number(depth - 1)
        match self.random.randrange(9):
            case 0:
                return g.add(a, b)
            case 1:
                return g.sub(a, b)
            case 2:
                return g.min_(a, b)
            case 3:
                return g.max_(a, b)
            case 4:
                return g.mul(g.clamp(a, -3, 3), g.clamp(b, -3, 3))
            case 5 | 6:
                return g.ite(self.boolean(depth - 1), a, b)
            case 7:
                index = g.clamp(a, 0, 4)
                return g.table(tuple(self.random.randint(-2, 3) for _ in range(5)), index)
            case _:
                divisor = pick([g.const(2), g.const(-3), g.max_(b, g.const(1))])
                return pick([g.div, g.mod])(a, divisor)

    def boolean(self, depth: int) -> Node:
        """A random boolean node."""
        g = self.g
        flags = [leaf for leaf in self.leaves if (leaf.lo, leaf.hi) == (0, 1)]
        if flags and self.random.random() < 0.2:
            return self.random.choice(flags)
        match self.random.randrange(6 if depth else 3):
            case 0:
                return g.eq(self.random.choice(self.leaves), g.const(self.random.randint(-1, 3)))
            case 1:
                return g.lt(self.number(max(depth - 1, 0)), self.number(max(depth - 1, 0)))
            case 2:
                return g.eq(self.number(max(depth - 1, 0)), self.number(max(depth - 1, 0)))
            case 3:
                return g.not_(self.boolean(depth - 1))
            case 4:
                return g.and_(*(self.boolean(depth - 1) for _ in range(self.random.randint(2, 3))))
            case _:
                return g.or_(*(self.boolean(depth - 1) for _ in range(self.random.randint(2, 3))))


def random_system(seed: int, most_cells: int = 5, ranking: bool = True) -> System:
    """A system of a few cells and updates, with control and local cells of one actor, ranks, goals of every kind.

    With `ranking`, terms also read ranks as plain numbers, which the kernel never does.
    """
    random = Random(seed)
    g = Graph()
    cells: list[Cell] = []
    for index in range(random.randint(1, most_cells)):
        lo = random.choice([0, 0, -1, 1])
        hi = lo + random.choice([0, 1, 1, 2, 3])
        area = random.choice(["store", "store", "local", "control"])
        actor = "" if area == "store" else "A"
        cells.append(Cell(index, area, actor, "K", 0, f"f{index}", lo, hi, random.randint(lo, hi)))
    ranks: tuple[RankClass, ...] = ()
    if ranking and random.random() < 0.4:
        first = len(cells)
        count = random.randint(2, 3)
        for index in range(first, first + count):
            cells.append(Cell(index, "store", "", "K", 0, f"rank{index}", 0, count, random.randint(0, 1)))
        ranks = (RankClass(tuple(range(first, first + count)), 1),)
    terms = Terms(random, g, cells)
    updates = tuple(_update(random, terms, cells, ranks) for _ in range(random.randint(1, 8)))
    ops = ("converges", "stabilizes", "recurs", "eventually", "leads_to", "always", "never", "sometimes")
    goals = tuple(
        Goal(f"{op}{k}", op, _mostly(random, g, terms), _mostly(random, g, terms) if op in ("converges", "leads_to")
             else g.true, terms.boolean(2))
        for k, op in enumerate(random.choices(ops, k=3))
    )  # fmt: skip
    return System(g, tuple(cells), updates, ranks, goals, Symmetry())


def _mostly(random: Random, g: Graph, terms: Terms) -> Node:
    return g.true if random.random() < 0.5 else terms.boolean(1)


def _update(random: Random, terms: Terms, cells: list[Cell], ranks: tuple[RankClass, ...]) -> Update:
    g = terms.g
    guard = tuple(terms.boolean(random.randint(0, 2)) for _ in range(random.randint(0, 3)))
    ranked = {index for rank in ranks for index in rank.cells}
    assigns = []
    for cell in random.sample(cells, random.randint(0, len(cells))):
        top = cell.hi + (cell.index in ranked)
        value = g.const(random.randint(cell.lo, cell.hi)) if random.random() < 0.3 else terms.number(2)
        assigns.append((cell.index, g.clamp(value, cell.lo, top)))
    obligations = tuple(
        Obligation(random.choice(["kept", "safe"]), terms.boolean(1), (f"K {k}", "f"))
        for k in range(random.choice([0, 0, 1, 2]))
    )
    key = random.choice(["a", "b", "c"])
    label = Label(
        "A", "update", key, fair=random.random() < 0.7, fairness=("A", key),
        role=random.choice(["step", "step", "step", "fault", "environment"]),
        changes=random.choice([(), (("K", "f0"),), (("K", "f1"), ("K", "f0"))]),
    )  # fmt: skip
    return Update(label, guard, tuple(assigns), obligations)


def start(system: System) -> State:
    """The first state."""
    return ranked(system, tuple(cell.initial for cell in system.cells))


def ranked(system: System, state: State) -> State:
    """The state with every rank class renumbered, by definition."""
    values = list(state)
    for rank in system.ranks:
        for index in rank.cells:
            if state[index] >= rank.floor:
                lower = {state[i] for i in rank.cells if rank.floor <= state[i] < state[index]}
                values[index] = rank.floor + len(lower)
    return tuple(values)


def steps(system: System, state: State) -> Iterator[tuple[int, State]]:
    """(update index, next state) of each update that fires."""
    for index, update in enumerate(system.updates):
        if all(evaluate(node, state.__getitem__) for node in update.guard):
            values = list(state)
            for cell, node in update.assigns:
                values[cell] = evaluate(node, state.__getitem__)
            touched = {cell for cell, _ in update.assigns}
            known = [rank for rank in system.ranks if touched & set(rank.cells)]
            yield index, ranked(system, tuple(values)) if known else tuple(values)


def explore(system: System) -> dict[State, list[tuple[int, State]]]:
    """All reachable states in breadth-first order, with their steps."""
    first = start(system)
    found: dict[State, list[tuple[int, State]]] = {first: []}
    queue = [first]
    for state in queue:
        found[state] = list(steps(system, state))
        for _, target in found[state]:
            if target not in found:
                found[target] = []
                queue.append(target)
    return found
