"""The recent changes of one resource, in order, bounded in number, bytes and age."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from attrs import frozen

from dashpot.runtime.api.stored import Stored

ADDED, MODIFIED, DELETED = b"ADDED", b"MODIFIED", b"DELETED"


@frozen
class Limits:
    """How much is remembered: `least` changes whatever their age, more while they are younger than `age_s`, never more
    than `most` or than `size` bytes of objects, old and new ones. Beyond `small` bytes age counts for the first
    thousand, too. (Upstream grows its window while it spans less than 75 s.)"""

    least: int = 1_000
    most: int = 10_000
    age_s: float = 300.0
    size: int = 64 * 1024 * 1024
    small: int = 8 * 1024 * 1024


class Change:
    """One write: ADDED, MODIFIED or DELETED; a deleted object in its last state with the delete's revision."""

    __slots__ = ("at", "kind", "previous", "revision", "stored")

    def __init__(self, kind: bytes, stored: Stored, previous: Stored | None, at: float) -> None:
        self.kind = kind
        self.stored = stored
        self.previous = previous
        self.revision = stored.revision
        self.at = at


_LARGE = 64 * 1024
"""Bytes of an object that is not kept decoded once there is a newer one."""


def _bytes(change: Change) -> int:
    """What a change holds. The old object may be held by an earlier change as well, until that is forgotten: it is
    counted twice then, rather than not at all."""
    return len(change.stored.raw) + (len(change.previous.raw) if change.previous is not None else 0)


def _revision(change: Change) -> int:
    return change.revision


class History:
    """Changes at positions `start` to `end` (exclusive); positions count on for ever.

    `floor` is the oldest revision from which all changes are known: all that are above it are here.
    """

    def __init__(self, floor: int, limits: Limits | None = None, start: int = 0) -> None:
        self.floor = floor
        self.start = start
        self.end = start
        self._limits = limits or Limits()
        self._changes: list[Change] = []
        self._size = 0

    @property
    def limits(self) -> Limits:
        """How much is remembered."""
        return self._limits

    @property
    def size(self) -> int:
        """Bytes of the objects that are held."""
        return self._size

    def append(self, change: Change) -> None:
        """Adds the newest change."""
        self._changes.append(change)
        self._size += _bytes(change)
        self.end += 1
        previous = change.previous
        if previous is not None and len(previous.raw) > _LARGE:
            previous.forget_decoded()

    def trim(self, now: float) -> None:
        """Forgets what is beyond the limits, in strides: cutting a list moves all that stays."""
        limits, changes = self._limits, self._changes
        count, size, cut = len(changes), self._size, 0
        stride = max(64, count // 8)
        if (
            size <= limits.small
            and count <= limits.most
            and (count - limits.least < stride or changes[stride - 1].at + limits.age_s >= now)
        ):
            return  # less than a stride may go, or it is not old enough as a whole: nothing would be cut
        while cut < count:
            rest = count - cut
            old = (rest > limits.least or size > limits.small) and changes[cut].at + limits.age_s < now
            if not (old or rest > limits.most or (size > limits.size and rest > 1)):
                break
            size -= _bytes(changes[cut])
            cut += 1
        if cut >= stride or (cut and self._size - size >= min(limits.size, limits.small) // 8):
            self.floor = changes[cut - 1].revision
            del changes[:cut]
            self._size = size
            self.start += cut

    def since(self, position: int, end: int) -> Sequence[Change]:
        """The changes of positions `position` to `end` (exclusive)."""
        start = self.start
        return self._changes[position - start : end - start]

    def after(self, revision: int) -> int:
        """The position of the first change above a revision."""
        return self.start + bisect_right(self._changes, revision, key=_revision)

    def undo(self, revision: int) -> dict[str, Stored | None]:
        """What keys that changed after a revision held at it; None for no object."""
        past: dict[str, Stored | None] = {}
        for index in range(len(self._changes) - 1, -1, -1):
            change = self._changes[index]
            if change.revision <= revision:
                break
            past[change.stored.key] = change.previous
        return past
