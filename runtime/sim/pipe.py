"""One watch of a part of the plane, on its way from the API server: it can be held, cut, or lose an event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

BOOKMARK = b'{"type":"BOOKMARK"'


class Pipe:
    """The lines of one watch. `first` come before those of the server; `done` is told when it ends."""

    def __init__(
        self,
        part: str,
        resource: str,
        source: AsyncIterator[bytes],
        first: Sequence[bytes],
        done: Callable[[Pipe], None],
    ) -> None:
        self.part = part
        self.resource = resource
        self.lossy = False
        """It has lost an event: only a list makes up for that."""
        self._source = source
        self._first = list(first)
        self._done = done
        self._held = False
        self._cut = False
        self._losing = 0
        self._lost: Callable[[bytes], None] = lambda line: None
        self._changed = asyncio.Event()

    def hold(self) -> None:
        """No line passes from now on."""
        self._held = True

    def release(self) -> None:
        """All pass again."""
        self._held = False
        self._changed.set()

    def cut(self) -> None:
        """Ends before the next line."""
        self._cut = True
        self.release()

    def lose(self, told: Callable[[bytes], None]) -> None:
        """Loses the next event."""
        self._losing += 1
        self._lost = told

    def calm(self) -> None:
        """Loses no more."""
        self._losing = 0

    async def lines(self) -> AsyncIterator[bytes]:
        """What the client reads."""
        try:
            for line in self._first:
                yield line
            async for chunk in self._source:
                if not (self._held or self._cut or self._losing):
                    yield chunk
                    continue
                for line in chunk.splitlines(keepends=True):
                    while self._held:
                        self._changed.clear()
                        await self._changed.wait()
                    if self._cut:
                        return
                    if self._losing and not line.startswith(BOOKMARK):
                        self._losing -= 1
                        self.lossy = True
                        self._lost(line)
                        continue
                    yield line
        finally:
            self._done(self)
