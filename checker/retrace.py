"""A trace walked again by the plain interpreter, in the whole system instead of the pruned one that was searched.

Searches run on systems without the cells that no question depends on; their traces keep such cells at their
initial values. A story needs them: what a cache showed, what was on its way. Since pruning keeps the indices
of updates, the same steps lead through the whole system, and walking them checks the search once more.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from dashpot.checker.verdict import Trace, Violated
from dashpot.model.interpret import evaluate
from dashpot.model.system import RankClass, System, Update


def retraced(system: System, violated: Violated) -> Violated:
    """The same violation with the states of `system`.

    Raises AssertionError if a step cannot be taken: the search and the interpreter contradict each other.
    """
    return evolve(violated, trace=retrace(system, violated.trace))


def retrace(system: System, trace: Trace) -> Trace:
    """The steps of a trace from the start of `system`."""
    values = _ranked(system.ranks, [cell.initial for cell in system.cells])
    states = [tuple(values)]
    for number, index in enumerate(trace.steps, 1):
        values = fire(system, system.updates[index], values, number)
        states.append(tuple(values))
    return evolve(trace, states=tuple(states))


def fire(system: System, update: Update, values: Sequence[int], number: int = 0) -> list[int]:
    """The values after an update; ranks renumbered. `number` names the step in the error."""
    memo: dict[int, int] = {}
    before = values.__getitem__
    possible = all(evaluate(guard, before, memo) for guard in update.guard)
    assert possible, f"step {number} of the run cannot be taken again: {update.label}"
    after = list(values)
    for cell, node in update.assigns:
        after[cell] = evaluate(node, before, memo)
    return _ranked(system.ranks, after)


def _ranked(ranks: Sequence[RankClass], values: list[int]) -> list[int]:
    for rank in ranks:
        used = sorted({values[c] for c in rank.cells if values[c] >= rank.floor})
        place = {value: rank.floor + i for i, value in enumerate(used)}
        for cell in rank.cells:
            values[cell] = place.get(values[cell], values[cell])
    return values
