"""Liveness verdicts are those of the definitions, and their lassos are runs."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.checker.brute import World
from tests.model.anchor import anchor
from tests.model.random_systems import explore, random_system, steps

from dashpot.checker.live import LIVE, Liveness, is_waived
from dashpot.checker.search import breadth_first
from dashpot.checker.verdict import Violated
from dashpot.model.core import Graph
from dashpot.model.lower.python import compile_system
from dashpot.model.system import Cell, Goal, Label, Symmetry, System, Update

SEEDS = st.integers(0, 2**32)
LARGEST = 9


def small(seed: int) -> System:
    system = random_system(seed, most_cells=3)
    assume(len(explore(system)) <= LARGEST)
    return system


def live(system: System) -> Liveness:
    return Liveness(breadth_first(compile_system(system)))


def broken(system: System, goal: Goal) -> Violated | None:
    return next(iter(live(system).broken([goal])), None)


def check_run(system: System, found: Violated) -> None:
    """The trace is a run of the plain reading, and its loop closes."""
    trace = found.trace
    for here, update, there in zip(trace.states, trace.steps, trace.states[1:], strict=False):
        assert (update, there) in list(steps(system, here))
    if trace.loop is not None:
        assert trace.states[-1] == trace.states[trace.loop] and trace.loop < len(trace.steps)
    stem = len(trace.steps) if trace.loop is None else trace.loop
    assert found.steps == (stem if found.kind == "stuck" else len(trace.steps))


def check_fair(world: World, found: Violated) -> None:
    """What repeats is a tail that fairness allows."""
    trace = found.trace
    again = frozenset(trace.states[len(trace.steps) if trace.loop is None else trace.loop :])
    assert any(tail.states == again for tail in world.tails)


@settings(max_examples=400)
@given(SEEDS)
def test_goals_fail_as_the_definition_says(seed: int) -> None:
    system = small(seed)
    judge, world = live(system), World(system)
    for goal in system.goals:
        if goal.op in LIVE:
            found = next(iter(judge.broken([goal])), None)
            assert (found.kind if found else None) == world.kind(goal), goal
            if found is not None:
                check_run(system, found)
                check_fair(world, found)
                loop = found.trace.states[found.trace.loop if found.trace.loop is not None else -1 :]
                assert not all(world.holds(goal.body, state) for state in loop)
                assert all(world.holds(goal.alive, state) for state in loop)


@settings(max_examples=400)
@given(SEEDS)
def test_hot_loops_are_those_of_the_definition(seed: int) -> None:
    system = small(seed)
    judge, world = live(system), World(system)
    for waived in (frozenset[tuple[str, str]](), frozenset({("K", "f0")})):
        found = judge.hot(waived)
        assert (found.kind if found else None) == world.hot(waived)
        if found is not None:
            check_run(system, found)
            check_fair(world, found)
            assert found.trace.loop is not None
            written = [system.updates[u].label.changes for u in found.trace.steps[found.trace.loop :]]
            assert any(set(changes) - waived for changes in written)


def test_anchor_settles_only_when_fixed() -> None:
    """The stale controller oscillates though a way out exists; every state can still settle (AG EF holds)."""
    system = anchor()
    found = broken(system, system.goals[1])
    assert found is not None and found.kind == "loop" and found.trace.loop is not None
    fixed = anchor(fix=True)
    judge = live(fixed)
    assert judge.broken([fixed.goals[1]]) == [] and judge.hot() is None


def counter(updates: list[Update], g: Graph, goal: Goal) -> System:
    return System(g, (Cell(0, "store", "", "K", 0, "n", 0, 5, 0),), tuple(updates), (), (goal,), Symmetry())


def step(g: Graph, here: int, there: int, action: str, **more: object) -> Update:
    label = Label("A", "update", action, fairness=("A", action), changes=(("K", "n"),), **more)  # type: ignore[arg-type]
    return Update(label, (g.eq(g.cell(0, 0, 5), g.const(here)),), ((0, g.const(there)),))


def test_a_way_that_stays_open_must_be_taken_one_that_closes_need_not() -> None:
    """Weak fairness: `out` is open throughout the first cycle, and now and then in the second."""
    g = Graph()
    goal = Goal("done", "converges", g.true, g.true, g.eq(g.cell(0, 0, 5), g.const(5)))
    around = [step(g, 0, 1, "go"), step(g, 1, 0, "back")]
    always_open = counter([*around, step(g, 0, 5, "out"), step(g, 1, 5, "out")], g, goal)
    assert broken(always_open, goal) is None
    now_and_then = counter([*around, step(g, 0, 5, "out")], g, goal)
    found = broken(now_and_then, goal)
    assert found is not None and (found.kind, found.steps) == ("loop", 2)


def test_components_are_those_without_faults_and_environment() -> None:
    """Ruling 1: a fault that could still help is no way out."""
    g = Graph()
    goal = Goal("done", "converges", g.true, g.true, g.eq(g.cell(0, 0, 5), g.const(5)))
    system = counter([step(g, 0, 1, "go"), step(g, 1, 5, "kick", role="fault", fair=False)], g, goal)
    found = broken(system, goal)
    assert found is not None and (found.kind, found.steps, found.trace.loop) == ("stuck", 1, None)


def test_retries_do_not_count() -> None:
    """Ruling 2: stuck counts the steps to the first state of its component, retries not."""
    g = Graph()
    n = g.cell(0, 0, 5)
    retry = Update(Label("A", "requeue", "retry", fairness=("A", "retry")), (g.eq(n, g.const(2)),), ())
    goal = Goal("done", "converges", g.true, g.true, g.eq(n, g.const(5)))
    system = counter([step(g, 0, 1, "go"), step(g, 1, 2, "on"), retry], g, goal)
    found = broken(system, goal)
    assert found is not None and (found.kind, found.steps, found.trace.loop) == ("stuck", 2, 2)
    assert live(system).hot() is None


def test_obligation_of_leads_to_outlives_its_trigger() -> None:
    """Ruling 19: it stays although the trigger goes, until the goal, or until the object is gone."""
    g = Graph()
    n = g.cell(0, 0, 5)
    updates = [step(g, 0, 1, "trigger"), step(g, 1, 2, "calm")]
    at = [g.eq(n, g.const(k)) for k in range(6)]
    stays = Goal("p", "leads_to", g.true, at[1], at[5])
    assert broken(counter(updates, g, stays), stays) is not None
    gone = Goal("p", "leads_to", g.lt(n, g.const(2)), at[1], at[5])
    assert broken(counter(updates, g, gone), gone) is None


def test_waivers_cover_what_lies_below() -> None:
    waived = frozenset({("Lease", "spec.renewed"), ("Job", "")})
    assert is_waived(("Lease", "spec.renewed"), waived) and is_waived(("Job", "status.active"), waived)
    assert not is_waived(("Lease", "spec"), waived) and not is_waived(("Lease", "spec.renewedBy"), waived)
