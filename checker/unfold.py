"""Liveness under symmetry: the components that matter are taken apart into real states, and judged there exactly.

Weak fairness speaks of single objects, and on representatives two objects may take turns under one name. So a component
of representatives is only a suspect. It is ruled out when fairness drives every run out of it whatever objects are
called: when some kind of action (actor and action, of any object) has all its classes enabled in every state of it and
none of them taken inside. What stays suspect is unfolded: the real states that stand behind it, from one of them on.
They are one component again (a step to a renamed state, repeated, comes back), and others behind the same
representatives are renamings of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress

from attrs import frozen

from dashpot.checker.component import Masked, mask, strong
from dashpot.checker.live import COMPARED, Liveness, Waived, is_waived
from dashpot.checker.space import BOUND, Space
from dashpot.checker.verdict import KINDS, Violated
from dashpot.model.system import Goal, Label

LARGEST = 4_000_000
"""Real states that are unfolded in all, unless a budget says less."""


class TooLarge(Exception):
    """What is suspect stands for more states than may be unfolded."""


@frozen
class Suspect:
    """A component of representatives. kind: how a property that fails in all of it is violated at worst."""

    members: tuple[int, ...]
    kind: str
    moves: bool

    @property
    def rank(self) -> tuple[int, int]:
        """The worst kind first, then the earliest."""
        return KINDS.index(self.kind), self.members[0]


class Unfolded:
    """The liveness verdicts of a space of representatives; `Liveness` for one that was searched under symmetry."""

    def __init__(self, space: Space, limit: int | None = None) -> None:
        self.space = space
        self.graph: Masked = mask(space)
        self._left = LARGEST if limit is None else min(limit, LARGEST)
        self._labels: list[Label] = [update.label for update in space.backend.system.updates]
        self._steps = [label.role == "step" for label in self._labels]
        kinds: dict[tuple[str, ...], int] = {}
        system = space.backend.system
        renamed = {
            name for cell in system.cells if cell.width for name in (cell.ref, *(n for n, _ in cell.dims)) if name
        }
        of_kinds = renamed <= {cell.kind for cell in system.cells}
        for label, bit in zip(self._labels, self.graph.classes, strict=True):
            if bit:
                kind = _kind(label, of_kinds)
                kinds[kind] = kinds.get(kind, 0) | bit
        self._kinds = list(kinds.values())
        found = map(self._suspect, strong(self.graph.offsets, self.graph.targets))
        self.suspects: list[Suspect] = sorted((s for s in found if s is not None), key=lambda s: s.rank)
        self._lives: dict[int, Liveness] = {}

    def broken(self, goals: Sequence[Goal]) -> list[Violated]:
        """How goals of one property can fail for ever; every instance stands for its renamings."""
        terms = self.space.backend.system.terms
        fails = self.space.backend.predicate(
            terms.or_(*(terms.and_(goal.alive, terms.not_(goal.body)) for goal in goals))
        )
        states = self.space.states
        found: list[Violated] = []
        hits = 0
        for suspect in self.suspects:
            if found and (hits >= COMPARED or _worst(found) < KINDS.index(suspect.kind)):
                break
            if any(fails(states[m]) for m in suspect.members):
                here = self._live(suspect).broken(goals)
                hits += bool(here)
                found += here
        return _shortest(found, goals)

    def hot(self, waived: Waived = frozenset()) -> Violated | None:
        """As `Liveness.hot`."""
        hot = [any(not is_waived(change, waived) for change in label.changes) for label in self._labels]
        found: list[Violated] = []
        for suspect in self.suspects:
            if found and (len(found) >= COMPARED or _worst(found) < KINDS.index(suspect.kind)):
                break
            if suspect.moves and self._writes(suspect, hot):
                here = self._live(suspect).hot(waived)
                found += [here] if here is not None else []
        return min(found, key=lambda v: (KINDS.index(v.kind), v.steps), default=None)

    def _writes(self, suspect: Suspect, hot: Sequence[bool]) -> bool:
        inside = set(suspect.members)
        return any(hot[u] and t in inside for m in suspect.members for u, t in self.graph.edges(m))

    def _suspect(self, members: list[int]) -> Suspect | None:
        """A strongly connected set, unless fairness rules it out."""
        graph, first = self.graph, members[0]
        if first >= self.space.expanded:
            return None
        if len(members) == 1 and graph.enabled[graph.kinds[first]]:
            if first not in graph.targets[graph.offsets[first] : graph.offsets[first + 1]]:
                return None
        always = -1
        for member in members:
            always &= graph.offered(member)
        taken, inside, bottom, moves = 0, set(members), True, False
        for member in members:
            for update, target in graph.edges(member):
                if target in inside:
                    taken |= graph.classes[update]
                    moves = moves or graph.changes[update]
                else:
                    bottom = False
        if any(always & bits == bits and not taken & bits for bits in self._kinds):
            return None
        kind = "loop" if not bottom else "trapped" if moves else "stuck"
        return Suspect(tuple(sorted(members)), kind, moves)

    def _live(self, suspect: Suspect) -> Liveness:
        first = suspect.members[0]
        if first not in self._lives:
            self._lives[first] = Liveness(self._unfold(suspect))
        return self._lives[first]

    def _unfold(self, suspect: Suspect) -> Space:
        """The real states behind a suspect, from the one that the search came to first, with their steps.

        Steps that leave it lead to an index beyond the last state.
        """
        space, backend, canon = self.space, self.space.backend, self.space.canon
        assert canon is not None
        inside = {space.states[m] for m in suspect.members}
        prefix = space.path(suspect.members[0])
        found = Space(backend, graph=True, prefix=prefix)
        index = {backend.pack(prefix.states[-1]): 0}
        found.states.extend(index)
        found.parents.append(0)
        shape_of: dict[tuple[int, ...], int] = {}
        edges: list[list[int]] = []
        for here, state in enumerate(found.states):
            self._left -= 1
            if self._left < 0:
                raise TooLarge
            backend.alarms.clear()
            pairs = backend.successors(state)
            chosen = [self._steps[update] for update in pairs[::2]]
            beyond = self._beyond()
            targets = []
            for update, target in zip(compress(pairs[::2], chosen), compress(pairs[1::2], chosen), strict=True):
                at = index.get(target, -1) if update not in beyond else -1
                if at < 0 and update not in beyond and canon(target) in inside:
                    at = index[target] = len(found.states)
                    found.states.append(target)
                    found.parents.append(here)
                targets.append(at)
            shape = tuple(compress(pairs[::2], chosen))
            if shape not in shape_of:
                shape_of[shape] = len(found.shapes)
                found.shapes.append(shape)
            found.kinds.append(shape_of[shape])
            edges.append(targets)
        _store(found, edges)
        return found

    def _beyond(self) -> set[int]:
        """The updates that overflowed the scope in the state just expanded."""
        backend = self.space.backend
        raised, found = backend.alarms[:], set()
        backend.alarms.clear()
        for state, update in raised:
            if any(o.property == BOUND for o in backend.broken(state, update)):
                found.add(update)
        return found


def _store(space: Space, edges: list[list[int]]) -> None:
    outside = len(space.states)
    targets = array("I")
    for found in edges:
        targets.extend(outside if at < 0 else at for at in found)
        space.offsets.append(len(targets))
    space.targets = targets
    space.transitions = len(targets)
    space.expanded = outside


def _kind(label: Label, of_kinds: bool) -> tuple[str, ...]:
    """What all renamings of a fairness class have in common.

    of_kinds   only generated objects ("Pod~1") are renamed: a class that names none of them stands for itself
    """
    if of_kinds and not any("~" in part for part in label.fairness):
        return label.fairness
    return label.actor.partition("[")[0], label.action


def _worst(found: list[Violated]) -> int:
    return min(KINDS.index(violated.kind) for violated in found)


def _shortest(found: list[Violated], goals: Sequence[Goal]) -> list[Violated]:
    """One violation a goal: the worst, then the shortest."""
    best: dict[int, Violated] = {}
    for violated in sorted(found, key=lambda v: (KINDS.index(v.kind), v.steps)):
        place = next(k for k, goal in enumerate(goals) if goal is violated.goal)
        best.setdefault(place, violated)
    return list(best.values())
