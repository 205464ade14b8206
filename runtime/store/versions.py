"""Which revisions each key has, without the values: what a read at a revision needs to find its rows.

One change makes one revision, so `log` names the key of every revision above the compacted one, without gaps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from dashpot.runtime.store.keys import Keys


class Versions:
    """The history of all keys.

    compacted  oldest revision that can be read; newest  last revision; log[i] is the key of revision
    `logged` + i + 1. Of each key a list of codes in order: twice its revision, plus one where it was deleted.
    """

    def __init__(self, newest: int = 1, compacted: int = 0) -> None:
        self.newest = newest
        self.compacted = compacted
        self.logged = newest
        self.log: list[str] = []
        self.live = Keys()
        self.known = Keys()
        self._codes: dict[str, list[int]] = {}

    def load(self, codes: dict[str, list[int]], log: list[str]) -> None:
        """Takes over what was read from a disk: codes of each key in order, keys of the newest revisions."""
        self._codes = codes
        self.log = log
        self.logged = self.newest - len(log)
        self.known = Keys(codes)
        self.live = Keys(key for key, found in codes.items() if not found[-1] & 1)

    def apply(self, key: str, revision: int, deleted: bool) -> None:
        """The next revision."""
        found = self._codes.get(key)
        code = revision * 2 + deleted
        if found is None:
            self._codes[key] = [code]
            self.known.add(key)
            self.live.add(key)
        else:
            if deleted or found[-1] & 1:
                (self.live.discard if deleted else self.live.add)(key)
            found.append(code)
        self.log.append(key)
        self.newest = revision

    def last(self, key: str) -> int:
        """The newest revision of a key, that of its delete too; 0 where none is known."""
        found = self._codes.get(key)
        return found[-1] >> 1 if found else 0

    def at(self, key: str, revision: int) -> int:
        """The revision that a key had last at `revision`; 0 if it did not exist."""
        found = self._codes.get(key)
        if found is None:
            return 0
        place = bisect_right(found, revision * 2 + 1)
        code = found[place - 1] if place else 1
        return 0 if code & 1 else code >> 1

    def before(self, key: str, revision: int) -> int:
        """The revision that a key had just before the change at `revision`; 0 if it did not exist."""
        return self.at(key, revision - 1)

    def deleted(self, key: str, revision: int) -> bool:
        """Whether the change at `revision` deleted the key."""
        found = self._codes[key]
        return bool(found[bisect_left(found, revision * 2)] & 1)

    def changes(self, prefix: str, after: int, limit: int, scan: int) -> tuple[list[tuple[int, str]], int]:
        """Revisions above `after` (not below `compacted`) whose key has a prefix, with the key: at most `limit`.

        At most `scan` revisions are looked at; also answers the last one that was.
        """
        found: list[tuple[int, str]] = []
        first = max(after - self.logged, 0)
        end = min(first + scan, len(self.log))
        for place in range(first, end):
            if self.log[place].startswith(prefix):
                found.append((self.logged + place + 1, self.log[place]))
                if len(found) == limit:
                    return found, self.logged + place + 1
        return found, self.logged + end

    def select(self, low: str, high: str, revision: int, limit: int) -> tuple[list[int], int]:
        """The rows of the keys from `low` below `high` at a revision, at most `limit` (0: all), and how many follow."""
        rows: list[int] = []
        if revision == self.newest:
            codes = self._codes
            for key in self.live.between(low, high):
                if limit and len(rows) == limit:
                    return rows, self.live.count(low, high) - limit
                rows.append(codes[key][-1] >> 1)
            return rows, 0
        for key in self.known.between(low, high):
            row = self.at(key, revision)
            if row:
                if limit and len(rows) == limit:
                    return rows, self._count_at(low, high, revision) - limit
                rows.append(row)
        return rows, 0

    def count(self, low: str, high: str) -> int:
        """How many keys live now."""
        return self.live.count(low, high)

    def _count_at(self, low: str, high: str, revision: int) -> int:
        """How many lived at a revision: those of now, corrected by what changed since."""
        count = self.live.count(low, high)
        for key in set(self.log[max(0, revision - self.logged) :]):
            if key >= low and (not high or key < high):
                count += bool(self.at(key, revision)) - bool(self.at(key, self.newest))
        return count

    def compact(self, revision: int) -> list[str]:
        """Forbids reads below a revision; the keys that may have versions to `trim`."""
        cut = revision - self.logged
        touched = list(dict.fromkeys(self.log[:cut]))
        del self.log[:cut]
        self.logged += max(0, cut)
        self.compacted = revision
        return touched

    def trim(self, key: str) -> list[int]:
        """Forgets the versions of a key that no read can ask for any more; their revisions."""
        found = self._codes.get(key)
        if found is None:
            return []
        place = bisect_right(found, self.compacted * 2 + 1) - 1
        if place < 0:
            return []
        if found[place] & 1:
            place += 1
        dropped = [code >> 1 for code in found[:place]]
        del found[:place]
        if not found:
            del self._codes[key]
            self.known.discard(key)
        return dropped
