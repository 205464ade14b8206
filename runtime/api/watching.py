"""Watches: the events of a resource after a version, in order, none missing, none twice; one JSON a line.

Sources: KEP-956 (bookmarks), KEP-3157 (streaming lists); k8s.io/apiserver pkg/storage/cacher, release 1.34.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from attrs import define

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import forms
from dashpot.runtime.api.accept import JSON, ONE, PARTIAL, TABLE, Form, negotiate
from dashpot.runtime.api.asking import Asked, check_watch, read, version_invalid
from dashpot.runtime.api.bookmarks import EVERY_S, bookmark
from dashpot.runtime.api.cache import Cache
from dashpot.runtime.api.conversion import Conversion
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.failing import failure, too_old
from dashpot.runtime.api.fanout import BUFFER, STRETCH, Feed, Watcher
from dashpot.runtime.api.faults_tap import Tap
from dashpot.runtime.api.flow_turns import turn
from dashpot.runtime.api.history import ADDED
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.store.base import StoreError

Object = dict[str, Any]

LEAST_S, MOST_S = 1800, 3600
"""A watch without timeoutSeconds ends at a random time between (upstream: --min-request-timeout)."""
LONGEST_S = 24 * 3600
_EVENT, _OBJECT, _END = b'{"type":"', b'","object":', b"}\n"
_BOOKMARK = b'{"type":"BOOKMARK"'
_SLACK_S = 0.001
"""A timer may fire a little before its time."""
_ENCODER = msgspec.json.Encoder()


async def watch_response(exchange: Exchange, resource: Resource, storage: Storage) -> Response:
    """The answer to a watch; StatusError 400, 406, 422 for what cannot be watched. Versions that are too old are told
    in the stream."""
    request = exchange.request
    form = negotiate(request.headers.get("accept", ""), ONE)
    if form.media != JSON:
        form = Form(JSON, form.shape, form.version)
    include = forms.include_object(request) if form.shape == TABLE else ""
    asked = read(exchange, resource)
    check_watch(asked)
    try:
        number = asked.number
    except StatusError as error:
        raise version_invalid(resource, error) from None
    if not await storage.cache.ready():
        raise StatusError("TooManyRequests", "storage is (re)initializing", retry_after=1)
    stream = Stream(exchange, resource, storage, asked, number, form, include)
    return Response(200, content_type=JSON, chunks=stream.chunks())


def event_line(kind: bytes, obj: bytes) -> bytes:
    """One event."""
    return b"".join((_EVENT, kind, _OBJECT, obj, _END))


def _plain(kind: bytes, stored: Stored) -> bytes:
    return b"".join((_EVENT, kind, _OBJECT, stored.raw, _END))


@define
class _Begin:
    """The position of the first event, the objects that come before it, whether a bookmark says where those end, and a
    version up to which events are known already."""

    position: int
    found: Sequence[Stored]
    mark_end: bool
    after: int


class Stream:
    """One watch on its way from the cache to a client."""

    __slots__ = (
        "_arrived", "_asked", "_cache", "_chance", "_conversion", "_form", "_include", "_key", "_now", "_number",
        "_prefix", "_resource", "_settle", "_storage", "_tap",
    )  # fmt: skip

    def __init__(
        self,
        exchange: Exchange,
        resource: Resource,
        storage: Storage,
        asked: Asked,
        number: int,
        form: Form,
        include: str,
    ) -> None:
        self._resource = resource
        self._storage = storage
        self._cache: Cache = storage.cache
        self._asked = asked
        self._number = number
        self._form = form
        self._include = include
        self._prefix = storage.keys.under(exchange.info.namespace)
        self._conversion = Conversion(resource, storage.webhook)
        selection = asked.selection
        self._key: Hashable = (resource, self._prefix, selection.labels, selection.fields, form, include)
        self._chance: Callable[[float, float], float] = storage.chance.uniform
        self._now: Callable[[], float] = storage.clock.now
        self._settle = exchange.settle
        self._arrived = exchange.arrived
        self._tap: Tap | None = None
        if storage.faults is not None:
            agent = exchange.request.headers.get("user-agent", "")
            self._tap = storage.faults.tap(storage.resource.qualified, agent, exchange.user.name)

    # -- what an event looks like -------------------------------------------------------------------------------

    def _line(self) -> Callable[[bytes, Stored], bytes]:
        """How the form says an event; JSON of the stored version is the stored bytes."""
        resource, form, include, now = self._resource, self._form, self._include, self._now
        one, same = self._conversion.one, self._conversion.same
        if form.plain:

            def plain(kind: bytes, stored: Stored) -> bytes:
                return _plain(kind, stored if same(stored) else one(stored))

            return plain

        if form.shape == PARTIAL:
            return lambda kind, stored: event_line(kind, forms.partial_raw(one(stored), form))

        def shaped(kind: bytes, stored: Stored) -> bytes:
            shown = forms.shaped(form, resource, one(stored).glance, now(), include, columns=False)
            return event_line(kind, _ENCODER.encode(shown))

        return shaped

    def _with_columns(self, lines: bytes) -> bytes:
        """The first event of a stream of Tables says what the columns are."""
        first, _, rest = lines.partition(b"\n")
        told = b'"columnDefinitions":' + _ENCODER.encode(forms.printer(self._resource).definitions)
        return b"".join((first.replace(b'"columnDefinitions":null', told, 1), b"\n", rest))

    def _bookmark(self, least: int, *, initial: bool = False) -> bytes:
        revision = max(self._cache.progress, least)
        obj = bookmark(self._form, self._resource, revision, initial=initial)
        return event_line(b"BOOKMARK", _ENCODER.encode(obj))

    # -- the stream ---------------------------------------------------------------------------------------------

    def chunks(self) -> AsyncIterator[bytes]:
        """The lines, as many at once as are there."""
        return self._lines() if self._tap is None else self._tap.through(self._lines())

    async def _lines(self) -> AsyncGenerator[bytes]:
        try:
            begin = await self._begin()
        except StatusError as error:
            yield event_line(b"ERROR", _ENCODER.encode(error.status()))
            return
        selection = self._asked.selection
        fanout = self._cache.fanout
        feed = fanout.feed(self._key, self._prefix, selection.predicate, self._line(), selection.trigger)
        watcher = fanout.join(self._key, feed, begin.position)
        columns = self._form.shape == TABLE
        try:
            if begin.found:
                async for lines in self._initial(begin.found):
                    yield self._with_columns(lines) if columns else lines
                    columns = False
                begin.found = ()
            if self._settle is not None:
                self._settle()
            async with aclosing(self._following(watcher, feed, begin)) as events:
                async for lines in events:
                    if columns and not lines.startswith(_BOOKMARK):
                        lines = self._with_columns(lines)
                        columns = False
                    yield lines
        except StatusError as error:
            yield event_line(b"ERROR", _ENCODER.encode(error.status()))
        finally:
            fanout.leave(self._key, watcher)

    async def _begin(self) -> _Begin:
        """Where the stream begins; StatusError 410 for a version that is forgotten, 504 for one that does not come."""
        asked, cache, number = self._asked, self._cache, self._number
        streaming = asked.initial is True
        if not asked.version and asked.initial is not False:
            known = await cache.consistent()
        else:
            known = number > 0 and not streaming
            known = known or await cache.not_older(number)
        history = cache.history
        if streaming or (number == 0 and asked.initial is None):
            snapshot = cache.snapshot() if known else None
            if snapshot is None:
                return await self._from_store(streaming and asked.bookmarks)
            cache.readable(self._prefix)
            found = snapshot.all(self._prefix, asked.selection.predicate)
            return _Begin(history.end, found, streaming and asked.bookmarks, 0)
        if number == 0:
            return _Begin(history.end, (), False, 0)
        if number < history.floor:
            raise too_old(number, history.floor)
        return _Begin(history.after(number), (), False, number if number > cache.progress else 0)

    async def _from_store(self, mark_end: bool) -> _Begin:
        """The state out of the store, for a cache that cannot tell whether it has seen everything; then the events
        above its revision, whenever the cache sees them."""
        try:
            found, revision = await self._storage.everything(self._prefix)
        except StoreError as error:
            raise failure(error) from None
        predicate = self._asked.selection.predicate
        if predicate is not None:
            found = [stored for stored in found if predicate(stored)]
        history = self._cache.history
        if revision < history.floor:
            raise too_old(revision, history.floor)
        return _Begin(history.after(revision), found, mark_end, revision)

    async def _following(self, watcher: Watcher, feed: Feed, begin: _Begin) -> AsyncGenerator[bytes]:
        """Events and bookmarks from the watch's position on. The first bookmark of a streaming list comes as soon as
        all that is known was sent, and says that the initial events are over."""
        asked, cache = self._asked, self._cache
        loop = asyncio.get_running_loop()
        after, mark_end = begin.after, begin.mark_end
        end = loop.time() + (min(asked.timeout_s, LONGEST_S) or self._chance(LEAST_S, MOST_S))
        mark = loop.time() + EVERY_S * self._chance(0.9, 1.1) if asked.bookmarks else end
        timer = loop.call_at(min(mark, end), watcher.wake)
        try:
            while not watcher.ended:
                history = cache.history
                if after:
                    watcher.position = max(watcher.position, history.after(after))
                position = watcher.position
                if position < history.end:
                    if position < history.start:
                        cache.figures.slow += 1
                        return  # too slow: what it has not read is forgotten; its client lists again
                    stop = min(history.end, position + STRETCH)
                    if self._conversion.asks:
                        await self._prepare(position, stop)
                        if cache.history is not history or position < history.start:
                            return
                    else:
                        stop = history.end
                    lines, watcher.position, count = feed.take(position, stop)
                    if count:
                        cache.fanout.delivered += count
                        cache.figures.sent(count, len(lines))
                        yield lines
                        if loop.time() >= end:
                            return
                    continue
                if mark_end:
                    mark_end = False
                    cache.figures.streams.observe(self._now() - self._arrived)
                    yield self._bookmark(after, initial=True)
                    continue
                now = loop.time() + _SLACK_S
                if now >= end:
                    break
                if now >= mark:
                    mark = now + EVERY_S
                    timer.cancel()
                    timer = loop.call_at(min(mark, end), watcher.wake)
                    if cache.progress >= after:
                        yield self._bookmark(after)
                    continue
                await watcher.sleep()
            if asked.bookmarks and cache.live and cache.progress >= after and watcher.position >= cache.history.end:
                yield self._bookmark(after)
        finally:
            timer.cancel()

    async def _initial(self, found: Sequence[Stored]) -> AsyncGenerator[bytes]:
        line = self._line()
        for at in range(0, len(found), STRETCH):
            if at:
                await turn()
            part = found[at : at + STRETCH]
            self._cache.figures.initial += len(part)
            await self._conversion.prepare(part)
            lines: list[bytes] = []
            size = 0
            for stored in part:
                lines.append(line(ADDED, stored))
                size += len(lines[-1])
                if size >= BUFFER:
                    yield b"".join(lines)
                    lines, size = [], 0
            if lines:
                yield b"".join(lines)

    async def _prepare(self, position: int, stop: int) -> None:
        changes = self._cache.history.since(position, stop)
        found = [change.stored for change in changes] + [c.previous for c in changes if c.previous is not None]
        await self._conversion.prepare(found)
