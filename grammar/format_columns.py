"""Columns: what neighbouring lines of one kind have in common stands below one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dashpot.grammar.format_rows import Row

_CLAUSES = frozenset(
    "OWNS WATCHES CACHE MEMORY INDEX WORKERS RUN SCOPE FAULTS RESYNC TIME GIVEN EXPECT WAIVE SPEC STATUS".split()
)
_NAMED = frozenset("CONST FUN LET PROPERTY ENUM".split())
_SPREAD = 24
"""Names that differ more in length than this stay ragged: a column far from its name is hard to follow."""
_MODIFIERS = frozenset("IMMUTABLE REQUIRED MONOTONE KEYED AT".split())

Cells = list[str]
"""The parts of a row that begin a column each; an absent one is "". """


def align(rows: Sequence[Row]) -> list[str]:
    """The lines of the rows, columns aligned within runs of neighbouring rows of one kind."""
    texts = [row.text() for row in rows]
    for first, last in _runs(rows, _kind):
        table = [_cells(row) for row in rows[first:last]]
        names = [len(cells[0]) for cells in table]
        if rows[first].words[0][1] in _NAMED and max(names) - min(names) > _SPREAD:
            continue
        for index, line in enumerate(_justify(table), first):
            texts[index] = line
    lines = ["  " * row.indent + text for row, text in zip(rows, texts, strict=True)]
    for first, last in _runs(rows, lambda row: "comment" if row.words and row.comment else ""):
        width = max(len(line) for line in lines[first:last])
        for index in range(first, last):
            lines[index] = lines[index].ljust(width) + "  " + rows[index].comment
    out: list[str] = []
    for row, line in zip(rows, lines, strict=True):
        if row.blank:
            out.append("")
        out.append(line if row.words else "  " * row.indent + row.comment)
    return out


def _runs(rows: Sequence[Row], kind: Callable[[Row], str]) -> list[tuple[int, int]]:
    """Ranges of neighbouring rows of one kind and indentation; rows of kind "" belong to none."""
    runs: list[tuple[int, int]] = []
    first = 0
    for index in range(1, len(rows) + 1):
        joined = (
            index < len(rows)
            and not rows[index].blank
            and rows[index].indent == rows[first].indent
            and kind(rows[index]) == kind(rows[first])
        )
        if not joined:
            if kind(rows[first]):
                runs.append((first, index))
            first = index
    return runs


def _kind(row: Row) -> str:
    """What a row may be aligned as: "entry", "clause", a word like "LET", or "" for nothing."""
    if not row.begins or len(row.words) < 2:
        return ""
    kind = row.words[0][1]
    if kind in _CLAUSES:
        return "clause"
    if not row.complete:
        return ""
    if _key(row):
        return "entry"
    return kind if kind in _NAMED and _second(row) else ""


def _key(row: Row) -> int:
    """The index behind the `:` of an entry `path: value`, 0 if the row is no entry."""
    depth = 0
    for index, (text, kind) in enumerate(row.words):
        if kind == "COLON" and depth == 0:
            return index + 1
        depth += (text == "[") - (text == "]")
        if depth == 0 and kind not in ("NAME", "DOT", "STRING", "LSQB", "RSQB"):
            return 0
        if index and depth == 0 and kind == "NAME" and row.words[index - 1][1] == "NAME":
            return 0
    return 0


def _second(row: Row) -> int:
    """The index at which the second column of a declaration begins: its first `=`, or the `{` of an enum."""
    sign = "LBRACE" if row.words[0][1] == "ENUM" else "EQUAL"
    return next((index for index, word in enumerate(row.words) if word[1] == sign), 0)


def _cells(row: Row) -> Cells:
    kind = _kind(row)
    if kind == "clause":
        return [row.text(0, 1), row.text(1)]
    if kind != "entry":
        second = _second(row)
        return [row.text(0, second), row.text(second)]
    start = _key(row)
    modifier = next((i for i, word in enumerate(row.words) if i > start and word[1] in _MODIFIERS), len(row.words))
    return [row.text(0, start), row.text(start, modifier), row.text(modifier)]


def _justify(table: list[Cells]) -> list[str]:
    """The rows of a table as text: every column as wide as its widest cell that has something behind it."""
    count = max(len(cells) for cells in table)
    widths = [
        max((len(cells[column]) for cells in table if any(cells[column + 1 :])), default=0) for column in range(count)
    ]
    lines = []
    for cells in table:
        parts = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        shown = [part for part, width, cell in zip(parts, widths, cells, strict=False) if width or cell]
        lines.append(" ".join(shown).rstrip())
    return lines
