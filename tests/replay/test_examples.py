"""Every buggy example does for real what the model says that it does, and its fixed twin does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.kit import found, of, replay, rerun
from tests.test_examples import EXAMPLES, FOLDERS, own_checks, program, spec

FIXED_ELSEWHERE = {"02-replicaset-naive": ("03-replicaset-expectations", "04-replicaset-own-writes")}
"""Examples whose fixed twins are specs of their own."""

BUGGY = [f for f in FOLDERS if any(e.violation for c in own_checks(f) for e in c.expects)]


def test_nearly_all_examples_have_a_bug() -> None:
    # what is left are the fixed twins of 02, and an operator that has none
    assert set(FOLDERS) - set(BUGGY) == {*FIXED_ELSEWHERE["02-replicaset-naive"], "18-site-operator"}


@pytest.mark.parametrize("folder", BUGGY)
def test_the_same_violation_on_the_same_object(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (buggy,) = (c for c in own_checks(folder) if any(e.violation for e in c.expects))
    kept = found(spec(folder), tmp_path, buggy.name)
    wanted = {name for e in buggy.expects if e.violation for name in e.names}
    assert wanted <= {run.property for run, _, _ in kept}
    fixed = [(program(f), c) for f in FIXED_ELSEWHERE.get(folder, ()) for c in own_checks(f)]
    fixed += [(program(folder), c) for c in own_checks(folder) if c is not buggy]
    assert fixed
    for run, schedule, actors in kept:
        done = replay(actors, schedule)
        assert done.violated, (run.property, done.parted, done.differences, done.reason)
        assert done.rounds == (2 if run.loop is not None and run.loop < len(run.steps) else 0)
        for other, check in fixed:
            mended = rerun(of(other, check), schedule)
            assert mended.converged, (run.property, check.name, mended.reason)
            assert mended.taken > 0


def test_every_example_is_looked_at() -> None:
    assert {p.parent.name for p in EXAMPLES.glob("*/*.loop")} == set(FOLDERS)
