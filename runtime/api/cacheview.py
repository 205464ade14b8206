"""The newest state seen of each resource, for the gates: decoded objects out of the watch caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dashpot.runtime.api.cache import Cache
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.stored import Stored

Object = dict[str, Any]


class CacheView:
    """A View over all caches; a cache begins to follow the store when it is first asked for.

    `storages` finds a storage by group and plural as they are stored; KeyError for what is not served.
    """

    def __init__(self, storages: Callable[[str, str], Storage]) -> None:
        self._storages = storages

    def _cache(self, group: str, plural: str) -> Cache | None:
        try:
            cache = self._storages(group, plural).cache
        except KeyError:
            return None
        cache.start()
        return cache

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object (namespace "" for those of the cluster)."""
        cache = self._cache(group, plural)
        found = None if cache is None else cache.peek(cache.keys.key(namespace, name))
        return None if found is None else found.object

    def stored(self, group: str, plural: str, namespace: str | None = None) -> list[Stored]:
        """All objects of a resource, not decoded yet, in order of namespace and name."""
        cache = self._cache(group, plural)
        snapshot = None if cache is None else cache.snapshot()
        if cache is None or snapshot is None:
            return []
        return snapshot.all(cache.keys.under(namespace or ""))

    def list(self, group: str, plural: str, namespace: str | None = None) -> Iterable[Object]:
        """All objects of a resource, of one namespace or of all (None)."""
        return [stored.object for stored in self.stored(group, plural, namespace)]

    def version(self, group: str, plural: str) -> int:
        """The revision of the last change of the resource."""
        cache = self._cache(group, plural)
        return 0 if cache is None else cache.version

    async def synced(self, group: str, plural: str) -> None:
        """Waits until the view of a resource is not older than the call."""
        cache = self._cache(group, plural)
        if cache is not None:
            await cache.consistent()

    async def fresh(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object, not older than the call: from the cache after it has caught up, else from the store."""
        try:
            storage = self._storages(group, plural)
        except KeyError:
            return None
        key = storage.keys.key(namespace, name)
        found = storage.cache.peek(key) if await storage.cache.consistent() else await storage.newest(key)
        return None if found is None else found.object
