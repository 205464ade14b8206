"""Whatever the text, the answer is a tree or messages: random soups of tokens, and specs that were tampered with."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.grammar.parse import parse
from dashpot.grammar.report import SpecRejected, render, to_json
from dashpot.grammar.syntax import CLAUSES, DECLARATIONS, RESERVED
from tests.grammar.corpus import specs

SPECS = list(specs().values())
PIECE = re.compile(r"\s+|//[^\n]*|\"[^\"\n]*\"|\w+|->|\.\.|&&|\|\||[=!<>]=|.", re.DOTALL)
WORDS = sorted({*DECLARATIONS, *RESERVED, *(word for words in CLAUSES.values() for word in words)})
SIGNS = [*"(){}[].,:=<>!?+-*/%;'\"\\&|#@~^`$", "->", "..", "&&", "||", "==", "!=", "\n", "\n\n", "// x\n", " "]
TOKENS = st.sampled_from([*WORDS, *SIGNS, "A", "a", "p", "0", "12", "1.5", "3s", "64Mi", '"s"', "as", "when", "where"])


def answered(text: str) -> None:
    """Parse; if the text is rejected, every message must have a place in it and words."""
    try:
        parse(text, "spec.loop")
    except SpecRejected as error:
        lines = text.removeprefix("\ufeff").split("\n")
        assert error.messages
        for message in error.messages:
            assert message.text and message.fix and message.span.file == "spec.loop"
            for span in (message.span, *(span for span, _ in message.notes)):
                assert 1 <= span.line <= len(lines) and 1 <= span.column <= len(lines[span.line - 1]) + 1
                assert (span.end_line, span.end_column) >= (span.line, span.column)
        shown = render(error.messages, {"spec.loop": text})
        shown.encode("utf-8")
        assert not set(shown) & {"\0", "\x1b", "\r"}
        to_json(error.messages)


@settings(max_examples=300)
@given(st.lists(TOKENS, max_size=60))
def test_soup_of_tokens(words: list[str]) -> None:
    answered(" ".join(words))


@settings(max_examples=150)
@given(st.text(max_size=200))
def test_soup_of_characters(text: str) -> None:
    answered(text)


@settings(max_examples=150)
@given(
    st.lists(TOKENS, max_size=12),
    st.sampled_from(["controller C for A {", "check c {", "property p =", 'resource A "v1" {']),
)
def test_soup_in_a_declaration(words: list[str], head: str) -> None:
    answered(f"{head}\n  " + " ".join(words) + "\n")


@st.composite
def tampered(draw: st.DrawFn) -> str:
    """A spec of the project after up to four edits of its pieces: deleted, doubled, swapped, replaced, cut."""
    pieces = PIECE.findall(draw(st.sampled_from(SPECS)))
    for _ in range(draw(st.integers(1, 4))):
        if len(pieces) < 2:
            break
        at = draw(st.integers(0, len(pieces) - 2))
        match draw(st.sampled_from(["delete", "double", "swap", "replace", "cut", "move"])):
            case "delete":
                del pieces[at]
            case "double":
                pieces.insert(at, pieces[at])
            case "swap":
                pieces[at], pieces[at + 1] = pieces[at + 1], pieces[at]
            case "replace":
                pieces[at] = draw(TOKENS)
            case "cut":
                del pieces[at + draw(st.integers(1, 30)) :]
            case _:
                pieces.insert(draw(st.integers(0, len(pieces) - 1)), pieces.pop(at))
    return "".join(pieces)


@settings(max_examples=300)
@given(tampered())
def test_specs_tampered_with(text: str) -> None:
    answered(text)


@pytest.mark.soak
@given(tampered())
def test_specs_tampered_with_at_length(text: str) -> None:
    answered(text)


@pytest.mark.soak
@given(st.lists(TOKENS, max_size=100))
def test_soup_of_tokens_at_length(words: list[str]) -> None:
    answered(" ".join(words))
