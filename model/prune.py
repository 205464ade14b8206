"""Takes out of a system what no question about it can depend on, so that states which differ only there are one.

The shape stays: cells and updates keep their indices, so that a trace of the pruned system reads as one of the
original. A dropped cell keeps its initial value for ever (and takes no bits); a dropped update never fires.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve

from dashpot.model.core import Node
from dashpot.model.interpret import reads
from dashpot.model.system import Cell, RankClass, System, Update

PASSING = ("local", "shadow")
"""Areas whose cells are reset once no later step of their actor can read them."""


def prune(system: System) -> System:
    """The system with the same verdicts and fewer states: dead updates, dead locals, and cells nobody reads go."""
    system = _without_dead_updates(system)
    system = _without_dead_locals(system)
    return _without_unread_cells(system)


def _without_dead_updates(system: System) -> System:
    terms = system.terms
    updates = tuple(
        evolve(update, guard=(terms.false,), assigns=(), obligations=())
        if terms.and_(*update.guard) is terms.false
        else update
        for update in system.updates
    )
    return evolve(system, updates=updates)


class _Reads:
    """Which cells nodes read, as bit sets over cell indices; remembered, since nodes are shared."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, node: Node) -> int:
        found = self._known.get(node.id)
        if found is None:
            found = 0
            for index in reads([node]):
                found |= 1 << index
            self._known[node.id] = found
        return found

    def all(self, nodes: Iterable[Node]) -> int:
        found = 0
        for node in nodes:
            found |= self.of(node)
        return found


def _without_unread_cells(system: System) -> System:
    """The cone of influence of guards, obligations, goals, observed predicates and the cells marked `root`."""
    read = _Reads()
    needed = _asked(system, read)
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
    kept = [
        needed >> cell.index & 1
        and (cell.index in into or cell.index in ranked or bool(cell.dims) or cell.ref is not None)
        for cell in system.cells
    ]
    return _keep(system, kept)


def _asked(system: System, read: _Reads) -> int:
    found = read.all(node for _, node in system.observed)
    for goal in system.goals:
        found |= read.all((goal.alive, goal.premise, goal.body, *(node for _, node in goal.parts)))
    return found


def _keep(system: System, kept: Sequence[object]) -> System:
    cells = tuple(cell if keep else _frozen(cell) for cell, keep in zip(system.cells, kept, strict=True))
    updates = tuple(evolve(update, assigns=tuple(a for a in update.assigns if kept[a[0]])) for update in system.updates)
    shrunk = [RankClass(tuple(i for i in rank.cells if kept[i]), rank.floor) for rank in system.ranks]
    ranks = tuple(rank for rank in shrunk if rank.cells)
    return evolve(system, cells=cells, updates=updates, ranks=ranks)


def _frozen(cell: Cell) -> Cell:
    """A cell that keeps its initial value."""
    texts = None if cell.texts is None else (cell.text(cell.initial),)
    return evolve(cell, lo=cell.initial, hi=cell.initial, texts=texts)


def _without_dead_locals(system: System) -> System:
    """Reset the locals of an actor when one of its control cells takes a value from which they are read no more."""
    read = _Reads()
    # A rank means something only beside the others of its class: there is none to go back to, but "none" (below floor).
    ranked = {i for rank in system.ranks for i in rank.cells if system.cells[i].initial >= rank.floor}
    for cell in system.cells:
        if cell.area == "control" and cell.actor:
            mine = 0
            for other in system.cells:
                passing = other.area in PASSING and not other.root and other.index not in ranked
                if passing and other.actor == cell.actor:
                    mine |= 1 << other.index
            if mine:
                system = _reset(system, cell, mine, read)
    return system


class _Move:
    """One update as seen from a control cell: from which of its values it can fire, and to which it leads."""

    def __init__(self, update: Update, control: Cell, mine: int, read: _Reads) -> None:
        self.sources = _demanded(update.guard, control)
        assigned = dict(update.assigns).get(control.index)
        self.target = assigned.value if assigned is not None and assigned.op == "const" else None
        self.anywhere = assigned is not None and self.target is None
        self.tests = mine & (read.all(update.guard) | read.all(o.holds for o in update.obligations))
        self.writes = 0
        self.local: list[tuple[int, int]] = []
        for index, node in update.assigns:
            if mine >> index & 1:
                self.writes |= 1 << index
                self.local.append((1 << index, mine & read.of(node)))
            else:
                self.tests |= mine & read.of(node)

    def live_before(self, after: int) -> int:
        """Locals read by this update or, when it leaves them alone, live after it."""
        found = self.tests | after & ~self.writes
        for bit, needs in self.local:
            if after & bit:
                found |= needs
        return found


def _demanded(guard: Iterable[Node], control: Cell) -> int | None:
    """The value of the control cell that a guard asks for, if it asks for one."""
    for node in guard:
        positive = node.args[0] if node.op == "not" else node
        if positive.op == "cell" and positive.value == control.index and (control.lo, control.hi) == (0, 1):
            return 0 if node.op == "not" else 1
        if node.op == "eq" and node.args[0].op == "cell" and node.args[0].value == control.index:
            if node.args[1].op == "const":
                return node.args[1].value
    return None


def _reset(system: System, control: Cell, mine: int, read: _Reads) -> System:
    moves = [_Move(update, control, mine, read) for update in system.updates]
    alive = [m for m, update in zip(moves, system.updates, strict=True) if system.terms.false not in update.guard]
    live = _live(system, alive, control, mine, read)
    everywhere = 0
    for found in live.values():
        everywhere |= found
    loose = 0
    for move in moves:
        loose |= mine if move.anywhere else move.writes if move.sources is None and move.target is None else 0
    updates = []
    for update, move in zip(system.updates, moves, strict=True):
        if move.target is not None:
            dead = mine & ~live[move.target]
            if move.sources is not None:
                # What was dead before is reset already, unless some update writes it wherever control stands.
                dead &= live[move.sources] | move.writes | loose
        elif not move.anywhere and move.sources is not None:
            dead = move.writes & ~live[move.sources]
        else:
            dead = move.writes & ~everywhere
        updates.append(_resetting(system, update, dead) if dead else update)
    return evolve(system, updates=tuple(updates))


def _live(system: System, moves: Sequence[_Move], control: Cell, mine: int, read: _Reads) -> dict[int, int]:
    """Per value of a control cell: the locals that some run from there reads before it writes them."""
    values = range(control.lo, control.hi + 1)
    always = mine & _asked(system, read)
    live = dict.fromkeys(values, always)
    changed = True
    while changed:
        changed = False
        anywhere = 0
        for found in live.values():
            anywhere |= found
        for move in reversed(moves):
            for source in values if move.sources is None else (move.sources,):
                after = anywhere if move.anywhere else live[source if move.target is None else move.target]
                found = live[source] | move.live_before(after)
                if found != live[source]:
                    live[source] = found
                    changed = True
    return live


def _resetting(system: System, update: Update, dead: int) -> Update:
    """The update with dead locals set to their initial values."""
    kept = [(index, node) for index, node in update.assigns if not dead >> index & 1]
    reset = [(cell.index, system.terms.const(cell.initial)) for cell in system.cells if dead >> cell.index & 1]
    return evolve(update, assigns=tuple(kept + reset))
