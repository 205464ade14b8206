"""The state of one resource at one revision, out of memory: pages of it in order of key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from dashpot.runtime.api.stored import Stored

Predicate = Callable[[Stored], bool]

LAST = "\U0010ffff"
"""Sorts behind all that a key may hold."""


class Snapshot:
    """Objects as of `revision`: `items` by key with `keys` in order, and `past` for those that have changed since.

    It reads the cache's own tables: use it before the next await.
    """

    __slots__ = ("_items", "_keys", "_past", "revision")

    def __init__(
        self, revision: int, items: Mapping[str, Stored], keys: Sequence[str], past: Mapping[str, Stored | None]
    ) -> None:
        self.revision = revision
        self._items = items
        self._keys = keys
        self._past = past

    def get(self, key: str) -> Stored | None:
        """One object."""
        return self._past[key] if key in self._past else self._items.get(key)

    def keys(self, prefix: str, start: str = "") -> Sequence[str]:
        """The keys of a prefix in order, from `start` on (inclusive). Those of deleted objects may be among them."""
        low = bisect_left(self._keys, max(prefix, start))
        high = bisect_left(self._keys, prefix + LAST, low)
        found = self._keys[low:high]
        extra = [k for k in self._past if k not in self._items and k.startswith(prefix) and k >= start]
        return sorted([*found, *extra]) if extra else found

    def all(self, prefix: str, predicate: Predicate | None = None) -> list[Stored]:
        """All objects of a prefix that a predicate takes, in order of key."""
        return self.page(prefix, predicate)[0]

    def page(
        self, prefix: str, predicate: Predicate | None = None, start: str = "", limit: int = 0
    ) -> tuple[list[Stored], str, int]:
        """At most `limit` objects (0: all) from a key on; the last key if more may follow, else ""; how many do follow
        (exact without a predicate)."""
        keys = self.keys(prefix, start)
        if not limit and predicate is None and not self._past:
            items = self._items
            return [items[key] for key in keys], "", 0
        found: list[Stored] = []
        for index, key in enumerate(keys):
            stored = self.get(key)
            if stored is None or (predicate is not None and not predicate(stored)):
                continue
            if limit and len(found) == limit:
                return found, found[-1].key, self._left(keys[index:])
            found.append(stored)
        return found, "", 0

    def _left(self, keys: Sequence[str]) -> int:
        past = self._past
        return sum(1 for key in keys if past.get(key, self) is not None) if past else len(keys)
