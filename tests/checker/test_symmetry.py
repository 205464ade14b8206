"""Symmetry is exact: one representative an orbit, and the verdicts of the whole space."""

from __future__ import annotations

from itertools import permutations, product

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.checker.symmetric import symmetric_system
from tests.model.anchor import anchor
from tests.model.random_systems import State, steps
from tests.model.random_systems import explore as plain

from dashpot.checker.decide import explore
from dashpot.checker.explore import Options, check, check_system
from dashpot.checker.search import breadth_first
from dashpot.checker.symmetry import Symmetries
from dashpot.checker.verdict import Violated
from dashpot.grammar.load import load_text
from dashpot.model.interpret import evaluate
from dashpot.model.lower.python import compile_system
from dashpot.model.system import System

SEEDS = st.integers(0, 2**32)


def orbit(system: System, state: State) -> set[State]:
    """All renamings of a state, by definition: every permutation of every group, cell by cell."""
    names = [group.name for group in system.symmetry.groups]
    at = {
        (c.kind, c.path, c.dims, c.slot if not c.dims else None, c.index if not c.dims else 0): c.index
        for c in system.cells
    }
    found = set()
    for chosen in product(*(permutations(range(group.size)) for group in system.symmetry.groups)):
        rename = dict(zip(names, chosen, strict=True))
        values = list(state)
        for cell in system.cells:
            dims = tuple((name, rename[name][element]) for name, element in cell.dims)
            there = at[cell.kind, cell.path, dims, None if dims else cell.slot, 0 if dims else cell.index]
            value = state[cell.index]
            if cell.ref is not None and value >= cell.base:
                value = rename[cell.ref][value - cell.base] + cell.base
            values[there] = value
        found.add(tuple(values))
    return found


@settings(max_examples=200)
@given(SEEDS)
def test_test_systems_are_symmetric(seed: int) -> None:
    """The maker keeps its word: renamings of a state have the renamed steps."""
    system = symmetric_system(seed)
    for state in list(plain(system))[:20]:
        targets = {min(orbit(system, t)) for _, t in steps(system, state)}
        for other in orbit(system, state):
            assert {min(orbit(system, t)) for _, t in steps(system, other)} == targets


@settings(max_examples=200)
@given(SEEDS)
def test_one_representative_an_orbit(seed: int) -> None:
    system = symmetric_system(seed)
    backend = compile_system(system)
    symmetries = Symmetries(backend)
    canon = symmetries.representative()
    for state in list(plain(system))[:200]:
        packed = backend.pack(state)
        assert {backend.unpack(s) for s in symmetries.orbit(packed)} == orbit(system, state)
        assert {canon(s) for s in symmetries.orbit(packed)} == {canon(packed)}
        assert canon(packed) in symmetries.orbit(packed)
        assert symmetries.covered([canon(packed)]) == len(symmetries.orbit(packed))


@settings(max_examples=400)
@given(SEEDS)
def test_verdicts_are_those_without_symmetry(seed: int) -> None:
    """Safety, steps, liveness under exact weak fairness, hot loops: same kinds; shortest paths equally long."""
    system = symmetric_system(seed)
    with_, without = explore(system, cross_check=True), explore(system, symmetry=False)
    assume(with_.report.symmetry)
    assert with_.report.orbits_of == without.report.states
    other = {result.property: result.verdict for result in without.report.results}
    for result in with_.report.results:
        verdict = result.verdict
        assert type(verdict) is type(other[result.property])
        if isinstance(verdict, Violated):
            wanted = other[result.property]
            assert isinstance(wanted, Violated) and verdict.kind == wanted.kind
            if verdict.kind in ("safety", "stuck"):
                assert verdict.steps == wanted.steps
            check_evidence(system, verdict)


def check_evidence(system: System, verdict: Violated) -> None:
    """The trace is a real run, not one of representatives, and shows what it is said to show."""
    trace = verdict.trace
    for here, update, there in zip(trace.states, trace.steps, trace.states[1:], strict=False):
        assert (update, there) in list(steps(system, here))
    if trace.loop is not None:
        assert trace.states[-1] == trace.states[trace.loop]
    if verdict.obligation is not None:
        assert verdict.obligation in system.updates[trace.steps[-1]].obligations
        assert not evaluate(verdict.obligation.holds, trace.states[-2].__getitem__)
    if verdict.goal is not None:
        last = trace.states[len(trace.steps) if trace.loop is None else trace.loop :]
        assert not all(evaluate(verdict.goal.body, state.__getitem__) for state in last)


def test_anchor_orbits_are_those_of_a_brute_force_canoniser() -> None:
    system = anchor(slots=3, symmetry=True)
    backend = compile_system(system)
    canon = Symmetries(backend).representative()
    space = breadth_first(backend, graph=False, canon=canon)
    whole = breadth_first(compile_system(system), graph=False)
    count = len({min(map(backend.pack, orbit(system, backend.unpack(s)))) for s in whole.states[::200]})
    assert count == len({canon(s) for s in whole.states[::200]})
    assert len(space.states) == len({canon(s) for s in whole.states}) == 80418


def test_anchor_has_the_same_verdicts_on_fewer_states() -> None:
    for fix in (False, True):
        report = check_system(anchor(fix=fix, symmetry=True), Options(cross_check=True))
        assert report.symmetry == ("Slot",) and report.complete
        assert (report.states, report.orbits_of) == ((19824, 98580) if fix else (80418, 402792))
        assert report.cross_checked
        kinds = {r.property: getattr(r.verdict, "kind", "holds") for r in report.results}
        found = {"no_overshoot": "safety", "settles": "loop", "hot_loop": "loop"}
        assert kinds == (dict.fromkeys(found, "holds") if fix else found)


LISTED_BEFORE = """
use kubernetes.core (Pod)
resource Site "example.com/v1" {
  spec   { pods: 0..2 = 1 }
  status { ready: 0..2 = 0 }
}
controller C for Site {
  owns Pod
  reconcile s {
    let pods = list cached Pod where p -> p.owner == s
    if pods.size() < s.spec.pods {
      create Pod { generateName: s.name + "-", owner: s } on Denied { return }
    }
    if s.status.ready != pods.count(p, p.status.ready) {
      update s.status { ready: pods.count(p, p.status.ready) } on Conflict { requeue }
    }
  }
}
property grown for s in Site = converges to Pod.count(p, p.owner == s) == s.spec.pods
check small {
  run    C
  scope  { Site: 1, Pod: 2 }
  given  Site web { spec: { pods: 2 } }
  expect grown
}
"""


def test_a_group_whose_elements_do_not_all_have_the_same_cells_is_searched_as_it_is() -> None:
    """Of a list that is read before the first pod is made, only one slot can have been in use."""
    program = load_text(LISTED_BEFORE)
    reduced = check(program, program.checks[0])
    whole = check(program, program.checks[0], Options(symmetry=False))
    assert reduced.complete and whole.complete
    assert reduced.symmetry == ()
    assert [(r.property, r.verdict) for r in reduced.results] == [(r.property, r.verdict) for r in whole.results]
    assert reduced.states == whole.states == 9
