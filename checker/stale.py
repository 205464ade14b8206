"""Which cached objects misled a step: those that, were they up to date, would have made it another step.

A cache that is behind is no news by itself. What counts is whether the truth in its place changes what the step
reads into its writes, its locals and its memory, or a test that decided it; the interpreter tries that out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from dashpot.checker.scene import Key, Stage
from dashpot.model.interpret import evaluate
from dashpot.model.system import Cell, Update

OTHER = "uid"
"""The field that differs when a cached object is an earlier one of the name."""


@frozen
class Gap:
    """One thing that a cache shows otherwise than the store: a field, or with field "" whether there is the object.

    truth   cell of the cache → the value that it would have if the cache were up to date
    """

    key: Key
    field: str
    truth: tuple[tuple[int, int], ...]


def misled(stage: Stage, update: Update, values: Sequence[int]) -> dict[Key, frozenset[str]]:
    """The stale objects that mattered to a step, each with the fields that did ("": that it is, or is not, there)."""
    actor = update.label.actor
    gaps = [gap for key, paths in stage.read(update).items() for gap in _gaps(stage, actor, key, paths, values)]
    nodes = stage.roots(update)

    def outcome(filled: Sequence[Gap]) -> list[int]:
        true = dict(pair for gap in filled for pair in gap.truth)
        memo: dict[int, int] = {}
        return [evaluate(node, lambda cell: true.get(cell, values[cell]), memo) for node in nodes]

    shown, meant = outcome(()), outcome(gaps)
    if shown == meant:
        return {}
    counts = [g for g in gaps if outcome((g,)) != shown or outcome([o for o in gaps if o is not g]) != meant] or gaps
    found: dict[Key, frozenset[str]] = {}
    for gap in counts:
        found[gap.key] = found.get(gap.key, frozenset()) | {gap.field}
    return found


def _gaps(stage: Stage, actor: str, key: Key, paths: set[str], values: Sequence[int]) -> list[Gap]:
    """Where the cached object differs from the truth, one by one as far as it is the same object."""
    cached, stored = stage.row(key, actor), stage.row(key)
    here, there = _exists(cached, values), _exists(stored, values)
    if not here and not there:
        return []
    true = {cell.index: _true(cell, stored, values) for path, cell in cached.items() if path != "present"}
    if "present" in cached:
        true[cached["present"].index] = there
    whole = tuple((index, value) for index, value in true.items() if value != values[index])
    earlier = cached.get("incarnation")
    if here != there:
        return [Gap(key, "", whole)]
    if earlier is not None and values[earlier.index]:
        return [Gap(key, OTHER, whole)]
    differ = ((path, cell.index) for path, cell in cached.items() if path in paths)
    return [Gap(key, path, ((i, true[i]),)) for path, i in differ if path != "present" and true[i] != values[i]]


def _exists(row: Mapping[str, Cell], values: Sequence[int]) -> int:
    present = row.get("present")
    return int(bool(row)) if present is None else values[present.index]


def _true(cell: Cell, stored: Mapping[str, Cell], values: Sequence[int]) -> int:
    """What the store says in place of a cached cell. Uids are told relative to the store: its own is 0."""
    if cell.path == "incarnation":
        return cell.lo
    other = stored.get(cell.path)
    value = values[other.index] if other is not None else values[cell.index]
    return value if cell.lo <= value <= cell.hi else values[cell.index]
