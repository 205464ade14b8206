"""Walks of the real thing are behaviours of the kernel: of every example, and of the library."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from attrs import evolve

import dashpot
from dashpot.model.program import Check, Program
from dashpot.runtime.replay.wander import Happening, Trace
from dashpot.traces.conform.follow import Follower
from dashpot.traces.conform.walk import walked
from tests.tree import ROOT

STEPS = 60
SEEDS = (0, 1)
MANY = tuple(range(2, 60))
KUBERNETES = ROOT / "model" / "kubernetes"
LIBRARY = KUBERNETES / "replicaset.loop"
HELD = {
    "attachments": ("moves", "by_the_cache"),
    "daemonset": ("rollout", "ready_unseen", "tainted"),
    "deployment": ("rollout", "without_surge", "recreate"),
    "gc": ("all_ways",),
    "job": ("once", "failing"),
    "kubelet": ("one_pod",),
    "podgc": ("orphans", "node_back", "out_of_service_node"),
    "replicaset": ("small", "losses"),
    "scheduler": ("two_nodes",),
    "statefulset": ("ordered", "rollout", "parallel"),
}
"""Checks of the library whose worlds can be built for real. The others have fields that stand for what a check does not
say (a slot of a schedule), kinds that stand for parts of many, admission policies, or steps of a clock."""
APART = ("17-false-notready", "18-site-operator")
"""Specs whose walks say nothing: a walk has no ticks, and what an extern function gives is real here and a symbol in
the model."""
SPECS = [
    *(path for path in sorted((ROOT / "examples").glob("*/*.loop")) if path.parent.name not in APART),
]


@functools.cache
def program(path: Path) -> Program:
    return dashpot.load(path)


def worlds() -> list[tuple[Path, str]]:
    """Every check of every spec."""
    found = [
        (path, check.name) for path in SPECS for check in program(path).checks if check.module == program(path).main
    ]
    return found + [(KUBERNETES / f"{module}.loop", names[0]) for module, names in HELD.items()]


def others() -> list[tuple[Path, str]]:
    """What is left to long runs."""
    return [(KUBERNETES / f"{module}.loop", name) for module, names in HELD.items() for name in names[1:]]


@functools.cache
def follower(path: Path, name: str) -> Follower:
    return Follower(program(path), check_of(path, name))


def check_of(path: Path, name: str) -> Check:
    return next(check for check in program(path).checks if check.name == name)


def walk(path: Path, name: str, seed: int) -> Trace:
    """A recorded walk of a check's actors."""
    return walked(program(path), check_of(path, name), follower(path, name), seed=seed, steps=STEPS)


def named(value: object) -> str | None:
    """How a case is called."""
    return value.stem if isinstance(value, Path) else None


@pytest.mark.soak
@pytest.mark.parametrize(("path", "name"), worlds() + others(), ids=named)
def test_many_walks_are_behaviours_of_the_model(path: Path, name: str) -> None:
    test_a_walk_is_a_behaviour_of_the_model(path, name, MANY)


@pytest.mark.parametrize("seeds", [SEEDS])
@pytest.mark.parametrize(("path", "name"), worlds(), ids=named)
def test_a_walk_is_a_behaviour_of_the_model(path: Path, name: str, seeds: tuple[int, ...]) -> None:
    taken = 0
    for seed in seeds:
        trace = walk(path, name, seed)
        refusal = follower(path, name).follow(trace)
        assert refusal is None or refusal.outside, (seed, refusal)
        taken += len(trace.happenings) if refusal is None else refusal.number
    assert taken > 2


def changed(one: Happening, trace: Trace, at: int) -> bool:
    """Whether a step changed the store."""
    before = trace.happenings[at - 1].after if at else trace.start
    return {o.version for o in one.after.truth} != {o.version for o in before.truth}


def test_a_step_that_is_left_out_is_missed() -> None:
    missed = asked = 0
    for path, name in [world for world in worlds() if world[0] in SPECS or world[0] == LIBRARY]:
        trace = walk(path, name, 0)
        writes = [at for at, one in enumerate(trace.happenings) if changed(one, trace, at)]
        for at in writes[:1]:
            rest = trace.happenings[:at] + trace.happenings[at + 1 :]
            if at + 1 < len(trace.happenings):
                asked += 1
                missed += follower(path, name).follow(evolve(trace, happenings=rest)) is not None
    assert asked > 15
    # in one of them the next write is a blind one, which puts back all that the other wrote
    assert missed >= asked - 1


@pytest.mark.parametrize("what", ["actor", "verb", "line", "error"])
def test_a_step_that_is_told_wrongly_is_refused(what: str) -> None:
    path = LIBRARY
    trace = walk(path, "small", 0)
    at = next(n for n, one in enumerate(trace.happenings) if one.verb == "create")
    one = trace.happenings[at]
    wrong = {
        "actor": evolve(one, actor="Somebody"),
        "verb": evolve(one, verb="patch"),
        "line": evolve(one, line=one.line + 1),
        "error": evolve(one, error="Conflict"),
    }[what]
    told = evolve(trace, happenings=(*trace.happenings[:at], wrong, *trace.happenings[at + 1 :]))
    refusal = follower(path, "small").follow(told)
    assert refusal is not None and refusal.number == at + 1


def test_a_state_that_was_seen_otherwise_is_refused_with_the_field() -> None:
    trace = walk(LIBRARY, "small", 0)
    at = next(n for n, one in enumerate(trace.happenings) if one.verb == "update" and changed(one, trace, n))
    one = trace.happenings[at]
    before = trace.happenings[at - 1].after if at else trace.start
    unseen = evolve(one, after=evolve(one.after, truth=before.truth))
    told = evolve(trace, happenings=(*trace.happenings[:at], unseen, *trace.happenings[at + 1 :]))
    refusal = follower(LIBRARY, "small").follow(told)
    assert refusal is not None and refusal.number == at + 1
    assert any(row.field.startswith("status.") for row in refusal.differences)
