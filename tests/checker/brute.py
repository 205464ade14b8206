"""Liveness by definition, over every subset of the states: slow, and plainly right."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from attrs import frozen
from tests.model.random_systems import State, explore

from dashpot.checker.verdict import KINDS
from dashpot.model.core import Node
from dashpot.model.interpret import evaluate
from dashpot.model.system import Goal, System

Steps = dict[State, list[tuple[int, State]]]


@frozen
class Tail:
    """A set of states that a weakly fair run can visit for ever, each of them, and the updates it may take there."""

    states: frozenset[State]
    updates: frozenset[int]
    closed: bool


class World:
    """The reachable states of a system, their steps, and all tails of fair runs."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.all: Steps = explore(system)
        self.steps: Steps = {
            state: [(u, t) for u, t in found if system.updates[u].label.role == "step"]
            for state, found in self.all.items()
        }
        self.tails = list(self._tails())

    def _tails(self) -> Iterator[Tail]:
        states = list(self.steps)
        for size in range(1, len(states) + 1):
            for chosen in combinations(states, size):
                inside = frozenset(chosen)
                edges = [(s, u, t) for s in inside for u, t in self.steps[s] if t in inside]
                if self._connected(inside, edges) and self._fair(inside, edges):
                    closed = all(t in inside for s in inside for _, t in self.steps[s])
                    yield Tail(inside, frozenset(u for _, u, _ in edges), closed)

    @staticmethod
    def _connected(inside: frozenset[State], edges: list[tuple[State, int, State]]) -> bool:
        for backwards in (False, True):
            seen = {next(iter(inside))}
            grown = True
            while grown:
                more = {(s if backwards else t) for s, _, t in edges if (t if backwards else s) in seen}
                grown = not more <= seen
                seen |= more
            if seen != inside:
                return False
        return True

    def _fair(self, inside: frozenset[State], edges: list[tuple[State, int, State]]) -> bool:
        labels = [update.label for update in self.system.updates]
        classes = {label.fairness for label in labels if label.fair and label.role == "step"}

        def of(update: int, key: tuple[str, ...]) -> bool:
            return labels[update].fair and labels[update].fairness == key

        return all(
            any(of(u, key) for _, u, _ in edges) or any(not any(of(u, key) for u, _ in self.steps[s]) for s in inside)
            for key in classes
        )

    def holds(self, node: Node, state: State) -> bool:
        return bool(evaluate(node, state.__getitem__))

    def owed(self, goal: Goal) -> set[State]:
        """States that some run reaches with the goal owed, by walking (state, owed) pairs."""

        def owes(state: State, before: bool) -> bool:
            if not self.holds(goal.alive, state) or self.holds(goal.body, state):
                return False
            return before or (goal.op == "leads_to" and self.holds(goal.premise, state))

        first = next(iter(self.all))
        seen = {(first, owes(first, goal.op == "eventually"))}
        queue = list(seen)
        while queue:
            state, owed = queue.pop()
            born = goal.op == "eventually" and not self.holds(goal.alive, state)
            for _, target in self.all[state]:
                pair = (target, owes(target, owed or born))
                if pair not in seen:
                    seen.add(pair)
                    queue.append(pair)
        return {state for state, owed in seen if owed}

    def kind(self, goal: Goal) -> str | None:
        """The worst way in which a goal can fail, or None."""
        owed = self.owed(goal) if goal.op in ("eventually", "leads_to") else set(self.all)
        found = set()
        for tail in self.tails:
            good = {s for s in tail.states if self.holds(goal.body, s)}
            alive = all(self.holds(goal.alive, s) for s in tail.states)
            if goal.op in ("converges", "stabilizes"):
                broken = len(good) < len(tail.states) and all(self.holds(goal.premise, s) for s in tail.states)
            else:
                broken = not good and bool(tail.states & owed)
            if alive and broken:
                found.add(self._kind(tail))
        return min(found, key=KINDS.index, default=None)

    def hot(self, waived: frozenset[tuple[str, str]]) -> str | None:
        """The worst way in which the store is written for ever, or None."""
        found = {
            "trapped" if tail.closed else "loop"
            for tail in self.tails
            if any(set(self.system.updates[u].label.changes) - waived for u in tail.updates)
        }
        return min(found, key=KINDS.index, default=None)

    def _kind(self, tail: Tail) -> str:
        if not tail.closed:
            return "loop"
        return "trapped" if any(self.system.updates[u].label.changes for u in tail.updates) else "stuck"
