"""The table of the parser: free of conflicts, up to date, and replaced when it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashpot.grammar import table
from dashpot.grammar.parse import parse
from tests.grammar.corpus import EVERYTHING
from tests.tree import ROOT

SHIPPED = ROOT / "grammar" / "table.json"


@pytest.fixture
def fresh() -> Iterator[None]:
    table.parser.cache_clear()
    yield
    table.parser.cache_clear()


def test_the_grammar_has_no_conflict() -> None:
    pytest.importorskip("interegular")
    table.build(strict=True)


def test_the_shipped_table_is_that_of_the_grammar(rewrite: bool) -> None:
    """A new grammar needs a new table: `pytest tests/grammar/test_parse_table.py --rewrite`."""
    if rewrite:
        SHIPPED.write_text(table.dump(table.build()), "utf-8")
    assert table.restore(SHIPPED.read_text("utf-8")) is not None


def test_a_restored_table_reads_what_the_grammar_reads() -> None:
    restored = table.restore(table.dump(table.build()))
    text = EVERYTHING.read_text("utf-8")
    assert restored is not None
    assert restored.parse(text) == table.build().parse(text) == parse(text, "everything.loop")


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"key": 1}', "cut", "other key", "no states"])
def test_a_damaged_table_is_not_used(damage: str) -> None:
    whole = SHIPPED.read_text("utf-8")
    content = json.loads(whole)
    damaged = {
        "cut": whole[: len(whole) // 2],
        "other key": json.dumps(content | {"key": "lark 0.1"}),
        "no states": json.dumps(content | {"data": {}}),
    }.get(damage, damage)
    assert table.restore(damaged) is None


def test_without_its_table_the_grammar_is_built(fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spec.lark").write_text(table.grammar_text(), "utf-8")
    (tmp_path / "table.json").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(table, "files", lambda _package: tmp_path)
    assert parse("const A = 1\n", "spec.loop").children
    (tmp_path / "table.json").unlink()
    table.parser.cache_clear()
    assert parse("const A = 1\n", "spec.loop").children
