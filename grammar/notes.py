"""The messages of one load, collected so that several can be reported at once."""

from __future__ import annotations

from attrs import define, field

from dashpot.grammar.report import Message, SpecRejected
from dashpot.model.span import Span

LIMIT = 50
"""Messages kept; what follows is mostly a consequence of what came before."""


UNKNOWN = frozenset({"D101", "D108", "D113", "D115"})
"""Codes of messages about a name that is not known."""


@define
class Notes:
    """Errors and warnings found so far; the same message at the same place counts once.

    main    the file asked for
    absent  (file, name): asked of a module that lacks it, which was said once and is not said at each use
    """

    main: str = ""
    messages: list[Message] = field(factory=list)
    absent: set[tuple[str, str]] = field(factory=set)

    def error(self, code: str, span: Span, text: str, fix: str = "", notes: tuple[tuple[Span, str], ...] = ()) -> None:
        if code in UNKNOWN and any(span.file == file and f"`{name}`" in text for file, name in self.absent):
            return
        self._add(Message(code, span, text, fix, notes))

    def warn(self, code: str, span: Span, text: str, fix: str = "") -> None:
        self._add(Message(code, span, text, fix, severity="warning"))

    def _add(self, message: Message) -> None:
        if message not in self.messages:
            self.messages.append(message)

    @property
    def failed(self) -> bool:
        return any(m.severity == "error" for m in self.messages)

    def sorted(self) -> tuple[Message, ...]:
        """All messages in the order of their places, those of the main file first."""

        def order(m: Message) -> tuple[bool, str, int, int, str]:
            return m.span.file != self.main, m.span.file, m.span.line, m.span.column, m.code

        return tuple(sorted(self.messages, key=order))

    def check(self) -> None:
        """Raise `SpecRejected` with the errors, if there are any."""
        if self.failed:
            errors = [m for m in self.sorted() if m.severity == "error"]
            raise SpecRejected(errors[:LIMIT])
