"""Opening the embedded store: every row is read and checked before anything is served.

Rows that a damaged page hides are noticed too: the index names the same rows a second time (SQLite compares them),
revisions have no gaps above the compacted one, each row names the one before it, and the newest revision stands in
three places.
"""

from __future__ import annotations

import secrets
import sqlite3
from typing import Any

from attrs import define, field

from dashpot.runtime.store.base import Corrupt, StoreError
from dashpot.runtime.store.directory import BROKEN, Directory, refused
from dashpot.runtime.store.rows import (
    APPLICATION,
    COLUMNS,
    META,
    SCHEMA,
    TABLES,
    check_row,
    lease_sum,
    meta_sum,
)

FIRST = 1
"""The revision of an empty store; as etcd's."""

Heads = dict[str, tuple[int, int, int]]


@define(eq=False)
class Loaded:
    """What is kept of a store in memory, see Versions; `heads` are modified, created and lease of the living keys."""

    newest: int = FIRST
    meta: dict[str, int] = field(factory=dict)
    codes: dict[str, list[int]] = field(factory=dict)
    log: list[str] = field(factory=list)
    heads: Heads = field(factory=dict)
    leases: dict[int, float] = field(factory=dict)


def connect(directory: Directory, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection without transactions of its own accord."""
    mode = "ro" if read_only else "rwc"
    uri = f"{directory.database.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    connection.execute("PRAGMA cell_size_check=ON")
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def prepare(connection: sqlite3.Connection, directory: Directory) -> None:
    """Makes an empty file a store, and any store one that writes durably."""
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"the file system of '{directory.path}' does not support a write-ahead log")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=2000")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        create(connection)
        directory.sync()


def create(connection: sqlite3.Connection) -> None:
    """The empty tables, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for sql in TABLES.values():
        connection.execute(sql)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('rev', ?)", (FIRST,))
    values = {"alarm": 0, "cluster": secrets.randbits(62), "compacted": 0, "schema": SCHEMA}
    for name, value in values.items():
        connection.execute("INSERT INTO meta VALUES (?, ?, ?)", (name, value, meta_sum(name, value)))
    connection.execute("COMMIT")


def read_meta(connection: sqlite3.Connection, directory: Directory) -> dict[str, int]:
    """The numbers by name, once it is sure that this is a store that we understand."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise Corrupt(f"'{directory.database}' is damaged, or no store of dashpot")
    meta: dict[str, int] = {}
    for name, value, total in connection.execute("SELECT name, value, sum FROM meta"):
        if not isinstance(name, str) or not isinstance(value, int) or meta_sum(name, value) != total:
            raise Corrupt(f"the store in '{directory.path}' is damaged: the entry {name!r} does not match its checksum")
        meta[name] = value
    if meta.get("schema", 0) > SCHEMA:
        raise StoreError(
            f"the data directory '{directory.path}' was written by a newer dashpot "
            f"(version {meta['schema']} of the store; this one knows {SCHEMA})"
        )
    if tuple(sorted(meta)) != META:
        raise Corrupt(f"the store in '{directory.path}' is damaged: entries are missing")
    return meta


def load(connection: sqlite3.Connection, directory: Directory, marked: int | None = None) -> Loaded:
    """Reads and checks everything. Raises StoreError, Corrupt above all.

    `marked` is the newest revision that was acknowledged before the connection began to read (None: it begins now).
    """
    if marked is None:
        marked = directory.marked()
    try:
        meta = read_meta(connection, directory)
        shape = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if shape != {**TABLES, "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)"}:
            raise Corrupt(f"the store in '{directory.path}' is damaged: its tables are not as they were made")
        for (found,) in connection.execute("PRAGMA integrity_check(1)"):
            if found != "ok":
                raise Corrupt(f"the store in '{directory.path}' is damaged: {found}")
        loaded = Loaded(meta=meta)
        _read_rows(connection, loaded)
        _read_leases(connection, loaded)
    except BROKEN as error:
        raise refused(directory.path, error) from None
    (seq,) = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'rev'").fetchone() or (0,)
    if seq != loaded.newest:
        raise Corrupt(f"the store in '{directory.path}' is damaged: it ends at {loaded.newest}, it should at {seq}")
    if loaded.newest < marked:
        raise Corrupt(
            f"the store in '{directory.path}' is damaged or not the newest: it ends at revision {loaded.newest}, and "
            f"{marked} was acknowledged (if it was put there by hand, remove the file 'acknowledged')"
        )
    return loaded


def _read_rows(connection: sqlite3.Connection, loaded: Loaded) -> None:
    """All rows in order of revision."""
    compacted = loaded.meta["compacted"]
    expected = max(compacted, FIRST) + 1
    codes, log, heads = loaded.codes, loaded.log, loaded.heads
    for row in connection.execute(f"SELECT {COLUMNS} FROM rev ORDER BY id"):
        check_row(row)
        revision, key, _, deleted, create_id, prev_id, lease, _, _ = row
        found = codes.setdefault(key, [])
        if found and prev_id != found[-1] >> 1:
            raise Corrupt(f"a row of key {key!r} before revision {revision} is missing")
        if not found and prev_id > compacted:
            raise Corrupt(f"the row of key {key!r} at revision {prev_id} is missing")
        if revision > compacted:
            if revision != expected:
                raise Corrupt(f"the row at revision {expected} is missing")
            expected += 1
            log.append(key)
        found.append(revision * 2 + deleted)
        if deleted:
            heads.pop(key, None)
        else:
            heads[key] = (revision, create_id, lease)
    loaded.newest = expected - 1


def _read_leases(connection: sqlite3.Connection, loaded: Loaded) -> None:
    rows: list[tuple[Any, ...]] = connection.execute("SELECT id, ttl, sum FROM lease").fetchall()
    for lease, ttl, total in rows:
        if not isinstance(ttl, float) or lease_sum(lease, ttl) != total:
            raise Corrupt(f"lease {lease} is damaged: its checksum does not match")
        loaded.leases[lease] = ttl
    for key, (revision, _, lease) in loaded.heads.items():
        if lease and lease not in loaded.leases:
            raise Corrupt(f"lease {lease} of key {key!r} at revision {revision} is missing")
