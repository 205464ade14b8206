"""Small specs that check as they say: from the text to the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dashpot import cli
from dashpot.cli.problem import HOLDS, UNKNOWN, WRONG

QUIET = "controller C for A { reconcile a { update a.spec { n: 1 } on Conflict { requeue } } }\n"
Ask = Callable[..., tuple[int, str, str]]
"""Writes a spec, calls a command (`check`) and gives status, output and errors."""

KINDS = "resource A { spec { n: 0..1 = 0 } }\nresource B { spec { n: 0..1 = 0 } }\n"


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    monkeypatch.chdir(tmp_path)

    def ask(text: str, *words: str) -> tuple[int, str, str]:
        Path("s.loop").write_text(text)
        status = cli.main([*(words or ("check", "s.loop"))])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return ask


def test_null_takes_an_entry_out_of_a_map_over_names(answer: Ask) -> None:
    for write in (
        'patch a.spec { m["s"]: null } on NotFound { return }',
        'update a.spec { m["s"]: null } on Conflict { requeue }',
    ):
        text = f"""resource A {{ spec {{ m: map[Name]0..2 = {{}} }} }}
controller C for A {{ reconcile a {{ if "s" in a.spec.m {{ {write} }} }} }}
environment U {{ action set(a: A) at most 2 {{ patch a.spec {{ m["s"]: any 0..2 }} }} }}
property seen for a in A = sometimes "s" in a.spec.m && a.spec.m["s"] == 2
property gone for a in A = converges to !("s" in a.spec.m)
check small {{
  run   C, U
  given A one {{ }}
  expect seen, gone
  waive lost_update "the user and the controller share the entry"
}}
"""
        status, out, err = answer(text)
        assert status == HOLDS, out + err


def test_a_map_that_has_all_keys_loses_none(answer: Ask) -> None:
    text = """enum K { x, y }
resource A { spec { m: map[K]0..2 = {} } }
environment U { action set(a: A) at most 2 { patch a.spec { m[K.x]: null } } }
"""
    status, _, err = answer(text)
    assert status == WRONG and "D201" in err and "but the value is null" in err


def test_an_expectation_of_a_kind_that_does_not_occur_is_undecided(answer: Ask) -> None:
    head = (
        KINDS
        + QUIET
        + "property p for b in B = sometimes b.spec.n == 1\nproperty q for b in B = always b.spec.n == 0\n"
    )
    body = "check small { run C\n given A one { }\n %s }\n"
    status, out, _ = answer(head + body % "expect p")
    assert status == UNKNOWN and "nothing that it speaks of occurs in this check" in out
    status, out, _ = answer(head + body % "")
    assert status == HOLDS and "not asked here:  p, q" in out, "without a word of it no answer is claimed"
    document = json.loads(answer(head + body % "", "check", "s.loop", "-o", "json")[1])
    assert document["files"][0]["checks"][0]["absent"] == ["p", "q"]


def test_what_is_waived_cannot_be_expected(answer: Ask) -> None:
    text = KINDS + QUIET + 'check small { run C\n given A one { }\n waive hot_loop "x"\n expect hot_loop }\n'
    status, out, _ = answer(text)
    assert status == UNKNOWN and "the check waives it" in out


@pytest.mark.parametrize(
    ("fault", "text", "fix"),
    [
        ("crash D: 1", "`crash` hits D, which this check does not run.", "add D to `run`, or hit C"),
        ("drop A for D: 1", "`drop` hits D, which this check does not run.", "add D to `run`, or hit C"),
        ("relist B: 1", "`relist` hits B in a cache, and no actor of this check reads that kind.", "name A"),
        ("relist B for C: 1", "`relist` hits B in a cache, and C never reads that kind.", "name A"),
    ],
)
def test_a_fault_has_to_hit_something(answer: Ask, fault: str, text: str, fix: str) -> None:
    other = QUIET.replace("controller C", "controller D")
    status, _, err = answer(
        KINDS + QUIET + other + f"check small {{ run C\n faults {{ {fault} }}\n given A one {{ }} }}\n"
    )
    assert status == WRONG and "-- D122 " in err and text in err and f"Fix: {fix}" in err
    assert f"faults {{ {fault} }}" in err, "the line is shown"


def test_errors_in_used_files_are_shown_with_their_lines(answer: Ask, tmp_path: Path) -> None:
    (tmp_path / "lib.loop").write_text("resource X { spec { n: 0..Y = 0 } }\n")
    status, _, err = answer("use lib (X)\n")
    assert status == WRONG and "lib.loop:1:27" in err and "   1 | resource X { spec { n: 0..Y = 0 } }" in err
    (tmp_path / "lib.loop").write_text("resource X { spec { n: 0..1 = } }\n")
    status, _, err = answer("use lib (X)\n")
    assert status == WRONG and "   1 | resource X { spec { n: 0..1 = } }" in err


def test_errors_of_the_world_point_at_the_check(answer: Ask) -> None:
    """Also what the kernel cannot place is shown at a line, as a sentence, with a fix."""
    text = "resource A { spec { n: 0..1 = 0 } }\nresource P { spec { x: Name? } }\n"
    text += (
        "controller C for A { reconcile a { create P { name: a.name + a.resourceVersion } on AlreadyExists { } } }\n"
    )
    status, _, err = answer(text + "check small { run C\n given A one { } }\n")
    assert status == WRONG and "-- D" in err and "Fix: " in err and " | " in err
    for words in (("sim", "s.loop"), ("graph", "s.loop")):
        assert answer(text + "check small { run C\n given A one { } }\n", *words) == (WRONG, "", err)
