"""Whole runs of the plane: the same seed, the same run; faults fire; what heals settles."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.loop import run_virtual
from dashpot.runtime.sim.faults import Faults
from dashpot.runtime.sim.plan import FAULTS, WRITES, Item, Plan, draw
from dashpot.runtime.sim.sweep import HARNESS, HOLDS, Size, judge, sweep
from dashpot.runtime.sim.world import Run, Setting, play

ONE = "import hashlib\n" + (
    "from dashpot.runtime.sim.plan import draw\n"
    "from dashpot.runtime.sim.world import Setting, play\n"
    "run = play(draw(7, writes=40, faults=6, seconds=15), Setting())\n"
    "print(hashlib.sha256('\\n'.join(run.log).encode()).hexdigest(), len(run.log))\n"
)


def test_the_same_seed_is_the_same_run_in_any_process() -> None:
    said = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", ONE], capture_output=True, text=True, env=env, check=True)
        said.add(done.stdout)
    assert len(said) == 1
    assert int(said.pop().split()[1]) > 300


def test_the_log_is_the_same_byte_for_byte() -> None:
    plan = draw(3, writes=60, faults=6, seconds=20)
    first, second = play(plan, Setting()), play(plan, Setting())
    assert "\n".join(first.log).encode() == "\n".join(second.log).encode()
    assert play(draw(4, writes=60, faults=6, seconds=20), Setting()).log != first.log


def test_a_plan_has_what_was_asked_for() -> None:
    for seed in range(200):
        plan = draw(seed, writes=200, faults=6, seconds=60)
        faults = [item.what for item in plan.items if item.is_fault]
        assert (len(plan.items), len(faults)) == (206, 6)
        assert len(set(faults)) >= 3
        assert [item.at for item in plan.items] == sorted(item.at for item in plan.items)
        assert plan == draw(seed, writes=200, faults=6, seconds=60)


def test_an_item_draws_the_same_whatever_else_is_there() -> None:
    plan = draw(5, writes=20, faults=3, seconds=10)
    alone = plan.only(plan.items[7:8])
    assert alone.items[0].chance.random() == plan.items[7].chance.random()


@pytest.mark.parametrize("first", range(1, 101, 5))
def test_a_hundred_seeds_hold_and_their_faults_fire(first: int) -> None:
    seeds = range(first, first + 5)
    verdicts = list(sweep(seeds, Setting(), Size()))
    assert [(v.seed, v.status, v.why) for v in verdicts] == [(seed, HOLDS, "") for seed in seeds]
    for verdict in verdicts:
        assert verdict.run.writes >= 200
        assert verdict.figures.total() >= 5
        assert len(verdict.figures) >= 3
        assert 60 < verdict.run.settled < 1330


@pytest.mark.soak
@pytest.mark.parametrize("first", range(101, 1001, 100))
def test_a_thousand_seeds_hold(first: int) -> None:
    bad = []
    figures: Counter[str] = Counter()
    for verdict in sweep(range(first, first + 100), Setting(), Size()):
        figures.update(verdict.figures)
        if verdict.status != HOLDS:
            bad.append((verdict.seed, verdict.status, verdict.why))
    assert bad == []
    assert set(figures) == set(FAULTS)


def test_every_deed_and_every_fault_happens() -> None:
    items = [Item(n, 1.0 + n / 4, "create", f"a/{n}") for n in range(6)]
    items += [Item(10 + n, 4.0 + n / 2, what, f"b/{n}") for n, what in enumerate([*WRITES, *FAULTS])]
    run = play(Plan(11, 20.0, ()).only(items), Setting())
    assert run.broken == [] and not run.mistake
    assert set(run.told) == {item.number for item in items if not item.is_fault}
    assert run.settled
    assert len(run.kinds) >= 6


def test_a_run_in_which_nothing_went_wrong_proves_nothing() -> None:
    plan = draw(1, writes=3, faults=1, seconds=5)
    assert judge(Run(plan)).status == HARNESS
    assert judge(Run(draw(1, writes=3, faults=0, seconds=5))).status == HOLDS
    stood = Run(plan)
    stood.mistake = "the plane came to a standstill"
    assert judge(stood).why == "the plane came to a standstill"


def test_controllers_that_never_come_back_are_no_fault_of_theirs() -> None:
    async def never() -> None:
        raise TransportError("no")

    async def main() -> str:
        faults = Faults.__new__(Faults)
        faults.failed = ""
        await faults.again(never)
        return faults.failed

    assert run_virtual(main()) == "the controllers do not start again: no"


def test_a_job_that_goes_with_its_owner_lets_its_pods_go() -> None:
    """Seed 262 found a claim of the Job spec that forgot this: a CronJob is deleted right after it has made a job."""
    (verdict,) = sweep([262], Setting(), Size())
    assert (verdict.status, verdict.why) == (HOLDS, "")
