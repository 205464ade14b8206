"""The store in a directory of this machine: SQLite with a write-ahead log, synced at every commit.

Which revisions each key has is kept in memory; values are read from the file by revision, each checked. Reads are done
on the event loop, in small pieces: a second thread would wait for Python's lock longer than it reads.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from dashpot.runtime.store.base import Corrupt, Entry, StoreError
from dashpot.runtime.store.directory import BROKEN, Directory, Mark, refused
from dashpot.runtime.store.engine import QUOTA, Change, Engine, Head
from dashpot.runtime.store.loading import Loaded, connect, load, prepare
from dashpot.runtime.store.rows import COLUMNS, entry_of, lease_sum, meta_sum
from dashpot.runtime.store.versions import Versions
from dashpot.runtime.store.writer import Item, Job, Writer

CACHE = 32 << 20
"""Bytes of values that were written or read last and are kept in memory."""

SHAPES = (1, 8, 64, 500)
"""Rows that one statement reads at most; few shapes, so that statements are compiled once."""

_SELECT = {n: f"SELECT {COLUMNS} FROM rev WHERE id IN ({','.join('?' * n)})" for n in SHAPES}

T = TypeVar("T")


class EmbeddedStore(Engine):
    """Open it with `open`; `close` gives the directory back."""

    backend = "embedded"

    def __init__(self, directory: Directory, loaded: Loaded, quota: int, cache: int) -> None:
        super().__init__(quota)
        self.directory = directory
        self.cluster = loaded.meta["cluster"]
        self.alarm = bool(loaded.meta["alarm"])
        self.versions = Versions(loaded.newest, loaded.meta["compacted"])
        self.versions.load(loaded.codes, loaded.log)
        self.issued = loaded.newest
        self.heads = {key: Head(*head) for key, head in loaded.heads.items()}
        for number, ttl in loaded.leases.items():
            self.leases.add(number, ttl)
        for key, head in self.heads.items():
            if head.lease:
                self.leases.move(key, 0, head.lease)
        self._recent: dict[int, Entry] = {}
        self._recent_bytes = 0
        self._cache = cache
        self._queued = 0
        self._reader: sqlite3.Connection
        self._writer: Writer
        self._mark: Mark
        self._connection: sqlite3.Connection
        self._lock = -1
        self._stopped = False

    @classmethod
    async def open(cls, path: Path, *, quota: int = QUOTA, cache: int = CACHE) -> Self:
        """Opens or makes the store of a directory; checks every row. Raises StoreError."""
        directory = Directory(path)
        lock = directory.lock()
        connections: list[sqlite3.Connection] = []
        try:
            loaded = await asyncio.to_thread(_load, directory, connections)
            self = cls(directory, loaded, quota, cache)
            self._mark = Mark(directory)
        except BaseException as error:
            for connection in connections:
                connection.close()
            os.close(lock)
            if isinstance(error, (*BROKEN, OSError)):
                raise refused(path, error) from None
            raise
        self._connection, self._reader = connections
        self._lock = lock
        self._mark.note(loaded.newest)
        self._writer = Writer(self._connection, directory, self._mark, self._told)
        self._writer.start()
        left = [key for key, codes in loaded.codes.items() if len(codes) > 1 or codes[-1] & 1]
        if self.compacted and left:
            # A compaction that was cut short is finished; what it left does no harm meanwhile.
            self._run(self._sweep(left))
        return self

    # ------------------------------------------------------------------ writing
    async def _store(self, change: Change) -> None:
        change.done = asyncio.get_running_loop().create_future()
        entry = change.entry
        if entry is not None:
            self._queued += len(entry.value)
            self._remember(entry)
        self._writer.submit(change)
        await change.done

    async def _do(self, work: Callable[[sqlite3.Connection], T], *, alone: bool = False) -> T:
        if self._broken is not None or self._stopped:
            self._check()
        job = Job(work, asyncio.get_running_loop().create_future(), alone)
        self._writer.submit(job)
        result: T = await job.done
        return result

    def _told(self, items: list[Item], error: StoreError | None) -> None:
        """On the event loop: a transaction is durable, or nothing is any more."""
        if error is not None:
            self._break(error)
        else:
            changes = [item for item in items if isinstance(item, Change)]
            self._commit(changes)
            self._queued -= sum([len(change.entry.value) for change in changes if change.entry is not None])
        for item in items:
            result = item.result if isinstance(item, Job) else None
            waiting = [item.done, *item.waiters] if isinstance(item, Change) and item.waiters else [item.done]
            told = error or (item.error if isinstance(item, Job) else None)
            for done in waiting:
                if done is None or done.done():
                    continue  # whoever waited was cancelled
                if told is not None:
                    done.set_exception(told)
                else:
                    done.set_result(result)

    async def _persist_lease(self, lease: int, ttl: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if ttl:
                connection.execute("INSERT INTO lease VALUES (?, ?, ?)", (lease, ttl, lease_sum(lease, ttl)))
            else:
                connection.execute("DELETE FROM lease WHERE id = ?", (lease,))

        await self._do(work)

    async def _persist_meta(self, name: str, value: int) -> None:
        row = (value, meta_sum(name, value), name)
        await self._do(lambda c: c.execute("UPDATE meta SET value = ?, sum = ? WHERE name = ?", row) and None)

    async def _purge(self, rows: list[int]) -> None:
        sql = f"DELETE FROM rev WHERE id IN ({','.join(map(str, rows))})"
        await self._do(lambda c: c.execute(sql) and None)
        for row in rows:
            self._forget(row)

    async def defragment(self) -> None:
        """Writes the file anew without its gaps; writers wait meanwhile."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        await self._do(work, alone=True)

    def _sizes(self) -> tuple[int, int]:
        return self._writer.size + self._queued, self._writer.used + self._queued

    # ------------------------------------------------------------------ reading
    def _remember(self, entry: Entry) -> None:
        self._recent[entry.modified] = entry
        self._recent_bytes += len(entry.value)
        while self._recent_bytes > self._cache:
            self._forget(next(iter(self._recent)))

    def _forget(self, row: int) -> None:
        entry = self._recent.pop(row, None)
        if entry is not None:
            self._recent_bytes -= len(entry.value)

    def _fetch(self, rows: list[int]) -> list[Entry]:
        recent = self._recent
        missing = [row for row in rows if row not in recent]
        if not missing:
            return [recent[row] for row in rows]
        found: dict[int, Entry] = {}
        try:
            for first in range(0, len(missing), SHAPES[-1]):
                part = missing[first : first + SHAPES[-1]]
                shape = next(n for n in SHAPES if n >= len(part))
                for row in self._reader.execute(_SELECT[shape], part + part[-1:] * (shape - len(part))):
                    found[row[0]] = entry_of(row)
        except sqlite3.Error as error:
            raise refused(self.directory.path, error) from None
        for row in missing:
            if row not in found:
                raise Corrupt(f"the row at revision {row} is missing")
        entries = [found[row] if row in found else recent[row] for row in rows]
        if len(missing) == 1:
            self._remember(found[missing[0]])  # only now: others may have to go for it
        return entries

    async def snapshot(self, path: Path) -> None:
        """Copies the store, as of now, to a file that `restore` takes; writers go on."""
        from dashpot.runtime.store.snapshot import save

        self._check()
        await asyncio.to_thread(save, self.directory, path)

    async def close(self) -> None:
        """Writes what is queued, and gives the directory back; idempotent."""
        if self._closed:
            return
        await super().close()
        self._stopped = True
        self._writer.stop()
        await asyncio.to_thread(self._writer.join)
        self._reader.close()
        self._connection.close()
        self._mark.close()
        os.close(self._lock)


def _load(directory: Directory, connections: list[Any]) -> Loaded:
    """Opens both connections and reads everything, in a thread of its own."""
    directory.check_header()
    os.close(os.open(directory.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = connect(directory)
    connections.append(connection)
    prepare(connection, directory)
    loaded = load(connection, directory)
    connections.append(connect(directory))
    return loaded
