"""The view that a picture takes when nobody names one: what the goal speaks of, how many objects, in which phases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dashpot.checker.blame import source
from dashpot.checker.quotient import View
from dashpot.checker.space import Space
from dashpot.model.core import Node
from dashpot.model.system import Cell, Goal, System

ENOUGH = 32
"""Boxes that a picture with default view may have: it stays readable on one screen."""

SAMPLE = 20_000
"""States that decide which terms the default view takes."""

FAMILY = 2
"""From so many cells of one sort on, their values are counted and not shown one by one."""


def default_view(space: Space, goal: Goal | None = None, sources: Mapping[str, str] | None = None) -> View:
    """Terms that tell states apart coarsely: those inside the goal, counts a kind, phases, single fields; few boxes.

    `sources` gives the texts by which the goal's terms are called. Empty when the store never changes.
    """
    backend = space.backend
    states = space.states[:: max(len(space.states) // SAMPLE, 1)]
    chosen: list[tuple[str, Node]] = []
    columns: list[list[int]] = []
    for group in [*_inside(goal, sources or {}), *_candidates(backend.system)]:
        values = [list(map(test, states)) for test in backend.predicates([node for _, node in group])]
        useful = [(term, column) for term, column in zip(group, values, strict=True) if len(set(column)) > 1]
        wider = columns + [column for _, column in useful]
        if useful and len(set(zip(*wider, strict=True))) <= ENOUGH:
            chosen += [term for term, _ in useful]
            columns = wider
    return chosen


def _inside(goal: Goal | None, sources: Mapping[str, str]) -> Iterator[list[tuple[str, Node]]]:
    """The terms that the goal compares, each by its text."""
    named: dict[str, Node] = {}
    for span, node in goal.parts if goal is not None else ():
        text = source(sources, span)
        if text and node.hi - node.lo > 1 and node.op not in ("not", "and", "or", "eq", "lt"):
            named.setdefault(text, node)
    yield from ([(text, node)] for text, node in named.items())


def _candidates(system: System) -> Iterator[list[tuple[str, Node]]]:
    """Groups of terms that are taken together or not at all, the most telling first."""
    g = system.terms
    present = {(c.kind, c.slot): c for c in system.cells if c.area == "store" and c.path == "present"}
    counts: dict[str, list[Node]] = defaultdict(list)
    for (kind, _), cell in present.items():
        counts[kind].append(_node(system, cell))
    for kind, nodes in counts.items():
        yield [(kind, g.sum(nodes))]
    families: dict[tuple[str, str, tuple[str, ...] | None, int, int], list[Cell]] = defaultdict(list)
    for cell in system.cells:
        if cell.area == "store" and cell.path not in ("present", "name", "uid", "resourceVersion") and cell.width:
            families[cell.kind, _stem(cell), cell.texts, cell.lo, cell.hi].append(cell)
    known = sorted(families.items(), key=lambda item: (item[0][2] is None, len(item[1]) < FAMILY))
    for (kind, path, _, _, _), cells in known:
        if len(cells) < FAMILY:
            yield [(_short(kind, path), _node(system, cells[0]))]
        else:
            yield list(_counted(system, cells, path, [present.get((c.kind, c.slot)) for c in cells]))


def _counted(
    system: System, cells: Sequence[Cell], path: str, present: Sequence[Cell | None]
) -> Iterator[tuple[str, Node]]:
    """For each value but the first, in how many existing objects (or keys) it stands."""
    g = system.terms
    cell = cells[0]
    for value in range(cell.lo + 1, cell.hi + 1):
        hits = []
        for one, there in zip(cells, present, strict=True):
            hit = g.eq(_node(system, one), g.const(value))
            hits.append(hit if there is None else g.and_(_node(system, there), hit))
        text = cell.text(value)
        name = text if cell.texts and text not in ("true", "false", "yes", "no") else path.rpartition(".")[2]
        yield name if name != path or text in ("true", "yes") else f"{name} {text}", g.sum(hits)


def _node(system: System, cell: Cell) -> Node:
    return system.terms.cell(cell.index, cell.lo, cell.hi)


def _stem(cell: Cell) -> str:
    """The path without the key of a map, so that the entries of one map are one family."""
    head, _, last = cell.path.rpartition(".")
    return head if head.count(".") >= 1 else cell.path if not last.isdigit() else head


def _short(kind: str, path: str) -> str:
    return f"{kind} {path.rpartition('.')[2]}"
