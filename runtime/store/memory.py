"""The store in memory: for tests and for trying things out. What is written is gone with the process."""

from __future__ import annotations

from dashpot.runtime.store.base import Entry
from dashpot.runtime.store.engine import QUOTA, ROW, Change, Engine


class MemoryStore(Engine):
    """Rows are entries by revision. The size grows with writes and falls by `defragment`, as that of a file does."""

    backend = "memory"

    def __init__(self, quota: int = QUOTA) -> None:
        super().__init__(quota)
        self._rows: dict[int, Entry] = {}
        self._graves: dict[int, str] = {}
        self._used = self._size = 0

    async def _store(self, change: Change) -> None:
        entry = change.entry
        if entry is None:
            self._graves[change.revision] = change.key
        else:
            self._rows[change.revision] = entry
        self._used += _cost(change.key, entry)
        self._size = max(self._size, self._used)
        self._commit([change])

    def _fetch(self, rows: list[int]) -> list[Entry]:
        return [self._rows[row] for row in rows]

    async def _persist_lease(self, lease: int, ttl: float) -> None:
        return

    async def _persist_meta(self, name: str, value: int) -> None:
        return

    async def _purge(self, rows: list[int]) -> None:
        for row in rows:
            entry = self._rows.pop(row, None)
            self._used -= _cost(entry.key if entry is not None else self._graves.pop(row), entry)

    def _sizes(self) -> tuple[int, int]:
        return self._size, self._used

    async def defragment(self) -> None:
        """Gives what compaction freed back."""
        self._check()
        self._size = self._used


def _cost(key: str, entry: Entry | None) -> int:
    return ROW + len(key) + (len(entry.value) if entry is not None else 0)
