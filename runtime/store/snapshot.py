"""Copies of an embedded store: saved while it serves, restored into an empty directory, checked row by row.

A snapshot is the SQLite file, then 8 bytes `DPSNAP01`, then the SHA-256 of the file.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sqlite3
from pathlib import Path

from attrs import frozen

from dashpot.runtime.store.base import Corrupt, StoreError, StoreStatus
from dashpot.runtime.store.directory import BROKEN, Directory, Mark, refused
from dashpot.runtime.store.engine import QUOTA, space_warnings
from dashpot.runtime.store.loading import Loaded, connect, load, prepare, read_meta
from dashpot.runtime.store.rows import COLUMNS, check_row, meta_sum

MAGIC = b"DPSNAP01"
TRAILER = len(MAGIC) + 32
BLOCK = 1 << 20
FINDINGS = 100
"""Damages that `verify` names before it stops looking."""


@frozen
class Report:
    """What a check of all rows found; sound if there are no findings."""

    revision: int
    rows: int
    keys: int
    findings: tuple[str, ...]


def _there(directory: Directory) -> None:
    if not directory.database.is_file():
        raise StoreError(f"there is no store in '{directory.path}'")
    directory.check_header()


def save(directory: Directory, path: Path) -> int:
    """Copies a store, in use or not, to a new file; its revision. Every row is checked. Raises StoreError."""
    _there(directory)
    if path.exists():
        raise StoreError(f"'{path}' is there already")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        source = connect(directory, read_only=True)
        target = sqlite3.connect(draft, isolation_level=None)
        try:
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")
            read_meta(target, directory)
            for row in target.execute(f"SELECT {COLUMNS} FROM rev"):
                check_row(row)
            (revision,) = target.execute("SELECT seq FROM sqlite_sequence").fetchone()
        finally:
            target.close()
            source.close()
        with draft.open("r+b") as file:
            digest = _digest(file.fileno(), draft.stat().st_size)
            file.seek(0, os.SEEK_END)
            file.write(MAGIC + digest)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        Directory(path.absolute().parent).sync()
    except BROKEN as error:
        raise refused(directory.path, error) from None
    except OSError as error:
        raise StoreError(f"cannot write '{path}': {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return int(revision)


def _digest(descriptor: int, size: int) -> bytes:
    total = hashlib.sha256()
    place = 0
    while place < size:
        block = os.pread(descriptor, min(BLOCK, size - place), place)
        if not block:
            break
        total.update(block)
        place += len(block)
    return total.digest()


def restore(path: Path, directory: Directory, bump: int = 0) -> Loaded:
    """Makes a store from a snapshot, in a directory that has none; what was loaded from it.

    With `bump` revisions go on that much higher, and everything before counts as compacted: clients that saw later
    revisions than the snapshot has list anew, as after `etcdutl snapshot restore --bump-revision --mark-compacted`.
    """
    lock = directory.lock()
    draft = directory.path / "restoring"
    try:
        if directory.database.exists():
            raise StoreError(f"there is a store in '{directory.path}' already")
        shutil.rmtree(draft, ignore_errors=True)  # of one that was cut short
        draft.mkdir(mode=0o700)
        inner = Directory(draft)
        _unpack(path, inner.database)
        connection = connect(inner)
        try:
            prepare(connection, inner)
            loaded = load(connection, inner)
            if bump:
                loaded.newest += bump
                loaded.meta["compacted"] = loaded.newest
            loaded.meta["cluster"] = secrets.randbits(62)
            _renumber(connection, loaded)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
        mark = Mark(directory)
        mark.note(loaded.newest)
        mark.close()
        inner.database.rename(directory.database)
        directory.sync()
        return loaded
    except (*BROKEN, OSError) as error:
        raise refused(directory.path, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def _unpack(path: Path, database: Path) -> None:
    """The SQLite file of a snapshot, if it is whole."""
    try:
        size = path.stat().st_size - TRAILER
        source = path.open("rb")
    except OSError as error:
        raise StoreError(f"cannot read '{path}': {error.strerror or error}") from None
    with source, database.open("wb") as target:
        os.fchmod(target.fileno(), 0o600)
        trailer = os.pread(source.fileno(), TRAILER, max(size, 0))
        if size <= 0 or trailer[: len(MAGIC)] != MAGIC:
            raise StoreError(f"'{path}' is no snapshot, or its end is missing")
        if trailer[len(MAGIC) :] != _digest(source.fileno(), size):
            raise Corrupt(f"the snapshot '{path}' is damaged: its checksum does not match")
        left = size
        while left:
            block = source.read(min(BLOCK, left))
            target.write(block)
            left -= len(block)
        target.flush()
        os.fsync(target.fileno())


def _renumber(connection: sqlite3.Connection, loaded: Loaded) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for name in ("compacted", "cluster"):
        value = loaded.meta[name]
        connection.execute("UPDATE meta SET value = ?, sum = ? WHERE name = ?", (value, meta_sum(name, value), name))
    connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'rev'", (loaded.newest,))
    connection.execute("COMMIT")


def verify(directory: Directory) -> Report:
    """Checks a store, in use or not, without changing it; names what is damaged. Raises StoreError if it cannot."""
    _there(directory)
    findings: list[str] = []
    rows = 0
    loaded = Loaded()
    try:
        connection = connect(directory, read_only=True)
        try:
            marked = directory.marked()  # before the transaction reads: a server may go on
            connection.execute("BEGIN")
            for row in connection.execute(f"SELECT {COLUMNS} FROM rev ORDER BY id"):
                rows += 1
                try:
                    check_row(row)
                except Corrupt as damage:
                    findings.append(str(damage))
                    if len(findings) == FINDINGS:
                        break
            if not findings:
                loaded = load(connection, directory, marked)
        finally:
            connection.close()
    except Corrupt as damage:
        findings.append(str(damage))
    except BROKEN as error:
        told = refused(directory.path, error)
        if not isinstance(told, Corrupt):
            raise told from None
        findings.append(str(told))
    return Report(loaded.newest, rows, len(loaded.heads), tuple(findings))


def peek(directory: Directory, quota: int = QUOTA) -> StoreStatus:
    """The status of a store, in use or not, as its file has it."""
    _there(directory)
    try:
        connection = connect(directory, read_only=True)
        try:
            connection.execute("BEGIN")
            meta = read_meta(connection, directory)
            (revision,) = connection.execute("SELECT seq FROM sqlite_sequence").fetchone()
            living = "SELECT count(*) FROM (SELECT max(id), deleted FROM rev GROUP BY key) WHERE deleted = 0"
            (keys,) = connection.execute(living).fetchone()
            (leases,) = connection.execute("SELECT count(*) FROM lease").fetchone()
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        finally:
            connection.close()
    except BROKEN as error:
        raise refused(directory.path, error) from None
    alarm = bool(meta["alarm"])
    return StoreStatus(
        backend="embedded",
        revision=revision,
        compacted=meta["compacted"],
        size=pages * page,
        size_in_use=(pages - free) * page,
        quota=quota,
        keys=keys,
        leases=leases,
        alarm=alarm,
        warnings=space_warnings(pages * page, quota, alarm),
    )
