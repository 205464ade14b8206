"""Traces leave and come back as Informal Trace Format unchanged."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.ghosts import SOURCES, TEXT, tide, twins

from dashpot.checker.itf import Itf, ItfError, decode, encode, itf_of
from dashpot.checker.runs import Run, run_of
from dashpot.checker.story import story

VALUES = st.one_of(st.booleans(), st.integers(), st.text(max_size=5))


NAMES = st.lists(st.text("abcxyz._0", min_size=1, max_size=6), min_size=1, max_size=4, unique=True)


@given(NAMES, st.data())
def test_any_trace_comes_back_as_it_left(names: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*[VALUES] * len(names)), min_size=1, max_size=5))
    loop = data.draw(st.one_of(st.none(), st.integers(0, len(rows) - 1)))
    trace = Itf(tuple(names), tuple(rows), loop, (("format", "ITF"),))
    assert decode(encode(trace)) == trace


def a_run(lasso: bool = False) -> Run:
    system, violated = tide() if lasso else twins()
    return run_of(system, violated, story(system, violated, SOURCES), spec="fleet.loop", text=TEXT, check="small")


def test_a_run_has_a_variable_for_each_cell_and_one_for_the_step() -> None:
    document = json.loads(encode(itf_of(a_run())))
    assert document["vars"][0] == "action" and "store.Pod[0].present" in document["vars"]
    assert [s["#meta"]["index"] for s in document["states"]] == [0, 1, 2]
    assert document["states"][0]["action"] == "init" and "create Pod db-0" in document["states"][1]["action"]
    assert document["states"][1]["store.Pod[0].owner"] == "db"
    assert document["#meta"]["format"] == "ITF" and "loop" not in document


def test_a_lasso_says_where_it_closes() -> None:
    document = json.loads(encode(itf_of(a_run(lasso=True))))
    assert document["loop"] == 6 and len(document["states"]) == 12


def test_large_integers_are_written_as_text() -> None:
    trace = Itf(("x",), ((2**70,), (-(2**53),), (2**53 - 1,)))
    assert [s["x"] for s in json.loads(encode(trace))["states"]] == [
        {"#bigint": str(2**70)},
        {"#bigint": str(-(2**53))},
        2**53 - 1,
    ]
    assert decode(encode(trace)).rows == trace.rows


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"vars": ["x"], "states": [{}]}', '{"vars": ["x"], "states": [{"x": [1]}]}',
     '{"vars": ["x"], "states": [{"x": 1}], "loop": 4}', '{"vars": 3, "states": []}',
     '{"vars": ["x"], "states": [{"x": {"#bigint": "z"}}]}', "[" * 100_000],
)  # fmt: skip
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(ItfError):
        decode(text)


def test_texts_of_booleans_become_booleans() -> None:
    run = a_run()
    column = evolve(run.columns[0], lo=0, hi=1, texts=("false", "true"))
    rows = tuple((i % 2, *state[1:]) for i, state in enumerate(run.states))
    shown = itf_of(evolve(run, columns=(column, *run.columns[1:]), states=rows))
    assert [row[1] for row in shown.rows] == [False, True, False]
