"""Searches over a compiled system: breadth first (shortest paths) and depth first."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence

from dashpot.checker.budget import Budget, Meter, Told
from dashpot.checker.space import BOUND, Breach, Space
from dashpot.model.core import Node
from dashpot.model.lower.python import Backend
from dashpot.model.system import Obligation

CHUNK = 512
"""States expanded between two looks at budgets, alarms and sights."""

SETTLED = 4096
"""After so many states the updates that have fired are watched no more."""

Enough = Callable[[Space], bool]


class Eye:
    """Looks for things to be seen in states, each once: the first state that shows it counts."""

    def __init__(self, backend: Backend, sights: Sequence[Node], space: Space) -> None:
        self._backend = backend
        self._sights = sights
        self._space = space
        space.sights = [None] * len(sights)
        self._open: list[int] = [k for k, node in enumerate(sights) if node is not backend.system.terms.false]
        self._compile()

    def _compile(self) -> None:
        self._look = self._backend.bits([self._sights[k] for k in self._open])

    def look(self, start: int) -> None:
        """Look at the states from index `start` on."""
        if not self._open:
            return
        found = False
        for index, bits in enumerate(map(self._look, self._space.states[start:]), start):
            if bits:
                for place, k in enumerate(self._open):
                    if bits >> place & 1 and self._space.sights[k] is None:
                        self._space.sights[k] = index
                        found = True
        if found:
            self._open = [k for k in self._open if self._space.sights[k] is None]
            self._compile()


class Alarm:
    """Collects broken obligations: the first step for each property and object, and how many there were."""

    def __init__(self, backend: Backend, space: Space) -> None:
        self._backend = backend
        self._space = space

    def collect(self, state_index: int) -> None:
        """Take the alarms that expanding a state has raised."""
        for state, update in self._backend.alarms:
            for obligation in self._backend.broken(state, update):
                self._note(obligation, state_index, update)
        self._backend.alarms.clear()

    def _note(self, obligation: Obligation, state_index: int, update: int) -> None:
        about = obligation.about
        if obligation.property == BOUND:
            about = (obligation.what, "")
            self._space.beyond.add((state_index, update))
        known = self._space.breaches.get((obligation.property, about))
        if known is None:
            self._space.breaches[obligation.property, about] = Breach(obligation, state_index, update)
        else:
            known.count += 1


class Breadth:
    """A breadth-first search; with `graph`, the edges are kept for the liveness checks."""

    def __init__(
        self, backend: Backend, *, sights: Sequence[Node] = (), graph: bool = True,
        canon: Callable[[int], int] | None = None, budget: Budget | None = None,
        progress: Told | None = None, enough: Enough | None = None,
    ) -> None:  # fmt: skip
        backend.alarms.clear()
        self.space = Space(backend, canon, graph)
        self._backend = backend
        self._canon = canon
        self._graph = graph
        self._meter = Meter(budget or Budget(), progress)
        self._enough = enough
        self._index: dict[int, int] = {}
        self._seen: set[int] = set()
        self._shape_of: dict[tuple[int, ...], int] = {}
        self._settled = False
        self._eye = Eye(backend, sights, self.space)
        self._alarm = Alarm(backend, self.space)

    def run(self) -> Space:
        """Explore until all is known, the budget is spent, `enough` is satisfied, or Ctrl-C is pressed."""
        space = self.space
        first = self._backend.initial if self._canon is None else self._canon(self._backend.initial)
        space.states.append(first)
        space.parents.append(0)
        self._index[first] = 0
        self._seen.add(first)
        try:
            self._eye.look(0)
            self._levels()
        except KeyboardInterrupt:
            space.stopped = "interrupted"
        space.cpu_s = self._meter.cpu_s
        if not space.stopped:
            space.complete = True
        self._align()
        for kind in space.shapes:
            space.fired.update(kind)
        return space

    def _levels(self) -> None:
        space = self.space
        expand = self._expand_graph if self._graph else self._expand_plain
        self._successors = self._backend.successors if self._graph else self._targets()
        while space.expanded < len(space.states):
            level_end = len(space.states)
            space.depth += 1
            while space.expanded < level_end:
                start = space.expanded
                known = len(space.states)
                expand(start, min(start + CHUNK, level_end))
                if len(space.states) > known:
                    self._eye.look(known)
                waiting = len(space.states) - space.expanded
                space.stopped = self._meter.check(
                    space.transitions, len(space.states), space.depth, waiting, self._memory_bytes()
                )
                if not space.stopped and self._enough is not None and self._enough(space):
                    space.stopped = "decided"
                if space.stopped and waiting:
                    return
                space.stopped = ""

    def _targets(self) -> Callable[[int], list[int]]:
        unseen = [u for u in range(len(self._backend.system.updates)) if u not in self.space.fired]
        return self._backend.targets(unseen, self.space.fired.add)

    def _expand_plain(self, start: int, end: int) -> None:
        space, seen, canon, alarms = self.space, self._seen, self._canon, self._backend.alarms
        states, successors = space.states, self._successors
        add, push, parent = seen.add, states.append, space.parents.append
        transitions = 0
        for i in range(start, end):
            found = successors(states[i])
            transitions += len(found)
            if canon is not None:
                found = [state if state in seen else canon(state) for state in found]
            for state in found:
                if state not in seen:
                    add(state)
                    push(state)
                    parent(i)
            if alarms:
                self._alarm.collect(i)
            space.expanded = i + 1
        space.transitions += transitions
        if not self._settled and space.expanded >= SETTLED:
            self._settled = True
            self._successors = self._targets()

    def _expand_graph(self, start: int, end: int) -> None:
        space, index, canon, alarms = self.space, self._index, self._canon, self._backend.alarms
        states, successors, shape_of = space.states, self._successors, self._shape_of
        push, parent, at = states.append, space.parents.append, index.__getitem__
        targets, kinds, offsets = space.targets, space.kinds, space.offsets
        for i in range(start, end):
            found = successors(states[i])
            hits = found[1::2]
            if canon is not None:
                # What is known is a representative, and so its own.
                hits = [state if state in index else canon(state) for state in hits]
            for state in hits:
                if state not in index:
                    index[state] = len(states)
                    push(state)
                    parent(i)
            shape = tuple(found[::2])
            kind = shape_of.get(shape)
            if kind is None:
                kind = shape_of[shape] = len(space.shapes)
                space.shapes.append(shape)
            kinds.append(kind)
            targets.extend(map(at, hits))
            offsets.append(len(targets))
            if alarms:
                self._alarm.collect(i)
            space.expanded = i + 1
        space.transitions = len(targets)

    def _memory_bytes(self) -> int:
        space = self.space
        tables = sys.getsizeof(self._seen) + sys.getsizeof(self._index) + sys.getsizeof(space.states)
        arrays = sum(a.itemsize * len(a) for a in (space.parents, space.targets, space.offsets, space.kinds))
        each = sys.getsizeof(space.states[-1]) + (32 if self._graph else 0)
        return tables + arrays + each * len(space.states)

    def _align(self) -> None:
        """Cut what an interrupt has left half done, so that every table tells of the same states."""
        space = self.space
        count = min(len(space.states), len(space.parents))
        del space.states[count:]
        del space.parents[count:]
        if self._graph:
            space.expanded = min(space.expanded, len(space.offsets) - 1, len(space.kinds))
            del space.offsets[space.expanded + 1 :]
            del space.kinds[space.expanded :]
            del space.targets[space.offsets[-1] :]


def breadth_first(
    backend: Backend, *, sights: Sequence[Node] = (), graph: bool = True, canon: Callable[[int], int] | None = None,
    budget: Budget | None = None, progress: Told | None = None, enough: Enough | None = None,
) -> Space:  # fmt: skip
    """Explore level by level: the first path to anything is a shortest one.

    sights    state predicates; `Space.sights` tells the first state that satisfies each
    graph     keep the edges (liveness needs them)
    canon     maps a state to the representative of its orbit
    enough    asked now and then: stop when it says so
    """
    search = Breadth(
        backend, sights=sights, graph=graph, canon=canon, budget=budget, progress=progress, enough=enough
    )  # fmt: skip
    return search.run()


def depth_first(
    backend: Backend, *, sights: Sequence[Node] = (), budget: Budget | None = None,
    progress: Told | None = None, enough: Enough | None = None,
) -> Space:  # fmt: skip
    """Explore along one path as far as it goes before the next: deep states early, by paths that are not shortest.

    `depth` is the longest path that stood on the stack; no graph is kept.
    """
    backend.alarms.clear()
    space = Space(backend)
    eye, alarm, meter = Eye(backend, sights, space), Alarm(backend, space), Meter(budget or Budget(), progress)
    seen = {backend.initial}
    space.states.append(backend.initial)
    space.parents = array("I", [0])
    stack = [(0, 1)]
    eye.look(0)
    try:
        while stack:
            index, level = stack.pop()
            space.depth = max(space.depth, level)
            found = backend.successors(space.states[index])
            space.fired.update(found[::2])
            known = len(space.states)
            for state in found[1::2]:
                if state not in seen:
                    seen.add(state)
                    stack.append((len(space.states), level + 1))
                    space.states.append(state)
                    space.parents.append(index)
            space.transitions += len(found) // 2
            space.expanded += 1
            if backend.alarms:
                alarm.collect(index)
            if len(space.states) > known:
                eye.look(known)
            if space.expanded % CHUNK == 0 or enough is not None:
                memory_bytes = sys.getsizeof(seen) + (sys.getsizeof(space.states[-1]) + 12) * len(space.states)
                space.stopped = meter.check(space.transitions, len(space.states), level, len(stack), memory_bytes) or (
                    "decided" if enough is not None and enough(space) else ""
                )
                if space.stopped:
                    break
    except KeyboardInterrupt:
        space.stopped = "interrupted"
    space.cpu_s = meter.cpu_s
    space.complete = not stack and not space.stopped
    return space
