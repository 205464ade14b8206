"""What a spec leaves open, settled by the frame's chooser: the order of sets, ties, which of several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dashpot.runtime.controller.frame import Frame


def shuffled(rows: Iterable[Any], frame: Frame) -> list[Any]:
    """The rows in an order that is chosen."""
    return drawn(rows, -1, frame)


def drawn(rows: Iterable[Any], count: int, frame: Frame) -> list[Any]:
    """`count` of the rows, which and in which order is chosen; all where there are no more, or for -1."""
    left = list(rows)
    size = len(left)
    wanted = size if count == -1 else max(0, min(count, size))
    choose = frame.choose
    for index in range(min(wanted, size - 1)):
        other = index + choose(size - index)
        if other != index:
            left[index], left[other] = left[other], left[index]
    return left[:wanted] if wanted < size else left
