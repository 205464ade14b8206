"""The terminal: where text goes, whether it is coloured, and what happens when nobody reads it."""

from __future__ import annotations

import os
import sys
from typing import TextIO

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}

PLAIN = str.maketrans(
    {
        "✓": "+",
        "✗": "x",
        "↻": "@",
        "–": "-",
        "…": "...",
        "→": "->",
        "·": "-",
        "×": "x",
        "—": "-",
        "╭": ",",
        "│": "|",
        "╰": "`",
    }
)
"""Signs for terminals that cannot write the real ones."""


def out(text: str = "", end: str = "\n") -> None:
    """Writes to the standard output, which is what a command answers."""
    _write(sys.stdout, text + end)


def err(text: str = "", end: str = "\n") -> None:
    """Writes to the standard error: progress, notes, problems. Nobody reading it is no failure."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        _write(sys.stderr, text + end)
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding, stream.errors or "strict")
    except UnicodeEncodeError:
        text = text.translate(PLAIN).encode(encoding, "replace").decode(encoding)
    stream.write(text)


def discard(stream: TextIO | None) -> None:
    """Points a stream that cannot be written any more at nothing, so that the final flush does not complain."""
    if stream is None:
        return
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
    except (OSError, ValueError):  # a stream without a descriptor has nothing to flush
        return


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person watches this stream."""
    return stream is not None and stream.isatty()


def coloured(stream: TextIO | None) -> bool:
    """Whether to colour: a terminal that is not dumb, and no NO_COLOR (https://no-color.org); FORCE_COLOR overrules."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """`text` in one of STYLES where the stream (the standard output by default) shows colours."""
    if not style or not coloured(stream if stream is not None else sys.stdout):
        return text
    return f"\033[{STYLES[style]}m{text}\033[0m"


def grouped(number: int) -> str:
    """1234567 as "1 234 567"."""
    return f"{number:,}".replace(",", " ")


def plural(number: int, noun: str) -> str:
    """ "1 step", "2 steps"."""
    return f"{grouped(number)} {noun}" if number == 1 else f"{grouped(number)} {noun}s"


def columns(rows: list[list[str]], right: frozenset[int] = frozenset(), gap: str = "  ") -> list[str]:
    """Lines of a table whose columns are as wide as their longest text; columns in `right` are flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return [
        gap.join(
            t.rjust(w) if i in right else t.ljust(w) for i, (t, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
