"""The watch cache: one resource as the store's watch tells it, newest state and recent history, in memory.

Lists and watches are served from here. The content is only what the store's watch said, in its order; a consistent read
waits until the cache has seen all that the store had acknowledged before the read (KEP-2340).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Sequence

from dashpot.model.objects.status import StatusError, internal
from dashpot.runtime.api.cache_figures import CacheFigures
from dashpot.runtime.api.failing import failure, too_large
from dashpot.runtime.api.fanout import Fanout
from dashpot.runtime.api.history import ADDED, DELETED, MODIFIED, Change, History, Limits
from dashpot.runtime.api.keys import Keys
from dashpot.runtime.api.snapshot import Snapshot
from dashpot.runtime.api.stored import Stored, damaged
from dashpot.runtime.clock import Clock
from dashpot.runtime.store.base import Compacted, Event, Store, StoreError, Unavailable, Watch

PATIENCE_S = 3.0
"""How long a read waits for a version that the store has not reached (upstream: blockTimeout)."""
BEHIND_S = 0.2
"""How long a consistent read waits for the cache before it asks the store itself."""
_POLL_S = 0.01
_BACK_OFF_S = (0.05, 5.0)
_PAGE = 5_000
REPLAY = 1_000
"""Revisions that a cache reaches back at its start."""
_FIRST = 2
"""Revision 1 is a store without any write: nobody has a reason to watch from there in one that has some."""
_OWN = 1_024


class Cache:
    """One resource of one store. It starts at the first `ready()` and follows the store until `close()`.

    It begins with the state of `replay` revisions ago, if the store still has that, and follows the store from there:
    so watches go on after a restart, and from versions that were read before somebody watched.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        clock: Clock,
        *,
        limits: Limits | None = None,
        replay: int = REPLAY,
    ) -> None:
        self._store = store
        self.keys = keys
        self.clock = clock
        self._limits = limits
        self._replay = replay
        self._items: dict[str, Stored] = {}
        self._sorted: list[str] = []
        self._own: dict[int, Stored] = {}
        self.history = History(0, limits)
        self.fanout = Fanout(self)
        self.figures = CacheFigures()
        self.version = 0
        """The revision of the last change."""
        self.filled = False
        self.live = False
        self.restarts = 0
        self.damaged: set[str] = set()
        """Keys whose newest value cannot be read. Watches are told nothing of it and keep what was there before; lists
        and reads of such an object fail (`readable`)."""
        self.trouble = ""
        """The last error that should not have been; for health checks."""
        self._progress = 0
        self._written = 0
        self._watch: Watch | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting: asyncio.Future[None] | None = None
        self._closed = False

    # -- what it knows ------------------------------------------------------------------------------------------

    @property
    def progress(self) -> int:
        """All changes up to this revision are here."""
        if self.live and self._watch is not None and self._watch.progress > self._progress:
            self._progress = self._watch.progress
        return self._progress

    @property
    def floor(self) -> int:
        """The oldest revision whose state is known."""
        return self.history.floor

    def __len__(self) -> int:
        return len(self._items)

    def peek(self, key: str) -> Stored | None:
        """The newest state seen of one object."""
        return self._items.get(key)

    def readable(self, prefix: str) -> None:
        """StatusError 500 if a newest value under a prefix cannot be read: a list would lack it without a word."""
        if self.damaged and (found := sorted(key for key in self.damaged if key.startswith(prefix))):
            raise damaged(*found)

    def snapshot(self, revision: int | None = None) -> Snapshot | None:
        """The state at a revision (None: the newest seen); None if the cache does not know it (any more, or yet)."""
        if revision is None:
            return Snapshot(self.progress, self._items, self._sorted, {})
        if not self.filled or revision > self.progress or revision < self.history.floor:
            return None
        past = self.history.undo(revision) if revision < self.version else {}
        return Snapshot(revision, self._items, self._sorted, past)

    # -- how fresh it is ----------------------------------------------------------------------------------------

    async def ready(self) -> bool:
        """Starts the cache and waits for its first content. True while it follows the store; StatusError if the store
        fails before there is any content."""
        if self.live:
            return True
        if self._closed or self.filled:
            return False
        self.start()
        if self._starting is not None:
            await asyncio.shield(self._starting)
        return self.live

    @property
    def idle(self) -> bool:
        """Whether nobody has started it yet."""
        return self._task is None and not self._closed

    def start(self) -> None:
        """Begins to follow the store, if it does not yet."""
        if self._task is None and not self._closed:
            self._starting = asyncio.get_running_loop().create_future()
            self._task = asyncio.ensure_future(self._run())

    async def consistent(self) -> bool:
        """Waits until the cache holds all that the store acknowledged before this call; False if the store itself has
        to be asked."""
        if not await self.ready():
            return False
        try:
            revision = await self._store.revision()
        except StoreError as error:
            raise failure(error) from None
        if self.progress >= revision:
            return True
        ask = getattr(self._watch, "ask_progress", None)
        if ask is not None and not ask():
            return False  # a store whose progress notes are not to be trusted: a quorum read
        return await self.reached(revision, BEHIND_S)

    async def not_older(self, revision: int) -> bool:
        """Waits until the cache is not older than a revision (0: takes what is there); False if the store has to be
        asked; StatusError 504 if the store does not reach it within three seconds. What this server wrote itself is
        waited for in any case, for a moment."""
        if revision == 0:
            if await self.ready() and self._progress < self._written:
                await self.reached(self._written, BEHIND_S)
            return self.filled
        if not await self.ready():
            return False
        if await self.reached(revision, PATIENCE_S):
            return True
        try:
            newest = await self._store.revision()
        except StoreError as error:
            raise failure(error) from None
        if newest < revision:
            raise too_large(revision, newest)
        return False

    async def reached(self, revision: int, patience_s: float) -> bool:
        """Waits for a revision; False if it was not seen in time, or the cache lost the store."""
        if self.progress >= revision:
            return True
        loop = asyncio.get_running_loop()
        began = loop.time()
        pause = 0.0
        try:
            while loop.time() < began + patience_s and self.live:
                await asyncio.sleep(pause)
                if self.progress >= revision:
                    return True
                pause = min(pause + 0.001, _POLL_S)
            return False
        finally:
            self.figures.waits.observe(loop.time() - began)

    def wrote(self, revision: int, stored: Stored | None = None) -> None:
        """A write of this server: when the watch tells of it, `stored` is taken instead of a second copy."""
        if not self.live or revision <= self._progress:
            return
        self._written = max(self._written, revision)
        if stored is not None:
            own = self._own
            if len(own) >= _OWN:
                del own[next(iter(own))]
            own[revision] = stored

    async def close(self) -> None:
        """Ends the cache and all watches on it; idempotent."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._lost()
        self._started(StatusError("ServiceUnavailable", "the server is shutting down"))
        self.fanout.close()

    # -- how it follows the store -------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause = _BACK_OFF_S[0]
        while True:
            began = loop.time()
            try:
                if not self.filled:
                    await self._fill()
                await self._follow()
            except Compacted:
                self.filled = False
            except StoreError as error:
                self._started(failure(error))
            except Exception as error:
                # a fault of this module: what it holds is not trusted; reads go to the store until it is read anew
                self.trouble = repr(error)
                self.filled = False
                self._started(internal("the watch cache starts anew"))
            finally:
                self._lost()
            self.restarts += 1
            if loop.time() - began > _BACK_OFF_S[1]:
                pause = _BACK_OFF_S[0]
            await asyncio.sleep(pause)
            pause = min(pause * 2, _BACK_OFF_S[1])

    def _started(self, error: StatusError | None = None) -> None:
        waiting, self._starting = self._starting, None
        if waiting is not None and not waiting.done():
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)
                waiting.exception()  # nobody may be waiting any more
        if error is not None and not self.filled and not self._closed:
            self._starting = asyncio.get_running_loop().create_future()

    async def _fill(self) -> None:
        """Reads everything at one revision, as far back as watches should reach and the store remembers."""
        newest = await self._store.revision()
        begin = max(newest - self._replay, _FIRST)
        if begin >= newest or self.history.end:
            begin = 0
        try:
            items, revision = await self._read(begin)
        except Compacted as gone:
            items, revision = await self._read(gone.compacted if begin else 0)
        self._items = items
        self._sorted = sorted(items)
        self._own.clear()
        self.history = History(revision, self._limits, self.history.end)
        self.version = self._progress = revision
        self.fanout.restart(self.history.end)
        self.filled = True

    async def _read(self, revision: int) -> tuple[dict[str, Stored], int]:
        items: dict[str, Stored] = {}
        self.damaged.clear()
        start = ""
        while True:
            page = await self._store.range(self.keys.prefix, start=start, limit=_PAGE, revision=revision)
            revision = page.revision
            for entry in page.entries:
                try:
                    items[entry.key] = self.keys.stored(entry)
                except StatusError:
                    self.damaged.add(entry.key)
            if not page.more:
                return items, revision
            start = page.entries[-1].key + "\0"

    async def _follow(self) -> None:
        first = await self._store.revision()
        watch = self._watch = self._store.watch(self.keys.prefix, self._progress)
        self.live = True
        timer = asyncio.get_running_loop().call_later(BEHIND_S, self._started)
        try:
            if watch.progress >= first:
                self._started()
            async for batch in watch:
                if batch:
                    self._apply(batch)
                else:
                    self.figures.bookmarks += 1
                if watch.progress > self._progress:
                    self._progress = watch.progress
                if self._starting is not None and self._progress >= first:
                    self._started()
        finally:
            timer.cancel()
            await watch.close()
        if not self._closed:
            raise Unavailable("etcdserver: the watch ended")

    def _lost(self) -> None:
        self.live = False
        self._watch = None
        self.fanout.end_all()
        if self.filled and self._starting is not None:
            self._started()

    def _apply(self, batch: Sequence[Event]) -> None:
        """One batch of the store's watch, without waiting in between: readers see all of it or nothing."""
        now = self.clock.now()
        history, known = self.history, self.version
        for event in batch:
            if event.revision <= known:
                continue
            change = self._change(event, now)
            if change is not None:
                history.append(change)
                self.version = event.revision
        last = batch[-1].revision
        if last > self._progress:
            self._progress = last
        self.fanout.changed()
        history.trim(now)

    def _change(self, event: Event, now: float) -> Change | None:
        key, items = event.key, self._items
        if event.value is None:
            self.damaged.discard(key)
            previous = items.pop(key, None)
            if previous is None:
                return None
            at = bisect_left(self._sorted, key)
            del self._sorted[at]
            return Change(DELETED, previous.deleted_at(event.revision), previous, now)
        stored = self._own.pop(event.revision, None)
        previous = items.get(key)
        if stored is None or stored.key != key:
            try:
                stored = self._stored(event, previous)
            except StatusError:
                self.damaged.add(key)
                return None
        if self.damaged:
            self.damaged.discard(key)
        items[key] = stored
        if previous is None:
            insort(self._sorted, key)
            return Change(ADDED, stored, None, now)
        return Change(MODIFIED, stored, previous, now)

    def _stored(self, event: Event, previous: Stored | None) -> Stored:
        assert event.value is not None
        created = event.created or (previous.created if previous is not None else event.revision)
        return self.keys.written(event.key, event.value, event.revision, created)
