"""What every backend of the store promises; the conformance suite holds each of them to it.

The model is etcd's: one counter of revisions for the whole store; each write makes one revision; a key has the revision
that made it, the one that changed it last and its number of changes. Reads may ask for the state at a past revision,
until it is compacted away. Sources: etcd 3.4 API guarantees; KEP-2340; the shape of rows follows kine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from attrs import field, frozen


@frozen
class Entry:
    """One key at one revision. `value` is what was written, bytes for bytes."""

    key: str
    value: bytes
    created: int
    modified: int
    lease: int = 0


@frozen
class Event:
    """One write, in order of revision. A delete has its own revision in `revision` and the last value in `previous`."""

    revision: int
    key: str
    value: bytes | None
    previous: Entry | None
    created: int = 0
    lease: int = 0

    @property
    def deleted(self) -> bool:
        """Whether the key is gone after this."""
        return self.value is None


@frozen
class Range:
    """Entries of a prefix in order of key, all as of `revision` (of the read, or the store's current one).

    `more` says that the limit cut the list; `remaining` how many entries follow (exact).
    """

    entries: Sequence[Entry]
    revision: int
    more: bool = False
    remaining: int = 0


@frozen
class Put:
    """Writes a value if the key's `modified` is `expect` (0: if it does not exist; None: whatever it is)."""

    key: str
    value: bytes
    expect: int | None = None
    lease: int = 0


@frozen
class Delete:
    """Removes a key if its `modified` is `expect` (None: if it exists)."""

    key: str
    expect: int | None = None


@frozen
class Written:
    """What a write did: `ok`, at `revision`; or not, and `current` is the entry that stood in its way (None: no key).

    `previous` is the entry before a write that was done.
    """

    ok: bool
    revision: int
    current: Entry | None = None
    previous: Entry | None = None


@frozen
class StoreStatus:
    """How the store is: sizes in bytes, revisions, and whether the quota alarm is raised."""

    backend: str
    revision: int
    compacted: int
    size: int
    size_in_use: int
    quota: int
    keys: int
    leases: int
    alarm: bool
    warnings: tuple[str, ...] = field(default=())


class StoreError(Exception):
    """Something that the store refuses or cannot do; the text is for a person."""


class Compacted(StoreError):
    """A read or watch of a revision that was compacted away. `compacted` is the oldest that can still be asked for."""

    def __init__(self, compacted: int) -> None:
        super().__init__(f"required revision has been compacted (oldest is {compacted})")
        self.compacted = compacted


class FutureRevision(StoreError):
    """A read of a revision that does not exist yet."""


class NoSpace(StoreError):
    """The quota alarm is raised: only reads, deletes, keep-alives, compaction and defragmentation are served."""

    def __init__(self) -> None:
        super().__init__("etcdserver: mvcc: database space exceeded")


class TooLarge(StoreError):
    """A key and value that are more than a store takes (1.5 MiB)."""

    def __init__(self) -> None:
        super().__init__("etcdserver: request is too large")


class Unavailable(StoreError):
    """The store cannot be reached or has no leader; whether the write was done is unknown if `maybe`.

    The text is for whoever runs the server; `client`, where there is one, is what its clients are told.
    """

    def __init__(self, message: str, *, maybe: bool = False, client: str = "") -> None:
        super().__init__(message)
        self.maybe = maybe
        self.client = client


class Corrupt(StoreError):
    """What is on the disk is not what was written there."""


class NoLease(StoreError):
    """The lease does not exist or has expired."""


class Watch(Protocol):
    """A stream of batches, in order of revision; a batch never cuts a revision in two.

    It ends with Compacted, Unavailable or after `close()`. An empty batch is a progress note: all events up to
    `progress` were delivered.
    """

    @property
    def progress(self) -> int:
        """All events of the prefix up to this revision were delivered."""
        ...

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        """The batches."""
        ...

    def ask_progress(self) -> bool:
        """Asks for a progress note soon; False where the store's notes are not to be trusted, and none will come."""
        ...

    async def close(self) -> None:
        """Ends the stream; idempotent."""
        ...


class Store(Protocol):
    """A store of keys and values with revisions. All methods may raise StoreError."""

    async def revision(self) -> int:
        """The newest revision, linearizable: not older than any write acknowledged before the call."""
        ...

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """One key, newest or as of a revision."""
        ...

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """The keys that begin with a prefix, in order of bytes, from `start` on (inclusive), at most `limit`."""
        ...

    async def count(self, prefix: str) -> int:
        """How many keys begin with a prefix."""
        ...

    async def put(self, put: Put) -> Written:
        """Writes one key; returns when it is durable."""
        ...

    async def delete(self, delete: Delete) -> Written:
        """Removes one key; returns when that is durable."""
        ...

    def watch(self, prefix: str, after: int) -> Watch:
        """All events of the prefix with a revision above `after`; `after` may lie in the future."""
        ...

    async def grant(self, ttl_s: float) -> int:
        """A new lease; its keys are deleted when it was not kept alive for `ttl_s` seconds."""
        ...

    async def keep_alive(self, lease: int) -> float:
        """Starts the lease's time anew; its seconds."""
        ...

    async def revoke(self, lease: int) -> None:
        """Ends a lease now: its keys are deleted."""
        ...

    async def compact(self, revision: int) -> None:
        """Forgets what is older than `revision`; reads and watches below it fail from now on."""
        ...

    async def defragment(self) -> None:
        """Gives free space back to the disk."""
        ...

    async def disarm(self) -> None:
        """Takes the quota alarm back; it is raised again at once if there still is no space."""
        ...

    async def status(self) -> StoreStatus:
        """Sizes and state."""
        ...

    async def close(self) -> None:
        """Ends watches and writes what is left; idempotent."""
        ...
