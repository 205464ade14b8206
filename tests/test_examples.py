"""Every example says in its own checks what comes out of it; here that is held to account."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dashpot
from dashpot.checker.verdict import Report, Violated
from dashpot.model.program import Check, Fault, Program, State
from tests.tree import ROOT

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(p.name for p in EXAMPLES.glob("[0-9]*"))
YARDSTICK = "01-stale-cache-literal"
CONTROLLERS = [f for f in FOLDERS if "-replicaset-" in f]
OPERATORS = [f for f in FOLDERS if f.endswith("-operator")]
BUGS = [f for f in FOLDERS if f != YARDSTICK and f not in CONTROLLERS + OPERATORS]
LEAST_BY_DEFAULT = 8

CPU_S = 10.0
ALL_CPU_S = 60.0


@functools.cache
def spec(folder: str) -> Path:
    """The one spec of an example."""
    (path,) = (EXAMPLES / folder).glob("*.loop")
    return path


@functools.cache
def program(folder: str) -> Program:
    return dashpot.load(spec(folder))


def own_checks(folder: str) -> list[Check]:
    return [c for c in program(folder).checks if c.module == program(folder).main]


@functools.cache
def report(folder: str, check: str) -> Report:
    return dashpot.check(program(folder), check)


@functools.cache
def by_default(folder: str, check: str) -> Report:
    return dashpot.check(program(folder), check, defaults_only=True)


def every_check(folders: list[str]) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for check in own_checks(folder):
            yield folder, check.name


def pair(folder: str) -> tuple[Check, Check]:
    """The buggy check of an example and its fixed twin."""
    checks = own_checks(folder)
    buggy = [c for c in checks if any(e.violation for e in c.expects)]
    fixed = [c for c in checks if c not in buggy]
    assert len(buggy) == len(fixed) == 1, f"{folder} is no pair"
    return buggy[0], fixed[0]


def broken(found: Report) -> dict[str, Violated]:
    return {r.property: r.verdict for r in found.results if isinstance(r.verdict, Violated)}


def budgets(check: Check) -> dict[tuple[str, str | None, str | None], int]:
    faults: tuple[Fault, ...] = check.faults or ()
    return {(f.name, f.target, f.by): f.limit for f in faults}


def crashes(check: Check) -> int:
    return sum(limit for (name, _, _), limit in budgets(check).items() if name == "crash")


def test_they_are_numbered() -> None:
    assert [f[:2] for f in FOLDERS] == [f"{n:02}" for n in range(1, len(FOLDERS) + 1)]
    assert len(CONTROLLERS) == 3
    assert len(BUGS) == 13


@pytest.mark.parametrize("folder", FOLDERS)
def test_readme_names_its_source_and_how_to_run_it(folder: str) -> None:
    text = (EXAMPLES / folder / "README.md").read_text()
    assert text.startswith("# ")
    assert "https://github.com/" in text
    assert f"dashpot check {spec(folder).name}" in text


@pytest.mark.parametrize(("folder", "check"), list(every_check(CONTROLLERS + BUGS + OPERATORS)))
def test_check_comes_out_as_it_says(folder: str, check: str) -> None:
    started = time.process_time()
    found = report(folder, check)
    assert time.process_time() - started < CPU_S
    assert found.status == 0, [r for r in found.results if r.as_said is not True]
    assert found.states < 60_000


def test_yardstick_has_its_counts() -> None:
    hasty, patient = report(YARDSTICK, "hasty"), report(YARDSTICK, "patient")
    assert hasty.status == patient.status == 0
    assert broken(hasty)["no_overshoot"].steps == 7
    assert broken(hasty)["settles"].kind == "loop"
    assert not broken(patient)
    plain = dashpot.check(program(YARDSTICK), "hasty", symmetry=False)
    assert (plain.states, plain.transitions) == (402_792, 2_818_917)
    plain = dashpot.check(program(YARDSTICK), "patient", symmetry=False)
    assert (plain.states, plain.transitions) == (98_580, 616_152)


@pytest.mark.parametrize("folder", BUGS)
def test_twins_differ_in_one_constant(folder: str) -> None:
    buggy, fixed = pair(folder)
    constants = {c.name for c in program(folder).constants}
    before, after = dict(buggy.scope), dict(fixed.scope)
    switched = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert len(switched) == 1 and switched <= constants
    assert (buggy.run, buggy.given, buggy.time, buggy.resync) == (fixed.run, fixed.given, fixed.time, fixed.resync)


@pytest.mark.parametrize("folder", BUGS)
def test_fixed_twin_meets_every_fault_and_one_crash_more(folder: str) -> None:
    buggy, fixed = pair(folder)
    for fault, limit in budgets(buggy).items():
        assert budgets(fixed).get(fault, 0) >= limit
    assert crashes(fixed) == crashes(buggy) + 1


@pytest.mark.parametrize("folder", BUGS)
def test_fixed_twin_is_explored_completely_and_reaches_its_goal(folder: str) -> None:
    _, fixed = pair(folder)
    assert report(folder, fixed.name).complete
    assert not report(folder, fixed.name).bounds
    goals = {p.name for p in program(folder).properties if isinstance(p.formula, State) and p.formula.op == "sometimes"}
    assert goals & {name for e in fixed.expects for name in e.names}
    assert not fixed.waives or all(w.kind == "Lease" for w in fixed.waives)


@pytest.mark.parametrize("folder", BUGS)
def test_nothing_in_the_file_is_vacuous(folder: str) -> None:
    idle = [set(report(folder, c.name).never_fired) for c in own_checks(folder)]
    assert not set.intersection(*idle)


@pytest.mark.parametrize("folder", BUGS)
def test_expected_violations_say_their_kind_and_length(folder: str) -> None:
    buggy, _ = pair(folder)
    for e in buggy.expects:
        if e.violation:
            assert e.kind is not None and e.within is not None
            for name in e.names:
                assert broken(report(folder, buggy.name))[name].kind == e.kind


@pytest.mark.parametrize("folder", BUGS)
def test_fixed_twin_is_clean_by_default(folder: str) -> None:
    _, fixed = pair(folder)
    assert not broken(by_default(folder, fixed.name))


def test_most_bugs_are_found_without_any_property() -> None:
    found = [folder for folder in BUGS if broken(by_default(folder, pair(folder)[0].name))]
    assert len(found) >= LEAST_BY_DEFAULT, found


def test_the_bugs_together_take_less_than_a_minute() -> None:
    assert sum(report(f, c).cpu_s for f, c in every_check(BUGS)) < ALL_CPU_S


GOLDEN = {
    ("02-replicaset-naive", "stale"): (279, 1_058),
    ("03-replicaset-expectations", "patient"): (604, 2_231),
    ("04-replicaset-own-writes", "own_writes"): (438, 1_627),
}
"""Orbits (states where nothing is interchangeable) and transitions of the idiomatic ReplicaSet, three variants."""


@pytest.mark.parametrize(("folder", "check"), GOLDEN)
def test_counts_are_the_golden_ones(folder: str, check: str) -> None:
    found = report(folder, check)
    assert (found.states, found.transitions) == GOLDEN[folder, check]
