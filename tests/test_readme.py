"""What the documents show, happens: every console block is run as it stands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.transcript import Shell, commands, matched, play
from tests.tree import ROOT, files, shown

PAGES = [path for path in files(".md") if "```console" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_page_does_what_it_shows(page: Path, tmp_path: Path, rewrite: bool) -> None:
    """A page beside specs (an example) runs in a copy of its folder, any other in an empty one with examples/."""
    here = tmp_path / "reader"
    if list(page.parent.glob("*.loop")):
        shutil.copytree(page.parent, here, ignore=shutil.ignore_patterns(".dashpot"))
    else:
        here.mkdir()
        (here / "examples").symlink_to(ROOT / "examples")
    wrong = play(page, here, rewrite=rewrite)
    assert not wrong, "\n\n".join(wrong)


def test_commands_are_read_with_what_they_print() -> None:
    text = "x\n```console\n$ echo a \\\n> b\na b\n\n$ true\n```\n```sh\n$ not run\n```\n"
    first, second = commands(text)
    assert (first.text, first.expected, first.line) == ("echo a \\\nb", "a b\n\n", 3)
    assert (second.text, second.expected, second.line) == ("true", "", 7)
    with pytest.raises(ValueError, match="begins with a command"):
        commands("```console\noutput\n```\n")


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\n", "a  \n", True),
        ("a\n", "b\n", False),
        ("", "", True),
        ("", "a\n", False),
        ("took ... s\n", "took 2.1 s\n", True),
        ("took ... s\n", "took 2.1\n s\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n...\nd\n", "a\nb\n", False),
        ("(.*)\n", "anything\n", False),
    ],
)
def test_dots_stand_for_anything(expected: str, printed: str, same: bool) -> None:
    assert (matched(expected, printed) is not None) is same


def test_run_stands_for_the_id_that_was_printed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo p 5 f3a1 told by f3a1\np ... RUN told by RUN\n$ echo RUN\nf3a1\n```\n")
    assert play(page, tmp_path) == []
    assert matched("RUN RUN\n", "f3a1 f3a2\n") is None


def test_a_status_is_asked_for_or_zero(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ sh -c 'exit 3'\n$ echo $?\n3\n$ false\n```\n")
    wrong = play(page, tmp_path)
    assert len(wrong) == 1 and wrong[0].startswith("page.md:5: $ false\nexit status 1")


def test_rewrite_keeps_what_agrees(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\n...\n$ echo two\n2\n```\n")
    assert play(page, tmp_path, rewrite=True) == []
    assert page.read_text() == "```console\n$ echo one\n...\n$ echo two\ntwo\n```\n"


def test_shell_finds_the_dashpot_under_test(tmp_path: Path) -> None:
    outcome = Shell(tmp_path).run("command -v python")
    assert outcome.status == 0 and Path(outcome.printed.strip()).exists()
