"""Requests that are sent again where that can help and can do no harm. Source: client-go rest/with_retry.go."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable

from attrs import define

from dashpot.runtime.client.failures import failure
from dashpot.runtime.client.tokenbucket import TokenBucket
from dashpot.runtime.client.transport import Answer, Call, NoCredentials, Transport, TransportError, TransportTimeout

UNREACHED_TRIES = 4
"""How often a server is tried that takes no connection: a restart is bridged, a wrong address told soon."""
WAIT_S, WAIT_MOST_S = 0.1, 2.0
"""Between tries: twice as long each time, and up to half of that more."""
READS = ("GET", "HEAD", "OPTIONS")
AFTER_MOST_S = 60.0
"""A Retry-After is believed up to this."""
_WARNING = re.compile(r'299 (?:"[^"]*"|\S+) "((?:[^"\\]|\\.)*)"')


@define(eq=False)
class Sender:
    """Sends calls of one client."""

    transport: Transport
    limiter: TokenBucket | None
    retries: int
    chance: random.Random
    warn: Callable[[str], None] | None

    async def whole(self, call: Call) -> tuple[Answer, bytes]:
        """An answer and all of its body; StatusError for a failure, TransportError for none."""
        try:
            async with asyncio.timeout(call.timeout or None):
                return await self._tries(call, whole=True)
        except TimeoutError:
            raise TransportTimeout(f"{call.method} {call.path}: no answer within {call.timeout:g}s") from None

    async def head(self, call: Call) -> Answer:
        """An answer whose body is still to come."""
        answer, _ = await self._tries(call, whole=False)
        return answer

    async def _tries(self, call: Call, *, whole: bool) -> tuple[Answer, bytes]:
        tries = 0
        while True:
            if self.limiter is not None:
                await self.limiter.wait()
            try:
                answer = await self.transport.send(call)
                body = await answer.read() if whole or answer.code >= 400 else b""
            except (TransportTimeout, NoCredentials):
                raise
            except TransportError as error:
                again = tries < self.retries and (
                    call.method in READS if error.sent else tries < min(self.retries, UNREACHED_TRIES) - 1
                )
                if not again:
                    raise
                await asyncio.sleep(min(WAIT_S * 2**tries, WAIT_MOST_S) * (1.0 + self.chance.random() / 2))
            else:
                if self.warn is not None and "warning" in answer.headers:
                    for text in warnings(answer.headers["warning"]):
                        self.warn(text)
                if answer.code < 400:
                    return answer, body
                wait = _after(answer)
                if wait is None or tries >= self.retries or not (answer.code == 429 or answer.code >= 500):
                    raise failure(answer.code, body, wait or 0)
                await asyncio.sleep(wait)
            tries += 1


def _after(answer: Answer) -> float | None:
    """How many seconds a server wants to be left alone; None where it does not say."""
    told = answer.headers.get("retry-after", "")
    return min(float(told), AFTER_MOST_S) if told.isascii() and told.isdigit() else None


def warnings(header: str) -> list[str]:
    """The texts of a Warning header: `299 - "text", 299 - "text"`."""
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]
