"""The one thread that writes: what waits while it commits goes into the next transaction together (group commit).

Python's lock is given up and taken back around every statement, and taking it back may last milliseconds while the
event loop is busy. So rows are inserted many in one statement.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define

from dashpot.runtime.store.base import StoreError, Unavailable
from dashpot.runtime.store.directory import Directory, Mark, refused
from dashpot.runtime.store.engine import ROW, Change
from dashpot.runtime.store.rows import COLUMNS, Row, delete_row, put_row

SHAPES = (128, 32, 8, 4, 2, 1)
"""Rows that one statement inserts."""

ROWS = 1000
"""Rows in one transaction at most."""

BYTES = 8 << 20
"""Bytes in one transaction, about at most."""

MEASURE = 256 << 10
"""Bytes written after which the size of the file is asked for again."""

_INSERT = {count: f"INSERT INTO rev ({COLUMNS}) VALUES {','.join(['(?,?,?,?,?,?,?,?,?)'] * count)}" for count in SHAPES}


@define(eq=False)
class Job:
    """Something else that is done to the database, in order with the writes.

    `alone`: outside a transaction, such as VACUUM. That one may fail for lack of space and leave all as it was; its
    `error` says so.
    """

    work: Callable[[sqlite3.Connection], Any]
    done: asyncio.Future[Any]
    alone: bool = False
    result: Any = None
    error: StoreError | None = None


Item = Change | Job
Told = Callable[[list[Item], StoreError | None], None]


class Writer(threading.Thread):
    """Takes items from the event loop, makes them durable in order, and tells the loop.

    `told(items, error)` is called on the loop. After an error nothing is written any more: what the disk holds is
    unknown until the store is opened again.
    """

    def __init__(self, connection: sqlite3.Connection, directory: Directory, mark: Mark, told: Told) -> None:
        super().__init__(name="dashpot-store", daemon=True)
        self._connection, self._directory, self._mark, self._told = connection, directory, mark, told
        self._loop = asyncio.get_running_loop()
        self._items: deque[Item] = deque()
        self._awake = threading.Event()
        self._signalled = False
        self._stopping = False
        self._error: StoreError | None = None
        self._unmeasured = 0
        self.size = self.used = 0
        self.measure()

    def submit(self, item: Item) -> None:
        """Queues one; from the event loop."""
        self._items.append(item)
        if not self._signalled:
            self._signalled = True
            self._awake.set()

    def stop(self) -> None:
        """Ends the thread when all that is queued was written; from the event loop."""
        self._stopping = True
        self._awake.set()

    def run(self) -> None:
        """The loop of the thread."""
        while True:
            self._awake.wait()
            self._awake.clear()
            self._signalled = False
            while self._items:
                self._batch()
            if self._stopping:
                return

    def _batch(self) -> None:
        items, size = self._take()
        try:
            if self._error is None:
                self._write(items, size)
        except Exception as error:
            self._error = self._failed(error)
        try:
            self._loop.call_soon_threadsafe(self._told, items, self._error)
        except RuntimeError:
            self._stopping = True  # the loop is closed: nobody waits any more

    def _take(self) -> tuple[list[Item], int]:
        """The next transaction, and its bytes."""
        items: list[Item] = []
        size = 0
        while self._items and len(items) < ROWS and size < BYTES:
            item = self._items[0]
            if isinstance(item, Job) and item.alone:
                return (items, size) if items else ([self._items.popleft()], size)
            items.append(self._items.popleft())
            if isinstance(item, Change) and item.entry is not None:
                size += len(item.entry.value)
        return items, size

    def _write(self, items: list[Item], size: int) -> None:
        connection = self._connection
        first = items[0]
        if isinstance(first, Job) and first.alone:
            try:
                first.result = first.work(connection)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise
                first.error = StoreError(f"the disk of '{self._directory.path}' has not enough space for this")
            self.measure()
            return
        connection.execute("BEGIN IMMEDIATE")
        rows: list[Row] = []
        last = 0
        for item in items:
            if isinstance(item, Change):
                last = item.revision
                rows.append(
                    put_row(item.entry, item.before)
                    if item.entry is not None
                    else delete_row(item.revision, item.key, item.previous, item.before)
                )
            else:
                self._insert(rows)
                rows = []
                item.result = item.work(connection)
                self._unmeasured = MEASURE
        self._insert(rows)
        connection.execute("COMMIT")
        if last:
            self._mark.note(last)
        grown = size + ROW * len(items)
        self.size += grown
        self.used += grown
        self._unmeasured += grown
        if self._unmeasured >= MEASURE:
            self.measure()

    def _insert(self, rows: list[Row]) -> None:
        place = 0
        for count in SHAPES:
            while len(rows) - place >= count:
                flat: list[Any] = []
                for row in rows[place : place + count]:
                    flat += row
                self._connection.execute(_INSERT[count], flat)
                place += count

    def measure(self) -> None:
        """Asks for the size of the file, and how much of it is in use."""
        (page,) = self._connection.execute("PRAGMA page_size").fetchone()
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        self.size, self.used = pages * page, (pages - free) * page
        self._unmeasured = 0

    def _failed(self, error: Exception) -> StoreError:
        """What is told to all who wait, and to all who come."""
        if not isinstance(error, sqlite3.Error | OSError | StoreError):
            return Unavailable(f"the store's writer failed: {type(error).__name__}: {error}", maybe=True)
        told = refused(self._directory.path, error)
        if isinstance(told, Unavailable):
            return Unavailable(f"{told}; the store is stopped", maybe=True)
        return told
