"""Pictures show the state space through a view: every run is a path through the boxes, and few boxes are drawn."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.ghosts import SOURCES, fleet, sleeper, twins
from tests.model.anchor import Anchor

from dashpot.checker import graph
from dashpot.checker.graph import GraphError, draw, source
from dashpot.checker.quotient import LIMIT, Quotient, TooFine, View, action_name, followed, quotient
from dashpot.checker.search import breadth_first
from dashpot.checker.space import Space
from dashpot.checker.views import ENOUGH, default_view
from dashpot.model.core import Node
from dashpot.model.lower.python import compile_system
from dashpot.model.system import Label, System


def explored(system: System) -> Space:
    return breadth_first(compile_system(system))


@pytest.fixture(scope="module")
def pods() -> Space:
    return explored(fleet())


def counts(space: Space) -> View:
    """How many pods there are, how many the cache shows, how many are wanted."""
    system, g = space.backend.system, space.backend.system.terms

    def total(area: str) -> Node:
        cells = [c for c in system.cells if c.area == area and c.path == "present" and c.kind == "Pod" and c.slot >= 0]
        return g.sum(g.cell(c.index, c.lo, c.hi) for c in cells)

    return [("pods", total("store")), ("cached", total("cache")), ("wanted", g.cell(0, 0, 2))]


def test_boxes_partition_the_states(pods: Space) -> None:
    result = quotient(pods, counts(pods))
    assert sum(box.states for box in result.boxes) == len(pods.states) == result.states
    assert len({box.values for box in result.boxes}) == len(result.boxes)
    assert [box.values for box in result.boxes if box.start] == [("0", "0", "1")]


@given(st.sets(st.integers(0, 2), min_size=1))
def test_each_step_of_the_space_is_in_a_bundle(chosen: set[int]) -> None:
    """Bundles hold exactly the steps that change the view, by actor, role and action."""
    space = explored(fleet())
    backend = space.backend
    view = [counts(space)[i] for i in sorted(chosen)]
    result = quotient(space, view)
    tests = backend.predicates([node for _, node in view])
    expected: Counter[tuple[object, ...]] = Counter()
    for state in space.states:
        pairs = iter(backend.successors(state))
        here = tuple(str(test(state)) for test in tests)
        for update, target in zip(pairs, pairs, strict=True):
            there = tuple(str(test(target)) for test in tests)
            label = backend.system.updates[update].label
            if here != there:
                expected[here, there, label.actor, label.role, action_name(label)] += 1
    boxes = result.boxes
    found = Counter(
        {
            (boxes[b.source].values, boxes[b.target].values, b.actor, b.role, name): count
            for b in result.bundles
            for name, count in b.actions
        }
    )
    assert found == expected


def test_the_goal_colours_boxes(pods: Space) -> None:
    system = pods.backend.system
    result = quotient(pods, counts(pods), system.goals[1])
    for box in result.boxes:
        there, _, wanted = map(int, box.values)
        assert box.goal == ("holds" if there == wanted else "fails")
    coarse = quotient(pods, counts(pods)[:1], system.goals[1])
    assert {box.values[0]: box.goal for box in coarse.boxes} == {"0": "both", "1": "both", "2": "both", "3": "fails"}


def test_components_leave_out_faults_and_environment(pods: Space) -> None:
    """Only the user changes what is wanted: for each wish its own component, which no step leaves."""
    result = quotient(pods, counts(pods)[2:])
    assert len(result.boxes) == 3 and all(box.bottom for box in result.boxes)
    assert len({box.component for box in result.boxes}) == 3
    assert {b.role for b in result.bundles} == {"environment"}


def test_states_without_a_way_out_are_counted_even_where_a_box_hides_them() -> None:
    """The sleeper has read its cache before the node was ready: some states of that box move on, one never does."""
    system, violated = sleeper()
    space = explored(system)
    ready, joined = (system.terms.cell(c.index, 0, 1) for c in system.cells if c.area == "store")
    result = quotient(space, [("ready", ready), ("joined", joined)], violated.goal)
    lost = {box.values: box.lost for box in result.boxes}
    assert lost[("true", "false")] == 1 and lost[("true", "true")] == 0
    assert not next(box for box in result.boxes if box.values == ("true", "false")).bottom
    assert "✗ 1 without a way out" in source(result).source


def test_a_run_is_followed_through_its_surroundings(pods: Space) -> None:
    system, violated = twins()
    assert len(system.cells) == len(pods.backend.system.cells)
    view = counts(pods)
    whole = quotient(pods, view)
    near = followed(whole, pods, view, violated.trace.states, radius=0)
    assert [box.values for box in near.boxes if box.run] == [box.values for box in near.boxes]
    assert {box.values for box in near.boxes} == {("0", "0", "1"), ("1", "0", "1"), ("2", "1", "1")}
    assert near.hidden == len(whole.boxes) - 3
    assert sum(b.run for b in near.bundles) == 2
    wider = followed(whole, pods, view, violated.trace.states, radius=1)
    assert len(near.boxes) < len(wider.boxes) <= len(whole.boxes)


def test_a_view_that_is_too_fine_is_refused_with_advice() -> None:
    space = explored(Anchor(2, 2, 2, fix=False).system())
    system = space.backend.system
    cells = [(c.path, system.terms.cell(c.index, c.lo, c.hi)) for c in system.cells]
    with pytest.raises(TooFine, match=f"more than {LIMIT} boxes.*leave out `todo`"):
        quotient(space, cells)


def test_the_default_view_is_coarse_and_speaks_of_the_goal(pods: Space) -> None:
    system = pods.backend.system
    view = default_view(pods, system.goals[0], SOURCES)
    assert [name for name, _ in view][:2] == ["Pod.count(p, p.owner == db)", "db.spec.members"]
    assert 1 < len(quotient(pods, view).boxes) <= ENOUGH
    assert "Pod" in [name for name, _ in default_view(pods)]


def test_names_of_actions_leave_out_single_objects() -> None:
    assert action_name(Label("A", "create", "reconcile", "Pod web-0")) == "create Pod"
    assert action_name(Label("A", "deliver", "", "Pod web-0")) == "deliver Pod"
    assert action_name(Label("U", "patch", "scale", "Database db")) == "scale"
    assert action_name(Label("A", "crash")) == "crash"


def test_the_picture_marks_what_it_says(pods: Space) -> None:
    result = quotient(pods, counts(pods), pods.backend.system.goals[1])
    text = source(result).source
    assert text.count("cluster") >= 3 and "heavy frame: no step that must happen leads out" in text
    assert "settles for Database db holds" in text and "→ Fleet" in text and "dotted: need not happen" in text
    assert source(result).source == text


def test_names_cannot_break_the_picture(pods: Space, tmp_path: Path, dot: str) -> None:
    view = [('<b>&"</b>', counts(pods)[0][1])]
    drawn = draw(quotient(pods, view, pods.backend.system.goals[1]), tmp_path / "p.svg")
    assert "<b>" not in drawn.path.read_text() and "&lt;b&gt;&amp;&quot;" in drawn.path.read_text()


@pytest.mark.parametrize("kind", ["svg", "png", "dot"])
def test_it_draws(pods: Space, tmp_path: Path, dot: str, kind: str) -> None:
    drawn = draw(quotient(pods, counts(pods)), tmp_path / f"p.{kind}")
    start = {"svg": b"<?xml", "png": b"\x89PNG", "dot": b"digraph"}[kind]
    assert drawn.path.read_bytes().startswith(start) and drawn.note == ""


def test_without_graphviz_the_source_is_written(pods: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    drawn = draw(quotient(pods, counts(pods)), tmp_path / "p.svg")
    assert drawn.path == tmp_path / "p.dot" and drawn.path.read_text().startswith("digraph")
    assert "not installed" in drawn.note and f"dot -Tsvg {drawn.path}" in drawn.note


def test_what_cannot_be_drawn_is_an_error_with_a_text(pods: Space, tmp_path: Path, dot: str) -> None:
    result = quotient(pods, counts(pods))
    with pytest.raises(GraphError, match=r"`\.bmp`"):
        draw(result, tmp_path / "p.bmp")
    with pytest.raises(GraphError, match="cannot write"):
        draw(result, tmp_path / "none" / "p.svg")


def test_an_empty_view_is_one_box(pods: Space) -> None:
    result = quotient(pods, [])
    assert isinstance(result, Quotient) and len(result.boxes) == 1 and result.bundles == ()
    assert graph.source(result).source


def test_the_anchor_is_drawn_in_under_ten_cpu_seconds(tmp_path: Path, dot: str) -> None:
    """402,792 states: explored, seen through living pods and wish, drawn."""
    start = time.process_time()
    anchor = Anchor(3, 2, 2, fix=False)
    system, g = anchor.system(), anchor.g
    space = explored(system)
    view = [("alive", g.sum(anchor.alive(c) for c in anchor.store)), ("desired", anchor.desired)]
    result = quotient(space, view, system.goals[1])
    draw(result, tmp_path / "anchor.svg")
    assert (len(result.boxes), result.states, result.transitions) == (12, 402_792, 2_818_917)
    assert len({box.component for box in result.boxes}) == 3 and all(box.bottom for box in result.boxes)
    assert time.process_time() - start < 10
