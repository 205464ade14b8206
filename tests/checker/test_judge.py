"""Verdicts are held against expectations as semantics.md says: kinds, `within`, what is judged and what is reported."""

from __future__ import annotations

import pytest

from dashpot.checker.judge import judged, questions
from dashpot.checker.verdict import Holds, Report, Result, Trace, Unknown, Verdict, Violated
from dashpot.model.expr import Literal
from dashpot.model.program import Check, Expect, Program, Property, State, Waive
from dashpot.model.types import Bool

WAIVED = Waive("hot_loop", None, (), "leases")
TRACE = Trace(((0,),), ())


def program(*names: str) -> Program:
    formula = State("always", Literal(True, Bool()))
    properties = tuple(Property(name, None, formula, "main") for name in names)
    return Program("main", (), (), (), (), (), (), (), properties, (), (), ())


def check(*expects: Expect, waives: tuple[Waive, ...] = ()) -> Check:
    return Check("small", (), (), None, False, "urgent", (), expects, waives, "main")


def violated(kind: str = "safety", steps: int = 3) -> Violated:
    return Violated(kind, steps, TRACE)


def answer(check_: Check, *names: str, defaults_only: bool = False, **verdicts: Verdict) -> dict[str, Result]:
    report = Report("small", 1, 0, 1, True, 0.0, tuple(Result(name, v) for name, v in verdicts.items()))
    return {r.property: r for r in judged(report, questions(program(*names), check_, defaults_only)).results}


@pytest.mark.parametrize(
    ("verdict", "as_said", "note"),
    [
        (violated("loop", 7), True, ""),
        (violated("loop", 8), False, "expected within 7, found after 8"),
        (violated("trapped", 7), False, "expected as loop, is trapped"),
        (Holds(), False, "a violation was expected, and it holds"),
        (Unknown("bound", "Pod slots"), None, ""),
    ],
)
def test_an_expected_violation_has_its_kind_and_length(verdict: Verdict, as_said: bool | None, note: str) -> None:
    """Ruling 2: `within` is an upper bound."""
    found = answer(check(Expect(("p",), True, "loop", 7)), "p", p=verdict)["p"]
    assert (found.expected, found.as_said, found.judged, found.note) == ("violation", as_said, True, note)


@pytest.mark.parametrize(("verdict", "as_said"), [(Holds(), True), (violated(), False), (Unknown("time", ""), None)])
def test_what_is_expected_to_hold(verdict: Verdict, as_said: bool | None) -> None:
    found = answer(check(Expect(("p",), False, None, None)), "p", p=verdict)["p"]
    assert (found.expected, found.as_said, found.judged) == ("holds", as_said, True)


def test_default_properties_are_judged_unless_a_violation_is_expected() -> None:
    """Ruling 10."""
    holds = answer(check(Expect(("p",), False, None, None)), "p", p=Holds(), hot_loop=violated("loop"))
    assert holds["hot_loop"].judged and holds["hot_loop"].as_said is False
    broken = answer(check(Expect(("p",), True, None, None)), "p", p=violated(), hot_loop=violated("loop"))
    assert not broken["hot_loop"].judged and broken["p"].as_said is True
    both = answer(check(Expect(("p", "hot_loop"), True, None, None)), "p", p=violated(), hot_loop=Holds())
    assert both["hot_loop"].judged and both["hot_loop"].as_said is False


def test_what_was_not_decided_and_is_not_judged_has_no_line() -> None:
    found = answer(check(Expect(("p",), True, None, None)), "p", p=violated(), hot_loop=Unknown("decided", ""))
    assert set(found) == {"p"}


def test_a_check_that_expects_nothing_asks_for_all_of_its_file() -> None:
    asked = questions(program("p", "q"), check())
    assert {"p", "q", "hot_loop"} <= asked.names and asked.named == {"p", "q"}
    only = questions(program("p", "q"), check(Expect(("q",), False, None, None)))
    assert "p" not in only.names and only.named == {"q"}


def test_defaults_only_forgets_the_properties_of_the_user() -> None:
    asked = questions(program("p"), check(Expect(("p", "hot_loop"), True, None, None)), defaults_only=True)
    assert "p" not in asked.names and asked.named == {"hot_loop"} and not asked.lenient


def test_waivers_are_collected_by_name() -> None:
    waives = (Waive("hot_loop", "Lease", ("spec", "renewed"), "for ever"), Waive("panic", None, (), "known"))
    asked = questions(program(), check(waives=waives))
    assert asked.waived == {"hot_loop": {("Lease", "spec.renewed")}, "panic": {("", "")}}


def test_an_expectation_that_nothing_answers_is_undecided() -> None:
    """It must not pass for one that was met."""
    asked = check(Expect(("p",), False, None, None), Expect(("hot_loop",), True, None, None), waives=(WAIVED,))
    report = judged(Report("small", 1, 0, 1, True, 0.0, ()), questions(program("p"), asked))
    lines = {r.property: (r.expected, r.as_said, r.judged) for r in report.results}
    assert lines == {"p": ("holds", None, True), "hot_loop": ("violation", None, True)}
    assert report.status == 3
    details = [r.verdict.detail for r in report.results if isinstance(r.verdict, Unknown)]
    assert details == [
        "nothing that it speaks of occurs in this check",
        "the check waives it, so it was not looked for",
    ]
