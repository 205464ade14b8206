"""Expressions evaluated along a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashpot.cli.problem import WRONG, Problem

if TYPE_CHECKING:
    from dashpot.checker.runs import Run
    from dashpot.cli.views import Answer
    from dashpot.model.lower.python import Backend
    from dashpot.model.system import System

OVERFLOW = "overflow"
"""What is said of every value in a state that the scope has no room for."""

_WORLD = ("store", "cache", "pending", "queue", "memory", "budget", "clock")
"""Areas that mean the same in every world of a spec, whatever is asked of it."""


def along(run: Run, texts: list[str]) -> list[list[str]]:
    """For each expression its value in every state of the run, the start first."""
    from dashpot.cli.targets import only_check, with_scope
    from dashpot.cli.views import observed, read
    from dashpot.model.lower.python import compile_system

    program, asked = read(run.spec, texts)
    check = with_scope(program, only_check(program, run.check), list(run.settings))
    system, answers = observed(program, check, asked)
    backend = compile_system(system)
    states = _again(run, system, backend)
    return [_values(answer, system, backend, states) for answer in answers]


def _again(run: Run, system: System, backend: Backend) -> list[int]:
    """The run taken once more, through a world in which nothing is left out; a Problem when that cannot be done.

    A step may lead on in several ways that look alike here, so that all of them are followed, those first whose
    step is the very one that was taken.
    """
    shared = _shared(run, system)
    paths = [[backend.initial]]
    for step, label, values in zip(run.steps, run.labels, run.states[1:], strict=True):
        found: dict[int, list[int]] = {}
        for path in paths:
            flat = backend.successors(path[-1])
            for index, after in sorted(zip(flat[::2], flat[1::2], strict=True), key=lambda pair: pair[0] != step):
                if _label(system, index) == label and _agrees(backend, after, values, shared):
                    found.setdefault(after, [*path, after])
        if not found:
            raise _lost(run, len(paths[0]), label)
        paths = list(found.values())
    return paths[0]


def _shared(run: Run, system: System) -> list[tuple[int, int]]:
    """(column of the run, cell of the world) of what a replay must agree in.

    What an actor holds for itself is cleared where no question reads it any more, and worlds differ in their
    questions. Ranks are counted over such copies too.
    """
    ranked = {index for rank in system.ranks for index in rank.cells}
    places = {cell.name: cell.index for cell in system.cells if cell.area in _WORLD and cell.index not in ranked}
    return [(i, places[c.name]) for i, c in enumerate(run.columns) if c.lo < c.hi and c.name in places]


def _lost(run: Run, number: int, label: str) -> Problem:
    """Why a run cannot be taken again. Only a spec that is another text is said to have changed."""
    from dashpot.checker.runs import changed_since
    from dashpot.cli.files import read_spec

    changed = f"{run.spec} has changed since; " if changed_since(run, read_spec(run.spec)) else ""
    what = f"the run cannot be taken again: step {number} ({label}) does not happen any more"
    return Problem(WRONG, what, f"{changed}`{asked_again(run)}` looks again")


def asked_again(run: Run) -> str:
    """The command that looks for a run again."""
    settings = "".join(f" --set {shlex.quote(setting)}" for setting in run.settings)
    return f"dashpot check {shlex.quote(run.spec)} {run.check}{settings}"


def _agrees(backend: Backend, state: int, values: Sequence[int], shared: list[tuple[int, int]]) -> bool:
    return all(backend.layout.read(index, state) == values[i] for i, index in shared)


def _label(system: System, index: int) -> str:
    label = system.updates[index].label
    return " ".join(part for part in (label.actor, label.action, label.verb, label.object, *label.detail) if part)


def _values(answer: Answer, system: System, backend: Backend, states: list[int]) -> list[str]:
    from dashpot.model.kernel.world import BEYOND

    tests = backend.predicates([node for _, node in answer.cases])
    texts = [text for text, _ in answer.cases]
    sinks = [cell.index for cell in system.cells if cell.area == "control" and cell.path == BEYOND]

    def value(state: int) -> str:
        if any(backend.layout.read(sink, state) for sink in sinks):
            return OVERFLOW
        return next((text for text, test in zip(texts, tests, strict=True) if test(state)), "undefined")

    return [value(state) for state in states]
