"""A token bucket: so many at once, so many a second. Source: client-go util/flowcontrol, golang.org/x/time/rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TokenBucket:
    """Lets `burst` through at once and `qps` a second. Time is the loop's, or what `now` says (seconds)."""

    def __init__(self, qps: float, burst: int, now: Callable[[], float] | None = None) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError("a token bucket needs qps > 0 and burst >= 1")
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._now = now
        self._last: float | None = None

    def _refill(self) -> None:
        now = self._now() if self._now is not None else asyncio.get_running_loop().time()
        if self._last is not None and now > self._last:
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._qps)
        self._last = now

    def take(self) -> bool:
        """Takes a token if there is one."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self) -> float:
        """Takes a token, of the future if need be: how many seconds until it is there."""
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    async def wait(self) -> float:
        """Waits for a token, first come first served; how long it took. Who gives up gives the token back."""
        seconds = self.reserve()
        if seconds:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self._tokens += 1
                raise
        return seconds
