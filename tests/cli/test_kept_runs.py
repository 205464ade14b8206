"""What was found with `--set` is told, measured and drawn in the world in which it was found."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from tests.tree import ROOT

from dashpot import cli
from dashpot.cli.problem import HOLDS, VIOLATED, WRONG

SPEC = ROOT / "tests" / "cli" / "twins.loop"

TWICE = """\
resource Web "example.com/v1" { }
resource Part "example.com/v1" { }
controller C for Web {
  owns Part
  reconcile it {
    let parts = list cached Part where p -> p.owner == it
    create Part { generateName: "x", owner: it } on AlreadyExists { }
    for p in parts { delete p if same on NotFound { } on Conflict { requeue } }
  }
}
check small { run C
  scope { Web: 1, Part: 3 }
  given Web one { } }
"""

GROW = """\
resource Web "example.com/v1" { }
resource Part "example.com/v1" { }
controller C for Web {
  reconcile it {
    create Part { generateName: "x" } on AlreadyExists { }
    requeue
  }
}
check small { run C
  scope { Web: 1, Part: 2 }
  given Web one { } }
"""

ENTRY = """\
resource ConfigMap "v1" {
  spec {
    data: map[Name]0..1 = {}
    note: 0..1? = null
  }
}
controller C for ConfigMap { reconcile c { delete c on NotFound { } } }
property kept = on delete ConfigMap c by C require !("v" in c.spec.data) && c.spec.note != null
check small { run C
  scope { ConfigMap: 1 }
  given ConfigMap one { spec.data: { "v": 1 } } }
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(SPEC, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(list(words))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def run(here: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The run of `never_more`, which holds unless FIXED is overruled."""
    status, out, _ = answer(capsys, "check", "twins.loop", "patient", "--set", "FIXED=false", "-o", "json")
    assert status == VIOLATED
    found = {r["property"]: r["run"] for r in json.loads(out)["files"][0]["checks"][0]["results"]}
    return str(found["never_more"])


def test_values_along_a_run_that_was_found_with_other_constants(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "explain", run, "--eval", "Item.size()", "--eval", "FIXED")
    rows = [line.split()[-2:] for line in out.splitlines()[1:]]
    assert status == HOLDS and rows[0] == ["0", "false"] and rows[-1] == ["3", "false"]


def test_everything_else_that_explain_does(run: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("6",), ("--html", "s.html"), ("--itf", "s.itf.json"), ("-o", "json")):
        status, _, err = answer(capsys, "explain", run, *words)
        assert (status, err) == (HOLDS, "")
    document = json.loads(answer(capsys, "explain", run, "-o", "json")[1])
    assert document["settings"] == ["FIXED=false"]


def test_a_spec_that_has_changed_is_looked_at_again_in_the_same_scope(
    run: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("twins.loop").write_text(SPEC.read_text().replace("items.size() <", "items.size() + 1 <"))
    status, _, err = answer(capsys, "explain", run, "--eval", "Item.size()")
    assert status == WRONG and "`dashpot check twins.loop patient --set FIXED=false`" in err


def test_a_picture_around_a_run_is_of_the_world_of_the_run(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("graph", "twins.loop", "--focus", run, "--radius", "9", "--view", "Item.size()", "-o", "g.dot")
    status, out, _ = answer(capsys, *words)
    assert status == HOLDS and out.startswith("g.dot: 4 boxes")
    text = Path("g.dot").read_text()
    assert all(f"Item.size() <B>{n}</B>" in text for n in range(4)) and "━ the run" in text
    status, _, err = answer(capsys, *words, "--set", "FIXED=true")
    assert status == WRONG and "of another world" in err, "what is set now is set after what the run was found with"


def test_a_run_around_which_a_fine_view_is_coarse_enough(
    run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a focus the limit holds for the whole picture, with one for what is left of it."""
    from dashpot.checker import quotient

    monkeypatch.setattr(quotient, "LIMIT", 3)
    words = ("graph", "twins.loop", "patient", "--set", "FIXED=false", "--view", "Item.size()", "-o", "g.dot")
    status, _, err = answer(capsys, *words)
    assert status == WRONG and "--focus" in err
    status, _, err = answer(capsys, *words, "--focus", run, "--radius", "1")
    assert status == WRONG and "around this run are 4" in err


def test_views_show_values_and_truths(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    views = ("Box.size()", "Item.size() > 1", "Box.exists(b, b.spec.want == 2)")
    words = [word for view in views for word in ("--view", view)]
    assert answer(capsys, "graph", "twins.loop", "hasty", *words, "-o", "g.dot")[0] == HOLDS
    start = next(line for line in Path("g.dot").read_text().splitlines() if ">start<" in line)
    for shown in ("Box.size() <B>1</B>", "Item.size() &gt; 1 <B>false</B>", "want == 2) <B>false</B>"):
        assert shown in start


def test_last_is_the_run_that_was_found_last(run: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "check", "twins.loop", "hasty")
    status, out, _ = answer(capsys, "explain", "last")
    assert status == HOLDS
    name = out.rpartition("dashpot explain ")[2].split()[0]
    assert name != "last" and answer(capsys, "explain", name)[1] == out
    assert json.loads(answer(capsys, "explain", "last", "-o", "json")[1])["check"] == "hasty"
    answer(capsys, "check", "twins.loop", "patient", "--set", "FIXED=false")
    found = json.loads(answer(capsys, "explain", "last", "-o", "json")[1])
    assert found["check"] == "patient", "a run that is found again is the last one again"
    assert answer(capsys, "graph", "twins.loop", "--focus", "last", "-o", "g.dot")[0] == HOLDS
    for file in (here / ".dashpot" / "runs").iterdir():
        os.unlink(file)
    status, _, err = answer(capsys, "explain", "last")
    assert status == WRONG and "no run in .dashpot/runs yet" in err


def test_walks_keep_their_scope_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "sim", "twins.loop", "patient", "--set", "FIXED=false")[0] == VIOLATED
    status, out, _ = answer(capsys, "explain", "last", "--eval", "Item.size()")
    assert status == HOLDS and len(out.splitlines()) > 2


def test_words_may_stand_behind_options(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "explain", run, "-o", "text", "2")
    assert status == HOLDS and out.startswith("after step 2:")
    assert answer(capsys, "graph", "twins.loop", "-o", "g.dot", "hasty")[0] == HOLDS
    status, _, err = answer(capsys, "explain", run, "-o", "text", "two")
    assert status == WRONG and "'two' is no step" in err
    status, _, err = answer(capsys, "explain", run, "2", "3")
    assert status == WRONG and "unrecognized arguments: 3" in err


def test_values_along_a_run_whose_locals_are_dead_in_another_world(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list that the loop no longer reads is kept where somebody asks, and cleared where nobody does."""
    Path("twice.loop").write_text(TWICE)
    assert answer(capsys, "check", "twice.loop")[0] == VIOLATED
    status, out, err = answer(capsys, "explain", "last", "--eval", "Part.size()")
    assert (status, err) == (HOLDS, "")
    made = {"create": 1, "delete": -1}
    total = 0
    for line in out.splitlines()[2:]:
        words = line.split()
        total += 0 if "NotFound" in words else next((made[w] for w in words if w in made), 0)
        assert words[-1] == str(total), line
    assert len(out.splitlines()) == 12


def test_only_a_spec_that_is_another_text_is_said_to_have_changed(
    run: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dashpot.cli.values._label", lambda system, index: "another")
        status, _, err = answer(capsys, "explain", run, "--eval", "Item.size()")
    assert status == WRONG and "cannot be taken again" in err and "has changed since" not in err
    Path("twins.loop").write_text(SPEC.read_text().replace("items.size() <", "items.size() + 1 <"))
    assert "twins.loop has changed since" in answer(capsys, "explain", run, "--eval", "Item.size()")[2]


def test_beyond_the_scope_there_are_no_values(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("grow.loop").write_text(GROW)
    assert answer(capsys, "check", "grow.loop")[0] == VIOLATED
    status, out, _ = answer(capsys, "explain", "last", "--eval", "Part.size()", "--eval", "Web.exists(w, true)")
    rows = [line.split()[-2:] for line in out.splitlines()[1:]]
    assert status == HOLDS
    assert rows == [["0", "true"], ["1", "true"], ["2", "true"], ["overflow", "overflow"]]


def test_entries_and_optional_values_are_told_in_the_words_of_the_spec(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("map.loop").write_text(ENTRY)
    answer(capsys, "check", "map.loop")
    story = json.loads(answer(capsys, "explain", "last", "-o", "json")[1])["story"]
    assert story["property"] == "kept"
    named = {b["text"]: b["values"][0] for c in story["blame"]["conjuncts"] for b in c["bindings"]}
    assert named == {"ConfigMap one spec.data.v": "1", "ConfigMap one spec.note": "null"}
    assert ".some" not in answer(capsys, "explain", "last")[1]


def test_an_actor_has_one_colour_in_the_picture_and_on_the_page(
    run: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """BoxController is the first of the check's run, Users the second."""
    actors = json.loads(answer(capsys, "explain", run, "-o", "json")[1])["story"]["actors"]
    assert actors[:2] == ["BoxController", "Users"]
    answer(capsys, "graph", "twins.loop", "patient", "-o", "p.dot")
    drawn = dict(re.findall(r'<FONT COLOR="(#\w+)">→ ([\w ]+)</FONT>', Path("p.dot").read_text()))
    colors = {actor: color for color, actor in drawn.items()}
    answer(capsys, "explain", run, "--html", "s.html")
    hues = dict(re.findall(r"--hue(\d): light-dark\((#\w+),", Path("s.html").read_text()))
    assert colors["BoxController"] == hues["0"] and colors["Users"] == hues["1"]
    assert all(colors[actor] == hues[str(actors.index(actor))] for actor in colors)
