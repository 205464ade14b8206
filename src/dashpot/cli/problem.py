"""What goes wrong outside a spec: a value with its exit status, printed once by `main`."""

from __future__ import annotations

HOLDS = 0
VIOLATED = 1
WRONG = 2
UNKNOWN = 3
OUTSIDE = 4

CLOSED_PIPE = 141
"""128 + SIGPIPE: what a shell reports for a program whose reader went away."""

INTERRUPTED = 130
"""128 + SIGINT, for commands that have no partial answer to give."""

_SEVERITY = (HOLDS, UNKNOWN, VIOLATED, WRONG, OUTSIDE)


class Problem(Exception):
    """A usage error (status 2) or a failure of the machine around us (status 4): a sentence, and what to do."""

    def __init__(self, status: int, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.hint = hint


def worst(statuses: list[int]) -> int:
    """The exit status of several answers: a failure outside, a wrong spec, a violation, an unknown, in this order."""
    return max(statuses, key=_SEVERITY.index, default=HOLDS)


def nearest(name: str, names: list[str]) -> str:
    """The one of `names` that was probably meant, or ""."""
    from difflib import get_close_matches

    exact = [n for n in names if n.lower() == name.lower()]
    return next(iter(exact or get_close_matches(name, names, n=1, cutoff=0.6)), "")


def choose(what: str, name: str, names: list[str], where: str = "") -> Problem:
    """`name` is none of `names`: says which was probably meant, and which there are."""
    close = nearest(name, names)
    there = f" in {where}" if where else ""
    listed = f"there {'are' if len(names) > 1 else 'is'}: {', '.join(names)}" if names else f"there is no {what} at all"
    return Problem(
        WRONG, f"there is no {what} '{name}'{there}", f"did you mean '{close}'? ({listed})" if close else listed
    )
