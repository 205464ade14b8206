"""The state space seen through a view: states that look alike become one box, steps between boxes one bundle.

A raw state graph cannot be read beyond a few hundred states. A view is a list of terms over the state; the
boxes are the combinations of their values that occur. What a quotient shows, it over-approximates: a path
through boxes need not be a run, but every run is a path through boxes.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import TypeAlias

from attrs import evolve, frozen

from dashpot.checker.blame import value_text
from dashpot.checker.cast import cast
from dashpot.checker.component import mask, strong
from dashpot.checker.space import Space
from dashpot.model.core import Node
from dashpot.model.interpret import evaluate
from dashpot.model.system import Goal, Label, System

LIMIT = 400
"""Boxes that a picture may have at most."""

FOCUSED = 20_000
"""Boxes from which those around a run may be taken."""

View: TypeAlias = Sequence[tuple[str, Node]]
"""The terms that states are told apart by, each with the name that the boxes give it."""

Words: TypeAlias = Mapping[str, Sequence[str]]
"""By the name of a term: what its values 0, 1, … are called. Boxes show such a term whatever its value is."""


class TooFine(Exception):
    """A view that tells more boxes apart than a picture can show; the text says what is coarser."""


@frozen
class Box:
    """States that look alike.

    values      the values of the view, as texts, one a term
    states      how many states look like this
    start       the first state is among them
    goal        "holds" in all of them, "fails" in all, "both", or "" when no goal was given
    component   number of the strongly connected component of boxes (steps only, no faults, no environment)
    bottom      no step leaves that component
    lost        how many of the states are in a true bottom component that breaks the goal: stuck or trapped. A
                quotient alone hides them, since other states of the box may move on
    run         a run that is followed passes through
    """

    values: tuple[str, ...]
    states: int
    start: bool
    goal: str
    component: int
    bottom: bool
    lost: int = 0
    run: bool = False


@frozen
class Bundle:
    """All steps of one actor from one box to another. actions: (name, how many steps), most frequent first."""

    source: int
    target: int
    actor: str
    role: str
    actions: tuple[tuple[str, int], ...]
    run: bool = False


@frozen
class Quotient:
    """Boxes and bundles; `names` of the view's terms, `goal` by name, `hidden` boxes that a focus left out.

    shown   names of the terms whose values boxes show even where they are zero or false
    actors  who acts in this world, in the order of the check's run
    """

    names: tuple[str, ...]
    boxes: tuple[Box, ...]
    bundles: tuple[Bundle, ...]
    goal: str
    states: int
    transitions: int
    complete: bool
    hidden: int = 0
    shown: frozenset[str] = frozenset()
    actors: tuple[str, ...] = ()


def quotient(
    space: Space, view: View, goal: Goal | None = None, words: Words | None = None, limit: int = LIMIT
) -> Quotient:
    """The quotient of an explored space by a view; the space must have kept its graph.

    Raises TooFine above `limit` boxes. With symmetry on, a view must not name single objects: the states are
    representatives.
    """
    system = space.backend.system
    words = words or {}
    where, keys = _boxes(space, view, limit)
    flows = _flows(space, where, len(keys))
    goals = _goals(space, where, len(keys), goal)
    counts = Counter(where)
    lost = Counter(where[state] for state in _lost(space, goal))
    component, bottoms = _components(system, flows, len(keys))
    boxes = tuple(
        Box(
            tuple(_text(term, value, system, words) for term, value in zip(view, key, strict=True)),
            counts[i],
            i == where[0],
            goals[i],
            component[i],
            component[i] in bottoms,
            lost[i],
        )
        for i, key in enumerate(keys)
    )
    name = "" if goal is None else f"{goal.property} for {goal.about}" if goal.about else goal.property
    bundles = _bundles(system, flows, len(keys))
    return Quotient(
        tuple(n for n, _ in view), boxes, bundles, name, len(space.states), space.transitions, space.complete,
        shown=frozenset(words), actors=cast(system),
    )  # fmt: skip


def _text(term: tuple[str, Node], value: int, system: System, words: Words) -> str:
    name, node = term
    return words[name][value] if name in words else value_text(node, value, system)


def _boxes(space: Space, view: View, limit: int) -> tuple[array[int], list[tuple[int, ...]]]:
    """The box of each state, and the values of each box, in the order in which the search met them."""
    tests = space.backend.predicates([node for _, node in view])
    columns: list[Iterable[int]] = [map(test, space.states) for test in tests]
    places: dict[tuple[int, ...], int] = {}
    where = array("I")
    for key in zip(*columns, strict=True) if columns else repeat((), len(space.states)):
        place = places.get(key)
        if place is None:
            if len(places) == limit:
                raise TooFine(_advice(space, view))
            place = places[key] = len(places)
        where.append(place)
    return where, list(places)


def _advice(space: Space, view: View) -> str:
    spans = sorted(((node.hi - node.lo + 1, name) for name, node in view), reverse=True)
    text = f"this view tells more than {LIMIT} boxes apart, and a picture of that many cannot be read"
    if len(view) > 1:
        return f"{text}: leave out `{spans[0][1]}` ({spans[0][0]} values), or look around one run with --focus"
    known = [name for name, _ in space.backend.system.observed if name != view[0][0]]
    coarser = f"for instance {', '.join(f'`{n}`' for n in known[:3])}" if known else "a count or a comparison"
    return f"{text}: take a coarser one ({coarser}), or look around one run with --focus"


def _flows(space: Space, where: array[int], boxes: int) -> dict[tuple[int, int], Counter[int]]:
    """(source box, target box) → how often each update leads from one to the other."""
    width = len(space.backend.system.updates)
    assert space.offsets[-1] == len(space.targets) and len(space.kinds) == len(space.offsets) - 1, "no graph was kept"
    counts: dict[int, int] = defaultdict(int)
    targets, offsets, start = space.targets, space.offsets, 0
    for state, kind in enumerate(space.kinds):
        end = offsets[state + 1]
        base = where[state] * boxes
        for update, target in zip(space.shapes[kind], targets[start:end], strict=True):
            counts[(base + where[target]) * width + update] += 1
        start = end
    flows: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for code, count in counts.items():
        pair, update = divmod(code, width)
        flows[divmod(pair, boxes)][update] += count
    return flows


def _goals(space: Space, where: array[int], boxes: int, goal: Goal | None) -> list[str]:
    if goal is None:
        return [""] * boxes
    holds = _holds(space, goal)
    seen = [0] * boxes
    for place, value in zip(where, map(holds, space.states), strict=True):
        seen[place] |= 1 if value else 2
    return [("", "holds", "fails", "both")[bits] for bits in seen]


def _holds(space: Space, goal: Goal) -> Callable[[int], int]:
    """Whether a packed state is as the goal wants it, or need not be."""
    g = space.backend.system.terms
    wanted = g.not_(goal.body) if goal.op == "never" else goal.body
    return space.backend.predicate(g.or_(g.not_(goal.alive), g.not_(goal.premise), wanted))


def _lost(space: Space, goal: Goal | None) -> Iterator[int]:
    """The states of bottom components in which the goal fails somewhere (semantics.md: stuck and trapped)."""
    if goal is None or goal.op in ("always", "never", "sometimes"):
        return
    holds, graph = _holds(space, goal), mask(space)
    for members in strong(graph.offsets, graph.targets):
        inside = set(members)
        leaves = any(target not in inside for member in members for _, target in graph.edges(member))
        if not leaves and max(members) < graph.known and not all(holds(space.states[m]) for m in members):
            yield from members


def _components(system: System, flows: dict[tuple[int, int], Counter[int]], boxes: int) -> tuple[list[int], set[int]]:
    """The component of each box over steps alone, and the components that no step leaves."""
    steps: dict[int, list[int]] = defaultdict(list)
    for (source, target), updates in flows.items():
        if source != target and any(system.updates[u].label.role == "step" for u in updates):
            steps[source].append(target)
    offsets, targets = array("Q", [0]), array("I")
    for box in range(boxes):
        targets.extend(steps[box])
        offsets.append(len(targets))
    component = [0] * boxes
    for number, members in enumerate(strong(offsets, targets)):
        for member in members:
            component[member] = number
    left = {component[s] for s, reached in steps.items() for t in reached if component[s] != component[t]}
    return component, set(component) - left


def action_name(label: Label) -> str:
    """What a step is called on an edge: a process by its action, a reconcile by call and kind; no single objects."""
    kind = label.object.split(" ")[0]
    if label.action and label.action not in ("reconcile", "gone"):
        return label.action
    return f"{label.verb} {kind}".rstrip()


def _bundles(system: System, flows: dict[tuple[int, int], Counter[int]], boxes: int) -> tuple[Bundle, ...]:
    found: dict[tuple[int, int, str, str], Counter[str]] = defaultdict(Counter)
    for (source, target), updates in flows.items():
        if source == target:
            continue
        for update, count in updates.items():
            label = system.updates[update].label
            found[source, target, label.actor, label.role][action_name(label)] += count
    return tuple(
        Bundle(*key, actions=tuple(sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))))
        for key, names in sorted(found.items())
    )


def followed(
    result: Quotient, space: Space, view: View, states: Iterable[Sequence[int]], radius: int, words: Words | None = None
) -> Quotient:
    """Only the boxes within `radius` bundles of a run, with the run marked; `states` are its unpacked states.

    Raises KeyError when the run leads through no box of this space: it belongs to another. TooFine when even what is
    near the run are more than LIMIT boxes.
    """
    system = space.backend.system
    by_values = {box.values: i for i, box in enumerate(result.boxes)}
    walk = []
    for values in states:
        key = tuple(_text(term, evaluate(term[1], values.__getitem__), system, words or {}) for term in view)
        walk.append(by_values[key])
    steps = set(pairwise(walk))
    near = _around(result.bundles, walk, radius)
    if len(near) > LIMIT:
        raise TooFine(f"{_advice(space, view)}; around this run are {len(near)}: take a smaller --radius")
    return _kept(result, near, set(walk), steps)


def _around(bundles: Iterable[Bundle], start: Iterable[int], radius: int) -> set[int]:
    beside: dict[int, set[int]] = defaultdict(set)
    for bundle in bundles:
        beside[bundle.source].add(bundle.target)
        beside[bundle.target].add(bundle.source)
    near = set(start)
    edge = near
    for _ in range(radius):
        edge = {other for box in edge for other in beside[box]} - near
        near = near | edge
    return near


def _kept(result: Quotient, near: Collection[int], walk: set[int], steps: set[tuple[int, int]]) -> Quotient:
    order = sorted(near)
    place = {old: new for new, old in enumerate(order)}
    boxes = tuple(evolve(result.boxes[i], run=i in walk) for i in order)
    bundles = tuple(
        evolve(b, source=place[b.source], target=place[b.target], run=(b.source, b.target) in steps)
        for b in result.bundles
        if b.source in place and b.target in place
    )
    return evolve(result, boxes=boxes, bundles=bundles, hidden=len(result.boxes) - len(boxes))
