"""Messages: right place, right code, a fix; and the table of codes, its pages and its uses are one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dashpot.grammar.codes import CODES, REMEDIES
from dashpot.grammar.load import load
from dashpot.grammar.parse import parse
from dashpot.grammar.report import Message, SpecRejected, from_fault, render, to_json
from dashpot.model.fault import SpecError
from dashpot.model.span import NOWHERE, Span
from tests.grammar.corpus import HERE, blocks
from tests.grammar.slips import SLIPS
from tests.tree import ROOT, modules

MALFORMED = sorted((HERE / "malformed").glob("*.loop"))
PAGES = ROOT / "docs" / "hints"


def rejected(path: Path) -> tuple[Message, ...]:
    with pytest.raises(SpecRejected) as caught:
        load(path)
    return caught.value.messages


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: path.stem)
def test_malformed_specs(path: Path, rewrite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line says `// expect CODE line:column, …`; the `.txt` beside it holds the rendering."""
    monkeypatch.chdir(path.parent)
    text = path.read_text("utf-8")
    messages = rejected(Path(path.name))
    expected = re.findall(r"([A-Z]\d+) (\d+):(\d+)", text.split("\n")[0].removeprefix("// expect "))
    assert [(m.code, str(m.span.line), str(m.span.column)) for m in messages] == expected
    assert all(m.text and m.fix for m in messages)
    shown = render(messages, {path.name: text})
    golden = path.with_suffix(".txt")
    if rewrite:
        golden.write_text(shown, "utf-8")
    assert golden.read_text("utf-8") == shown


def test_malformed_specs_are_many_and_of_many_kinds() -> None:
    heads = [path.read_text("utf-8").split("\n")[0] for path in MALFORMED]
    codes = {code for head in heads for code in re.findall(r"[A-Z]\d+(?= \d)", head)}
    assert len(MALFORMED) >= 30 and len(codes) >= 20
    assert {path.stem for path in MALFORMED} == {path.stem for path in (HERE / "malformed").glob("*.txt")}


@pytest.mark.parametrize("code, text", SLIPS, ids=lambda value: re.sub(r"\W+", "_", value)[:40])
def test_slips(code: str, text: str) -> None:
    """Every known slip gets its own code, once."""
    with pytest.raises(SpecRejected) as caught:
        parse(text, "spec.loop")
    assert [m.code for m in caught.value.messages] == [code]


def used() -> set[str]:
    """The codes that the product's code speaks of, table apart."""
    texts = (path.read_text("utf-8") for path in modules() if path.name != "codes.py")
    return {code for text in texts for code in re.findall(r'"([DL]\d{3})"', text)}


def test_table_pages_and_uses_are_one() -> None:
    assert used() == set(CODES)
    assert {page.stem for page in PAGES.glob("*.md")} == set(CODES)


def test_codes_are_in_order_and_have_words() -> None:
    assert list(CODES) == sorted(CODES)
    for title, meaning in CODES.values():
        assert title and not title.endswith(".") and meaning.endswith((".", ")"))
    titles = [title for title, _ in CODES.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("code", CODES)
def test_pages_begin_with_their_code_and_title(code: str) -> None:
    title, meaning = CODES[code]
    page = (PAGES / f"{code}.md").read_text("utf-8")
    assert page.startswith(f"# {code}: {title}\n\n{meaning}\n")


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("D0") and code != "D025"])
def test_pages_of_syntax_show_the_slip_and_its_cure(code: str) -> None:
    wrong, right = blocks(PAGES / f"{code}.md")
    with pytest.raises(SpecRejected) as caught:
        parse(wrong, "wrong.loop")
    assert {m.code for m in caught.value.messages} == {code}
    parse(right, "right.loop")


def test_rendering() -> None:
    text = "const A = 1\n\tfun f = äöü + 界 x\n"
    first, second = Span("a.loop", 2, 12, 2, 17), Span("a.loop", 1, 1, 1, 6)
    message = Message("D001", first, "Wrong.", "make it right.", ((second, "See here:"),))
    lines = render([message], {"a.loop": text}).split("\n")
    assert lines[0].startswith("-- D001 UNEXPECTED WORD ---") and lines[0].endswith(" a.loop:2:12")
    assert len(lines[0]) == 80
    assert lines[4:6] == ["   2 |   fun f = äöü + 界 x", " " * 19 + "^^^^^^"]
    assert lines[7:11] == ["See here:", "", "   1 | const A = 1", "       ^^^^^"]
    assert lines[-2] == "Fix: make it right."


def test_rendering_without_a_place_or_a_text() -> None:
    assert render([], {}) == ""
    assert "\n   " not in render([Message("D001", NOWHERE, "Wrong.", "do it.")], {})
    assert "\n   " not in render([Message("D001", Span("a", 9, 1, 9, 2), "Wrong.")], {"a": "x"})


def test_colors_only_if_asked_for() -> None:
    message = Message("D001", Span("a", 1, 1, 1, 2), "Wrong \x1b[31m.", "do it.")
    assert "\x1b" not in render([message], {"a": "x"})
    colored = render([message], {"a": "x"}, color=True)
    assert re.sub(r"\x1b\[\d+m", "", colored) == render([message], {"a": "x"})


def test_long_lines_are_cut_around_the_place() -> None:
    text = "x" * 5000 + "HERE" + "y" * 5000
    shown = render([Message("D001", Span("a", 1, 5001, 1, 5005), "Wrong.")], {"a": text}).split("\n")
    line, carets = shown[4], shown[5]
    assert len(line) < 140 and line.index("HERE") == carets.index("^^^^")


def test_json_has_every_field() -> None:
    note = (Span("a", 2, 1, 2, 4), "here")
    (plain,) = json.loads(to_json([Message("D002", Span("a", 1, 2, 3, 4), "t", "f", (note,), "warning")]))
    assert plain["code"] == "D002" and plain["title"] == CODES["D002"][0] and plain["severity"] == "warning"
    assert plain["span"] == {"file": "a", "line": 1, "column": 2, "end_line": 3, "end_column": 4}
    assert plain["notes"][0]["text"] == "here"


def test_faults_of_the_kernel_are_messages() -> None:
    error = SpecError("D001", "what", Span("a", 1, 1, 1, 2), "how")
    assert from_fault(error) == Message("D001", error.span, "What.", "how")
    here = Span("a.loop", 3, 1, 3, 5)
    assert from_fault(SpecError("D308", "no value"), here) == Message("D308", here, "No value.", REMEDIES["D308"])
    assert set(REMEDIES) == {code for code in CODES if code.startswith("D3")}


def test_unknown_codes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"codes\.py"):
        Message("D999", NOWHERE, "x")
