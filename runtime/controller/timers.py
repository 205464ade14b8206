"""When a guard that reads the time is to be looked at again."""

from __future__ import annotations

from collections.abc import Callable

from dashpot.grammar.inline import walk
from dashpot.model import types as t
from dashpot.model.expr import Builtin, Const, Expr, Literal
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.terms import Terms
from dashpot.runtime.controller.undefined import Undefined

POLL_MS = 1000
"""How often a guard is looked at whose times stand inside a fold."""


def next_look(guard: Expr, terms: Terms) -> Callable[[Frame], int | None] | None:
    """For a guard that reads the time: when, in milliseconds from now, it may first come out otherwise though nothing
    changes; None there: never. None for a guard that does not read the time.

    A comparison of times turns at a stored time, or at one plus a duration that the guard names.
    """
    parts = list(walk(guard))
    if not any(isinstance(x, Builtin) and x.op in ("now", "since") for x in parts):
        return None
    clock = [x for x in parts if isinstance(wide.bare(x.type), t.Time) and not isinstance(x, Builtin)]
    times = [terms.term(x) for x in clock]
    spans = [
        terms.term(x) for x in parts if isinstance(x, Literal | Const) and isinstance(wide.bare(x.type), t.Duration)
    ]

    def due(frame: Frame) -> int | None:
        now = frame.now()
        hidden = False
        found: list[int] = []
        lengths = [0, *(span(frame) for span in spans)]
        for time in times:
            try:
                value = time(frame)
            except Undefined:
                hidden = True  # of a variable that a fold binds, or of null
                continue
            if value is not None:
                found += [value + length - now for length in lengths]
        later = [wait for wait in found if wait >= 0]
        # ">" turns only after the moment itself
        soon = min(later) + 1 if later else None
        if hidden or not times:
            return POLL_MS if soon is None else min(soon, POLL_MS)
        return soon

    return due
