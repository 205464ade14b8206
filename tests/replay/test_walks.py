"""Model and runtime agree in the store, in every cache and in what is next, step by step, along random walks with all
faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashpot.grammar.load import load
from dashpot.model.program import Check, Program
from dashpot.runtime.replay.replay import agree
from tests.replay.kit import of
from tests.replay.walks import Walker
from tests.test_examples import EXAMPLES, FOLDERS, spec
from tests.tree import ROOT

FAULTS = ROOT / "tests" / "replay" / "faults.loop"
RULINGS = sorted((ROOT / "tests" / "semantics").glob("*.loop"))
WALKS, LENGTH = 1, 25
COMPUTED = ("17-false-notready",)
"""Its extern functions really compute (a node without a lease is given time), where the model has their abstraction."""


def checks(path: Path) -> list[tuple[Program, Check]]:
    program = load(path)
    admissions = {a.name for a in program.admissions}
    return [(program, c) for c in program.checks if c.module == program.main and not admissions & set(c.run)]


def agreed(path: Path, walks: int, length: int) -> set[tuple[str, str]]:
    """Walks through all checks of a file; the kinds of steps that were taken."""
    taken = set()
    for program, check in checks(path):
        walker = Walker(program, check)
        for number in range(walks):
            schedule = walker.walk(f"{check.name}/{number}", length)
            at, differences = agree(of(program, check), schedule)
            steps = [step.text for step in schedule.steps[:at]]
            assert not differences, (path.name, check.name, number, steps, differences)
            taken |= {(step.role, "timeout" if "Timeout" in step.detail else step.verb) for step in schedule.steps}
    return taken


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder not in COMPUTED])
def test_examples(folder: str) -> None:
    assert agreed(spec(folder), WALKS, LENGTH) or not list(EXAMPLES.glob(f"{folder}/*.loop"))


@pytest.mark.parametrize("path", RULINGS, ids=lambda path: path.stem)
def test_rulings(path: Path) -> None:
    agreed(path, WALKS, LENGTH)


def test_all_faults() -> None:
    taken = agreed(FAULTS, 8, 40)
    faults = {verb for role, verb in taken if role == "fault"}
    assert faults == {"crash", "stale_restart", "freeze", "relist", "drop", "pause", "down", "partition", "timeout"}
    assert {"deliver", "tick", "resume", "reconnect"} <= {verb for role, verb in taken if role == "step"}
