"""A counterexample is told by what its trace shows: who did what, what was stale, what failed, what would help."""

from __future__ import annotations

import re

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.ghosts import SOURCES, World, fleet, forgetful, rivals, sleeper, tide, twins

from dashpot.checker.blame import enabled, evaluate_along, source
from dashpot.checker.retrace import fire, retraced
from dashpot.checker.scene import Stage, compared
from dashpot.checker.story import Story, story
from dashpot.checker.tell import tell
from dashpot.checker.verdict import Trace, Violated
from dashpot.model.interpret import evaluate
from dashpot.model.span import Span
from dashpot.model.system import Label, Obligation, RankClass, System

TWINS = """\
enough for Database db  violated  2 steps
  `enough` breaks after step 2.

   1 ╭ Fleet create Pod db-0  + Pod db-0  owner = db; memory: passes  0 → 1
   2 ╰ Fleet create Pod db-1  + Pod db-1  owner = db; cache: + Pod db-0  owner = db
         stale its cache shows no Pod db-0, in truth there is one; the delivery of step 1
               is missing (it comes with this step)
         because fleet.loop:5  pods.size() < db.spec.members  is true

✗ fleet.loop:14  Pod.count(p, p.owner == db) <= db.spec.members  is false
    Pod.count(p, p.owner == db)  = 2
    db.spec.members              = 1

What would help
  · Step 2 creates by a cache that does not show its own step 1 yet: say `cache Pod
    read_own_writes`, read it live (`list live Pod`), or give the object a computed name and
    handle AlreadyExists.

Again: dashpot explain f3a1"""


def told(world: tuple[System, Violated], property: str = "") -> Story:
    system, violated = world
    return story(system, violated, SOURCES, property=property, replay="dashpot explain f3a1")


def test_a_safety_story_as_text() -> None:
    assert tell(told(twins()), width=92) == TWINS


def test_colour_only_adds_escapes() -> None:
    plain, coloured = (tell(told(tide()), color=color) for color in (False, True))
    assert "\x1b[" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@given(st.integers(40, 160))
def test_no_line_is_wider_than_asked(width: int) -> None:
    longest = max(len(word) for word in tell(told(tide()), width=400).split())
    for line in tell(told(tide()), width=width).splitlines():
        assert len(line) <= max(width, longest + 12) or "repeat for ever" in line or "↻ steps" in line


def test_steps_say_what_they_changed_and_nothing_else() -> None:
    first, second = told(twins()).steps
    assert [(c.object, c.field, c.before, c.after, c.where) for c in first.changes] == [
        ("Pod db-0", "", None, "owner = db", ""),
        ("memory", "passes", "0", "1", "memory"),
    ]
    assert [(c.object, c.where, c.actor) for c in second.changes] == [
        ("Pod db-1", "", ""),
        ("Pod db-0", "cache", "Fleet"),
    ]


def test_a_stale_read_names_the_delivery_that_was_missing() -> None:
    first, second = told(twins()).steps
    assert first.stale == ()
    (stale,) = second.stale
    assert (stale.actor, stale.object, stale.missing, stale.comes) == ("Fleet", "Pod db-0", (1,), 2)
    assert stale.differences == (("", None, "owner = db"),)


def test_a_delivery_that_never_comes_is_said_so() -> None:
    system, violated = twins()
    short = evolve(violated, trace=Trace(violated.trace.states[:2], violated.trace.steps[:1]))
    (flight,) = story(system, short, SOURCES).flights
    assert (flight.object, flight.sent, flight.landed, flight.how) == ("Pod db-0", (0,), None, "")


def test_the_failed_conjunct_comes_with_its_bindings_in_every_state() -> None:
    (conjunct,) = told(twins()).blame.conjuncts
    assert conjunct.text == "Pod.count(p, p.owner == db) <= db.spec.members"
    assert conjunct.values == ("true", "true", "false")
    assert [(b.text, b.values) for b in conjunct.bindings] == [
        ("Pod.count(p, p.owner == db)", ("0", "1", "2")),
        ("db.spec.members", ("1", "1", "1")),
    ]


def test_without_parts_the_fields_that_the_property_reads_are_shown() -> None:
    system, violated = sleeper()
    (conjunct,) = story(system, violated, {}).blame.conjuncts
    assert conjunct.values == ("false",) * 4
    assert [(b.text, b.values) for b in conjunct.bindings] == [("Machine m status.joined", ("false",) * 4)]
    system, violated = rivals()
    (conjunct,) = story(system, violated, {}).blame.conjuncts
    assert [(b.text, b.values) for b in conjunct.bindings] == [("Service web spec.type", ("Local", "Global", "Local"))]


def test_a_step_obligation_is_judged_before_its_step() -> None:
    system, violated = twins()
    g = system.terms
    holds = g.not_(g.cell(2, 0, 1))
    broken = Obligation("mine", holds, ("Pod db-0", ""), "no pod may exist")
    told_ = story(system, evolve(violated, goal=None, obligation=broken), SOURCES)
    assert told_.property == "mine" and "no pod may exist" in told_.sentence
    assert told_.blame.states == (1,)


def test_a_lasso_has_a_stem_and_a_cycle_and_says_why_fairness_does_not_help() -> None:
    lasso = told(tide())
    assert (lasso.stem, lasso.cycle) == (6, 6)
    assert [s.repeats for s in lasso.steps] == [False] * 6 + [True] * 6
    text = tell(lasso, width=200)
    assert "↻ these 6 steps repeat for ever" in text
    assert "is reached and lost again: true only after step 7, 10." in text
    assert "`Fleet deliver Pod db-0` never has to happen" in text
    assert "Only steps that need not happen could change its course: Users scale: patch Database db." in text


def test_a_stuck_run_says_who_sleeps() -> None:
    why = told(sleeper()).why
    assert why[0] == "No step is left that would have to happen."
    assert any("Joiner sleeps" in line for line in why)


def test_remedies_follow_from_the_trace() -> None:
    assert "read_own_writes" in told(twins()).fix[0]
    assert {"destroys", "creates"} <= {word for line in told(tide()).fix for word in line.split()}
    assert "New and Old write spec.type of Service web in turns" in told(rivals()).fix[0]
    assert "Joiner reads Node but step 2 did not wake it: say `watches Node" in told(sleeper()).fix[0]
    assert "Step 2 takes todo with it" in told(forgetful()).fix[0]
    assert "Step 2 cuts Binder off halfway" in told(forgetful(remembers=False)).fix[0]
    assert "Step 2 takes todo with it" in told(forgetful(stale=True)).fix[0]
    assert "After step 2 Binder acts on an old list" in told(forgetful(stale=True, remembers=False)).fix[0]


def test_remedies_of_the_default_properties() -> None:
    for name, word in (
        ("lost_update", "if unchanged"),
        ("wrong_uid", "if same"),
        ("terminates", "finalizer"),
        ("unbounded", "AlreadyExists"),
        ("panic", "has(x.f)"),
    ):
        assert word in told(twins(), name).fix[0], name
    assert "only when something differs" in told(forgetful(), "hot_loop").fix[0]
    assert "in turns" in told(rivals(), "hot_loop").fix[0]
    assert "read_own_writes" in told(twins(), "hot_loop").fix[0]


def test_an_expression_is_evaluated_in_every_state() -> None:
    system, violated = twins()
    count = violated.goal.parts[1][1] if violated.goal else system.terms.false
    assert evaluate_along(system, violated.trace, count) == [0, 1, 2]


def test_a_trace_of_a_pruned_system_is_walked_again_in_the_whole() -> None:
    """Cells that the search left out keep their first value in its trace; the story shows what they really were."""
    system, violated = twins()
    narrow = tuple((*state[:-1], 0) for state in violated.trace.states)
    short = evolve(violated, trace=evolve(violated.trace, states=narrow))
    assert retraced(system, short) == violated
    assert story(system, short, SOURCES) == story(system, violated, SOURCES)


def test_a_trace_that_cannot_be_walked_is_no_counterexample() -> None:
    system, violated = twins()
    wrong = evolve(violated, trace=evolve(violated.trace, steps=violated.trace.steps[::-1]))
    with pytest.raises(AssertionError, match="step 1 of the run cannot be taken again"):
        story(system, wrong, SOURCES)


def test_ranks_are_renumbered_after_each_step() -> None:
    """Only order counts in a rank class: the values in use are 1, 2, … again; zero stays."""
    w = World()
    for name in ("a", "b", "c"):
        w.cell("store", "", "Box", 0, name, 4)
    nodes = [w.node(f"store.Box[0].{n}") for n in ("a", "b", "c")]
    w.update(Label("A", "update"), [], {"store.Box[0].a": 4, "store.Box[0].b": 2})
    system = evolve(w.system(), ranks=(RankClass(tuple(n.value for n in nodes)),))
    assert fire(system, system.updates[0], [1, 1, 0]) == [2, 1, 0]


def test_source_text_of_regions() -> None:
    files = {"a.loop": "one two\n  three\nfour"}
    assert source(files, Span("a.loop", 1, 5, 1, 8)) == "two"
    assert source(files, Span("a.loop", 1, 5, 3, 3)) == "two three fo"
    assert source(files, Span("b.loop", 1, 1, 1, 2)) == source(files, Span("a.loop", 9, 1, 9, 2)) == ""


def _random_run(system: System, choices: list[int]) -> Trace:
    values = tuple(cell.initial for cell in system.cells)
    states, steps = [values], []
    for choice in choices:
        possible = enabled(system, values)
        step = possible[choice % len(possible)]
        after = list(values)
        for cell, node in system.updates[step].assigns:
            after[cell] = evaluate(node, values.__getitem__)
        values = tuple(after)
        states.append(values)
        steps.append(step)
    return Trace(tuple(states), tuple(steps))


@given(st.lists(st.integers(0, 1000), max_size=14))
def test_any_run_can_be_told(choices: list[int]) -> None:
    """Changes of the store are differences of the states; a step that the truth would forbid was misled."""
    system = fleet()
    run = _random_run(system, choices)
    told_ = story(system, Violated("safety", len(run.steps), run, system.goals[0]), SOURCES)
    stage = Stage(system)
    scenes = [stage.scene(values) for values in run.states]
    assert list(told_.scenes) == list(stage.cleared(scenes, run.states))
    for step, before, after in zip(told_.steps, scenes, scenes[1:], strict=False):
        assert [c for c in step.changes if c.where == ""] == compared(before.objects(), after.objects())
        truth, shown = before.objects(), before.objects("Fleet")
        late = {key for key in {*truth, *shown} if key[0] == "Pod" and (key in truth) != (key in shown)}
        assert {("Pod", int(stale.object[-1])) for stale in step.stale} <= late
        assert step.looked or not step.stale
        wanted = int(before.objects()["Database", 0].fields["spec.members"])
        if step.verb in ("create", "delete"):
            counted = [sum(key[0] == "Pod" for key in seen) for seen in (truth, shown)]
            same = len({(n > wanted) - (n < wanted) for n in counted}) == 1
            assert bool(step.stale) or same
        for stale in step.stale:
            assert stale.missing and max(stale.missing) < step.number
    assert tell(told_).startswith("enough for Database db")


@given(st.lists(st.integers(0, 1000), max_size=14))
def test_every_change_is_delivered_once_or_still_under_way(choices: list[int]) -> None:
    system = fleet()
    run = _random_run(system, choices)
    told_ = story(system, Violated("safety", len(run.steps), run, system.goals[0]), SOURCES)
    sent = [s for flight in told_.flights for s in flight.sent]
    writes = [i for i, step in enumerate(told_.steps) if step.verb in ("create", "delete")]
    assert sorted(sent) == writes
    open_ = [f for f in told_.flights if f.landed is None]
    assert len(open_) == len(told_.scenes[-1].pending["Fleet"])
