"""A term without a value: what CEL calls an error."""

from __future__ import annotations

from dashpot.model.span import NOWHERE, Span


class Undefined(Exception):
    """Why a term has no value, and where it stands. `&&`, `||` and `?:` absorb it; what remains ends a pass."""

    def __init__(self, text: str, span: Span = NOWHERE) -> None:
        super().__init__(text)
        self.text = text
        self.span = span


class NothingToChoose(Undefined):
    """`any` over nothing: in the checker a step that cannot happen."""
