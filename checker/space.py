"""What a search has seen: states, how they were reached, the graph between them, and what caught its eye."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from attrs import define, field

from dashpot.checker.verdict import Trace
from dashpot.model.lower.python import Backend
from dashpot.model.system import Obligation

BOUND = "@bound"
"""The property of obligations that mark an overflow of the scope (model.system.Obligation)."""


@define
class Breach:
    """A step obligation that broke: `state` index, `update` index, how many steps broke it in all."""

    obligation: Obligation
    state: int
    update: int
    count: int = 1


@define
class Space:
    """The states of a system that a search has reached, in order of discovery (state 0 is the start).

    graph      the edges were kept
    prefix     how the start was reached, if it is not that of the system
    states     packed; canonical representatives when `canon` is given
    parents    index of the state from which each was first reached (the start is its own parent)
    expanded   number of states whose successors are all known: states[:expanded]
    depth      breadth-first levels
    complete   every reachable state was expanded
    stopped    why not: "states" | "memory" | "time" | "interrupted" | "decided" | ""
    fired      indices of updates that fired
    sights     for each thing looked for: index of the first state that shows it, or None
    beyond     (state index, update) of the steps that overflow the scope: where they lead is not what would happen
    breaches   per (property, about): the first step that broke it
    offsets    edges of state i are offsets[i]..offsets[i+1] in `targets`; empty when no graph was kept
    targets    state indices
    shapes     the different lists of updates that fire in a state; the edges of state i are those of
               shapes[kinds[i]], in order
    """

    backend: Backend
    canon: Callable[[int], int] | None = None
    graph: bool = False
    prefix: Trace | None = None
    states: list[int] = field(factory=list)
    parents: array[int] = field(factory=lambda: array("I"))
    expanded: int = 0
    transitions: int = 0
    depth: int = 0
    complete: bool = False
    stopped: str = ""
    cpu_s: float = 0.0
    fired: set[int] = field(factory=set)
    sights: list[int | None] = field(factory=list)
    beyond: set[tuple[int, int]] = field(factory=set)
    breaches: dict[tuple[str, tuple[str, str]], Breach] = field(factory=dict)
    offsets: array[int] = field(factory=lambda: array("Q", [0]))
    targets: array[int] = field(factory=lambda: array("I"))
    shapes: list[tuple[int, ...]] = field(factory=list)
    kinds: array[int] = field(factory=lambda: array("I"))

    def chain(self, index: int) -> list[int]:
        """State indices from the start to a state, along the parents."""
        found = [index]
        while index:
            index = self.parents[index]
            found.append(index)
        found.reverse()
        return found

    def path(self, index: int, update: int | None = None) -> Trace:
        """The way the search came to a state, run anew without symmetry; `update`: one step more, by that update.

        Raises AssertionError when the run does not follow the search: the backend contradicts itself.
        """
        backend = self.backend
        found = self.prefix or Trace((backend.unpack(backend.initial),), ())
        state = backend.pack(found.states[-1])
        states, steps = list(found.states), list(found.steps)
        for passed in self.chain(index)[1:]:
            taken, state = self._step(state, self.states[passed])
            steps.append(taken)
            states.append(backend.unpack(state))
        if update is not None:
            taken, state = self._mirrored(state, update)
            steps.append(taken)
            states.append(backend.unpack(state))
        backend.alarms.clear()
        return Trace(tuple(states), tuple(steps))

    def is_real(self, trace: Trace, last: bool = True) -> bool:
        """Whether no step of a run overflows the scope; `last`: the last step counts too."""
        if not self.beyond:
            return True
        steps = list(zip(trace.states, trace.steps, strict=False))
        checked = steps if last else steps[:-1]
        return not any(BOUND in self._broken(self.backend.pack(state), update) for state, update in checked)

    def extend(self, trace: Trace, updates: Sequence[int]) -> Trace:
        """A run and some updates more, each of which must be able to fire."""
        backend = self.backend
        state = backend.pack(trace.states[-1])
        states = list(trace.states)
        for update in updates:
            state = self._fire(state, update)
            states.append(backend.unpack(state))
        backend.alarms.clear()
        return Trace(tuple(states), trace.steps + tuple(updates))

    def _fire(self, state: int, update: int) -> int:
        pairs = self.backend.successors(state)
        return pairs[pairs[::2].index(update) * 2 + 1]

    def _step(self, state: int, target: int) -> tuple[int, int]:
        found = self.backend.successors(state)
        for index, successor in zip(found[::2], found[1::2], strict=True):
            if (successor if self.canon is None else self.canon(successor)) == target:
                return index, successor
        raise AssertionError("the path of the search cannot be run again")

    def _mirrored(self, state: int, update: int) -> tuple[int, int]:
        """The step of a real state that its representative takes by `update`: same end, same obligations broken."""
        if self.canon is None:
            return update, self._fire(state, update)
        there = self.canon(state)
        end, broken = self.canon(self._fire(there, update)), self._broken(there, update)
        found = self.backend.successors(state)
        for index, successor in zip(found[::2], found[1::2], strict=True):
            if self.canon(successor) == end and self._broken(state, index) == broken:
                return index, successor
        raise AssertionError("a step of the search cannot be taken again")

    def _broken(self, state: int, update: int) -> list[str]:
        return sorted(obligation.property for obligation in self.backend.broken(state, update))
