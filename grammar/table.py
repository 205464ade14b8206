"""The parser's table: built from `spec.lark`, shipped ready-made beside it.

Building takes some 0.3 to 1 s, loading a twentieth of that, and every command pays it. So the table is a file of
the package, `table.json`, not a cache in somebody's home: nothing is written at run time, hence nothing can be
read-only, half-written or raced. A table that does not belong to this grammar or this Lark is not used;
`pytest tests/grammar/test_parse_table.py --rewrite` renews it.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import PatternRE, PatternStr, TerminalDef

from dashpot.grammar.newlines import Newlines


def grammar_text() -> str:
    """The grammar itself, `spec.lark`."""
    return files("dashpot.grammar").joinpath("spec.lark").read_text(encoding="utf-8")


def _whole_words(terminal: TerminalDef) -> None:
    """Make a keyword match whole words only, and before a name.

    Where no name fits, Lark would take the front of `elseif` for `else`, and `func f` for a function called `c`.
    """
    word = terminal.pattern
    if isinstance(word, PatternStr) and word.value.isidentifier():
        terminal.pattern = PatternRE(rf"{word.value}\b")
        terminal.priority = 1


def build(strict: bool = False) -> Lark:
    """Build the table from the grammar; `strict` refuses every conflict (it needs `interegular`)."""
    return Lark(
        grammar_text(),
        parser="lalr",
        postlex=Newlines(),
        propagate_positions=True,
        maybe_placeholders=True,
        strict=strict,
        edit_terminals=_whole_words,
    )


def key() -> str:
    """What a table belongs to: this text of the grammar and this release line of Lark."""
    release = ".".join(lark.__version__.split(".")[:2])
    return f"lark {release} {hashlib.sha256(grammar_text().encode()).hexdigest()}"


def dump(parser: Lark) -> str:
    """The table of `parser` as JSON, marked with its key."""
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    data["options"] |= {"postlex": None, "edit_terminals": None}  # objects of ours; restore() gives the first one back
    content = {"key": key(), "data": data, "memo": memo}
    return json.dumps(content, separators=(",", ":"), sort_keys=True, ensure_ascii=True) + "\n"


def _numbered(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    """JSON knows string keys only; Lark's states and memo entries are numbered."""
    return {int(key) if key.isdigit() else key: value for key, value in pairs}


def restore(text: str) -> Lark | None:
    """The parser of a dumped table; None if it belongs to another grammar or Lark, or is damaged."""
    try:
        content = json.loads(text, object_pairs_hook=_numbered)
        if content["key"] != key():
            return None
        loader: Any = Lark._load_from_dict  # Lark leaves it without types
        found: Lark = loader(content["data"], content["memo"], postlex=Newlines(), propagate_positions=True)
        return found
    except Exception:  # whatever a damaged file does to Lark's loader: the grammar is still there
        return None


@cache
def parser() -> Lark:
    """The parser of the language, once a process."""
    shipped = files("dashpot.grammar").joinpath("table.json")
    try:
        text = shipped.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    return restore(text) or build()
