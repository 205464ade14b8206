"""Searches see exactly the reachable states, by shortest paths, and stop honestly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.anchor import anchor
from tests.model.random_systems import State, explore, random_system, start, steps

from dashpot.checker.budget import Budget, Phase, Progress
from dashpot.checker.search import breadth_first, depth_first
from dashpot.checker.space import Space
from dashpot.model.interpret import evaluate
from dashpot.model.lower.python import compile_system
from dashpot.model.system import Obligation

SEEDS = st.integers(0, 2**32)


def levels(graph: dict[State, list[tuple[int, State]]]) -> dict[State, int]:
    """Distance of each state from the start."""
    found = {next(iter(graph)): 0}
    for state in graph:
        for _, target in graph[state]:
            found.setdefault(target, found[state] + 1)
    return found


def check_path(space: Space, index: int) -> int:
    """The path is a run of the plain reading; its length."""
    system = space.backend.system
    trace = space.path(index)
    assert trace.states[0] == start(system)
    assert trace.states[-1] == space.backend.unpack(space.states[index])
    for here, update, there in zip(trace.states, trace.steps, trace.states[1:], strict=False):
        assert (update, there) in list(steps(system, here))
    return len(trace.steps)


@settings(max_examples=200)
@given(SEEDS, st.booleans())
def test_breadth_first_sees_all_by_shortest_paths(seed: int, graph: bool) -> None:
    system = random_system(seed)
    plain = explore(system)
    backend = compile_system(system)
    bodies = [goal.body for goal in system.goals]
    space = breadth_first(backend, sights=bodies, graph=graph)
    assert [backend.unpack(s) for s in space.states] == list(plain)
    assert space.complete and space.transitions == sum(map(len, plain.values()))
    assert space.fired == {update for found in plain.values() for update, _ in found}
    distance = levels(plain)
    assert space.depth == max(distance.values()) + 1
    for index, state in enumerate(plain):
        assert check_path(space, index) == distance[state]
    for body, at in zip(bodies, space.sights, strict=True):
        shown = [i for i, state in enumerate(plain) if evaluate(body, state.__getitem__)]
        assert at == (shown[0] if shown else None)


@settings(max_examples=200)
@given(SEEDS)
def test_kept_graph_has_every_edge(seed: int) -> None:
    system = random_system(seed)
    plain = explore(system)
    place = {state: k for k, state in enumerate(plain)}
    space = breadth_first(compile_system(system))
    for k, found in enumerate(plain.values()):
        edges = space.targets[space.offsets[k] : space.offsets[k + 1]]
        assert list(zip(space.shapes[space.kinds[k]], edges, strict=True)) == [(u, place[t]) for u, t in found]


@settings(max_examples=200)
@given(SEEDS)
def test_breaches_are_the_first_steps_that_break(seed: int) -> None:
    system = random_system(seed)
    space = breadth_first(compile_system(system), graph=False)
    wanted: dict[tuple[str, tuple[str, str]], tuple[int, int, int]] = {}
    for k, (state, found) in enumerate(explore(system).items()):
        for update, _ in found:
            for o in system.updates[update].obligations:
                if not evaluate(o.holds, state.__getitem__):
                    first = wanted.setdefault((o.property, o.about), (k, update, 0))
                    wanted[o.property, o.about] = (*first[:2], first[2] + 1)
    assert {key: (b.state, b.update, b.count) for key, b in space.breaches.items()} == wanted


@settings(max_examples=100)
@given(SEEDS)
def test_depth_first_sees_the_same_states(seed: int) -> None:
    system = random_system(seed)
    space = depth_first(compile_system(system), sights=[goal.body for goal in system.goals])
    other = breadth_first(compile_system(system), sights=[goal.body for goal in system.goals])
    assert set(space.states) == set(other.states) and space.transitions == other.transitions and space.complete
    assert [s is None for s in space.sights] == [s is None for s in other.sights]
    assert set(space.breaches) == set(other.breaches) and space.fired == other.fired
    for index in range(0, len(space.states), 7):
        check_path(space, index)


@pytest.mark.parametrize(
    ("fix", "states", "transitions", "depth"), [(False, 402792, 2818917, 32), (True, 98580, 616152, 28)]
)
def test_anchor_has_its_golden_counts(fix: bool, states: int, transitions: int, depth: int) -> None:
    space = breadth_first(compile_system(anchor(fix=fix)), graph=False)
    assert (len(space.states), space.transitions, space.depth, space.complete) == (states, transitions, depth, True)


def test_anchor_overshoots_after_seven_steps() -> None:
    system = anchor()
    space = breadth_first(
        compile_system(system), sights=[system.terms.not_(system.goals[0].body)], graph=False,
        enough=lambda space: space.sights[0] is not None,
    )  # fmt: skip
    assert space.stopped == "decided" and not space.complete and space.sights[0] is not None
    actions = [system.updates[u].label.action for u in space.path(space.sights[0]).steps]
    assert len(actions) == 7 and actions[0] == "scale" and actions[-1].startswith("create")


@pytest.mark.parametrize(
    ("budget", "why"),
    [(Budget(states=5000), "states"), (Budget(memory_bytes=1_000_000), "memory"), (Budget(cpu_s=0.02), "time")],
)
@pytest.mark.parametrize("graph", [False, True])
def test_budgets_stop_the_search(budget: Budget, why: str, graph: bool) -> None:
    space = breadth_first(compile_system(anchor()), budget=budget, graph=graph)
    assert space.stopped == why and not space.complete
    assert 0 < space.expanded < len(space.states) < 100_000
    check_path(space, len(space.states) - 1)


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashpot.checker.budget.INTERVAL_S", 0.0)
    told: list[Progress] = []

    def progress(now: Progress | Phase) -> None:
        assert isinstance(now, Progress)
        told.append(now)
        if now.states > 3000:
            raise KeyboardInterrupt

    space = breadth_first(compile_system(anchor()), progress=progress)
    assert space.stopped == "interrupted" and not space.complete and len(space.states) > 3000
    assert [p.states for p in told] == sorted(p.states for p in told)
    assert len(space.offsets) == space.expanded + 1 and len(space.kinds) == space.expanded
    assert space.offsets[-1] == len(space.targets)


def test_overflows_are_counted_by_what_overflows() -> None:
    system = random_system(1)
    from attrs import evolve

    g = system.terms
    bound = (
        Obligation("@bound", g.false, ("K 0", ""), "K slots"),
        Obligation("@bound", g.false, ("K 1", ""), "K slots"),
    )
    first = evolve(system.updates[0], guard=(), obligations=bound)
    space = breadth_first(compile_system(evolve(system, updates=(first,))))
    (breach,) = space.breaches.values()
    assert breach.obligation.what == "K slots" and breach.count == 2 * len(space.states)
