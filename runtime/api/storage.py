"""The objects of one stored resource: read, created, updated and deleted one by one, with optimistic concurrency."""

from __future__ import annotations

import random
from typing import Any

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError, already_exists, bad_request, conflict, not_found
from dashpot.runtime.api.asking import version_number
from dashpot.runtime.api.cache import Cache
from dashpot.runtime.api.conversion import Webhook
from dashpot.runtime.api.failing import failure
from dashpot.runtime.api.faults import Faults
from dashpot.runtime.api.keys import Keys, storable
from dashpot.runtime.api.leasing import Leases
from dashpot.runtime.api.stored import UNREADABLE, Stored, damaged, encode, stamp
from dashpot.runtime.clock import Clock, SystemClock
from dashpot.runtime.store.base import Delete, Entry, NoLease, Put, Store, StoreError, Written

Object = dict[str, Any]

_PAGE = 5_000


class Storage:
    """One stored resource. `resource` is the version in which it is stored.

    Objects given to it are encoded at once and not kept; objects it returns are shared and never changed.
    """

    def __init__(
        self,
        store: Store,
        resource: Resource,
        clock: Clock | None = None,
        *,
        cache: Cache | None = None,
        faults: Faults | None = None,
        leases: Leases | None = None,
    ) -> None:
        self.store = store
        self.resource = resource
        self.keys = Keys(resource)
        self.clock = clock or SystemClock()
        self.faults = faults
        self.webhook: Webhook | None = None
        """Converts custom resources between versions that differ; set by what serves their definition."""
        self.cache = cache if cache is not None else Cache(store, self.keys, self.clock)
        self._leases = leases or Leases(store, self.clock)
        self.chance = random.Random()
        """Spreads the ends and bookmarks of watches; a seeded one makes them repeatable."""
        self._subject = resource.subject

    async def get(
        self, namespace: str, name: str, *, version: str = "", user_agent: str = "", user: str = ""
    ) -> Stored:
        """One object; StatusError 404 if there is none.

        `version` as in a request: "" reads the newest state, "0" any that is at hand, N one that is not older than N
        (504 if the store does not reach it within three seconds). `user_agent` and `user` let rules of faults apply.
        """
        if not storable(namespace, name):
            raise not_found(self._subject, name)
        if self.cache.idle:
            await self._begin()
        key = self.keys.key(namespace, name)
        if version and (number := version_number(version)) >= 0 and await self.cache.not_older(number):
            found = self.cache.peek(key)
            if key in self.cache.damaged:
                raise damaged(key)
            if self.faults is not None:
                found = await self._stale(key, found, user_agent, user)
        else:
            found = await self.newest(key)
        if found is None:
            raise not_found(self._subject, name)
        return found

    async def _begin(self) -> None:
        """The cache follows the store from the first use on: a watch from a version read here finds what came after."""
        try:
            await self.cache.ready()
        except StatusError:
            self.cache.start()  # it tries again; what is asked of the store itself may succeed

    async def newest(self, key: str) -> Stored | None:
        """One object by its key, as the store has it now."""
        try:
            entry = await self.store.get(key)
        except StoreError as error:
            raise failure(error) from None
        return None if entry is None else self.known(entry)

    def known(self, entry: Entry) -> Stored:
        """An entry of the store as an object: the cache's own where it is the same, for that may be decoded already."""
        found = self.cache.peek(entry.key)
        return found if found is not None and found.revision == entry.modified else self.keys.stored(entry)

    async def everything(self, prefix: str) -> tuple[list[Stored], int]:
        """All objects of a prefix out of the store, and the revision of the read; StoreError."""
        found: list[Stored] = []
        start, revision = "", 0
        while True:
            part = await self.store.range(prefix, start=start, limit=_PAGE, revision=revision)
            revision = part.revision
            found += map(self.known, part.entries)
            if not part.more:
                return found, revision
            start = part.entries[-1].key + "\0"

    async def _stale(self, key: str, found: Stored | None, user_agent: str, user: str) -> Stored | None:
        assert self.faults is not None
        revision = await self.faults.read(self._subject.qualified, user_agent, user, self.cache)
        snapshot = None if revision is None else self.cache.snapshot(revision)
        return found if snapshot is None else snapshot.get(key)

    async def create(self, namespace: str, name: str, obj: Object, *, ttl_s: float = 0) -> Stored:
        """Writes a new object; StatusError 409 AlreadyExists. With `ttl_s` it is deleted after so many seconds."""
        key = self._key(namespace, name)
        value = encode(obj, self.resource.api_version, self.resource.kind)
        written = await self._put(key, value, 0, ttl_s)
        if not written.ok:
            raise already_exists(self._subject, name)
        return self._wrote(key, namespace, name, value, written.revision, written.revision)

    async def update(self, namespace: str, name: str, obj: Object, *, expect: int, ttl_s: float = 0) -> Stored:
        """Writes a new state over the one of revision `expect`; StatusError 409 Conflict if that is not the newest,
        404 if the object is gone."""
        key = self._key(namespace, name)
        value = encode(obj, self.resource.api_version, self.resource.kind)
        written = await self._put(key, value, expect, ttl_s)
        if not written.ok:
            raise not_found(self._subject, name) if written.current is None else conflict(self._subject, name)
        created = written.previous.created if written.previous is not None else expect
        return self._wrote(key, namespace, name, value, written.revision, created)

    async def delete(self, namespace: str, name: str, *, expect: int | None = None) -> Stored:
        """Removes an object if it is of revision `expect` (None: whatever it is); StatusError 404, 409.

        The last state, with the revision of the delete.
        """
        key = self._key(namespace, name)
        try:
            written = await self.store.delete(Delete(key, expect))
        except StoreError as error:
            raise failure(error) from None
        if not written.ok or written.previous is None:
            raise not_found(self._subject, name) if written.current is None else conflict(self._subject, name)
        self.cache.wrote(written.revision)
        return self.keys.stored(written.previous).deleted_at(written.revision)

    async def remove_unreadable(self, namespace: str, name: str, *, dry_run: bool = False) -> bool:
        """Removes a value that cannot be read, and nothing else is asked about it; False if it can be read.

        StatusError 404 if there is none, 409 if it was written meanwhile.
        """
        key = self._key(namespace, name)
        try:
            entry = await self.store.get(key)
            if entry is None:
                raise not_found(self._subject, name)
            try:
                self.keys.stored(entry)
                return False
            except StatusError as error:
                if error.reason != UNREADABLE:
                    raise
            if not dry_run and not (await self.store.delete(Delete(key, entry.modified))).ok:
                raise conflict(self._subject, name)
        except StoreError as error:
            raise failure(error) from None
        return True

    def _key(self, namespace: str, name: str) -> str:
        if not storable(namespace, name):
            raise bad_request(f"the name {name!r} cannot be stored")
        return self.keys.key(namespace, name)

    async def _put(self, key: str, value: bytes, expect: int, ttl_s: float) -> Written:
        if self.cache.idle:
            await self._begin()
        try:
            lease = await self._leases.lease(ttl_s) if ttl_s else 0
            try:
                return await self.store.put(Put(key, value, expect, lease))
            except NoLease:
                self._leases.forget(ttl_s)
                return await self.store.put(Put(key, value, expect, await self._leases.lease(ttl_s)))
        except StoreError as error:
            raise failure(error) from None

    def _wrote(self, key: str, namespace: str, name: str, value: bytes, revision: int, created: int) -> Stored:
        space = namespace if self.keys.namespaced else ""
        stored = Stored(key, space, name, revision, created, stamp(key, value, revision))
        self.cache.wrote(revision, stored)
        return stored
