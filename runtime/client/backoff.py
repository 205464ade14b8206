"""How long to wait after failures: longer each time, never all at once. Source: apimachinery util/wait."""

from __future__ import annotations

import asyncio
import random

from attrs import define, field


@define
class Backoff:
    """`first`, then `factor` times as long each time up to `most` seconds, plus up to `jitter` times as much by chance;
    after `forget` seconds without a failure from the beginning."""

    chance: random.Random
    first: float = 0.8
    most: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    forget: float = 120.0
    _next: float = field(default=0.0, init=False)
    _last: float = field(default=0.0, init=False)

    def step(self) -> float:
        """How many seconds to wait now."""
        now = asyncio.get_running_loop().time()
        if not self._next or now - self._last > self.forget:
            self._next = self.first
        self._last = now
        wait = self._next
        self._next = min(self.most, wait * self.factor)
        return wait * (1.0 + self.chance.random() * self.jitter)

    async def wait(self) -> float:
        """Waits, and says how long."""
        seconds = self.step()
        await asyncio.sleep(seconds)
        return seconds

    def reset(self) -> None:
        """All is well again."""
        self._next = 0.0
