"""The graph without faults and environment, its strongly connected components, and which of them fairness allows."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress

from attrs import define, frozen

from dashpot.checker.space import Space

DONE = 0xFFFFFFFF


@define
class Masked:
    """The steps of a space that are neither faults nor environment (semantics.md, ruling 1).

    offsets, targets   edges as in `Space`
    kinds, shapes      the updates of the edges: those of state i are shapes[kinds[i]]
    enabled            per shape: the set of fairness classes that can be taken, as bits
    classes            per update: the bit of its fairness class, 0 if it is not fair
    changes            per update: does it change the store
    waiting            the fairness classes that wait their turn in a state, as bits (`System.waiting`)
    known              states from this index on were not expanded: nothing is known of their steps
    """

    offsets: array[int]
    targets: array[int]
    kinds: array[int]
    shapes: list[tuple[int, ...]]
    enabled: list[int]
    classes: list[int]
    changes: list[bool]
    known: int
    waiting: Callable[[int], int]

    def offered(self, state: int) -> int:
        """The fairness classes that are enabled in a state or wait their turn in it."""
        return self.enabled[self.kinds[state]] | self.waiting(state)

    def edges(self, state: int) -> Iterator[tuple[int, int]]:
        """(update, target) of each step of a state."""
        start, end = self.offsets[state], self.offsets[state + 1]
        return zip(self.shapes[self.kinds[state]], self.targets[start:end], strict=True)


def mask(space: Space) -> Masked:
    """Leave only steps of role "step".

    A step that overflows the scope can be taken, but where it leads is not known: to an index beyond all states.
    """
    updates = space.backend.system.updates
    labels = [update.label for update in updates]
    bits: dict[tuple[str, ...], int] = {}
    classes = []
    for label in labels:
        fair = label.fair and label.role == "step"
        classes.append(bits.setdefault(label.fairness, 1 << len(bits)) if fair else 0)
    shapes: list[tuple[int, ...]] = []
    chosen: list[tuple[bool, ...] | None] = []
    enabled: list[int] = []
    for shape in space.shapes:
        steps = tuple(labels[u].role == "step" for u in shape)
        chosen.append(None if all(steps) else steps)
        shapes.append(tuple(compress(shape, steps)))
        union = 0
        for u in shapes[-1]:
            union |= classes[u]
        enabled.append(union)
    offsets, targets = array("Q", [0]), array("I")
    source, start = space.targets, 0
    for kind, end in zip(space.kinds, space.offsets[1:], strict=True):
        steps_of = chosen[kind]
        here = source[start:end]
        if steps_of is None:
            targets.extend(here)
        elif shapes[kind]:
            targets.extend(compress(here, steps_of))
        offsets.append(len(targets))
        start = end
    for state, update in space.beyond:
        if state < space.expanded and labels[update].role == "step":
            targets[offsets[state] + shapes[space.kinds[state]].index(update)] = DONE
    return Masked(
        offsets, targets, space.kinds, shapes, enabled, classes,
        [bool(la.changes) for la in labels], space.expanded, _waiting(space, bits),
    )  # fmt: skip


def _waiting(space: Space, bits: dict[tuple[str, ...], int]) -> Callable[[int], int]:
    """Per state: the classes that wait their turn."""
    known = [(bits[key], node) for key, node in space.backend.system.waiting if key in bits]
    if not known:
        return lambda state: 0
    profile = space.backend.bits([node for _, node in known])
    states = space.states

    def waiting(state: int) -> int:
        found = 0
        holds = profile(states[state])
        for k, (bit, _) in enumerate(known):
            if holds >> k & 1:
                found |= bit
        return found

    return waiting


def strong(offsets: Sequence[int], targets: array[int]) -> Iterator[list[int]]:
    """Strongly connected components of the graph over 0..len(offsets)-2, each before those that lead to it (Tarjan).

    Targets beyond the last node are ignored.
    """
    count = len(offsets) - 1
    low = array("I", bytes(4 * count))
    order = 0
    stack: list[int] = []
    for root in range(count):
        if low[root]:
            continue
        order += 1
        low[root] = order
        work = [(root, order, len(stack), iter(targets[offsets[root] : offsets[root + 1]]))]
        stack.append(root)
        while work:
            node, number, height, edges = work[-1]
            least = low[node]
            for other in edges:
                if other >= count:
                    continue
                known = low[other]
                if not known:
                    low[node] = least
                    order += 1
                    low[other] = order
                    work.append((other, order, len(stack), iter(targets[offsets[other] : offsets[other + 1]])))
                    stack.append(other)
                    break
                if known < least:
                    least = known
            else:
                low[node] = least
                work.pop()
                if least == number:
                    members = stack[height:]
                    del stack[height:]
                    for member in members:
                        low[member] = DONE
                    yield members
                elif least < low[work[-1][0]]:
                    low[work[-1][0]] = least


@frozen
class Component:
    """A set of states in which a weakly fair run can stay for ever, visiting all of it.

    members  state indices, ascending
    bottom   no step leaves it
    moves    some step inside it changes the store
    """

    members: tuple[int, ...]
    bottom: bool
    moves: bool


def fair_components(graph: Masked) -> list[Component]:
    """All strongly connected components that have a weakly fair run; a state where nothing fair can happen is one."""
    found = []
    for members in strong(graph.offsets, graph.targets):
        component = weigh(graph, members)
        if component is not None:
            found.append(component)
    return found


def weigh(graph: Masked, members: list[int]) -> Component | None:
    """A strongly connected set as a component, or None when fairness drives every run out of it.

    The exact test: each fairness class is disabled in some member or labels an edge between members.
    """
    kinds, enabled, classes = graph.kinds, graph.enabled, graph.classes
    first = members[0]
    if len(members) == 1:
        if first >= graph.known:
            return None
        edges = graph.targets[graph.offsets[first] : graph.offsets[first + 1]]
        if enabled[kinds[first]] and first not in edges:
            return None
    always = -1
    for member in members:
        always &= graph.offered(member)
    inside = set(members)
    taken, bottom, moves = 0, True, False
    for member in members:
        for update, target in graph.edges(member):
            if target in inside:
                taken |= classes[update]
                moves = moves or graph.changes[update]
            else:
                bottom = False
    return None if always & ~taken else Component(tuple(sorted(members)), bottom, moves)


def within(graph: Masked, members: Iterable[int]) -> list[Component]:
    """The fair components of the graph restricted to some states (edges that leave them still enable their classes)."""
    nodes = sorted(members)
    place = {node: k for k, node in enumerate(nodes)}
    offsets, targets = array("Q", [0]), array("I")
    for node in nodes:
        targets.extend(place[target] for _, target in graph.edges(node) if target in place)
        offsets.append(len(targets))
    found = (weigh(graph, [nodes[k] for k in part]) for part in strong(offsets, targets))
    return [component for component in found if component is not None]
