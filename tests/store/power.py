"""A disk that remembers in which order it was written and synced, so that power can fail at any point afterwards.

SQLite runs over a file system in Python (apsw's VFS) that notes each write. What was synced is on the disk; of what was
not, any part may be: each write whole, in some of its 512-byte sectors, or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import apsw
from attrs import define, field

from dashpot.runtime.store import embedded, loading
from dashpot.runtime.store.directory import Directory, Mark

SECTOR = 512


@define(eq=False)
class Tape:
    """What happened, in order: ("write", file, offset, bytes), ("truncate", file, size), ("sync", file),
    ("delete", file), ("mark", revision), ("ack", anything). After `syncs_left` syncs the disk fails."""

    events: list[tuple[Any, ...]] = field(factory=list)
    lock: threading.Lock = field(factory=threading.Lock)
    syncs_left: int = 1 << 60

    def add(self, *event: Any) -> None:
        with self.lock:
            self.events.append(event)


class _File(apsw.VFSFile):
    def __init__(self, tape: Tape, name: Any, flags: list[int]) -> None:
        self.tape = tape
        self.called = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "temporary").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.tape.add("write", self.called, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self.tape.add("truncate", self.called, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self.tape.syncs_left -= 1
        if self.tape.syncs_left < 0:
            raise apsw.IOError("the disk failed")
        super().xSync(flags)
        self.tape.add("sync", self.called)

    def xDeviceCharacteristics(self) -> int:
        return 0  # a disk that promises nothing


class _Disk(apsw.VFS):
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        super().__init__("dashpot-power", "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self.tape, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.tape.add("delete", Path(filename).name)
        super().xDelete(filename, syncdir)


class _Shared:
    """One connection for reader and writer, with what the store uses of sqlite3's: a second could not share its
    write-ahead log, for which a file system in Python has no shared memory."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.users = 0
        self.lock = threading.RLock()

    def execute(self, sql: str, values: Any = ()) -> Any:
        with self.lock:
            return _Rows(list(self.connection.execute(sql, values)))

    def close(self) -> None:
        self.users -= 1
        if not self.users:
            self.connection.close()


class _Rows(list[Any]):
    def fetchone(self) -> Any:
        return self[0] if self else None

    def fetchall(self) -> Any:
        return list(self)


@contextmanager
def recorded(tape: Tape) -> Iterator[None]:
    """Stores that are opened inside write to the tape."""
    disk = _Disk(tape)
    open_: dict[Path, _Shared] = {}

    def connect(directory: Directory, *, read_only: bool = False) -> Any:
        shared = open_.get(directory.path)
        if shared is None or not shared.users:
            connection = apsw.Connection(str(directory.database), vfs="dashpot-power")
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            shared = open_[directory.path] = _Shared(connection)
        shared.users += 1
        return shared

    note = Mark.note

    def noted(self: Mark, revision: int) -> None:
        tape.add("mark", revision)
        note(self, revision)

    with (
        mock.patch.object(loading, "connect", connect),
        mock.patch.object(embedded, "connect", connect),
        mock.patch.object(Mark, "note", noted),
    ):
        yield
    disk.unregister()


def cut(tape: Tape, point: int, random: Random, folder: Path) -> None:
    """Power fails after `point` events: writes the files as they are found afterwards."""
    durable: dict[str, bytearray] = {}
    waiting: dict[str, list[tuple[Any, ...]]] = {}
    marked: list[int] = []
    for event in tape.events[:point]:
        kind, about = event[0], event[1]
        if kind == "mark":
            marked.append(about)
        elif kind in ("write", "truncate"):
            waiting.setdefault(about, []).append(event)
        elif kind == "sync":
            for change in waiting.pop(about, []):
                _apply(durable.setdefault(about, bytearray()), change)
        elif kind == "delete":
            durable.pop(about, None)
            waiting.pop(about, None)
    for name, changes in waiting.items():
        content = durable.setdefault(name, bytearray())
        for change in changes:
            _maybe(content, change, random)
    folder.mkdir()
    for name, content in durable.items():
        if not name.endswith("-shm"):
            (folder / name).write_bytes(content)
    if marked and random.random() < 0.8:
        mark = Mark(Directory(folder))
        mark.note(random.choice(marked[-3:]))
        mark.close()


def _apply(content: bytearray, change: tuple[Any, ...]) -> None:
    if change[0] == "truncate":
        del content[change[2] :]
        content.extend(bytes(change[2] - len(content)))
        return
    _, _, offset, data = change
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


def _maybe(content: bytearray, change: tuple[Any, ...], random: Random) -> None:
    fate = random.choice(("lost", "done", "torn"))
    if fate == "lost":
        return
    if fate == "done" or change[0] == "truncate":
        _apply(content, change)
        return
    _, name, offset, data = change
    for start in range(0, len(data), SECTOR):
        if random.random() < 0.5:
            _apply(content, ("write", name, offset + start, data[start : start + SECTOR]))
