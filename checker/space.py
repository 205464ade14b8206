"""What a search has seen: states, how they were reached, the graph between them, and what caught its eye."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from attrs import define, field

from dashpot.checker.verdict import Trace
from dashpot.model.lower.python import Backend
from dashpot.model.system import Obligation


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
    states     packed; canonical representatives when `canon` is given
    parents    index of the state from which each was first reached (the start is its own parent)
    expanded   number of states whose successors are all known: states[:expanded]
    depth      breadth-first levels
    complete   every reachable state was expanded
    stopped    why not: "states" | "memory" | "time" | "interrupted" | "decided" | ""
    fired      indices of updates that fired
    sights     for each thing looked for: index of the first state that shows it, or None
    breaches   per (property, about): the first step that broke it
    offsets    edges of state i are offsets[i]..offsets[i+1] in `targets`; empty when no graph was kept
    targets    state indices
    shapes     the different lists of updates that fire in a state; the edges of state i are those of
               shapes[kinds[i]], in order
    """

    backend: Backend
    canon: Callable[[int], int] | None = None
    graph: bool = False
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
        return self.run([self.states[i] for i in self.chain(index)][1:], update)

    def run(self, wanted: list[int], update: int | None = None) -> Trace:
        """The run from the start through the given states (representatives, if symmetry is used)."""
        backend = self.backend
        state = backend.initial
        states, steps = [state], []
        for target in wanted:
            index, state = self._step(state, target)
            steps.append(index)
            states.append(state)
        if update is not None:
            found = backend.successors(state)
            index, state = self.mirrored(states[-1], found, update)
            steps.append(index)
            states.append(state)
        backend.alarms.clear()
        return Trace(tuple(backend.unpack(s) for s in states), tuple(steps))

    def extend(self, trace: Trace, updates: Sequence[int]) -> Trace:
        """A run and some updates more, each of which must be able to fire."""
        backend = self.backend
        state = backend.pack(trace.states[-1])
        states = list(trace.states)
        for update in updates:
            pairs = dict(zip(*[iter(backend.successors(state))] * 2, strict=True))
            state = pairs[update]
            states.append(backend.unpack(state))
        backend.alarms.clear()
        return Trace(tuple(states), trace.steps + tuple(updates))

    def mirrored(self, state: int, found: list[int], update: int) -> tuple[int, int]:
        """The step of `state` that stands for `update` fired in its representative."""
        if self.canon is not None:
            there = self.canon(state)
            pairs = dict(zip(*[iter(self.backend.successors(there))] * 2, strict=True))
            goal, label = self.canon(pairs[update]), self.backend.system.updates[update].label
            for index, target in zip(found[::2], found[1::2], strict=True):
                other = self.backend.system.updates[index].label
                if self.canon(target) == goal and (other.actor, other.verb, other.action) == (
                    label.actor, label.verb, label.action,
                ) and self._same_breach(there, update, state, index):  # fmt: skip
                    return index, target
        for index, target in zip(found[::2], found[1::2], strict=True):
            if index == update:
                return index, target
        raise AssertionError("the path of the search cannot be run again")

    def _same_breach(self, there: int, update: int, here: int, index: int) -> bool:
        then = sorted(o.property for o in self.backend.broken(there, update))
        return then == sorted(o.property for o in self.backend.broken(here, index))

    def _step(self, state: int, target: int) -> tuple[int, int]:
        found = self.backend.successors(state)
        for index, successor in zip(found[::2], found[1::2], strict=True):
            if (successor if self.canon is None else self.canon(successor)) == target:
                return index, successor
        raise AssertionError("the path of the search cannot be run again")
