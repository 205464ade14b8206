"""What the stores of this process share: who wins a write, what a read sees, who is told. Where rows lie is theirs.

A write is decided at once, against the newest state including what is not durable yet, and gets its revision; it is
answered, seen by reads and told to watches when it is durable. So hundreds of writes become durable together.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from attrs import define, field

from dashpot.runtime.store.base import (
    Compacted,
    Delete,
    Entry,
    Event,
    FutureRevision,
    NoLease,
    NoSpace,
    Put,
    Range,
    StoreError,
    StoreStatus,
    TooLarge,
    Unavailable,
    Written,
)
from dashpot.runtime.store.hub import Hub, Stream
from dashpot.runtime.store.keys import after_prefix
from dashpot.runtime.store.leases import LONGEST_S, Lease, Leases
from dashpot.runtime.store.versions import Versions

QUOTA = 2 << 30
"""Bytes that a store may take by default; as etcd's."""

WARN = 0.8
"""Share of the quota from which the status warns."""

ROW = 100
"""Bytes that a row takes besides its key and value, about."""

PIECE = 500
"""Rows that are read, or keys that are trimmed, before other work has its turn."""

SCAN = 20_000
"""Revisions that a watch of the past looks through before other work has its turn."""

KEY_LIMIT = 4096
"""Characters of the longest key."""

LIMIT = 1_572_864 - 1024
"""Bytes of the largest key and value together; etcd's --max-request-bytes, less what wraps them."""

LEASE_RANGE = f"a lease lives for more than 0 and at most {LONGEST_S:.0f} seconds, not {{}}"

FUTURE = "etcdserver: mvcc: required revision is a future revision"


class Head(NamedTuple):
    """The newest version of a key that exists."""

    modified: int
    created: int
    lease: int


@define(eq=False, slots=True)
class Change:
    """One write on its way. `entry` is what is there afterwards (None: deleted), `previous` what was there before.

    `before` is the revision of the key's version before this one, of its delete too (0: none).
    """

    revision: int
    key: str
    entry: Entry | None
    previous: Entry | None
    before: int
    done: asyncio.Future[None] | None = None
    waiters: list[asyncio.Future[None]] = field(factory=list)


class Engine(ABC):
    """A store in this process. Everything but `_store` and `_persist` runs without a pause on the event loop."""

    backend = ""

    def __init__(self, quota: int) -> None:
        self.quota = quota
        self.versions = Versions()
        self.heads: dict[str, Head] = {}
        self.issued = self.versions.newest
        self.hub = Hub()
        self.leases = Leases(self._expire)
        self.alarm = False
        self._pending: dict[str, Change] = {}
        self._broken: StoreError | None = None
        self._closed = False
        self._compacting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ what a backend does
    @abstractmethod
    async def _store(self, change: Change) -> None:
        """Makes a change durable and calls `_commit`; takes it into its queue before the first pause."""

    @abstractmethod
    def _fetch(self, rows: list[int]) -> list[Entry]:
        """The entries of some revisions, in their order."""

    @abstractmethod
    async def _persist_lease(self, lease: int, ttl: float) -> None:
        """Keeps a lease (ttl 0: forgets it)."""

    @abstractmethod
    async def _persist_meta(self, name: str, value: int) -> None:
        """Keeps a number by name: `compacted`, `alarm`."""

    @abstractmethod
    async def _purge(self, rows: list[int]) -> None:
        """Deletes rows for good."""

    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """Bytes that are taken, and those of them in use."""

    # ------------------------------------------------------------------ state
    @property
    def newest(self) -> int:
        """The last revision that is durable."""
        return self.versions.newest

    @property
    def compacted(self) -> int:
        """The oldest revision that can be asked for."""
        return self.versions.compacted

    @property
    def failure(self) -> StoreError | None:
        """Why nothing is served any more until the store is opened again; None while all is well."""
        return self._broken

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        if self._closed:
            raise Unavailable("the store is closed")

    def _break(self, error: StoreError) -> None:
        """Nothing is served any more: what the disk holds is unknown."""
        self._broken = self._broken or error
        self.leases.stop()
        self.hub.end(self._broken)

    # ------------------------------------------------------------------ reads
    async def revision(self) -> int:
        """The newest revision."""
        self._check()
        return self.newest

    def _at(self, revision: int) -> int:
        self._check()
        if revision == 0:
            return self.newest
        if revision > self.newest:
            raise FutureRevision(FUTURE)
        if revision < self.compacted:
            raise Compacted(self.compacted)
        return revision

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """One key, newest or as of a revision."""
        row = self.versions.at(key, self._at(revision))
        return self._fetch([row])[0] if row else None

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """The keys of a prefix, from `start` on, at most `limit`."""
        while True:
            at = self._at(revision)
            rows, remaining = self.versions.select(max(start, prefix), after_prefix(prefix), at, limit)
            entries: list[Entry] = []
            for first in range(0, len(rows), PIECE):
                if first:
                    await asyncio.sleep(0)
                    self._check()
                    if at < self.compacted:
                        break
                entries += self._fetch(rows[first : first + PIECE])
            else:
                return Range(entries, at, remaining > 0, remaining)
            # Compacted under our hands: a read of the newest state begins anew, one of the past is refused by `_at`.

    async def count(self, prefix: str) -> int:
        """How many keys begin with a prefix."""
        self._check()
        return self.versions.count(prefix, after_prefix(prefix))

    def watch(self, prefix: str, after: int) -> Stream:
        """All events of the prefix above `after`."""
        stream = Stream(self, self.hub, prefix, after, self._check)
        if self._broken is not None:
            stream.fail(self._broken)
        return stream

    def history(self, prefix: str, after: int, limit: int) -> tuple[list[Event], int]:
        """Events of a prefix above `after`, at most `limit`, and the revision up to which these are all."""
        versions = self.versions
        wanted, upto = versions.changes(prefix, after, limit, SCAN)
        news = {r: 0 if versions.deleted(key, r) else r for r, key in wanted}
        olds = {r: versions.before(key, r) for r, key in wanted}
        rows = sorted({row for row in (*news.values(), *olds.values()) if row})
        found = dict(zip(rows, self._fetch(rows), strict=True))
        return [event(r, key, found.get(news[r]), found.get(olds[r])) for r, key in wanted], upto

    # ------------------------------------------------------------------ writes
    async def put(self, put: Put) -> Written:
        """Writes one key."""
        self._check()
        key = put.key
        check_size(key, put.value)
        self._make_room(len(key) + len(put.value) + ROW)
        head = self.heads.get(key)
        if put.expect is not None and put.expect != (head.modified if head else 0):
            return await self._refuse(key, head)
        if put.lease and put.lease not in self.leases:
            raise NoLease("etcdserver: requested lease not found")
        previous = self._previous(key, head)
        revision = self.issued + 1
        created = head.created if head else revision
        entry = Entry(key, put.value, created, revision, put.lease)
        self.heads[key] = Head(revision, created, put.lease)
        return await self._write(Change(revision, key, entry, previous, self._before(key)))

    async def delete(self, delete: Delete) -> Written:
        """Removes one key."""
        self._check()
        key = delete.key
        head = self.heads.get(key)
        if head is None or (delete.expect is not None and delete.expect != head.modified):
            return await self._refuse(key, head)
        previous = self._previous(key, head)
        del self.heads[key]
        return await self._write(Change(self.issued + 1, key, None, previous, self._before(key)))

    def _previous(self, key: str, head: Head | None) -> Entry | None:
        """What a write will replace."""
        if head is None:
            return None
        pending = self._pending.get(key)
        return pending.entry if pending else self._fetch([head.modified])[0]

    def _before(self, key: str) -> int:
        pending = self._pending.get(key)
        return pending.revision if pending else self.versions.last(key)

    async def _write(self, change: Change) -> Written:
        key, entry, previous = change.key, change.entry, change.previous
        old, new = previous.lease if previous else 0, entry.lease if entry else 0
        if old != new:
            self.leases.move(key, old, new)
        self.issued = change.revision
        self._pending[key] = change
        await self._store(change)
        return Written(True, change.revision, None, previous)

    async def _refuse(self, key: str, head: Head | None) -> Written:
        """What stood in the way; told only when it is durable, for else it might never have been."""
        change = self._pending.get(key)
        if change is not None:
            # Not `done`: that goes with the caller who writes, should he be cancelled.
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            change.waiters.append(waiter)
            await waiter
            return Written(False, self.newest, change.entry)
        current = self._fetch([head.modified])[0] if head else None
        return Written(False, self.newest, current)

    def _commit(self, changes: list[Change]) -> None:
        """These are durable: reads see them, watches are told, in order."""
        events = []
        pending, apply = self._pending, self.versions.apply
        for change in changes:
            key, entry = change.key, change.entry
            apply(key, change.revision, entry is None)
            if pending.get(key) is change:
                del pending[key]
            events.append(event(change.revision, key, entry, change.previous))
        self.hub.publish(events)

    # ------------------------------------------------------------------ leases
    async def grant(self, ttl_s: float) -> int:
        """A new lease."""
        self._check()
        if not 0 < ttl_s <= LONGEST_S:
            raise StoreError(LEASE_RANGE.format(ttl_s))
        self._make_room(ROW)
        number = self.leases.fresh()
        await self._persist_lease(number, ttl_s)
        self.leases.add(number, ttl_s)
        return number

    def _lease(self, number: int) -> Lease:
        self._check()
        lease = self.leases.find(number)
        if lease is None:
            raise NoLease("etcdserver: requested lease not found")
        return lease

    async def keep_alive(self, lease: int) -> float:
        """Starts the lease's time anew."""
        found = self._lease(lease)
        self.leases.renew(found)
        return found.ttl

    async def revoke(self, lease: int) -> None:
        """Ends a lease now."""
        await self._end_lease(self._lease(lease))

    async def _end_lease(self, lease: Lease) -> None:
        """Nobody can use it any more from here on; it is forgotten for good after its keys."""
        self.leases.remove(lease.id)
        await asyncio.gather(*[self.delete(Delete(key)) for key in sorted(lease.keys)])
        await self._persist_lease(lease.id, 0)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something beside the requests. A store that breaks meanwhile tells those who ask it; what was not done
        is found undone, and done, when it is opened again."""

        async def guarded() -> None:
            with suppress(StoreError):
                await work

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _expire(self, lease: Lease) -> None:
        self.leases.remove(lease.id)
        self._run(self._end_lease(lease))

    # ------------------------------------------------------------------ space
    def _make_room(self, cost: int) -> None:
        """Refuses what needs space while there is none; the alarm stays until it is taken back."""
        if not self.alarm and self._sizes()[0] + cost > self.quota:
            self.alarm = True
            self._run(self._persist_meta("alarm", 1))
        if self.alarm:
            raise NoSpace

    async def compact(self, revision: int) -> None:
        """Forgets what is older than `revision`; nothing where that is forgotten already."""
        async with self._compacting:
            if self._at(0) < revision:
                raise FutureRevision(FUTURE)
            if revision <= self.compacted:
                return
            await self._persist_meta("compacted", revision)
            await self._sweep(self.versions.compact(revision))

    async def _sweep(self, keys: list[str]) -> None:
        """Trims and purges in small pieces, so that writers get their turn between them."""
        rows: list[int] = []
        for number, key in enumerate(keys, 1):
            rows += self.versions.trim(key)
            if number % PIECE == 0:
                await asyncio.sleep(0)
            while len(rows) >= PIECE:
                self._check()
                await self._purge(rows[:PIECE])
                del rows[:PIECE]
        if rows:
            await self._purge(rows)

    async def disarm(self) -> None:
        """Takes the quota alarm back."""
        self._check()
        await self._persist_meta("alarm", 0)
        self.alarm = False

    async def status(self) -> StoreStatus:
        """Sizes and state."""
        self._check()
        size, used = self._sizes()
        warnings = space_warnings(size, self.quota, self.alarm)
        return StoreStatus(
            backend=self.backend,
            revision=self.newest,
            compacted=self.compacted,
            size=size,
            size_in_use=used,
            quota=self.quota,
            keys=len(self.versions.live),
            leases=len(self.leases),
            alarm=self.alarm,
            warnings=warnings,
        )

    async def close(self) -> None:
        """Ends watches."""
        self._closed = True
        self.leases.stop()
        self.hub.end(None)
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


def check_size(key: str, value: bytes) -> None:
    """Refuses what etcd would refuse, and keys that are no text."""
    if not key:
        raise StoreError("etcdserver: key is not provided")
    if len(key) > KEY_LIMIT or len(key) + len(value) > LIMIT:
        raise TooLarge
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            raise StoreError(f"{key!r} is no key: it is no text in UTF-8") from None


def event(revision: int, key: str, entry: Entry | None, previous: Entry | None) -> Event:
    """A change as watches are told of it; a delete carries what was there."""
    if entry is not None:
        return Event(revision, key, entry.value, previous, entry.created, entry.lease)
    if previous is None:
        return Event(revision, key, None, None)
    return Event(revision, key, None, previous, previous.created, previous.lease)


def space_warnings(size: int, quota: int, alarm: bool) -> tuple[str, ...]:
    """What a person should know about the space."""
    if alarm:
        return ("the quota alarm is raised: writes are refused until compact, defragment and disarm",)
    if quota and size >= WARN * quota:
        return (f"{size * 100 // quota} % of the quota are used: compact and defragment, or raise the quota",)
    return ()
