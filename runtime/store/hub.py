"""Watches of the stores that live in this process: each change goes to the streams whose prefix it has."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from dashpot.runtime.store.base import Compacted, Event, StoreError

BACKLOG = 20_000
"""Events that wait for one stream; a stream that is slower reads them from the history again."""

PAGE = 500
"""Events that are read from the history at a time."""


class Past(Protocol):
    """Where streams find the events that came before them."""

    @property
    def newest(self) -> int:
        """The last revision that is durable."""
        ...

    @property
    def compacted(self) -> int:
        """The oldest revision that can be asked for."""
        ...

    def history(self, prefix: str, after: int, limit: int) -> tuple[list[Event], int]:
        """Events of a prefix above `after`, at most about `limit`, and the revision up to which these are all."""
        ...


class Listener(Protocol):
    """Who is told of each change under a prefix, at once: a stream, or somebody who only looks on."""

    prefix: str

    def take(self, event: Event) -> None:
        """One change that has the prefix."""
        ...

    def wake(self) -> None:
        """That was all for now."""
        ...


class Hub:
    """The open streams of one store."""

    def __init__(self) -> None:
        self._by_prefix: dict[str, list[Listener]] = {}
        self._lengths: tuple[int, ...] = ()
        self.streams: set[Stream] = set()

    def join(self, stream: Listener) -> None:
        """From now on the stream is told of each change."""
        self._by_prefix.setdefault(stream.prefix, []).append(stream)
        self._lengths = tuple(sorted({len(prefix) for prefix in self._by_prefix}))

    def leave(self, stream: Listener) -> None:
        """The stream is told no more; one that never joined may leave too."""
        joined = self._by_prefix.get(stream.prefix, [])
        if stream in joined:
            joined.remove(stream)
            if not joined:
                del self._by_prefix[stream.prefix]
                self._lengths = tuple(sorted({len(prefix) for prefix in self._by_prefix}))

    def publish(self, events: Sequence[Event]) -> None:
        """Hands durable changes on; wakes each stream once."""
        touched: dict[Listener, None] = {}  # in the order of their first event: the same course every time
        by_prefix = self._by_prefix
        for event in events:
            key = event.key
            for length in self._lengths:
                if length > len(key):
                    break  # the whole key again: it has been looked up
                for stream in by_prefix.get(key[:length], ()):
                    stream.take(event)
                    touched[stream] = None
        for stream in touched:
            stream.wake()

    def end(self, error: StoreError | None) -> None:
        """Ends all streams, with an error or (None) in order."""
        for stream in list(self.streams):
            stream.fail(error)


class Stream:
    """A watch: first what the history has, then what comes. For one reader."""

    def __init__(self, past: Past, hub: Hub, prefix: str, after: int, check: Callable[[], None]) -> None:
        self.prefix = prefix
        self._past, self._hub, self._check = past, hub, check
        self._reached = after
        self._events: deque[Event] = deque()
        self._live = False
        self._note = False
        self._closed = False
        self._error: StoreError | None = None
        self._waiter: asyncio.Future[None] | None = None
        hub.streams.add(self)
        if after >= past.newest:
            self._go_live()

    @property
    def progress(self) -> int:
        """All events of the prefix up to this revision were delivered."""
        if self._live and not self._events:
            return max(self._reached, self._past.newest)
        return self._reached

    def ask_progress(self) -> bool:
        """Asks for a progress note behind what is under way; one will come."""
        self._note = True
        self.wake()
        return True

    def _go_live(self) -> None:
        self._live = True
        self._hub.join(self)

    def take(self, event: Event) -> None:
        """One change that has the prefix."""
        if event.revision <= self._reached:
            return
        if len(self._events) >= BACKLOG:
            self._events.clear()
            self._live = False
            self._hub.leave(self)
            return
        self._events.append(event)

    def wake(self) -> None:
        """Lets the reader look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, error: StoreError | None) -> None:
        """Ends the stream."""
        self._error = self._error or error
        self._closed = True
        self._hub.leave(self)
        self._hub.streams.discard(self)
        self.wake()

    async def close(self) -> None:
        """Ends the stream; idempotent."""
        self.fail(None)

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        """The batches."""
        try:
            while True:
                if self._error is not None:
                    raise self._error
                if self._closed:
                    return
                if not self._live:
                    batch = self._catch_up()
                    if batch:
                        yield batch
                    else:
                        await asyncio.sleep(0)
                elif self._events:
                    batch = list(self._events)
                    self._events.clear()
                    self._reached = batch[-1].revision
                    yield batch
                elif self._note:
                    self._note = False
                    self._reached = max(self._reached, self._past.newest)
                    yield ()
                else:
                    self._waiter = asyncio.get_running_loop().create_future()
                    await self._waiter
        finally:
            self.fail(None)

    def _catch_up(self) -> list[Event]:
        """One page of the history; live when there is no more. Nothing is awaited, so nothing can come between."""
        self._check()
        if max(self._reached, 1) < self._past.compacted:
            raise Compacted(self._past.compacted)
        events, upto = self._past.history(self.prefix, self._reached, PAGE)
        self._reached = upto
        if upto >= self._past.newest:
            self._go_live()
        return events
