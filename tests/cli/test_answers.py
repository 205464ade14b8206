"""The verdict table, the JSON, JUnit and SARIF say the same of one answer."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from dashpot.checker.scenario import Failure, Played
from dashpot.checker.verdict import Holds, Report, Result, Trace, Unknown, Violated
from dashpot.cli import answer, verdicts
from dashpot.cli.ask import vacuity
from dashpot.cli.inquiry import Acted, Checked, Inquiry
from dashpot.cli.problem import HOLDS, UNKNOWN, VIOLATED
from dashpot.model.core import Graph
from dashpot.model.program import Check, Expect, Fault, Scenario, Step, Waive
from dashpot.model.span import Span
from dashpot.model.system import Goal, Symmetry, System

LINE = Span("a.loop", 7, 3, 7, 20)
CHECK = Check(
    "small", ("Op", "Users"), (("Database", 1), ("Pod", 3), ("FIXED", False)), (Fault("relist", "Pod", 1, "Op"),),
    False, "urgent", (), (), (), "a", Span("a.loop", 40, 1, 45, 2),
)  # fmt: skip
SAFE = Trace(((0,), (1,), (2,)), (0, 1))
LASSO = Trace(tuple((i,) for i in (0, 1, 2, 3, 1)), (0, 1, 2, 3), 1)


SYSTEM = System(Graph(), (), (), (), (), Symmetry())


def goal() -> Goal:
    g = Graph()
    return Goal("scaled", "converges", g.true, g.true, g.false, span=LINE)


def checked(*results: Result, complete: bool = True) -> Checked:
    report = Report("small", 11287, 41906, 23, complete, 2.14, results, bounds=("Pod slots: 12 steps",), lag=2)
    runs = {r.property: "f3a1" for r in results if isinstance(r.verdict, Violated)}
    return Checked(CHECK, report, CHECK.faults or (), runs, {"scaled": "It never scales."}, {"scaled": ((LINE, "x"),)})


KEPT = Result("kept", Violated("safety", 2, SAFE, about=("Pod p", "f"), message="two pods"), "violation")
SCALED = Result("scaled", Violated("loop", 4, LASSO, goal(), others=2), "holds", False)
OPEN = Result("lively", Unknown("bound", "Pod slots: 12 steps"), "", None)
EXTRA = Result("hot_loop", Violated("trapped", 4, LASSO), "", False, judged=False)
QUIET = Result("panic", Holds())
SEEN = Result("full", Holds(SAFE), "holds")
ALL = (KEPT, SCALED, OPEN, EXTRA, SEEN, QUIET)


def test_the_table_has_a_line_a_property() -> None:
    one = checked(*ALL)
    assert verdicts.heading(CHECK, one.faults) == (
        "small   Op + Users   Database 1, Pod 3, FIXED false   relist Pod for Op 1"
    )
    assert verdicts.explored(one.report) == ("  11 287 distinct states  41 906 transitions  depth 23  complete  2.1 s")
    assert verdicts.table(one.report, one.runs) == [
        "  property  verdict     steps  run",
        "  kept      ✗ violated      2  f3a1  as expected ✓",
        "  scaled    ✗ loops      1+3↻  f3a1  expected to hold ✗  (and 2 other objects)",
        "  lively    ? unknown       –  –     bound hit: Pod slots: 12 steps",
        "  hot_loop  ✗ trapped    1+3↻  f3a1  not judged",
        "  full      ✓ holds         2  –     as expected ✓",
        "  also looked for, not found: panic",
    ]
    assert verdicts.footnotes(one) == [
        "  bound hit:  Pod slots: 12 steps",
        "  lag:  up to 2 undelivered changes a cache; what lags further behind is not explored",
    ]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Result("p", Violated("stuck", 2, SAFE), "", False), "unexpected ✗"),
        (Result("p", Holds(), "violation", False, note="it holds"), "✗ it holds"),
        (Result("p", Holds(), "violation", False), "expected to be violated ✗"),
        (Result("p", Holds()), ""),
    ],
)
def test_what_the_check_said_is_told(result: Result, words: str) -> None:
    assert verdicts.remark(result) == words


def test_statuses_follow_what_is_judged() -> None:
    assert Inquiry("a.loop", checked=(checked(KEPT, EXTRA),)).status == HOLDS
    assert Inquiry("a.loop", checked=(checked(KEPT, OPEN),)).status == UNKNOWN
    assert Inquiry("a.loop", checked=(checked(OPEN, SCALED),)).status == VIOLATED
    assert Inquiry("a.loop", dead=("action A.b",), vacuous="found").status == VIOLATED
    assert Inquiry("a.loop", dead=("action A.b",), vacuous="waived").status == HOLDS
    assert Inquiry("a.loop", vacuous="missing").status == VIOLATED
    failed = Acted(scenario(), played(Failure("assert", 0, "no", LINE)))
    assert Inquiry("a.loop", acted=(failed,)).status == VIOLATED
    small = Acted(scenario(), played(Failure("bound", 0, "too small", LINE)))
    assert Inquiry("a.loop", acted=(small,)).status == UNKNOWN


def scenario() -> Scenario:
    return Scenario("s", (), (Step("settle"),), "a", LINE)


def played(failure: Failure | None) -> Played:
    return Played("s", SYSTEM, SAFE, (), failure)


def test_json_has_what_the_document_promises() -> None:
    inquiry = Inquiry("a.loop", checked=(checked(*ALL),), acted=(Acted(scenario(), played(None)),))
    document = json.loads(answer.to_json([inquiry], 1, 7))
    assert [document[k] for k in ("format", "seed", "status")] == [1, 7, 1]
    (file,) = document["files"]
    assert list(file) == ["file", "status", "messages", "checks", "scenarios", "vacuous"]
    (check,) = file["checks"]
    by_name = {r["property"]: r for r in check["results"]}
    assert (check["states"], check["transitions"], check["lag"]) == (11287, 41906, 2)
    scaled = by_name["scaled"]
    assert (scaled["kind"], scaled["steps"], scaled["cycle"], scaled["others"]) == ("loop", 4, 3, 2)
    assert scaled["message"] == "It never scales." and scaled["at"]["line"] == 7
    assert by_name["kept"]["about"] == {"object": "Pod p", "field": "f"} and by_name["kept"]["at"] is None
    assert by_name["lively"]["as_said"] is None and by_name["lively"]["reason"] == "bound"
    assert by_name["panic"] == {
        "property": "panic", "verdict": "holds", "expected": None, "as_said": True, "judged": True, "note": "",
        "run": None,
    }  # fmt: skip
    assert file["scenarios"] == [{"scenario": "s", "passed": True, "steps": 2, "failure": None, "broken": []}]


def test_junit_tells_failed_from_undecided_and_unjudged() -> None:
    (suite,) = answer.suites([Inquiry("a.loop", checked=(checked(*ALL),))])
    assert {c.name: c.outcome for c in suite.cases} == {
        "kept": "passed", "scaled": "failed", "lively": "error", "hot_loop": "skipped", "full": "passed",
        "panic": "passed",
    }  # fmt: skip
    assert suite.name == "a.loop.small" and suite.seconds == 2.14
    text = next(c.text for c in suite.cases if c.name == "scaled")
    assert "It never scales. (2 other objects too) [1+3↻ steps]" in text and "dashpot explain f3a1" in text


def test_sarif_has_only_what_is_not_as_said() -> None:
    found = list(answer.findings([Inquiry("a.loop", checked=(checked(*ALL),), dead=("action A.b",), vacuous="found")]))
    assert [(f.rule, f.level, f.span.line) for f in found] == [
        ("scaled", "error", 7),
        ("lively", "warning", 40),
        ("vacuous", "error", 0),
    ]
    assert found[0].flow == ((LINE, "x"),)


def test_vacuity_is_judged_for_the_whole_file() -> None:
    expects = evolve(CHECK, expects=(Expect(("vacuous",), True, None, None),))
    waives = evolve(CHECK, waives=(Waive("vacuous", None, (), "why"),))
    dead = ("action A.b",)
    assert [vacuity(d, [CHECK]) for d in ((), dead)] == ["", "found"]
    assert [vacuity(d, [CHECK, waives]) for d in ((), dead)] == ["", "waived"]
    assert [vacuity(d, [CHECK, expects]) for d in ((), dead)] == ["missing", "expected"]


def test_a_line_of_a_script_is_quoted_as_it_is_written() -> None:
    source = "scenario s {\n  settle\n  create Pod {\n    a: 1\n  }\n}\n"
    acted = Acted(scenario(), played(None), source=source)
    assert acted.text(Step("settle", span=Span("a.loop", 2, 3, 2, 9))) == "settle"
    assert acted.text(Step("write", span=Span("a.loop", 3, 3, 5, 4))) == "create Pod { …"
    assert acted.text(Step("settle")) == "settle"


def test_orbits_are_told_with_the_states_that_they_stand_for() -> None:
    report = Report("small", 80418, 2818917, 41, True, 3.0, (), ("Slot",), orbits_of=402792, cross_checked=True)
    assert verdicts.explored(report).startswith("  80 418 orbits of 402 792 distinct states  2 818 917 transitions  ")
    assert any("cross-check:" in line for line in verdicts.footnotes(Checked(CHECK, report, ())))
