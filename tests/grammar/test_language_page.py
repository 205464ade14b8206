"""What `docs/language.md` shows is the language: every snippet is a spec, laid out, without a warning."""

from __future__ import annotations

import re

import pytest

from dashpot.grammar import table
from dashpot.grammar.format import format_text
from dashpot.grammar.load import examine_text
from dashpot.grammar.typing import METHODS
from tests.grammar.corpus import blocks
from tests.tree import ROOT

PAGE = ROOT / "docs" / "language.md"


@pytest.mark.parametrize("text", blocks(PAGE))
def test_snippets(text: str) -> None:
    assert examine_text(text).warnings == ()
    assert format_text(text, "snippet.loop") == text


def test_every_word_and_method_is_explained() -> None:
    words = set(re.findall(r"[A-Za-z_]+", PAGE.read_text("utf-8")))
    assert set(re.findall(r'"([a-z_]+)"', table.grammar_text())) <= words
    assert set(METHODS) <= words


def test_links_lead_to_pages() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", PAGE.read_text("utf-8")):
        assert (PAGE.parent / target).exists(), target
