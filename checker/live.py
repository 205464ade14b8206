"""Liveness on the stored graph: what need not happen although everything fair goes on happening."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from attrs import frozen

from dashpot.checker.component import Component, Masked, fair_components, mask, within
from dashpot.checker.lasso import Hunt, Lasso
from dashpot.checker.space import Space
from dashpot.checker.verdict import KINDS, Trace, Violated
from dashpot.model.core import Node
from dashpot.model.system import Goal, Label

LIVE = ("eventually", "stabilizes", "recurs", "leads_to", "converges")
"""Operators that speak of what a run does in the end."""

COMPARED = 6
"""Components of the worst kind whose lassos are compared, earliest first."""

HOT = "hot_loop"

Waived = frozenset[tuple[str, str]]
"""Fields whose changes do not make a loop hot: (kind, path), a path covering all below it; path "" or "*": all."""


@frozen
class Candidate:
    """A component that breaks a property, and the kind of violation that it is."""

    kind: str
    component: Component


class HistoryNeeded(Exception):
    """Whether a goal is owed depends on how a state was reached, and the space does not know all ways to it."""


class Liveness:
    """The liveness verdicts of one explored space of real states, kept with its graph."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.graph: Masked = mask(space)
        self.fair: list[Component] = fair_components(self.graph)
        self._depths: dict[int, int] = {0: len(space.prefix.steps) if space.prefix else 0}

    def broken(self, goals: Sequence[Goal]) -> list[Violated]:
        """How goals can fail for ever: for each that can, the worst kind and the shortest lasso found."""
        found = map(self._broken, goals)
        return [violated for violated in found if violated is not None]

    def _broken(self, goal: Goal) -> Violated | None:
        terms = self.space.backend.system.terms
        lasting = goal.op in ("converges", "stabilizes")
        region = terms.and_(goal.alive, goal.premise if lasting else terms.not_(goal.body))
        if region is terms.false:
            return None
        fails = self.space.backend.predicate(terms.not_(goal.body))
        parts = self._restricted(region)
        if lasting:
            parts = [part for part in parts if any(fails(self.space.states[m]) for m in part.members)]
        elif goal.op != "recurs" and parts:
            owed = self._owed(goal)
            kept = [part for part in parts if any(owed[m] for m in part.members)]
            if self.space.prefix is not None and len(kept) < len(parts):
                raise HistoryNeeded
            parts = kept
        candidates = [Candidate(_kind(part), part) for part in parts]
        if not candidates:
            return None
        chosen, lasso = self._choose(candidates, state=lambda m: bool(fails(self.space.states[m])))
        return self._violation(chosen.kind, lasso, goal, goal.about)

    def hot(self, waived: Waived = frozenset()) -> Violated | None:
        """Writes that change the store for ever, but for changes of waived fields only."""
        labels = [update.label for update in self.space.backend.system.updates]
        hot = [any(not is_waived(change, waived) for change in label.changes) for label in labels]
        candidates: list[Candidate] = []
        blamed: set[tuple[str, str]] = set()
        for component in self.fair:
            if not component.moves:
                continue
            writes = self._inner_updates(component, hot)
            if writes:
                candidates.append(Candidate("trapped" if component.bottom else "loop", component))
                blamed |= {_blame(labels[update], waived) for update in writes}
        if not candidates:
            return None
        chosen, lasso = self._choose(candidates, edge=hot.__getitem__)
        about = next(_blame(labels[update], waived) for update in lasso.updates if hot[update])
        found = self._violation(chosen.kind, lasso, None, about[0])
        message = f"{about[0] or 'an object'} is written again and again, for ever ({about[1]})"
        return Violated(
            found.kind, found.steps, found.trace, about=about, message=message, others=len(blamed - {about})
        )

    def _inner_updates(self, component: Component, wanted: Sequence[bool]) -> set[int]:
        inside = set(component.members)
        return {
            update
            for member in component.members
            for update, target in self.graph.edges(member)
            if wanted[update] and target in inside
        }

    def _restricted(self, region: Node) -> list[Component]:
        """The fair components of the states in a region.

        A component that fairness forbids has a class that is enabled throughout and never taken; so has every part
        of it. Hence only the fair ones are looked into.
        """
        if region is self.space.backend.system.terms.true:
            return self.fair
        inside = self.space.backend.predicate(region)
        states = self.space.states
        found: list[Component] = []
        for component in self.fair:
            members = [m for m in component.members if inside(states[m])]
            if len(members) == len(component.members):
                found.append(component)
            elif members:
                found.extend(within(self.graph, members))
        return found

    def _owed(self, goal: Goal) -> bytearray:
        """Per state: can it be reached with the goal still owed? Over all steps, faults and environment included.

        `eventually` is owed from the moment the instance exists, `leads_to` from each state that triggers it; both
        until the body holds or the instance is gone (ruling 19).
        """
        space = self.space
        profile = space.backend.bits([goal.alive, goal.premise, goal.body])
        bits = bytes(map(profile, space.states))
        open_ = [b & 0b101 == 0b001 for b in bits]
        owed = bytearray(len(bits))
        queue: deque[int] = deque()

        def owe(state: int) -> None:
            if open_[state] and not owed[state]:
                owed[state] = 1
                queue.append(state)

        if goal.op == "leads_to":
            for state, b in enumerate(bits):
                if b & 0b010:
                    owe(state)
        elif space.prefix is not None:
            raise HistoryNeeded
        else:
            owe(0)
            for state in range(space.expanded):
                if not bits[state] & 1:
                    for target in space.targets[space.offsets[state] : space.offsets[state + 1]]:
                        owe(target)
        while queue:
            state = queue.popleft()
            if state < space.expanded:
                for target in space.targets[space.offsets[state] : space.offsets[state + 1]]:
                    if target < len(bits):
                        owe(target)
        return owed

    def _choose(
        self, candidates: list[Candidate], *, state: Callable[[int], bool] | None = None,
        edge: Callable[[int], bool] | None = None,
    ) -> tuple[Candidate, Lasso]:  # fmt: skip
        """The worst candidate and its shortest lasso."""
        worst = min(candidates, key=lambda c: KINDS.index(c.kind)).kind
        those = sorted((c for c in candidates if c.kind == worst), key=lambda c: c.component.members[0])
        if worst == "stuck":
            those = those[:1]
        best: tuple[int, Candidate, Lasso] | None = None
        for candidate in those[:COMPARED]:
            hunt = Hunt(self.graph, candidate.component, state=state, edge=edge)
            starts = candidate.component.members[:1] if worst == "stuck" else hunt.starts()
            lasso = hunt.best(self._depth, starts)
            length = self._depth(lasso.start) + len(lasso.updates)
            if best is None or length < best[0]:
                best = length, candidate, lasso
        assert best is not None
        return best[1], best[2]

    def _depth(self, state: int) -> int:
        """Steps from the start to a state, along the search."""
        parents, depths = self.space.parents, self._depths
        way = []
        while state not in depths:
            way.append(state)
            state = parents[state]
        depth = depths[state]
        for passed in reversed(way):
            depth += 1
            depths[passed] = depth
        return depth

    def _violation(self, kind: str, lasso: Lasso, goal: Goal | None, about: str) -> Violated:
        stem = self.space.path(lasso.start)
        trace = self.space.extend(stem, lasso.updates)
        steps = len(stem.steps) + (0 if kind == "stuck" else len(lasso.updates))
        if lasso.updates:
            trace = Trace(trace.states, trace.steps, loop=len(stem.steps))
        return Violated(kind, steps, trace, goal=goal, about=(about, ""), message=_message(kind, goal))


def _kind(part: Component) -> str:
    if not part.bottom:
        return "loop"
    return "trapped" if part.moves else "stuck"


def _message(kind: str, goal: Goal | None) -> str:
    name = goal.property if goal else "the goal"
    if kind == "stuck":
        return f"nothing that is left to happen makes {name} hold"
    if kind == "trapped":
        return f"the loop changes the store for ever, no way leads out of it, and {name} does not last"
    return f"a fair run can go round for ever without {name}, though a way out exists"


def is_waived(change: tuple[str, str], waived: Waived) -> bool:
    """Whether a change of (kind, path) is covered by a waiver of the field, of what it lies in, or of the kind."""
    kind, path = change
    parts = path.split(".")
    above = {".".join(parts[:n]) for n in range(1, len(parts) + 1)} | {"", "*"}
    return any(k in (kind, "") and p in above for k, p in waived)


def _blame(label: Label, waived: Waived) -> tuple[str, str]:
    paths = [path for kind, path in label.changes if not is_waived((kind, path), waived)]
    return label.object, paths[0] if paths else ""
