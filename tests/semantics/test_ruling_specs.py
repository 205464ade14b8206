"""The rulings as specs of a screen each: every check comes out as it says, and no step sooner."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

import dashpot
from dashpot.checker.verdict import Report, Violated
from dashpot.model.program import Check, Program

HERE = Path(__file__).parent
SPECS = sorted(p.stem for p in HERE.glob("*.loop"))

UNDECIDED = {("18-unbounded", "too_small")}
"""Checks whose scope is too small on purpose: neither holds nor violated (ruling 18)."""

VACUOUS = {"10-vacuous": {"action Steps.never"}}
"""What can fire in no check of a file; nothing of the kind in the others (ruling 10)."""


@functools.cache
def program(spec: str) -> Program:
    return dashpot.load(HERE / f"{spec}.loop")


def checks(spec: str) -> list[Check]:
    return [c for c in program(spec).checks if c.module == program(spec).main]


@functools.cache
def report(spec: str, check: str) -> Report:
    return dashpot.check(program(spec), check)


CASES = [(spec, check.name) for spec in SPECS for check in checks(spec)]


def test_every_ruling_has_a_spec() -> None:
    assert [s[:2] for s in SPECS] == [f"{n:02}" for n in range(1, 20)]


@pytest.mark.parametrize(("spec", "check"), CASES)
def test_check_comes_out_as_it_says(spec: str, check: str) -> None:
    found = report(spec, check)
    assert found.status == (3 if (spec, check) in UNDECIDED else 0), found.results


@pytest.mark.parametrize(("spec", "check"), CASES)
def test_within_is_the_exact_length_here(spec: str, check: str) -> None:
    verdicts = {r.property: r.verdict for r in report(spec, check).results}
    (asked,) = [c for c in checks(spec) if c.name == check]
    for expect in asked.expects:
        for name in expect.names:
            verdict = verdicts.get(name)
            if expect.within is not None:
                assert isinstance(verdict, Violated) and verdict.steps == expect.within


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_is_vacuous_by_accident(spec: str) -> None:
    idle = set.intersection(*[set(report(spec, c.name).never_fired) for c in checks(spec)])
    assert idle == VACUOUS.get(spec, set())
