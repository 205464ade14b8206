"""Makes a failing sequence shorter: leaves out whatever it fails without."""

from __future__ import annotations

from collections.abc import Callable, Sequence

PATIENCE = 600
"""Attempts after which the sequence is taken as it is."""


def shortened(sequence: Sequence[int], fails: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """A subsequence that still fails and does so without no single element of it, if PATIENCE suffices.

    Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, TSE 2002 (ddmin, without its
    search among subsets: what is left out in order is found by complements alone).
    """
    kept, size, attempts = tuple(sequence), max(len(sequence) // 2, 1), 0
    while kept:
        start, shrunk = 0, False
        while start < len(kept) and attempts < PATIENCE:
            shorter = kept[:start] + kept[start + size :]
            attempts += 1
            if fails(shorter):
                kept, shrunk = shorter, True
            else:
                start += size
        if attempts >= PATIENCE or (size == 1 and not shrunk):
            break
        size = size if shrunk and size == 1 else max(size // 2, 1)
    return kept
