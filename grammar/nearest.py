"""The nearest of some names, for "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable


def distance(a: str, b: str) -> int:
    """Edits between two words: insert, delete, replace, swap of neighbours (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        two, before, row = before, row, [i] + [0] * len(b)
        for j, y in enumerate(b, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[j] = min(row[j], two[j - 2] + 1)
    return row[-1]


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that a typing error turns into `word`; None if none is near. Ties go to the first by the alphabet.

    Near is one edit for up to three letters, two for up to six, else three; letter case costs nothing.
    """
    limit = 1 if len(word) <= 3 else 2 if len(word) <= 6 else 3
    fitting = (name for name in names if abs(len(name) - len(word)) <= limit)
    ranked = sorted((distance(word.lower(), name.lower()), name) for name in fitting)
    return ranked[0][1] if ranked and ranked[0][0] <= limit else None
