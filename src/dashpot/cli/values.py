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
    return [_values(answer, backend, states) for answer in answers]


def _again(run: Run, system: System, backend: Backend) -> list[int]:
    """The run taken once more, through a world in which nothing is left out; a Problem when the spec has changed."""
    places = {cell.name: cell.index for cell in system.cells}
    shared = [(i, places[c.name]) for i, c in enumerate(run.columns) if c.lo < c.hi and c.name in places]
    states = [backend.initial]
    for label, values in zip(run.labels, run.states[1:], strict=True):
        flat = backend.successors(states[-1])
        after = next(
            (
                state
                for index, state in zip(flat[::2], flat[1::2], strict=True)
                if _label(system, index) == label and _agrees(backend, state, values, shared)
            ),
            None,
        )
        if after is None:
            raise Problem(
                WRONG,
                f"the run cannot be taken again: step {len(states)} ({label}) does not happen any more",
                f"{run.spec} has changed since; `{asked_again(run)}` looks again",
            )
        states.append(after)
    return states


def asked_again(run: Run) -> str:
    """The command that looks for a run again."""
    settings = "".join(f" --set {shlex.quote(setting)}" for setting in run.settings)
    return f"dashpot check {shlex.quote(run.spec)} {run.check}{settings}"


def _agrees(backend: Backend, state: int, values: Sequence[int], shared: list[tuple[int, int]]) -> bool:
    return all(backend.layout.read(index, state) == values[i] for i, index in shared)


def _label(system: System, index: int) -> str:
    label = system.updates[index].label
    return " ".join(part for part in (label.actor, label.action, label.verb, label.object, *label.detail) if part)


def _values(answer: Answer, backend: Backend, states: list[int]) -> list[str]:
    tests = backend.predicates([node for _, node in answer.cases])
    texts = [text for text, _ in answer.cases]
    return [
        next((text for text, test in zip(texts, tests, strict=True) if test(state)), "undefined") for state in states
    ]
