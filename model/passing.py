"""Resets the locals of an actor once no later step can read them: liveness of variables, per control point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve, frozen

from dashpot.model.core import Node
from dashpot.model.reading import Reading
from dashpot.model.system import Cell, System, Update

PASSING = ("local", "shadow")
"""Areas whose cells belong to the pass of an actor that is under way."""


def without_dead_locals(system: System) -> System:
    """Reset the locals of an actor when one of its control cells takes a value from which they are read no more."""
    read = Reading()
    # A rank means something only beside the others of its class: there is none to go back to, but "none" (below floor).
    ranked = {i for rank in system.ranks for i in rank.cells if system.cells[i].initial >= rank.floor}
    mine: dict[str, int] = {}
    for cell in system.cells:
        if cell.area in PASSING and cell.actor and not cell.root and cell.index not in ranked:
            mine[cell.actor] = mine.get(cell.actor, 0) | 1 << cell.index
    facts = [_facts(update, read) for update in system.updates]
    resets = [0] * len(facts)
    asked = read.all(node for goal in system.goals for node in (goal.alive, goal.premise, goal.body))
    asked |= read.all(node for _, node in system.observed)
    for cell in system.cells:
        if cell.area == "control" and cell.actor in mine and cell.lo < cell.hi:
            control = _Control(system, cell, mine[cell.actor], asked & mine[cell.actor])
            for place, dead in control.dead(facts):
                facts[place] = facts[place].without(dead)
                resets[place] |= dead
    start = [system.terms.const(cell.initial) for cell in system.cells]
    updates = (_resetting(u, dead, start) if dead else u for u, dead in zip(system.updates, resets, strict=True))
    return evolve(system, updates=tuple(updates))


@frozen
class _Facts:
    """What an update reads and writes, as bit sets of cells.

    tests    read by guard and obligations
    assigns  (cell, what its new value reads), where that is something
    writes   all cells assigned
    never    the guard is false
    """

    update: Update
    tests: int
    assigns: tuple[tuple[int, int], ...]
    writes: int
    never: bool

    def without(self, dead: int) -> _Facts:
        """With some cells reset to constants."""
        kept = tuple(a for a in self.assigns if not dead >> a[0] & 1)
        return evolve(self, assigns=kept, writes=self.writes | dead)


def _facts(update: Update, read: Reading) -> _Facts:
    tests = read.all(update.guard) | read.all(o.holds for o in update.obligations)
    assigns = []
    writes = 0
    for index, node in update.assigns:
        writes |= 1 << index
        reads = read.of(node) if node.op != "const" else 0
        if reads:
            assigns.append((index, reads))
    return _Facts(
        update, tests, tuple(assigns), writes, any(node.op == "const" and not node.value for node in update.guard)
    )


class _Move:
    """One update as seen from a control cell: the value it asks for, the value it sets, the locals it touches."""

    def __init__(self, facts: _Facts, control: Cell, mine: int) -> None:
        update = facts.update
        self.source = _demanded(update.guard, control)
        self.target: int | None = None
        self.anywhere = False
        if facts.writes >> control.index & 1:
            assigned = next(node for index, node in update.assigns if index == control.index)
            self.target = assigned.value if assigned.op == "const" else None
            self.anywhere = self.target is None
        self.writes = mine & facts.writes
        self.tests = mine & facts.tests
        self.local: list[tuple[int, int]] = []
        for index, reads in facts.assigns:
            if reads & mine:
                if mine >> index & 1:
                    self.local.append((1 << index, mine & reads))
                else:
                    self.tests |= mine & reads

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


class _Control:
    """One control cell and the locals of its actor."""

    def __init__(self, system: System, cell: Cell, mine: int, asked: int) -> None:
        self.system = system
        self.cell = cell
        self.mine = mine
        self.asked = asked

    def dead(self, facts: Sequence[_Facts]) -> Iterator[tuple[int, int]]:
        """(update index, locals to be reset by it), as bits."""
        mine = self.mine
        moves = [_Move(f, self.cell, mine) for f in facts]
        alive = [move for move, f in zip(moves, facts, strict=True) if not f.never]
        live = self._live(alive)
        everywhere = 0
        for found in live.values():
            everywhere |= found
        loose = 0
        for move in alive:
            loose |= mine if move.anywhere else move.writes if move.source is None and move.target is None else 0
        for place, (move, f) in enumerate(zip(moves, facts, strict=True)):
            if move.target is not None:
                dead = mine & ~live[move.target]
                if move.source is not None:
                    # What was dead before is reset already, unless some update writes it wherever control stands.
                    dead &= live[move.source] | move.writes | loose
            elif not move.anywhere and move.source is not None:
                dead = move.writes & ~live[move.source]
            else:
                dead = move.writes & ~everywhere
            if dead and not f.never:
                yield place, dead

    def _live(self, moves: Sequence[_Move]) -> dict[int, int]:
        """Per value of the control cell: the locals that some run from there reads before it writes them."""
        values = range(self.cell.lo, self.cell.hi + 1)
        live = dict.fromkeys(values, self.asked)
        changed = True
        while changed:
            changed = False
            anywhere = 0
            for found in live.values():
                anywhere |= found
            for move in reversed(moves):
                for source in values if move.source is None else (move.source,):
                    after = anywhere if move.anywhere else live[source if move.target is None else move.target]
                    found = live[source] | move.live_before(after)
                    if found != live[source]:
                        live[source] = found
                        changed = True
        return live


def _resetting(update: Update, dead: int, start: Sequence[Node]) -> Update:
    """The update with dead locals set to their initial values."""
    kept = [(index, node) for index, node in update.assigns if not dead >> index & 1]
    while dead:
        index = (dead & -dead).bit_length() - 1
        dead &= dead - 1
        kept.append((index, start[index]))
    return evolve(update, assigns=tuple(kept))
