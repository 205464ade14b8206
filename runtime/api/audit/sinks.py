"""Where audit events go: a file that rotates, and a webhook that takes them in batches.

Source: kube-apiserver --audit-log-* and --audit-webhook-* (staging apiserver plugin/pkg/audit), release 1.34.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

Object = dict[str, Any]


class LogFile:
    """One line an event. Lines of one turn of the loop are written together; a full file is renamed with a number.

    A disk that refuses is told once through `complain`, and the lines are dropped: audit never stops the server
    (upstream's blocking mode does the same). What was half written is cut off again: each line stays one event.
    """

    plugin = "log"

    def __init__(self, path: Path, limit: int, keep: int, complain: Callable[[str], None]) -> None:
        self._path = path
        self._limit = limit
        self._keep = keep
        self._complain = complain
        self._waiting: list[bytes] = []
        self._scheduled = False
        self._broken = False
        self.dropped = 0
        self._file = self._open()
        self._size = os.fstat(self._file).st_size

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: bytes) -> None:
        """Keeps a line until the end of this turn of the loop."""
        self._waiting.append(event)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        lines, self._waiting = self._waiting, []
        if not lines:
            return
        data = b"\n".join(lines) + b"\n"
        try:
            if self._size + len(data) > self._limit and self._size:
                self._rotate()
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
            self._size += len(data)
            self._broken = False
        except OSError as error:
            self.dropped += len(lines)
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            if not self._broken:
                self._broken = True
                self._complain(f"audit log '{self._path}' cannot be written, events are lost: {error.strerror}")

    def _rotate(self) -> None:
        """The old file keeps its descriptor until the new one is there: a failure in between loses nothing."""
        if self._keep <= 0:
            os.ftruncate(self._file, 0)
            self._size = 0
            return
        for number in range(self._keep, 0, -1):
            source = self._path if number == 1 else self._named(number - 1)
            if source.exists():
                source.replace(self._named(number))
        old, self._file = self._file, self._open()
        os.close(old)
        self._size = 0

    def _named(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    async def close(self) -> None:
        """Writes what is left."""
        self._flush()
        os.close(self._file)


BATCH = 400
BUFFER = 10_000
WAIT_S = 30.0


class Webhook:
    """Events in batches to `post` (an audit.k8s.io/v1 EventList), with retries; a full buffer drops the newest."""

    plugin = "webhook"

    def __init__(
        self,
        post: Callable[[Object], Awaitable[object]],
        complain: Callable[[str], None],
        *,
        batch: int = BATCH,
        buffer: int = BUFFER,
        wait_s: float = WAIT_S,
        tries: int = 4,
        backoff_s: float = 10.0,
    ) -> None:
        self._post = post
        self._complain = complain
        self._batch = batch
        self._buffer = buffer
        self._wait_s = wait_s
        self._tries = tries
        self._backoff_s = backoff_s
        self._waiting: deque[bytes] = deque()
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._told = False
        self.dropped = 0

    def write(self, event: bytes) -> None:
        """Keeps an event for the next batch."""
        if len(self._waiting) >= self._buffer:
            self.dropped += 1
            return
        self._waiting.append(event)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        if len(self._waiting) >= self._batch:
            self._full.set()

    async def _run(self) -> None:
        while not self._closing.is_set() or self._waiting:
            if not self._closing.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._wait_s):
                        await self._full.wait()
            self._full.clear()
            while self._waiting:
                count = min(len(self._waiting), self._batch)
                await self._send([self._waiting.popleft() for _ in range(count)])

    async def _send(self, lines: list[bytes]) -> None:
        body = {
            "kind": "EventList",
            "apiVersion": "audit.k8s.io/v1",
            "metadata": {},
            "items": [msgspec.Raw(line) for line in lines],
        }
        for attempt in range(self._tries):
            try:
                await self._post(body)
                self._told = False
                return
            except Exception as error:
                if attempt == self._tries - 1 or self._closing.is_set():
                    self.dropped += len(lines)
                    if not self._told:
                        self._told = True
                        self._complain(f"audit webhook: {len(lines)} events are lost: {error}")
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._backoff_s * 1.5**attempt):
                        await self._closing.wait()

    async def close(self) -> None:
        """Sends what is left, once."""
        self._closing.set()
        self._full.set()
        if self._task is not None:
            await self._task
