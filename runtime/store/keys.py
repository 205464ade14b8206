"""Keys in order: a sorted set of strings in pieces, so that a change moves only a few hundred of them.

The order is that of code points, which is the order of the UTF-8 bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

PIECE = 512
"""A piece is cut in two when it has twice as many keys."""

LAST = chr(0x10FFFF)


def after_prefix(prefix: str) -> str:
    """The least string above all that begin with `prefix`; "" where there is none (an empty prefix)."""
    kept = prefix.rstrip(LAST)
    if not kept:
        return ""
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)


class Keys:
    """A sorted set of strings."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(set(keys))
        self._pieces = [ordered[i : i + PIECE] for i in range(0, len(ordered), PIECE)]
        self._tops = [piece[-1] for piece in self._pieces]
        self._size = len(ordered)

    def __len__(self) -> int:
        return self._size

    def add(self, key: str) -> None:
        """Puts a key in; one that is there stays."""
        if not self._pieces:
            self._pieces.append([key])
            self._tops.append(key)
            self._size = 1
            return
        at = min(bisect_left(self._tops, key), len(self._tops) - 1)
        piece = self._pieces[at]
        place = bisect_left(piece, key)
        if place < len(piece) and piece[place] == key:
            return
        insort(piece, key, place)
        self._size += 1
        if len(piece) > 2 * PIECE:
            self._pieces[at : at + 1] = [piece[:PIECE], piece[PIECE:]]
            self._tops[at : at + 1] = [piece[PIECE - 1], piece[-1]]
        else:
            self._tops[at] = piece[-1]

    def discard(self, key: str) -> None:
        """Takes a key out if it is there."""
        at = bisect_left(self._tops, key)
        if at == len(self._tops):
            return
        piece = self._pieces[at]
        place = bisect_left(piece, key)
        if piece[place] != key:
            return
        del piece[place]
        self._size -= 1
        if piece:
            self._tops[at] = piece[-1]
        else:
            del self._pieces[at]
            del self._tops[at]

    def between(self, low: str, high: str) -> Iterator[str]:
        """The keys from `low` on, below `high` ("": to the end). The set must not change meanwhile."""
        at = bisect_left(self._tops, low)
        for index in range(at, len(self._pieces)):
            piece = self._pieces[index]
            first = bisect_left(piece, low) if index == at else 0
            if high and piece[-1] >= high:
                yield from piece[first : bisect_left(piece, high)]
                return
            yield from piece[first:] if first else piece

    def count(self, low: str, high: str) -> int:
        """How many keys `between` would give; touches only the ends."""
        below = self._below(high) if high else self._size
        return max(0, below - self._below(low))

    def _below(self, key: str) -> int:
        at = bisect_right(self._tops, key)
        whole = sum(map(len, self._pieces[:at]))
        # The last of these pieces may end with the key itself, which is not below it.
        whole -= bool(at and self._tops[at - 1] == key)
        return whole + (bisect_left(self._pieces[at], key) if at < len(self._pieces) else 0)
