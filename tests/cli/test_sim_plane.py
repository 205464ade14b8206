"""`dashpot sim` without a file: answers, exit statuses, and what is no way to ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sim import planted

from dashpot import cli
from dashpot.cli.problem import HOLDS, VIOLATED, WRONG
from dashpot.grammar.load import library_text

SMALL = ("--writes", "12", "--faults", "3", "--for", "6s")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(["sim", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_two_seeds_hold(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "--seeds", "1..2", *SMALL)
    assert status == HOLDS, out
    assert "seed 1  ✓ holds  12 writes" in out
    assert "2 seeds: 2 hold, 0 violated, 0 prove nothing" in out
    assert "fault" in out and "fired" in out


def test_the_document_is_the_same_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    first = answer(capsys, "--seed", "5", *SMALL, "-o", "json")
    assert first == answer(capsys, "--seed", "5", *SMALL, "-o", "json")
    document = json.loads(first[1])
    (seed,) = document["seeds"]
    assert (seed["seed"], seed["status"], seed["violation"]) == (5, "holds", None)
    assert seed["settled_s"] > 6
    assert sum(seed["faults"].values()) >= 1


def test_a_failure_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = library_text(planted.MODULE)
    wrong = text.replace("to alive(rs).size() == rs.spec.replicas &&", "to alive(rs).size() == rs.spec.replicas + 1 &&")
    assert wrong != text
    path = tmp_path / "wrong.loop"
    path.write_text(wrong, encoding="utf-8")
    words = ("--seed", "1", "--writes", "4", "--faults", "0", "--for", "3s", "--spec", f"{planted.MODULE}={path}")
    status, out, _ = answer(capsys, *words)
    assert status == VIOLATED
    line = text.splitlines().index("property converges for rs in ReplicaSet =") + 1
    assert f"claimed at {path}:{line}:1: property converges for rs in ReplicaSet" in out
    assert "1 of 4 writes and 0 of 0 faults are enough:" in out
    assert "client: creates " in out
    assert f"decided at {path}:" in out
    assert "Why it matters: Nothing changes any more" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seeds", "5..1"), "is no range of seeds"),
        (("--seeds", "1..99999999"), "is no range of seeds"),
        (("--without", "replicaset"), "there is no controller 'replicaset'"),
        (("--spec", "kubernetes.replicaset"), "names no file"),
        (("--spec", "kubernetes.core=x.loop"), "there is no module of the plane 'kubernetes.core'"),
        (("--spec", "kubernetes.replicaset=none.loop"), "none.loop"),
        (("--walks", "5"), "are for the world of a check"),
        (("some.loop", "--writes", "5"), "--writes is for the whole plane"),
        (("some.loop", "--for", "5s"), "--for is for the whole plane"),
        (("--faults", "x"), "is no number from 0 to 1000"),
    ],
)
def test_what_is_no_way_to_ask(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    status, _, err = answer(capsys, *words)
    assert status == WRONG
    assert said in err


def test_a_text_without_the_controller_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "empty.loop"
    path.write_text("resource Box { spec { n: 0..1 = 0 } }\n", encoding="utf-8")
    status, _, err = answer(capsys, "--spec", f"{planted.MODULE}={path}")
    assert status == WRONG
    assert "has no ReplicaSetController" in err


def test_a_controller_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "--without", "deployment-controller", "--seed", "2", *SMALL)
    assert status == HOLDS, out
