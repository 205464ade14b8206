"""Turns at the processor: long work is cut into pieces, and each pass of the loop runs one piece of all that there is.

`asyncio.sleep(0)` is not enough: two hundred lists that each render for five milliseconds and then sleep make a pass of
a second, and a lease that needs five passes is five seconds late. With turns a pass costs one piece.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary


class Turns:
    """Gives out turns in order of arrival, one a pass of the loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._granting = False

    async def take(self) -> None:
        """Waits for a turn; the work up to the next `await` is the piece."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._granting:
            self._granting = True
            loop.call_soon(self._grant, loop)
        await turn

    def _grant(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # its request may have been cancelled
                turn.set_result(None)
                break
        if waiting:
            loop.call_soon(self._grant, loop)
        else:
            self._granting = False


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


async def turn() -> None:
    """A turn on the running loop."""
    loop = asyncio.get_running_loop()
    turns = _of_loop.get(loop)
    if turns is None:
        turns = _of_loop[loop] = Turns()
    await turns.take()
