"""Rows of the embedded store: their SQL, and a checksum over everything that is in one.

SQLite checks the shape of its pages but not what is in a cell: a flipped bit of a value passes its integrity check.
The shape follows kine's: the id is the revision, `created` and `deleted` say what the change did, `create_id` and
`prev_id` are the revisions that made the key and that changed it before.
"""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

from dashpot.runtime.store.base import Corrupt, Entry

SCHEMA = 1
"""Version of what stands below; a data directory with a higher one is refused."""

APPLICATION = 0x44505354
"""`DPST`: says that a SQLite file is a store."""

TABLES = {
    "rev": "CREATE TABLE rev (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, created INT NOT NULL, "
    "deleted INT NOT NULL, create_id INT NOT NULL, prev_id INT NOT NULL, lease INT NOT NULL, value BLOB, "
    "sum INT NOT NULL)",
    "rev_key": "CREATE INDEX rev_key ON rev (key, id)",
    "meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value INT NOT NULL, sum INT NOT NULL) WITHOUT ROWID",
    "lease": "CREATE TABLE lease (id INTEGER PRIMARY KEY, ttl REAL NOT NULL, sum INT NOT NULL)",
}
"""SQL by name. `rev_key` is read only to check `rev`: which versions a key has is known in memory."""

COLUMNS = "id, key, created, deleted, create_id, prev_id, lease, value, sum"

META = ("alarm", "cluster", "compacted", "schema")
"""The names in `meta`: whether the quota alarm is raised, a random number of the store, the oldest revision that can
be read, the version of the tables."""

Row = tuple[int, str, int, int, int, int, int, "bytes | None", int]

_HEAD = struct.Struct(">qqqqbb")
_LEASE = struct.Struct(">qd")


def row_sum(row: Row | tuple[Any, ...]) -> int:
    """The checksum that a row must have."""
    revision, key, created, deleted, create_id, prev_id, lease, value = row[:8]
    head = _HEAD.pack(revision, create_id, prev_id, lease, created, deleted)
    return crc32(value, crc32(key.encode(), crc32(head))) if value is not None else crc32(key.encode(), crc32(head))


def put_row(entry: Entry, before: int) -> Row:
    """The row of a written key; `before`: the revision of its version before."""
    created = entry.created == entry.modified
    row = (entry.modified, entry.key, int(created), 0, entry.created, before, entry.lease, entry.value)
    return (*row, row_sum(row))


def delete_row(revision: int, key: str, previous: Entry | None, before: int) -> Row:
    """The row of a delete."""
    row = (revision, key, 0, 1, previous.created if previous else 0, before, 0, None)
    return (*row, row_sum(row))


def check_row(row: tuple[Any, ...]) -> None:
    """Raises Corrupt where a row is not what was written."""
    try:
        sound = row_sum(row) == row[8]
    except (TypeError, ValueError, AttributeError, struct.error):
        sound = False  # a column has another type than was written
    if not sound:
        raise Corrupt(f"the row of key {row[1]!r} at revision {row[0]} is damaged: its checksum does not match")


def entry_of(row: tuple[Any, ...]) -> Entry:
    """The checked entry of a row."""
    check_row(row)
    if row[3]:
        raise Corrupt(f"the row at revision {row[0]} is a delete where a value must be")
    return Entry(row[1], row[7], row[4], row[0], row[6])


def meta_sum(name: str, value: int) -> int:
    """The checksum of a line of `meta`."""
    return crc32(f"{name}={value}".encode())


def lease_sum(lease: int, ttl: float) -> int:
    """The checksum of a lease."""
    return crc32(_LEASE.pack(lease, ttl))
