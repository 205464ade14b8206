"""Time as an argument: what the day is (Clock). Waiting is asyncio's, and follows the loop: real, or virtual."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the day is, in seconds since 1970 (UTC)."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()


class LoopClock:
    """A clock that follows the running loop: it says `start` when it is made, and goes on as the loop's time does.

    On a virtual loop (`dashpot.runtime.loop`) the day then passes as fast as nothing happens in it.
    """

    def __init__(self, start: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._offset = start - self._loop.time()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._loop.time() + self._offset


def rfc3339(seconds: float) -> str:
    """A time as metadata has it: `2026-11-30T12:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def rfc3339_micro(seconds: float) -> str:
    """A MicroTime: `2026-11-30T12:00:00.000000Z`."""
    whole = int(seconds)
    micro = int((seconds - whole) * 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micro:06d}Z"
