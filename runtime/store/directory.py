"""The directory of the embedded store: made, locked by one process, and told from what is not ours.

store.db (and SQLite's -wal and -shm beside it), lock, acknowledged.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from pathlib import Path
from zlib import crc32

from attrs import frozen

from dashpot.runtime.store.base import Corrupt, StoreError, Unavailable

DATABASE = "store.db"
LOCK = "lock"
MARK = "acknowledged"

_SHARED = 64 * 1024
_MAGIC = b"SQLite format 3\0"
_MARK = struct.Struct(">qI")


@frozen
class Directory:
    """A data directory by its path."""

    path: Path

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.path / DATABASE

    def lock(self, what: str = "a store") -> int:
        """Makes the directory where it is missing, and takes it; the descriptor that holds it. Raises StoreError.

        `what` it is that has one server, for the message.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            held = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise refused(self.path, error) from None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(held, 32, 0).decode("ascii", "replace").strip()
            os.close(held)
            by = f" by process {owner}" if owner.isdigit() else ""
            raise StoreError(f"the data directory '{self.path}' is in use{by}: {what} has one server") from None
        try:
            os.ftruncate(held, 0)
            os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(held)
            raise refused(self.path, error) from None
        return held

    def sync(self) -> None:
        """Makes the names of its files durable."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def check_header(self) -> None:
        """The first bytes of the database, which decide how SQLite reads it, its write-ahead log included."""
        try:
            with self.database.open("rb") as file:
                head = file.read(100)
        except FileNotFoundError:
            return
        except OSError as error:
            raise refused(self.path, error) from None
        if head and (head[:16] != _MAGIC or head[18:20] not in (b"\2\2", b"\1\1")):
            raise Corrupt(f"'{self.database}' is damaged, or no store: its header is not SQLite's")

    def marked(self) -> int:
        """The newest revision that was acknowledged for certain; 0 where nothing is known."""
        try:
            revision, total = _MARK.unpack((self.path / MARK).read_bytes()[: _MARK.size])
        except (OSError, struct.error):
            return 0
        return int(revision) if total == crc32(b"%d" % revision) else 0


class Mark:
    """Notes the newest acknowledged revision beside the database, without waiting for the disk.

    A damaged write-ahead log looks to SQLite like one whose end was never written, and what follows is dropped. The
    note tells one from the other wherever the machine itself did not fail.
    """

    def __init__(self, directory: Directory) -> None:
        self._file = os.open(directory.path / MARK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self, revision: int) -> None:
        """This revision is durable."""
        os.pwrite(self._file, _MARK.pack(revision, crc32(b"%d" % revision)), 0)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def _full(path: Path) -> bool:
    """Whether a disk has no room for the table that SQLite shares between readers: it says that as a fault of I/O."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _SHARED


BROKEN = (sqlite3.Error, UnicodeDecodeError, OverflowError)
"""What reading a damaged file raises; the second where the text of SQLite's own error quotes what is damaged."""


def refused(path: Path, error: Exception) -> StoreError:
    """What a person should know when the disk or SQLite refuses."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        return StoreError(f"cannot use the data directory '{path}': {error.strerror or error}")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _full(path)):
        maybe = code == sqlite3.SQLITE_IOERR
        return Unavailable(f"there is no space left on the disk of '{path}'", maybe=maybe)
    if code == sqlite3.SQLITE_READONLY:
        return StoreError(f"cannot write to the data directory '{path}': it is read-only")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"the data directory '{path}' is in use by another program")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT):
        return Corrupt(f"the store in '{path}' is damaged: {error}")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
        name = getattr(error, "sqlite_errorname", "")
        return Unavailable(f"the disk of the data directory '{path}' failed: {error} ({name})", maybe=True)
    return Corrupt(f"the store in '{path}' cannot be read: {error}")
