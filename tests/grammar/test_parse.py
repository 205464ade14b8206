"""Text to tree: what parses, what does not, and where the blame falls."""

from __future__ import annotations

import re

import pytest

from dashpot.grammar import table
from dashpot.grammar.parse import MAX_ERRORS, parse
from dashpot.grammar.report import Message, SpecRejected
from tests.grammar.corpus import EVERYTHING, specs


def rejected(text: str) -> tuple[Message, ...]:
    with pytest.raises(SpecRejected) as caught:
        parse(text, "spec.loop")
    return caught.value.messages


def body(*lines: str) -> str:
    return "controller C for A {\n  reconcile a {\n" + "".join(f"    {line}\n" for line in lines) + "  }\n}\n"


@pytest.mark.parametrize("name", specs())
def test_specs_of_the_project_parse(name: str) -> None:
    assert parse(specs()[name], name).data == "start"


def test_every_rule_of_the_grammar_is_used() -> None:
    """The spec of all forms has every node that the grammar can make, so the tests below miss none."""
    text = table.grammar_text()
    named = set(re.findall(r"^!?([a-z][a-z_]*) *:", text, re.MULTILINE)) | set(re.findall(r"-> ([a-z_]+)", text))
    seen = {str(node.data) for node in parse(EVERYTHING.read_text("utf-8"), "everything.loop").iter_subtrees()}
    assert named | {"or", "and"} == seen  # two of the inlined rules keep their name when they have two sides


@pytest.mark.parametrize("text", ["", "\n", "// nothing\n", "  ", "\ufeff", "\r\n// a\r\n", "\t"])
def test_nothing_is_a_spec(text: str) -> None:
    assert parse(text, "spec.loop").children == []


def test_line_ends_of_windows_and_tabs_change_nothing() -> None:
    text = EVERYTHING.read_text("utf-8")
    tree = parse(text, "spec.loop")
    assert parse(text.replace("\n", "\r\n"), "spec.loop") == tree
    assert parse(re.sub("^ +", "\t", text, flags=re.MULTILINE), "spec.loop") == tree


def test_a_keyword_is_a_whole_word() -> None:
    """`elseif` is not `else if`, and `func f` declares no function called `c`."""
    assert [m.code for m in rejected(body("if x { return } elseif y { return }"))] == ["D008"]
    assert [m.code for m in rejected("func(x: A): int = 1\n")] == ["D011"]
    assert [m.code for m in rejected("propertyp = always true\n")] == ["D030"]


@pytest.mark.parametrize("word", ["update", "on", "delete", "list", "true", "in", "spec", "for", "when"])
def test_keywords_are_names_of_fields(word: str) -> None:
    parse(f'resource A "v1" {{\n  spec {{\n    {word}: int\n    b: int\n  }}\n}}\n', "spec.loop")
    parse(body(f"update a.spec {{\n      {word}: a.spec.{word}\n      b: 1\n    }}"), "spec.loop")


def test_a_line_may_begin_with_what_joins_it_to_the_one_above() -> None:
    joined = body("let x = a", "  // why", "  && b", "  ? c", "  : d", "delete a", "  on NotFound { }")
    assert parse(joined, "spec.loop") == parse(body("let x = a && b ? c : d", "delete a on NotFound { }"), "spec.loop")


@pytest.mark.parametrize(
    "line", ["update a[ }", "patch a[", "create A { x: [", "apply a[)", "delete a[ =", "list(", "x[="]
)
def test_a_write_may_break_off_anywhere(line: str) -> None:
    assert rejected(body(line))


def test_one_message_for_each_declaration_that_fails() -> None:
    text = "const A\n\n" + body("if a.x = 1 { return }", "return x") + "\nconst OK = 1\n\nfun f(x): int = 1\n"
    found = [(m.code, m.span.line, m.span.column) for m in rejected(text)]
    assert found == [("D010", 1, 8), ("D002", 5, 12), ("D007", 12, 8)]


def test_an_open_block_does_not_blame_what_follows() -> None:
    text = body("return").removesuffix("}\n") + "\n" + body("return") + "\nproperty p = always true\n"
    assert [(m.code, m.span.line, m.span.column) for m in rejected(text)] == [("D005", 1, 20)]


def test_the_number_of_messages_is_bounded() -> None:
    assert len(rejected("const A\n" * 1000)) == MAX_ERRORS


@pytest.mark.parametrize(
    "deep",
    [
        "let x = " + "(" * 5000 + "1" + ")" * 5000,
        "let x = " + "[" * 5000,
        "let x = " + "!" * 5000 + "a",
        "let x = " + "- " * 5000 + "a",
        "let x = " + "a ? b : " * 5000 + "c",
        "let x = " + "1 + " * 5000 + "1",
        "let x = a" + ".b" * 5000,
        "let x = a" + "[0]" * 5000,
        "if a { " * 5000,
        "if a { } else " * 5000 + "{ }",
        "update a.spec { x: " + "{ y: " * 5000,
    ],
)
def test_depth_is_a_message(deep: str) -> None:
    assert [m.code for m in rejected(body(deep))] == ["D024"]


def test_brackets_in_strings_and_comments_do_not_count() -> None:
    parse(body('let x = "' + "(" * 500 + '"', "// " + "{" * 500, "let y = '" + "[" * 500 + "'"), "spec.loop")


def test_size_is_a_message() -> None:
    """The limit counts bytes of UTF-8, and just below it a spec parses."""
    assert [m.code for m in rejected("// " + "é" * (1 << 19) + "\n")] == ["D025"]
    parse("// " + "é" * ((1 << 19) - 2) + "\n", "spec.loop")


@pytest.mark.parametrize("text", ["\0", "\ud800", "a\0b", "const A = '\ud800'\n", "\x1b[31m", "\u2028", "\x0c"])
def test_odd_characters_are_messages_or_text(text: str) -> None:
    try:
        parse(text, "spec.loop")
    except SpecRejected as error:
        assert all(m.span.line >= 1 and m.span.column >= 1 for m in error.messages)
