"""`dashpot sim FILE --real`: answers, exit statuses, and a difference that is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from tests.tree import ROOT

from dashpot import cli
from dashpot.cli.problem import HOLDS, VIOLATED, WRONG
from dashpot.traces.conform import walk
from dashpot.traces.conform.follow import Follower

SPEC = str(ROOT / "examples" / "03-replicaset-expectations" / "replicaset.loop")
TWINS = str(ROOT / "examples" / "05-daemonset-twins" / "daemonset.loop")
LOOKS = str(ROOT / "model" / "kubernetes" / "collector.loop")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(["sim", *words, "--real"])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_walks_are_behaviours(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, SPEC, "--walks", "4", "--steps", "30")
    assert status == HOLDS, out
    assert out.startswith("patient: 4 walks of the real thing from seed 0, ")
    assert "create" in out and "✓ every step is one of the model, to the state that was seen" in out


def test_the_document_is_the_same_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = (TWINS, "by_node_name", "--walks", "3", "--seed", "12", "-o", "json")
    first = answer(capsys, *words)
    assert first == answer(capsys, *words)
    document = json.loads(first[1])
    assert (document["walks"], document["left_scope"], document["refused"]) == (3, 1, [])
    assert document["steps"]["create"] >= 3


def test_a_difference_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = walk.walked

    def wrong(program: Any, check: Any, model: Follower, **options: Any) -> Any:
        trace = real(program, check, model, **options)
        at = next(n for n, one in enumerate(trace.happenings) if one.verb == "create")
        unseen = evolve(trace.happenings[at], after=trace.happenings[at - 1].after if at else trace.start)
        return evolve(trace, happenings=(*trace.happenings[:at], unseen, *trace.happenings[at + 1 :]))

    monkeypatch.setattr(walk, "walked", wrong)
    status, out, _ = answer(capsys, SPEC, "--walks", "2")
    assert status == VIOLATED
    assert "✗ walk of seed 0: step 1, ReplicaSetController create Pod web-" in out.replace("step 2", "step 1")
    assert f"({SPEC}:" in out and "the model has such a step, to another state" in out
    assert "not there (real), there (model)" in out
    assert "one of them has a bug" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--real are for the world of a check"),
        ((LOOKS, "chain"), "cannot be built for real: Object is no kind of its own"),
        ((SPEC, "--writes", "3"), "--writes is for the whole plane"),
    ],
)
def test_what_cannot_be_walked(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    status, _, errors = answer(capsys, *words)
    assert status == WRONG and said in errors


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "300")
    yield
