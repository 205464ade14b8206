"""One watch as a client sees it: typed events, one after another.

async with client.watch(pods, version="17") as events:
    async for event in events: …
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import msgspec
from attrs import frozen

from dashpot.runtime.client.failures import from_status
from dashpot.runtime.client.transport import Answer, TransportError

Object = dict[str, Any]
Change = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

INITIAL_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a streaming list (KEP-3157)."""


@frozen
class WatchEvent:
    """What happened to an object; a bookmark's object has nothing but a version and perhaps annotations."""

    change: Change
    object: Object

    @property
    def version(self) -> str:
        """The resourceVersion of the event."""
        return str((self.object.get("metadata") or {}).get("resourceVersion") or "")

    @property
    def ends_initial(self) -> bool:
        """Whether all objects that there were at the start have been told."""
        annotations = (self.object.get("metadata") or {}).get("annotations") or {}
        return self.change == "BOOKMARK" and annotations.get(INITIAL_END) == "true"


class _Line(msgspec.Struct):
    type: str
    object: Object


_DECODER = msgspec.json.Decoder(_Line)


class Watch:
    """A watch, opened by `async with`: StatusError where it is refused, also later on; TransportError where it breaks
    off. It ends when the server ends it."""

    def __init__(self, opening: Callable[[], Awaitable[Answer]]) -> None:
        self._opening = opening
        self._answer: Answer | None = None
        self._lines: AsyncIterator[bytes] | None = None

    async def open(self) -> None:
        """Waits for the server to take it on; idempotent while it is open."""
        if self._answer is None:
            self._answer = await self._opening()
            self._lines = self._answer.lines()

    async def __aenter__(self) -> Watch:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the watch; idempotent."""
        answer, self._answer, lines, self._lines = self._answer, None, self._lines, None
        close = getattr(lines, "aclose", None)
        if close is not None:
            await close()
        if answer is not None:
            await answer.close()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> WatchEvent:
        if self._lines is None:
            raise StopAsyncIteration
        line = await anext(self._lines)
        try:
            event = _DECODER.decode(line)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise TransportError("the watch broke off within an event") from None
        if event.type == "ERROR":
            raise from_status(event.object)
        if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise TransportError(f"the watch told an event of an unknown type: {event.type[:40]!r}")
        return WatchEvent(event.type, event.object)  # type: ignore[arg-type]
