"""Delivery of changes to many watches: each line is made once for all that want the same, each watch is woken once a
batch, and a watch that has nothing to send holds a position and no queue.

A feed is what watches share that ask for the same: place, selectors and form. Changes are matched and rendered by the
feed; a stretch of the history is one buffer, used by every watch of the feed that stands at the same position.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.history import ADDED, DELETED, MODIFIED, Change, History
from dashpot.runtime.api.stored import Stored

STRETCH = 512
"""Changes looked at for one buffer."""
BUFFER = 256 * 1024
"""Bytes after which a buffer is sent."""
KEPT = 4
"""Buffers that a feed keeps for watches at the same position."""
TURN = 100
"""Watches that are woken before others get their turn."""
PACE_S = 100e-6
"""Seconds until the next wake-up, for each watch that was woken by the last: under a burst of changes many go in one
write, and delivery takes a third of the time at most (a write over TLS costs about 30 µs). One watch waits 0.1 ms."""
LONGEST_PAUSE_S = 0.1

Predicate = Callable[[Stored], bool]
Line = Callable[[bytes, Stored], bytes]
"""How a form says one event: its type and its object as one line."""


class Source(Protocol):
    """The cache behind the watches."""

    @property
    def history(self) -> History:
        """Its recent changes."""
        ...

    @property
    def live(self) -> bool:
        """Whether it follows the store."""
        ...


class Feed:
    """What watches of one place, one selection and one form are told."""

    def __init__(
        self,
        source: Source,
        prefix: str,
        predicate: Predicate | None,
        line: Line,
        trigger: tuple[Callable[[Stored], str], Hashable, str] | None,
    ) -> None:
        self._source = source
        self._prefix = prefix
        self._everything = predicate is None and not prefix
        self._predicate = predicate
        self._line = line
        self.trigger = trigger
        self.watches = 0
        self.parked: dict[Watcher, None] = {}
        self._kept: dict[tuple[int, int], tuple[bytes, int, int]] = {}

    def event(self, change: Change) -> tuple[bytes, Stored] | None:
        """What a change is to this feed: an object that begins to match is ADDED, one that ceases to is DELETED in the
        state that matched last, with the new version."""
        stored = change.stored
        if not stored.key.startswith(self._prefix):
            return None
        predicate = self._predicate
        if predicate is None:
            return change.kind, stored
        previous = change.previous
        was = previous is not None and predicate(previous)
        now = change.kind is not DELETED and predicate(stored)
        if now:
            return (MODIFIED if was else ADDED), stored
        if not was:
            return None
        if change.kind is DELETED:
            return DELETED, stored
        assert previous is not None
        return DELETED, previous.deleted_at(change.revision)

    def take(self, position: int, end: int) -> tuple[bytes, int, int]:
        """The lines from a position on, up to `end` or a buffer full: the bytes, the position behind them, how many
        events."""
        history = self._source.history
        kept = self._kept.get((position, end))
        if kept is not None:
            return kept
        lines: list[bytes] = []
        size = 0
        at = position
        event, line = self.event, self._line
        for change in history.since(position, min(end, position + STRETCH)):
            at += 1
            found = event(change)
            if found is not None:
                text = line(*found)
                lines.append(text)
                size += len(text)
                if size >= BUFFER:
                    break
        taken = (b"".join(lines), at, len(lines))
        if self.watches > 1:
            kept_all = self._kept
            if len(kept_all) >= KEPT:
                del kept_all[next(iter(kept_all))]
            kept_all[position, end] = taken
        return taken

    def touched(self, changes: Iterable[Change]) -> bool:
        """Whether one of the changes is an event here; also where that cannot be told: the watch tells its client."""
        event = self.event
        try:
            return any(event(change) is not None for change in changes)
        except StatusError:
            return True

    def rest(self) -> None:
        """Lets go of buffers that only watches at old positions would use."""
        self._kept.clear()


class Watcher:
    """One watch: where in the history it stands, and the future it sleeps on."""

    __slots__ = ("_future", "ended", "fanout", "feed", "position")

    def __init__(self, fanout: Fanout, feed: Feed, position: int) -> None:
        self.fanout = fanout
        self.feed = feed
        self.position = position
        self.ended = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Lets the watch look again."""
        future = self._future
        if future is not None and not future.done():
            future.set_result(None)

    async def sleep(self) -> None:
        """Until something came, or `wake()`. Only for a watch that was given all there is."""
        if self.ended:
            return
        future = self._future = asyncio.get_running_loop().create_future()
        self.feed.parked[self] = None
        try:
            await future
        finally:
            self._future = None
            if self in self.feed.parked:
                del self.feed.parked[self]
                # changes up to there were looked at while it slept: none was an event for it
                self.position = max(self.position, self.fanout.flushed)


def _wake(watchers: Sequence[Watcher], at: int) -> None:
    """Wakes watches, some at a time: other requests get their turn in between."""
    for watcher in watchers[at : at + TURN]:
        watcher.wake()
    if at + TURN < len(watchers):
        asyncio.get_running_loop().call_soon(_wake, watchers, at + TURN)


class Fanout:
    """All watches of one cache."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._feeds: dict[Hashable, Feed] = {}
        # dicts where the order matters: the same writes wake the same watches in the same order
        self._general: dict[Feed, None] = {}
        self._triggered: dict[Hashable, tuple[Callable[[Stored], str], dict[str, dict[Feed, None]]]] = {}
        self.flushed = 0
        self._timer: asyncio.Handle | None = None
        self._next = 0.0
        self.watchers: dict[Watcher, None] = {}
        self.closing = False
        self.delivered = 0

    def feed(
        self,
        key: Hashable,
        prefix: str,
        predicate: Predicate | None,
        line: Line,
        trigger: tuple[Callable[[Stored], str], Hashable, str] | None = None,
    ) -> Feed:
        """The feed of a key; made if no watch uses it yet. `trigger` says that only objects with one value of a field
        can match: the function that reads it, the field's name, the value."""
        found = self._feeds.get(key)
        if found is None:
            found = self._feeds[key] = Feed(self._source, prefix, predicate, line, trigger)
            if trigger is None:
                self._general[found] = None
            else:
                read, name, value = trigger
                self._triggered.setdefault(name, (read, {}))[1].setdefault(value, {})[found] = None
        return found

    def join(self, key: Hashable, feed: Feed, position: int) -> Watcher:
        """A new watch at a position."""
        watcher = Watcher(self, feed, position)
        watcher.ended = self.closing
        feed.watches += 1
        self.watchers[watcher] = None
        return watcher

    def leave(self, key: Hashable, watcher: Watcher) -> None:
        """A watch has ended; its feed goes with the last one."""
        if watcher not in self.watchers:
            return
        del self.watchers[watcher]
        feed = watcher.feed
        feed.parked.pop(watcher, None)
        feed.watches -= 1
        if feed.watches or self._feeds.get(key) is not feed:
            return
        del self._feeds[key]
        self._general.pop(feed, None)
        if feed.trigger is not None:
            _, name, value = feed.trigger
            values = self._triggered[name][1]
            values[value].pop(feed, None)
            if not values[value]:
                del values[value]
            if not values:
                del self._triggered[name]

    def changed(self) -> None:
        """The history has grown: watches are woken soon, once for all that comes until then."""
        if self._timer is not None:
            return
        if not self.watchers:
            self.flushed = self._source.history.end
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._next:
            self._timer = loop.call_soon(self._flush)
        else:
            self._timer = loop.call_at(self._next, self._flush)

    def _flush(self) -> None:
        self._timer = None
        history = self._source.history
        begin, self.flushed = max(self.flushed, history.start), history.end
        changes = history.since(begin, history.end)
        woken: list[Watcher] = []
        for feed in self._touched(changes):
            parked = feed.parked
            if not parked or not feed.touched(changes):
                continue
            feed.parked = {}
            woken += parked
            for watcher in parked:
                if watcher.position < begin:
                    watcher.position = begin  # what lies between was no event of the feed
        self._next = asyncio.get_running_loop().time() + min(LONGEST_PAUSE_S, PACE_S * len(woken))
        _wake(woken, 0)

    def _touched(self, changes: Sequence[Change]) -> Iterable[Feed]:
        if not self._triggered:
            return list(self._general)
        found = dict(self._general)
        try:
            for read, values in self._triggered.values():
                for change in changes:
                    found |= values.get(read(change.stored), {})
                    if change.previous is not None:
                        found |= values.get(read(change.previous), {})
        except StatusError:  # an object that cannot be read: each watch tells its client
            return list(self._feeds.values())
        return found

    def restart(self, position: int) -> None:
        """The history begins anew: who stood in the old one has missed something."""
        self.end_all()
        self.flushed = position
        for feed in self._feeds.values():
            feed.rest()

    def end_all(self) -> None:
        """All watches end after what they were given; their clients come again."""
        for watcher in self.watchers:
            watcher.ended = True
            watcher.wake()

    def finish(self) -> None:
        """Ends all watches, those that are still to come included: the server stops."""
        self.closing = True
        self.end_all()

    def close(self) -> None:
        """Ends all watches and forgets the timer."""
        self.finish()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
