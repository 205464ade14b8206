"""Requests at a steady rate, and how long they took.

Arrivals follow the clock, not the answers (an open loop), and a request's time runs from when it was due: a server that
stalls is seen stalling, instead of slowing the questions down with it ("coordinated omission", G. Tene 2013).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable

from attrs import field, frozen

from dashpot.runtime.doctor.cluster import Reply, Unreachable

_BLAMED = re.compile(r'failed calling webhook "([^"]*)"')
OPEN_MAX = 256
"""Requests under way at once: beyond, they queue, and their waiting counts."""
KINDS = ("answered", "denied", "timeout", "failed", "throttled", "refused", "unreachable")


def outcome(reply: Reply) -> str:
    """What became of a write, one of KINDS: `failed` and `timeout` are webhooks that did not answer."""
    message = reply.message
    if reply.code < 400:
        return "answered"
    if "denied the request" in message:
        return "denied"
    if "failed calling webhook" in message or reply.code == 504:
        late = "deadline exceeded" in message or "imeout exceeded" in message or reply.code == 504
        return "timeout" if late else "failed"
    return "throttled" if reply.code == 429 else "refused"


@frozen
class Figures:
    """What one rate showed; times in seconds."""

    rate: float
    times: tuple[float, ...]
    """Of requests that a webhook or the store answered, sorted."""
    outcomes: Counter[str] = field(factory=Counter)
    example: str = ""
    """The message of one that was not answered."""
    blamed: Counter[str] = field(factory=Counter)
    """Requests that failed, by the webhook that the server names for it."""

    @property
    def sent(self) -> int:
        """All requests."""
        return sum(self.outcomes.values())

    @property
    def bad(self) -> int:
        """Requests whose webhook did not answer."""
        return self.outcomes["timeout"] + self.outcomes["failed"] + self.outcomes["unreachable"]

    def bad_of(self, webhook: str) -> int:
        """Requests that failed because of this webhook, or without anybody being named."""
        return self.bad - self.blamed.total() + self.blamed[webhook]

    def quantile(self, share: float) -> float:
        """The time within which so many were answered; 0 if none was."""
        if not self.times:
            return 0.0
        return self.times[min(len(self.times) - 1, int(share * len(self.times)))]


async def load(send: Callable[[], Awaitable[Reply]], rate: float, seconds: float) -> Figures:
    """Sends at a rate for a while and waits for all answers."""
    loop = asyncio.get_running_loop()
    room = asyncio.Semaphore(OPEN_MAX)
    outcomes: Counter[str] = Counter()
    times: list[float] = []
    examples: list[str] = []
    blamed: Counter[str] = Counter()

    async def one(due: float) -> None:
        async with room:
            try:
                reply = await send()
            except Unreachable as error:
                outcomes["unreachable"] += 1
                examples.append(str(error))
                return
        kind = outcome(reply)
        outcomes[kind] += 1
        if kind in ("timeout", "failed") and (named := _BLAMED.search(reply.message)):
            blamed[named[1]] += 1
        if kind in ("answered", "denied", "timeout", "failed"):
            times.append(loop.time() - due)
        if kind not in ("answered", "denied"):
            examples.append(reply.message)

    start = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(max(1, round(rate * seconds))):
            due = start + number / rate
            delay = due - loop.time()
            if delay > 0:
                await asyncio.sleep(delay)
            group.create_task(one(due))
    return Figures(rate, tuple(sorted(times)), outcomes, examples[0] if examples else "", blamed)
