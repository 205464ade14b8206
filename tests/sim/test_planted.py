"""Two bugs that were planted: the simulation of the plane finds them, and so does the checker, at the same line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dashpot.checker.explore import Options, examine
from dashpot.checker.verdict import Violated
from dashpot.grammar.load import load_as
from dashpot.model.span import Span
from dashpot.runtime.sim.claims import Broken
from dashpot.runtime.sim.plan import Item, Plan, draw
from dashpot.runtime.sim.shrink import shrink
from dashpot.runtime.sim.story import tell
from dashpot.runtime.sim.sweep import programs
from dashpot.runtime.sim.world import Run, Setting, play
from tests.sim import planted

SEEDS = 200
STATES = 30_000
LUCKY = 14
"""From here on one of a few draws holds the pods' watch and makes a set of three."""
CONTROLLER = "ReplicaSetController"

CASES = [
    (planted.lagging, "eager", "bounded", "safety", 22),
    (planted.forgetful, "crowded", "converges", "stuck", 1),
]


def checked(path: Path, check: str, wanted: str) -> tuple[str, Span]:
    """How a check breaks a property, and the line of the controller's last call before."""
    program = load_as(planted.MODULE, path)
    chosen = next(one for one in program.checks if one.name == check)
    found = examine(program, chosen, Options(max_states=STATES))
    verdict = next(one.verdict for one in found.report.results if one.property == wanted)
    assert isinstance(verdict, Violated), verdict
    labels = [found.system.updates[step].label for step in verdict.trace.steps]
    calls = [one for one in labels if one.actor == CONTROLLER and one.verb in ("create", "update", "patch", "delete")]
    return verdict.kind, calls[-1].span


def simulated(setting: Setting, wanted: str, first: int) -> Run:
    """The first run, from some seed on, that breaks the property first."""
    for seed in range(first, SEEDS):
        run = play(draw(seed, writes=200, faults=6, seconds=60), setting, until_broken=True)
        if run.first is not None and run.first.property == wanted:
            return run
    raise AssertionError(f"no seed below {SEEDS} breaks {wanted}")


@pytest.mark.parametrize(("make", "check", "wanted", "kind", "first"), CASES)
def test_both_find_it_at_the_same_line(
    make: Callable[[Path], Path], check: str, wanted: str, kind: str, first: int, tmp_path: Path
) -> None:
    path = make(tmp_path)
    how, span = checked(path, check, wanted)
    run = simulated(Setting({planted.MODULE: load_as(planted.MODULE, path)}), wanted, first)
    broken = run.first
    assert isinstance(broken, Broken)
    assert (
        (broken.kind, broken.line.file, broken.line.line) == (how, str(path), span.line) == (kind, str(path), span.line)
    )


def noisy(setting: Setting) -> Run:
    """A run that fails by a held watch and a new set, among deeds that have nothing to do with it."""
    for luck in range(LUCKY, SEEDS):
        items = [
            Item(n, 1.0 + n / 10, what, f"noise/{n}") for n, what in enumerate(("label", "cordon", "uncordon") * 4)
        ]
        items += [Item(20, 2.5, "delay", f"held/{luck}"), Item(21, 2.6, "create", f"made/{luck}")]
        items += [Item(30, 2.7, "scheduler", "other"), Item(31, 3.0, "label", "last")]
        run = play(Plan(1, 8.0, ()).only(items), setting, until_broken=True)
        if run.first is not None:
            return run
    raise AssertionError("no luck")


def test_a_failure_is_made_small_and_told(tmp_path: Path) -> None:
    path = planted.lagging(tmp_path)
    setting = Setting({planted.MODULE: load_as(planted.MODULE, path)})
    run = noisy(setting)
    small = shrink(run, setting)
    assert small.first is not None and run.first is not None
    assert (small.first.property, small.first.line) == (run.first.property, run.first.line)
    assert [item.what for item in small.plan.items] == ["delay", "create"]
    story = tell(small, small.first, programs(setting))
    assert (story.writes, story.faults) == (1, 1)
    assert "create Pod" in story.decided
    assert any(line.who == "client" for line in story.lines)
    assert "nobody knows of until the watch shows it" in story.why
