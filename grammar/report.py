"""A message about a spec as a value, and its two renderings: Elm's shape for people, JSON for programs."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from dashpot.grammar.codes import CODES, REMEDIES
from dashpot.model.fault import SpecError
from dashpot.model.span import NOWHERE, Span

_WIDTH = 80
_LINE = 120
_COLORS = {"error": "\x1b[31m", "warning": "\x1b[33m", "title": "\x1b[36m", "off": "\x1b[0m"}


def _known(_message: object, _attribute: object, code: str) -> None:
    if code not in CODES:
        raise ValueError(f"{code} is not in the table of grammar/codes.py")


@frozen
class Message:
    """One thing that is wrong (or smells) at one place, and what to do about it.

    code      a key of `codes.CODES`
    span      the region that the caret shows
    text      what is wrong, in plain words, one sentence or two
    fix       what to write instead, as a sentence that can be followed
    notes     other places that matter (the opening brace, the first declaration), each with its words
    severity  "error" or "warning"
    """

    code: str = field(validator=_known)
    span: Span
    text: str
    fix: str = ""
    notes: tuple[tuple[Span, str], ...] = ()
    severity: str = "error"

    @property
    def title(self) -> str:
        """The code's title in the closed table."""
        return CODES[self.code][0]


class SpecRejected(Exception):
    """A text that is no spec: why, as messages in the order of their places. Never empty.

    sources  the texts that were read, by the names of their files as the messages have them
    """

    def __init__(self, messages: Iterable[Message], sources: Mapping[str, str] | None = None) -> None:
        self.messages: tuple[Message, ...] = tuple(messages)
        self.sources: dict[str, str] = dict(sources or {})
        super().__init__("; ".join(f"{m.span}: {m.code} {m.text}" for m in self.messages))


def from_fault(error: SpecError, where: Span = NOWHERE) -> Message:
    """The message of an error that the kernel found when it built the world.

    where   the check or scenario whose world it was: the place of what has no place of its own
    """
    text = error.text[:1].upper() + error.text[1:]
    text = text if text.endswith((".", "?", "!")) else text + "."
    return Message(
        error.code, error.span if error.span.file else where, text, error.fix or REMEDIES.get(error.code, "")
    )


def render(messages: Iterable[Message], sources: Mapping[str, str], color: bool = False) -> str:
    """Messages as text in Elm's shape, a blank line between two.

    `sources` maps file names to texts; a place in a file that is not among them is shown without its line.
    The result has no control characters (but colors, if asked for) and ends in a newline, if there is a message.
    """
    blocks = [_block(message, sources, _COLORS if color else dict.fromkeys(_COLORS, "")) for message in messages]
    return "\n\n".join(blocks) + ("\n" if blocks else "")


def to_json(messages: Iterable[Message]) -> str:
    """Messages as a JSON list of objects whose keys are the names of the fields, spans likewise."""
    return json.dumps([_plain(message) for message in messages], indent=2, ensure_ascii=True)


def _plain(message: Message) -> dict[str, object]:
    return {
        "code": message.code,
        "title": message.title,
        "severity": message.severity,
        "span": _place(message.span),
        "text": message.text,
        "fix": message.fix,
        "notes": [{"span": _place(span), "text": text} for span, text in message.notes],
    }


def _place(span: Span) -> dict[str, object]:
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _block(message: Message, sources: Mapping[str, str], colors: Mapping[str, str]) -> str:
    place = _visible(str(message.span)) if message.span.line else _visible(message.span.file)
    head = f"-- {message.code} {message.title.upper()} "
    bar = "-" * max(2, _WIDTH - len(head) - len(place) - 1)
    parts = [f"{colors['title']}{head}{bar} {place}{colors['off']}".rstrip(), _visible(message.text)]
    underline = colors[message.severity]
    shown = _excerpt(message.span, sources, underline, colors["off"])
    if shown:
        parts.append(shown)
    for span, text in message.notes:
        shown = _excerpt(span, sources, colors["title"], colors["off"])
        parts.append(_visible(text) + ("\n\n" + shown if shown else ""))
    if message.fix:
        parts.append(f"Fix: {_visible(message.fix)}")
    return "\n\n".join(parts)


def _visible(text: str) -> str:
    """The text without what a terminal would obey or could not encode."""
    return "".join(
        c if c == "\n" or c == "\t" or unicodedata.category(c) not in ("Cc", "Cs", "Cf") else "\ufffd" for c in text
    )


def _cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)


def _excerpt(span: Span, sources: Mapping[str, str], mark: str, off: str) -> str:
    """The span's first line with its number, and carets under the span; tabs count as two columns."""
    if span == NOWHERE or span.file not in sources or span.line < 1:
        return ""
    lines = sources[span.file].removeprefix("\ufeff").split("\n")
    if span.line > len(lines):
        return ""
    line = lines[span.line - 1].rstrip("\r")
    start = min(max(span.column - 1, 0), len(line))
    stop = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    stop = max(min(stop, len(line)), start)
    left = max(0, start - _LINE // 2) if len(line) > _LINE else 0
    right = min(len(line), left + _LINE)
    parts = (line[left:start], line[start : min(stop, right)], line[stop:right])
    before, inside, after = (_visible(part).replace("\t", "  ") for part in parts)
    lead = "…" if left else ""
    gutter = f"{span.line:>4} | "
    shown = f"{gutter}{lead}{before}{inside}{after}{'…' if right < len(line) else ''}".rstrip()
    carets = "^" * max(1, _cells(inside))
    return f"{shown}\n{' ' * (len(gutter) + _cells(lead + before))}{mark}{carets}{off}"
