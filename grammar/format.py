"""The one layout of a spec.

Where lines break is the writer's choice; all else is not: indentation by two, one space between words and none
where it hurts, blocks of several lines broken behind `{` and before `}`, at most one empty line in a row, columns
in neighbouring lines of one kind (`format_columns`). Comments stay where they are. A formatted text has the same
tree, and formatting it again changes nothing.
"""

from __future__ import annotations

import re

from attrs import define, field
from lark import Token

from dashpot.grammar.format_columns import align
from dashpot.grammar.format_rows import Row
from dashpot.grammar.parse import parse, tokens

_STRING_OR_COMMENT = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|\'[^\'\\\n]*(?:\\.[^\'\\\n]*)*\'|(//[^\n]*)')
_JOINED = frozenset("DOT BOTH EITHER QMARK COLON TO WHILE LEADS REQUIRE".split())
_CLOSES = {")": "(", "]": "[", "}": "{"}


@define
class _Item:
    """A token or a comment, and what stands before it in the source."""

    text: str
    type: str
    start: int
    end: int
    begins: bool = False  # a statement, clause, declaration or entry
    breaks: int = 0  # line breaks before it
    partner: int = -1  # the index of the other bracket
    follower: _Item | None = None  # the next token, comments passed over


@define
class _Level:
    """An open bracket: its sign, the indentation of what is in it, that of the statement it belongs to."""

    sign: str
    inner: int
    statement: int


@define
class _Layout:
    """The state of laying out: rows so far, open brackets, the indentation of the current statement.

    `below_equal`: the first row of the statement ended in `=`.
    """

    rows: list[Row] = field(factory=list)
    levels: list[_Level] = field(factory=list)
    statement: int = 0
    below_equal: bool = False


def format_text(text: str, file: str) -> str:
    """The text in the one layout. Raises SpecRejected if it is no spec."""
    parse(text, file)
    items = _items(text.removeprefix("\ufeff"))
    _break(items)
    layout = _Layout()
    for index in range(len(items)):
        _place(layout, items, index)
    lines = align(layout.rows)
    return "\n".join(lines) + ("\n" if lines else "")


def _items(text: str) -> list[_Item]:
    """Tokens and comments in the order of the text."""
    items: list[_Item] = []
    begins = True
    depth: list[str] = []
    for token in tokens(text):
        if token.type == "_NL":
            begins = True
            continue
        items.append(_item(token, begins))
        begins = False
        if token.type in ("LBRACE", "LPAR", "LSQB"):
            depth.append(str(token))
            begins = token.type == "LBRACE"
        elif token.type in ("RBRACE", "RPAR", "RSQB"):
            depth.pop()
        elif token.type == "COMMA":
            begins = bool(depth) and depth[-1] == "{"
    for match in _STRING_OR_COMMENT.finditer(text):
        if match.group(1):
            items.append(_Item(match.group(1).rstrip(), "COMMENT", match.start(), match.end()))
    items.sort(key=lambda item: item.start)
    follower: _Item | None = None
    for item in reversed(items):
        item.follower = follower
        follower = item if item.type != "COMMENT" else follower
    _connect(items, text)
    return items


def _connect(items: list[_Item], text: str) -> None:
    """Note the line breaks before each item and the partner of each bracket."""
    opened: list[int] = []
    before = 0
    for index, item in enumerate(items):
        item.breaks = text.count("\n", before, item.start)
        before = item.end
        if item.type in ("LBRACE", "LPAR", "LSQB"):
            opened.append(index)
        elif item.type in ("RBRACE", "RPAR", "RSQB"):
            item.partner = opened.pop()
            items[item.partner].partner = index


def _item(token: Token, begins: bool) -> _Item:
    start, end = token.start_pos or 0, token.end_pos or 0
    return _Item(str(token), token.type, start, end, begins)


def _break(items: list[_Item]) -> None:
    """Decide the line breaks: those of the writer, and those that the layout asks for."""
    for index, item in enumerate(items):
        if item.type == "LBRACE":
            inside = items[index + 1 : item.partner + 1]
            if len(inside) == 1:
                inside[0].breaks = 0
            elif any(inner.breaks for inner in inside):
                first = inside[0] if inside[0].type != "COMMENT" or inside[0].breaks else inside[1]
                first.breaks = max(1, min(first.breaks, 1))
                items[index + 1].breaks = min(items[index + 1].breaks, 1)
                items[item.partner].breaks = 1
    for index, item in enumerate(items):
        if item.type == "ELSE" and index and items[index - 1].type == "RBRACE":
            item.breaks = 0
        elif item.type in ("RPAR", "RSQB"):
            item.breaks = min(item.breaks, 1)
    if items:
        items[0].breaks = 0


def _place(layout: _Layout, items: list[_Item], index: int) -> None:
    """Put one token or comment on its row."""
    item = items[index]
    opening = layout.levels[-1] if layout.levels else _Level("", 0, 0)
    closing = item.text in _CLOSES
    indent = _indent(layout, items, index, opening)
    if item.begins and not closing:
        layout.statement = opening.inner
        layout.below_equal = False
    if not layout.rows or item.breaks or layout.rows[-1].comment:
        layout.below_equal |= bool(layout.rows and layout.rows[-1].words) and layout.rows[-1].words[-1][1] == "EQUAL"
        layout.rows.append(Row(indent, blank=item.breaks > 1 and bool(layout.rows), begins=item.begins))
    row = layout.rows[-1]
    if item.type == "COMMENT":
        row.comment = item.text
        return
    row.add(item.text, item.type)
    if item.type in ("LBRACE", "LPAR", "LSQB"):
        base = layout.statement if item.type == "LBRACE" and opening.sign in ("", "{") else row.indent
        layout.levels.append(_Level(item.text, base + 1, layout.statement))
    elif closing:
        layout.statement = layout.levels.pop().statement


def _indent(layout: _Layout, items: list[_Item], index: int, level: _Level) -> int:
    """The indentation that a row beginning with this item has."""
    item = items[index]
    if item.text in _CLOSES:
        return level.inner - 1
    if item.type == "COMMENT":
        if item.follower is None or item.follower.begins or item.follower.text in _CLOSES:
            return level.inner
    elif item.begins:
        return level.inner
    if level.sign in ("(", "["):
        return level.inner
    # A part of a formula that has a line of its own already goes one step further in.
    deeper = layout.below_equal and item.type in _JOINED
    return layout.statement + (2 if deeper or _opens_block(items, index) else 1)


def _opens_block(items: list[_Item], index: int) -> bool:
    """Whether the statement that goes on here ends in a block of several lines, which would look like this line."""
    while index < len(items):
        item = items[index]
        if item.begins and item.type != "COMMENT":
            return False
        if item.type == "LBRACE" and any(inner.breaks for inner in items[index + 1 : item.partner + 1]):
            return True
        if item.type in ("RBRACE", "RPAR", "RSQB"):
            return False
        index = item.partner + 1 if item.partner > index else index + 1
    return False
