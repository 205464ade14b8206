"""Ruling 18: `unbounded` is what overflows its scope and still does with the scope raised by one and by two."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dashpot.checker.explore import check
from dashpot.checker.verdict import Report, Unknown, Violated
from dashpot.model.core import Graph
from dashpot.model.program import Check, Expect, Program
from dashpot.model.system import Cell, Label, Obligation, Symmetry, System, Update


def world(check: Check, most: int, more: int = 0) -> System:
    """Objects are made one after the other, `most` in all; the scope has room for some."""
    g = Graph()
    size = dict(check.scope)["K"]
    assert isinstance(size, int)
    size += more
    n = g.cell(0, 0, size)
    full = Obligation("@bound", g.not_(g.eq(n, g.const(size))), ("K", ""), "K slots")
    grown = g.min_(g.add(n, g.const(1)), g.const(size))
    create = Update(
        Label("A", "create", "make", object="K", fairness=("A", "make"), changes=(("K", "*"),)),
        (g.lt(n, g.const(most)),), ((0, grown),), (full,),
    )  # fmt: skip
    return System(g, (Cell(0, "store", "", "K", 0, "n", 0, size, 0, root=True),), (create,), (), (), Symmetry())


def answer(monkeypatch: pytest.MonkeyPatch, most: int, size: int, *expects: Expect) -> Report:
    asked = Check("small", (), (("K", size),), None, False, "urgent", (), expects, (), "main")

    def build(_: Program, check: Check, room: Mapping[str, int] | None = None) -> System:
        return world(check, most, (room or {}).get("K slots", 0))

    monkeypatch.setattr("dashpot.model.kernel.build.build", build)
    return check(Program("main", (), (), (), (), (), (), (), (), (asked,), (), ()), asked)


def test_what_always_overflows_is_unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    report = answer(monkeypatch, 10, 3)
    found = {r.property: r.verdict for r in report.results}["unbounded"]
    assert isinstance(found, Violated) and (found.kind, found.steps, found.about) == ("safety", 4, ("K", ""))
    assert found.message == "there is no bound on K: 3, 4 and 5 of them are not enough"
    assert report.status == 1


def test_a_scope_that_is_only_small_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    report = answer(monkeypatch, 5, 3)
    assert "unbounded" not in {r.property for r in report.results}
    assert report.bounds == ("K slots: 1 step",) and report.status == 3


def test_what_the_check_expects_to_be_unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    expect = Expect(("unbounded",), True, "safety", 4)
    assert answer(monkeypatch, 10, 3, expect).status == 0
    undecided = answer(monkeypatch, 5, 3, expect)
    assert {r.property: r.verdict for r in undecided.results}["unbounded"] == Unknown("bound", "K slots: 1 step")
    assert answer(monkeypatch, 3, 3, expect).status == 1
