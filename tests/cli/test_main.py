"""The command line as a whole: start-up, usage errors, and that no traceback ever reaches a user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashpot import cli
from dashpot.cli import console
from dashpot.cli.parser import COMMANDS, build, positive, seconds, size
from dashpot.cli.problem import CLOSED_PIPE, OUTSIDE, UNKNOWN, VIOLATED, WRONG, worst

HEAVY = (
    "lark",
    "graphviz",
    "rich",
    "z3",
    "msgspec",
    "dashpot.grammar.load",
    "dashpot.model.kernel",
    "importlib.metadata",
)


def dashpot(*words: str, cwd: Path | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "dashpot", *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("words", [["--help"], ["check", "--help"], ["new", "web"]])
def test_starting_imports_nothing_that_takes_long(words: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\nfrom dashpot.cli import main\nstatus = main(sys.argv[1:])\n"
        f"assert status == 0, status\nheavy = [m for m in {HEAVY} if m in sys.modules]\nassert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"example:\n  dashpot {command}" in text or f"dashpot {command}" in text.split("example:")[1]


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == WRONG
    assert "exit status:" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("dashpot ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek", "a.loop"], "did you mean 'check'?"),
        (["frobnicate"], "there are: new, fmt"),
        (["check", "a.loop", "--timeout", "abc"], "'abc' is no time span"),
        (["check", "a.loop", "--timeout", "0"], "no time span"),
        (["check", "a.loop", "--max-states", "-3"], "--max-states"),
        (["check", "a.loop", "--max-memory", "lots"], "no amount of memory"),
        (["check", "a.loop", "--defaults-onli"], "did you mean --defaults-only?"),
        (["check"], "name a .loop file"),
        (["check", "nowhere.loop"], "there is no file 'nowhere.loop'"),
        (["check", "nowhere"], "there is no file or folder 'nowhere'"),
        (["fmt"], "FILE"),
        (["lint", "nowhere.loop"], "there is no file"),
        (["explain"], "RUN"),
        (["explain", "zz"], "hexadecimal digits"),
        (["explain", "abcd"], "no run"),
        (["explain", "abcd", "one"], "no step"),
        (["completion", "fish"], "fish"),
    ],
)
def test_usage_errors_say_what_to_do(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == WRONG
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""
    assert list(tmp_path.iterdir()) == [], "a usage error leaves nothing behind"


def test_a_mistake_of_ours_is_a_short_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise KeyError("never seen")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dashpot.cli.new.run", broken)
    assert cli.main(["new", "web"]) == OUTSIDE
    first = capsys.readouterr().err
    assert "internal error" in first and "Traceback" not in first and "report it" in first
    (kept,) = (tmp_path / ".dashpot" / "errors").iterdir()
    assert "KeyError: 'never seen'" in kept.read_text() and kept.stem in first
    cli.main(["new", "web"])
    assert capsys.readouterr().err == first, "the same mistake has the same id"


def test_the_report_survives_an_unwritable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise RecursionError("too deep")

    (tmp_path / ".dashpot").write_text("in the way")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / ".dashpot"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ".dashpot"))
    monkeypatch.setattr("dashpot.cli.new.run", broken)
    assert cli.main(["new", "web"]) == OUTSIDE
    assert "with this text: too deep" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_it_silently() -> None:
    program = (
        "import os, subprocess, sys\n"
        "read, write = os.pipe()\nos.close(read)\n"
        "done = subprocess.run([sys.executable, '-m', 'dashpot', '--help'], stdout=write, stderr=subprocess.PIPE)\n"
        "assert done.stderr == b'', done.stderr\nraise SystemExit(done.returncode)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (CLOSED_PIPE, "")


def test_a_full_disk_under_the_output_is_said() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "dashpot", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    assert done.returncode == OUTSIDE
    assert "no space left on device" in done.stderr and "Exception" not in done.stderr


def test_no_output_at_all_is_no_failure() -> None:
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m dashpot --help >&- 2>&-"], capture_output=True, check=False
    )
    assert done.returncode == 0


def test_an_ascii_terminal_gets_signs_that_it_can_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with open(tmp_path / "out", "w+", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        console.out("✓ 5+4↻ – é")
        stream.seek(0)
        assert stream.read() == "+ 5+4@ - ?\n"


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert console.paint("x", "red") == "x"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert console.paint("x", "red") == "\033[31mx\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert console.paint("x", "red") == "x"


def test_amounts_are_read_as_people_write_them() -> None:
    assert [positive(t) for t in ("7", "10k", "2M")] == [7, 10_000, 2_000_000]
    assert [seconds(t) for t in ("30", "1.5s", "500ms", "2min", "2m", "1h")] == [30, 1.5, 0.5, 120, 120, 3600]
    assert [size(t) for t in ("4G", "512Mi", "1GiB", "100MB", "77")] == [4 * 10**9, 512 << 20, 1 << 30, 10**8, 77]


def test_the_worst_status_wins() -> None:
    assert worst([]) == 0
    assert worst([0, UNKNOWN]) == UNKNOWN
    assert worst([UNKNOWN, VIOLATED, 0]) == VIOLATED
    assert worst([VIOLATED, WRONG]) == WRONG
    assert worst([WRONG, OUTSIDE]) == OUTSIDE


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    commands = build().commands
    assert commands is not None
    for name, parser in commands.choices.items():
        assert name in script
        for action in parser._actions:
            assert all(option in script for option in action.option_strings)


def test_completion_is_a_script_that_bash_accepts(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(dashpot("completion", "bash").stdout)
    (tmp_path / "web.loop").write_text("")
    ask = f"source {script}; COMP_WORDS=(dashpot $1 $2); COMP_CWORD=$3; _dashpot 2>&1; echo ${{COMPREPLY[@]}}"
    for words, expected in [
        (["ch", "", "1"], "check"),
        (["check", "--def", "2"], "--defaults-only"),
        (["check", "w", "2"], "web.loop"),
        (["completion", "z", "2"], "zsh"),
    ]:
        done = subprocess.run(
            ["bash", "-c", ask, "bash", *words], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True
        )
        assert done.stdout.strip() == expected
