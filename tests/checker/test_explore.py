"""A system explored: one line a property, the worst first, and honest about what was not seen."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.model.anchor import anchor

from dashpot.checker.decide import explore
from dashpot.checker.explore import Options, check_system
from dashpot.checker.verdict import Holds, Report, Unknown, Verdict, Violated
from dashpot.model.core import Graph, Node
from dashpot.model.span import NOWHERE
from dashpot.model.system import Cell, Goal, Label, Obligation, Symmetry, System, Update


class Line:
    """A counter from 0 to 5, one step after the other."""

    def __init__(self) -> None:
        self.g = Graph()
        self.n = self.g.cell(0, 0, 5)

    def at(self, value: int) -> Node:
        return self.g.eq(self.n, self.g.const(value))

    def goal(self, name: str, op: str, body: Node, about: str = "") -> Goal:
        return Goal(name, op, self.g.true, self.g.true, body, about)

    def system(self, *goals: Goal, obligations: tuple[Obligation, ...] = (), top: int = 5) -> System:
        grow = Update(
            Label("A", "update", "grow", object="K a", fairness=("A", "grow"), changes=(("K", "n"),)),
            (self.g.lt(self.n, self.g.const(top)),),
            ((0, self.g.add(self.n, self.g.const(1))),),
            obligations,
        )
        never = Update(Label("A", "update", "never"), (self.at(5), self.g.not_(self.at(5))), ())
        cells = (Cell(0, "store", "", "K", 0, "n", 0, 5, 0, root=True),)
        vacuity = (("action grow", NOWHERE, (0,)), ("action never", NOWHERE, (1,)))
        return System(self.g, cells, (grow, never), (), goals, Symmetry(), vacuity=vacuity)


def verdicts(report: Report) -> dict[str, Verdict]:
    return {result.property: result.verdict for result in report.results}


def test_lines_are_sorted_by_severity() -> None:
    line = Line()
    goals = (
        line.goal("fine", "always", line.g.lt(line.n, line.g.const(9))),
        line.goal("end", "converges", line.at(3)),
        line.goal("low", "always", line.g.lt(line.n, line.g.const(2))),
    )
    report = check_system(line.system(*goals))
    assert [(r.property, getattr(r.verdict, "kind", "holds")) for r in report.results] == [
        ("low", "safety"), ("end", "stuck"), ("fine", "holds"), ("hot_loop", "holds"),
    ]  # fmt: skip
    assert report.status == 1 and report.complete and (report.states, report.transitions) == (6, 5)
    assert report.never_fired == ("action never",)


def test_one_line_for_all_instances() -> None:
    line = Line()
    goals = tuple(line.goal("low", "always", line.g.lt(line.n, line.g.const(k)), f"K {k}") for k in (4, 2, 3))
    (found, *_) = check_system(line.system(*goals)).results
    assert isinstance(found.verdict, Violated)
    assert (found.verdict.steps, found.verdict.about, found.verdict.others) == (2, ("K 2", ""), 2)


def test_sometimes_is_shown_once_and_fails_only_when_all_was_seen() -> None:
    line = Line()
    seen = line.goal("p", "sometimes", line.at(3), "K a")
    unseen = line.goal("p", "sometimes", line.g.false, "K b")
    found = verdicts(check_system(line.system(seen, unseen)))["p"]
    assert isinstance(found, Holds) and found.trace is not None and len(found.trace.steps) == 3
    assert isinstance(verdicts(check_system(line.system(unseen)))["p"], Violated)
    short = verdicts(check_system(line.system(unseen), Options(max_states=1)))["p"]
    assert short == Unknown("states", "stopped after 2 states, 1 of them not expanded")


def test_an_overflow_leaves_all_that_is_not_violated_unknown() -> None:
    line = Line()
    bound = Obligation("@bound", line.g.lt(line.n, line.g.const(4)), ("K a", ""), "K slots")
    low, high = (line.goal(f"under{k}", "always", line.g.lt(line.n, line.g.const(k))) for k in (3, 9))
    seen = line.goal("seen", "sometimes", line.at(1))
    report = check_system(line.system(low, high, seen, obligations=(bound,)))
    found = verdicts(report)
    assert isinstance(found["under3"], Violated) and isinstance(found["seen"], Holds)
    assert found["under9"] == found["hot_loop"] == Unknown("bound", "K slots: 1 step")
    assert report.bounds == ("K slots: 1 step",)


def test_step_obligations_are_broken_by_the_step() -> None:
    line = Line()
    kept = Obligation(
        "kept", line.g.lt(line.n, line.g.const(2)), ("K a", "n"), "the write takes back what another wrote"
    )
    report = check_system(line.system(obligations=(kept,)))
    found = verdicts(report)["kept"]
    assert isinstance(found, Violated) and found.steps == 3 and found.obligation == kept
    assert (found.about, found.message) == (("K a", "n"), "the write takes back what another wrote")


def test_waived_fields_and_objects_are_left_out() -> None:
    line = Line()
    kept = Obligation("kept", line.g.false, ("K a", "n"))
    system = line.system(obligations=(kept,))
    for where in (("K", "n"), ("K", ""), ("", "")):
        report = explore(system, waived={"kept": frozenset({where})}).report
        assert not any(isinstance(v, Violated) for v in verdicts(report).values())
    other = explore(system, waived={"kept": frozenset({("K", "m")})}).report
    assert isinstance(verdicts(other)["kept"], Violated)


def test_named_properties_have_a_line_though_nothing_speaks_of_them() -> None:
    line = Line()
    found = explore(line.system(), asks={"lost_update"}, named={"lost_update"}).report
    assert verdicts(found) == {"lost_update": Holds()}


def test_a_long_search_stops_when_all_that_is_needed_is_decided() -> None:
    system = anchor()
    whole = explore(system, needed={"no_overshoot", "settles"}).report
    assert whole.complete
    early = explore(system, needed={"no_overshoot"}).report
    assert not early.complete and early.states < whole.states
    found = verdicts(early)["no_overshoot"]
    assert isinstance(found, Violated) and found.steps == 7


def test_violations_in_the_part_that_was_seen_stand() -> None:
    """Budgets make the rest unknown, not what was found; a component is judged only if all its steps are known."""
    found = verdicts(check_system(anchor(), Options(max_states=100_000)))
    assert isinstance(found["no_overshoot"], Violated) and isinstance(found["settles"], Violated | Unknown)
    fixed = verdicts(check_system(anchor(fix=True), Options(max_states=20_000)))
    assert {type(v) for v in fixed.values()} == {Unknown}


def test_the_depth_first_engine_leaves_liveness_open() -> None:
    line = Line()
    goals = (line.goal("end", "converges", line.at(3)), line.goal("low", "always", line.g.lt(line.n, line.g.const(2))))
    found = verdicts(check_system(line.system(*goals), Options(engine="depth")))
    assert isinstance(found["low"], Violated) and isinstance(found["end"], Unknown)


def test_a_goal_that_needs_history_is_judged_without_symmetry() -> None:
    """`eventually` is owed along a run; unknown on representatives: symmetry is off, and the report says so."""
    system = anchor(fix=True, symmetry=True)
    g = system.terms
    first = evolve(system.goals[1], property="soon", op="eventually", body=g.false)
    report = check_system(evolve(system, goals=(first,)))
    assert report.symmetry == () and report.states == 98580
    assert isinstance(verdicts(report)["soon"], Violated)


def test_an_interrupt_while_liveness_is_judged_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dashpot.checker.decide.Liveness", interrupt)
    line = Line()
    goals = (line.goal("end", "converges", line.at(3)), line.goal("low", "always", line.g.lt(line.n, line.g.const(2))))
    found = explore(line.system(*goals))
    kinds = verdicts(found.report)
    assert isinstance(kinds["low"], Violated) and found.space.stopped == "interrupted"
    assert isinstance(kinds["end"], Unknown) and kinds["end"].reason == "interrupted"


def test_evidence_that_runs_through_an_overflow_is_none() -> None:
    """Beyond the scope the world is not what the system says: neither safety nor liveness is judged on it."""
    line = Line()
    bound = Obligation("@bound", line.g.not_(line.at(2)), ("K a", ""), "K slots")
    goals = (
        line.goal("under3", "always", line.g.lt(line.n, line.g.const(3))),
        line.goal("end", "converges", line.at(2)),
    )
    seen = line.goal("late", "sometimes", line.at(4))
    report = check_system(line.system(*goals, seen, obligations=(bound,)))
    assert {type(v) for v in verdicts(report).values()} == {Unknown} and report.states == 6
    here = Obligation("kept", line.g.not_(line.at(2)), ("K a", "n"))
    found = verdicts(check_system(line.system(obligations=(bound, here))))["kept"]
    assert isinstance(found, Violated) and found.steps == 3
