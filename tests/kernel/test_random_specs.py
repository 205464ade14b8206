"""Random specs through the whole pipeline: compiled against interpreted, pruned against unpruned."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.kernel.probe import asked, spec, told
from tests.kernel.random_specs import spec_texts
from tests.model.random_systems import State, ranked, start

from dashpot.checker import decide
from dashpot.checker.budget import Budget
from dashpot.checker.verdict import Report, Violated
from dashpot.grammar.report import SpecRejected
from dashpot.model.fault import SpecError
from dashpot.model.interpret import evaluate
from dashpot.model.kernel.build import build
from dashpot.model.lower.python import compile_system
from dashpot.model.prune import prune
from dashpot.model.system import System

MOST_STATES = 60
"""States of one spec that are read the plain way."""

few = settings(max_examples=60, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])


def world(text: str) -> System | None:
    """The world of a random spec; None where it was refused, which is the only other thing that may happen."""
    try:
        program = spec(text)
        return build(program, asked(program))
    except (SpecRejected, SpecError):
        return None


def plain_steps(system: System, state: State) -> list[tuple[int, State]]:
    """(update, next state) of each update that fires, by definition: guards and values read the state before."""
    memo: dict[int, int] = {}
    out: list[tuple[int, State]] = []
    for index, update in enumerate(system.updates):
        if all(evaluate(node, state.__getitem__, memo) for node in update.guard):
            values = list(state)
            for cell, node in update.assigns:
                values[cell] = evaluate(node, state.__getitem__, memo)
            touched = {cell for cell, _ in update.assigns}
            renumbers = any(touched & set(rank.cells) for rank in system.ranks)
            out.append((index, ranked(system, tuple(values)) if renumbers else tuple(values)))
    return out


@few
@given(spec_texts())
def test_backend_and_interpreter_agree(text: str) -> None:
    system = world(text)
    if system is None:
        return
    backend = compile_system(system)
    first = start(system)
    assert backend.unpack(backend.initial) == first
    seen, queue = {first}, [first]
    for state in queue[:MOST_STATES]:
        flat = backend.successors(backend.pack(state))
        compiled = [(index, backend.unpack(target)) for index, target in zip(flat[::2], flat[1::2], strict=True)]
        assert compiled == plain_steps(system, state)
        for index, target in compiled:
            for cell, value in zip(system.cells, target, strict=True):
                assert cell.lo <= value <= cell.hi, (system.updates[index].label, cell.name)
            if target not in seen:
                seen.add(target)
                if len(queue) < MOST_STATES:
                    queue.append(target)


def explored(system: System, most: int) -> tuple[set[tuple[int, ...]], Counter[tuple[str, tuple[str, str]]], bool]:
    """Projections of the reachable states on what a run observes, and the obligations that break somewhere."""
    backend = compile_system(system)
    roots = [c.index for c in system.cells if c.root]
    seen, queue = {backend.initial}, [backend.initial]
    broken: Counter[tuple[str, tuple[str, str]]] = Counter()
    for state in queue:
        if len(queue) > most:
            return set(), broken, False
        for target in backend.successors(state)[1::2]:
            if target not in seen:
                seen.add(target)
                queue.append(target)
        for at, update in backend.alarms:
            broken.update({(o.property, o.about) for o in backend.broken(at, update)})
        backend.alarms.clear()
    projections = set()
    for state in queue:
        values = backend.unpack(state)
        projections.add(tuple(values[r] for r in roots))
    return projections, broken, True


@few
@given(spec_texts())
def test_pruning_keeps_what_a_run_observes(text: str) -> None:
    system = world(text)
    if system is None:
        return
    smaller = prune(system)
    whole, broken, complete = explored(system, 1500)
    pruned, broken_too, _ = explored(smaller, 1500)
    if complete:
        assert pruned == whole
        assert broken_too.keys() == broken.keys()


def lines(system: System) -> Report:
    return decide.explore(system, budget=Budget(800), symmetry=False).report


def unkept(report: Report) -> dict[str, str]:
    """What does not hold; a property whose obligations were all proven while the world was built has no line.

    The length belongs to it for safety only: a component of the pruned world may begin sooner, since a delivery that
    nobody will ever look at is no step there.
    """
    said = {r.property: told(r.verdict) for r in report.results if told(r.verdict) != "holds"}
    return {name: line if line.startswith("safety") else line.split()[0] for name, line in said.items()}


@few
@given(spec_texts())
def test_pruning_keeps_verdicts(text: str) -> None:
    system = world(text)
    if system is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decide, "prune", lambda same: same)
        whole = lines(system)
    if not whole.complete:
        return
    pruned = lines(system)
    assert pruned.states <= whole.states
    assert unkept(pruned) == unkept(whole)
    lengths = [
        {r.property: r.verdict.steps for r in x.results if isinstance(r.verdict, Violated)} for x in (pruned, whole)
    ]
    assert all(steps <= lengths[1][name] for name, steps in lengths[0].items())
    assert pruned.never_fired == whole.never_fired
    assert [b.split(":")[0] for b in pruned.bounds] == [
        b.split(":")[0] for b in whole.bounds
    ]  # fewer steps, the same bounds


def test_random_specs_are_specs() -> None:
    """Most texts load: else the tests above would say little."""
    counts: Counter[bool] = Counter()

    @settings(max_examples=60, database=None)
    @given(spec_texts())
    def look(text: str) -> None:
        try:
            counts[bool(spec(text))] += 1
        except SpecRejected:
            counts[False] += 1

    look()
    assert counts[True] > 9 * counts[False]
