"""Bytes from one task to another, never more than a limit of them, and a time after which silence ends a stream."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

LIMIT = 256 * 1024
"""Bytes that a pipe holds before its writer waits: what a slow reader may cost."""
IDLE_S = 4 * 3600.0
"""Seconds without any byte after which a stream ends (upstream: --streaming-connection-idle-timeout)."""


class Pipe:
    """A pipe in memory: one writer, one reader."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._broken = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def write(self, data: bytes) -> bool:
        """Hands over a piece; waits while the pipe is full. False: the reader has left, the piece is lost."""
        await self._room.wait()
        if self._broken or self._ended:
            return False
        if data:
            self._parts.append(data)
            self._size += len(data)
            self._filled.set()
            if self._size >= self._limit:
                self._room.clear()
        return True

    def end(self) -> None:
        """No more will be written; what is in the pipe can still be read."""
        self._ended = True
        self._filled.set()

    def abandon(self) -> None:
        """The reader leaves: writers never wait again."""
        self._broken = self._ended = True
        self._parts.clear()
        self._size = 0
        self._filled.set()
        self._room.set()

    async def read(self) -> bytes:
        """All that is there, at least a byte; empty at the end."""
        await self._filled.wait()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._room.set()
        if not self._ended:
            self._filled.clear()
        return data


class Idle:
    """`async with Idle() as idle`: TimeoutError inside when `touch` was not called for `seconds`."""

    def __init__(self, seconds: float = IDLE_S) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> Idle:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)

    def touch(self) -> None:
        """Something happened: the time starts again."""
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)
