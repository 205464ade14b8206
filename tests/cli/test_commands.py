"""Commands end to end: a spec in, an answer and an exit status out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.tree import ROOT

import dashpot
from dashpot import cli
from dashpot.checker.verdict import Violated
from dashpot.cli.problem import HOLDS, OUTSIDE, UNKNOWN, VIOLATED, WRONG

SPEC = ROOT / "tests" / "cli" / "twins.loop"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(SPEC, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(list(words))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_public_api_loads_and_checks(here: Path) -> None:
    program = dashpot.load("twins.loop")
    report = dashpot.check(program, "hasty")
    assert report.status == 0
    assert isinstance({r.property: r.verdict for r in report.results}["never_more"], Violated)
    assert dashpot.check("twins.loop", "patient", max_states=5).status == UNKNOWN
    with pytest.raises(ValueError, match="several checks, say which"):
        dashpot.check(program)
    with pytest.raises(ValueError, match="no check 'hastly'"):
        dashpot.check(program, "hastly")


def test_json_is_the_same_every_time(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = []
    for _ in range(2):
        status, out, _ = answer(capsys, "check", "twins.loop", "-o", "json")
        assert status == HOLDS
        document = json.loads(out)
        for check in document["files"][0]["checks"]:
            del check["cpu_s"]
        documents.append(document)
    assert documents[0] == documents[1]
    (never, *_) = documents[0]["files"][0]["checks"][0]["results"]
    assert never["property"] == "never_more" and never["as_said"] is True
    assert (here / ".dashpot" / "runs").is_dir() and never["run"]


def test_a_violation_that_nobody_expects_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "check", "twins.loop", "patient", "--set", "FIXED=false")
    assert status == VIOLATED
    assert "expected to hold ✗" in out and "Told by: dashpot explain " in out
    run = out.rpartition("dashpot explain ")[2].split()[0]
    status, story, _ = answer(capsys, "explain", run)
    assert status == HOLDS and "stale" in story and f"Again: dashpot explain {run}" in story


def test_quiet_is_silent_where_all_is_well(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "check", "-q", "twins.loop") == (HOLDS, "", "")


def test_junit_and_sarif_are_written_with_the_lines(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("check", "twins.loop", "--set", "FIXED=false", "--junit", "j.xml", "--sarif", "s.sarif")
    assert answer(capsys, *words)[0] == VIOLATED
    root = ElementTree.parse("j.xml").getroot()
    assert int(root.get("failures", "0")) >= 1
    assert [s.get("name") for s in root] == ["twins.loop.hasty", "twins.loop.patient", "twins.loop.scenarios"]
    document = json.loads(answer(capsys, *words, "-o", "json")[1])["files"][0]
    for suite, check in zip(root, document["checks"], strict=False):
        assert [c.get("name") for c in suite] == [r["property"] for r in check["results"]], "a case a property"
    results = json.loads(Path("s.sarif").read_text())["runs"][0]["results"]
    assert results and all(r["locations"][0]["physicalLocation"]["region"]["startLine"] > 1 for r in results)
    assert all(r["codeFlows"] for r in results)


def test_several_files_and_folders_are_taken_in_order(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "more").mkdir()
    shutil.copy(SPEC, here / "more" / "b.loop")
    (here / "more" / "a.loop").write_text("resource Box {\n")
    status, out, err = answer(capsys, "check", "more", "twins.loop", "patient")
    assert status == WRONG, "one file is no spec"
    assert out.index("more/b.loop") < out.index("twins.loop") and out.count("patient ") == 2
    assert "more/a.loop" in err


def test_limits_give_unknown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--max-states", "10"], ["--engine", "depth"]):
        status, out, _ = answer(capsys, "check", "twins.loop", "patient", *words)
        assert status == UNKNOWN and "? unknown" in out


def test_a_scope_is_overruled_only_by_what_fits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for setting, said in [
        ("FIXED=maybe", "true or false"),
        ("FIXED", "sets nothing"),
        ("Item=many", "is a number"),
        ("Itm=2", "did you mean 'Item'?"),
    ]:
        status, _, err = answer(capsys, "check", "twins.loop", "--set", setting)
        assert status == WRONG and said in err


def test_runs_that_cannot_be_kept_are_a_failure_outside(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / ".dashpot").write_text("in the way")
    status, out, err = answer(capsys, "check", "twins.loop")
    assert status == OUTSIDE and "cannot keep the run" in err
    assert "never_more  ✗ violated      6  –    as expected ✓" in out, "the answer is not lost"
    status, out, err = answer(capsys, "sim", "twins.loop", "patient", "--set", "FIXED=false")
    assert status == OUTSIDE and "cannot keep the run" in err and "never_more" in out and "explain" not in out


def test_a_damaged_run_is_no_traceback(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "check", "twins.loop", "hasty")
    (kept,) = (here / ".dashpot" / "runs").iterdir()
    for content in (b"", b"{}", kept.read_bytes()[:-40], b"\xff\0"):
        kept.write_bytes(content)
        status, out, err = answer(capsys, "explain", kept.stem[:6])
        assert status == WRONG and out == "" and "internal error" not in err


def test_values_along_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(capsys, "check", "twins.loop", "hasty", "-o", "json")
    run = json.loads(out)["files"][0]["checks"][0]["results"][0]["run"]
    status, out, _ = answer(
        capsys, "explain", run, "--eval", "Item.size()", "--eval", "Box.exists(b, b.spec.want == 2)"
    )
    rows = [line.split()[-2:] for line in out.splitlines()[1:]]
    assert status == HOLDS
    assert rows[0] == ["0", "false"] and rows[-1] == ["3", "true"]
    for expression, said in [("Itm.size()", "did you mean `Item`?"), ("Item", "no truth value"), ("1 +", "column 4")]:
        status, _, err = answer(capsys, "explain", run, "--eval", expression)
        assert status == WRONG and said in err
    Path("twins.loop").write_text(Path("twins.loop").read_text().replace("items.size() <", "items.size() + 1 <"))
    status, _, err = answer(capsys, "explain", run, "--eval", "Item.size()")
    assert status == WRONG and "does not happen any more" in err


def test_walks_are_the_same_for_the_same_seed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("sim", "twins.loop", "patient", "--set", "FIXED=false", "--walks", "40", "--seed", "3")
    first = answer(capsys, *words)
    assert first[0] == VIOLATED and "unexpected" not in first[1] and "expected to hold ✗" in first[1]
    assert answer(capsys, *words) == first
    document = json.loads(answer(capsys, *words, "-o", "json")[1])
    assert document["faults"]["crash BoxController"] > 0
    assert "never_more" in {v["property"] for v in document["violations"]}
    assert document["violations"][0]["steps"] <= 8, "the run is shortened"


def test_a_picture_is_drawn(here: Path, capsys: pytest.CaptureFixture[str], dot: str) -> None:
    status, out, _ = answer(capsys, "graph", "twins.loop", "hasty", "--view", "Item.size()", "-o", "g.svg")
    assert status == HOLDS and out.startswith("g.svg: 4 boxes") and "<svg" in Path("g.svg").read_text()
    status, _, err = answer(capsys, "graph", "twins.loop", "hasty", "-o", "g.gif")
    assert status == WRONG and "names no format" in err
    status, _, err = answer(capsys, "graph", "twins.loop", "hasty", "--goal", "never_mor")
    assert status == WRONG and "did you mean 'never_more'?" in err


def test_without_graphviz_the_source_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(here))
    status, out, err = answer(capsys, "graph", "twins.loop", "hasty", "-o", "g.svg")
    assert status == OUTSIDE and "g.dot" in out and "`dot` is not installed" in err
    assert Path("g.dot").read_text().startswith("digraph")


def test_interrupted_work_is_kept(tmp_path: Path) -> None:
    """The search is stopped while it runs; what it has found by then is printed, the rest is unknown."""
    program = (
        "import os, signal, sys\n"
        "from dashpot import cli\n"
        "from dashpot.checker import search\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored\n"
        "real = search.Breadth._memory_bytes\n"
        "def once(self):\n"
        "    search.Breadth._memory_bytes = real\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(self)\n"
        "search.Breadth._memory_bytes = once\n"
        "sys.exit(cli.main(['check', sys.argv[1]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(SPEC)], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == UNKNOWN, done.stderr
    assert "interrupted: " in done.stdout and "what was found is kept" in done.stderr
    assert "patient " not in done.stdout, "what comes after is not run"


def test_fmt_rewrites_only_what_changes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loose = Path("loose.loop")
    loose.write_text("const  A=1\n")
    loose.chmod(0o600)
    assert answer(capsys, "fmt", "--check", ".")[:2] == (VIOLATED, "loose.loop\n")
    status, out, _ = answer(capsys, "fmt", "--diff", "loose.loop")
    assert status == VIOLATED and "-const  A=1" in out and "+const A = 1" in out
    assert answer(capsys, "fmt", ".")[:2] == (HOLDS, "loose.loop\n")
    assert loose.read_text() == "const A = 1\n" and oct(loose.stat().st_mode)[-3:] == "600"
    loose.write_text("const A = = 1\n")
    status, _, err = answer(capsys, "fmt", "loose.loop", "nowhere.loop", "twins.loop")
    assert status == WRONG and "nowhere.loop" in err and loose.read_text() == "const A = = 1\n"


def test_fmt_reads_the_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dashpot", "fmt", "-"], input="const  A=1", capture_output=True, encoding="utf-8"
    )
    assert (done.returncode, done.stdout) == (HOLDS, "const A = 1\n")


def test_lint_tells_errors_from_smells(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smelly = "resource A { spec { n: 0..1 = 0 } }\ncontroller C for A { reconcile a { update a.spec { n: 1 } } }\n"
    Path("smelly.loop").write_text(smelly)
    assert answer(capsys, "lint", "smelly.loop")[0] == HOLDS
    status, out, _ = answer(capsys, "lint", "--strict", "smelly.loop", "--sarif", "s.sarif")
    assert status == VIOLATED and "L402" in out and "1 warning" in out
    assert json.loads(Path("s.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "L402"
    Path("wrong.loop").write_text("resource A { spec { n: 0..1 = } }\n")
    status, out, _ = answer(capsys, "lint", "smelly.loop", "wrong.loop", "-o", "json")
    assert status == WRONG and {m["severity"] for m in json.loads(out)["messages"]} == {"warning", "error"}


@pytest.mark.parametrize("name", ["web", "my-operator", "v2", "list", "pod", "x1.loop", "if"])
def test_what_new_writes_has_no_fault(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "new", name)[0] == HOLDS
    path = name if name.endswith(".loop") else f"{name}.loop"
    assert answer(capsys, "lint", "--strict", path) == (HOLDS, "", "")
    assert answer(capsys, "fmt", "--check", path) == (HOLDS, "", "")
    assert answer(capsys, "new", name)[0] == WRONG, "it never overwrites"


@pytest.mark.parametrize(
    ("name", "status"), [("time", WRONG), ("users", WRONG), ("7up", WRONG), ("é", WRONG), ("no/folder/web", OUTSIDE)]
)
def test_new_refuses_names_that_make_no_spec(
    name: str, status: int, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(os.listdir())
    assert answer(capsys, "new", name)[0] == status
    assert sorted(os.listdir()) == before


def test_what_new_writes_checks_as_it_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "new", "web")
    status, out, _ = answer(capsys, "check", "web.loop")
    assert status == HOLDS, out
    text = Path("web.loop").read_text()
    Path("web.loop").write_text(text.replace('name: it.name + "-" + i', 'generateName: it.name + "-"'))
    status, out, _ = answer(capsys, "check", "web.loop", "--no-scenarios")
    assert status == VIOLATED, "the way to break it that the file describes breaks it"
    assert re.search(r"never_too_many +✗ violated +5 .*expected to hold ✗", out), "in the scope that the file has"
