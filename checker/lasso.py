"""The shortest lasso that can be found: a stem, then a cycle that shows fairness is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from dashpot.checker.component import Component, Masked

EFFORT = 60_000
"""States looked at, about, when cycles from several starts are compared; small components are searched in full."""

Edge = tuple[int, int, int]
"""(state, update, target)"""


@frozen
class Lasso:
    """A cycle through a component: from `start`, by `updates`, back to it; no updates: nothing happens any more."""

    start: int
    updates: tuple[int, ...]


class Hunt:
    """Looks for short cycles in one component that meet every demand.

    A demand is met by a state (some fairness class is disabled, the body fails) or by an edge (the class is taken,
    the store is changed).
    """

    def __init__(
        self, graph: Masked, component: Component, *, state: Callable[[int], bool] | None = None,
        edge: Callable[[int], bool] | None = None,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._inside = set(component.members)
        self._members = component.members
        self._state = state
        self._edge = edge
        self._classes = _demanded(graph, component)
        self._next: dict[int, list[tuple[int, int]]] = {}

    def best(self, stem: Callable[[int], int], starts: Sequence[int]) -> Lasso:
        """The lasso with the fewest steps, stem included, among cycles from the given starts."""
        best: tuple[int, Lasso] | None = None
        for start in starts:
            length = stem(start)
            if best is not None and length >= best[0]:
                continue
            cycle = self._cycle(start, None if best is None else best[0] - length)
            if cycle is not None and (best is None or length + len(cycle) < best[0]):
                best = length + len(cycle), Lasso(start, tuple(update for _, update, _ in cycle))
        assert best is not None, "a component has no cycle"
        return best[1]

    def starts(self) -> Sequence[int]:
        """Where to begin: every member of a small component, the earliest members of a large one."""
        return self._members[: max(4, EFFORT // len(self._members))]

    def _edges(self, node: int) -> list[tuple[int, int]]:
        known = self._next.get(node)
        if known is None:
            known = [(u, t) for u, t in self._graph.edges(node) if t in self._inside]
            self._next[node] = known
        return known

    def _shows(self, open_: int, node: int, edge: Edge | None) -> int:
        """The demands still open once a state, and the edge that led to it, are on the cycle.

        Bits of `open_`: 0 the state demand, 1 the edge demand, from 2 on the classes.
        """
        if open_ & 1 and self._state is not None and self._state(node):
            open_ &= ~1
        open_ &= self._graph.offered(node) << 2 | 3
        if edge is not None:
            if open_ & 2 and self._edge is not None and self._edge(edge[1]):
                open_ &= ~2
            open_ &= ~(self._graph.classes[edge[1]] << 2)
        return open_

    def _cycle(self, start: int, limit: int | None) -> list[Edge] | None:
        """A cycle from a state that meets every demand, each next one by the nearest evidence; None: too long."""
        open_ = (self._state is not None) | (self._edge is not None) << 1 | self._classes << 2
        open_ = self._shows(open_, start, None)
        path: list[Edge] = []
        here = start
        while open_:
            leg = self._nearest(here, open_)
            for edge in leg:
                open_ = self._shows(open_, edge[2], edge)
            path += leg
            here = path[-1][2]
            if limit is not None and len(path) >= limit:
                return None
        if here != start or (not path and self._edges(start)):
            path += self._home(here, start)
        return path

    def _nearest(self, here: int, open_: int) -> list[Edge]:
        """The shortest way to an edge, or the state behind it, that meets an open demand."""
        came: dict[int, Edge] = {}
        level = [here]
        seen = {here}
        while level:
            following = []
            for node in level:
                for update, target in self._edges(node):
                    if self._shows(open_, target, (node, update, target)) != open_:
                        return [*_trail(came, here, node), (node, update, target)]
                    if target not in seen:
                        seen.add(target)
                        came[target] = (node, update, target)
                        following.append(target)
            level = following
        raise AssertionError("a component lacks the evidence it was chosen for")

    def _home(self, here: int, start: int) -> list[Edge]:
        """The shortest way, of at least one step, to the start of the cycle."""
        came: dict[int, Edge] = {}
        level = [here]
        seen = {here}
        while level:
            following = []
            for node in level:
                for update, target in self._edges(node):
                    if target == start:
                        return [*_trail(came, here, node), (node, update, target)]
                    if target not in seen:
                        seen.add(target)
                        came[target] = (node, update, target)
                        following.append(target)
            level = following
        raise AssertionError("a component is not strongly connected")


def _trail(came: dict[int, Edge], start: int, node: int) -> list[Edge]:
    found: list[Edge] = []
    while node != start:
        found.append(came[node])
        node = came[node][0]
    found.reverse()
    return found


def _demanded(graph: Masked, component: Component) -> int:
    """The fairness classes that need evidence: those enabled in some member (the others are disabled throughout)."""
    union = 0
    for member in component.members:
        union |= graph.offered(member)
    return union
