"""Everything that a server serves, followed as metadata: the feeds behind the cache of a kind `"*"`.

    everything = feeds.everything(); everything.join(cache); feeds.start(); await everything.synced.wait()

Definitions come and go: what is served is looked up again when a CustomResourceDefinition or an APIService changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.discovery import Discovery
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.controller.caches import Change, KindCache
from dashpot.runtime.controller.manifold import Manifold, One, every
from dashpot.runtime.controller.obj import Obj

if TYPE_CHECKING:
    from dashpot.runtime.controller.feeds import Feed, Feeds

Object = dict[str, Any]
DEFINING = frozenset({("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")})
"""Resources whose changes may change what is served."""
PAUSE_S = 0.5
"""From such a change to the look that it leads to; a second look follows, since a definition is served a moment after
it is established."""
AGAIN_S = 2.0
UNSERVED = "the server could not find the requested resource"
"""How a server says that it has no such path."""
SYNC_S = 30.0
"""How long the start waits for resources that do not answer (upstream: garbagecollector's initialSyncTimeout)."""
SEEN = ("finalizers", "ownerReferences", "deletionTimestamp", "labels", "annotations", "generation")
"""The metadata that a spec sees and that can change."""


class Part:
    """One resource in one cache: passes on what its feed tells."""

    def __init__(self, cache: KindCache, one: One) -> None:
        self._cache = cache
        self._one = one
        self._versions: dict[str, str] = {}
        """key → resourceVersion of what was passed on."""

    def _key(self, key: str) -> str:
        namespace, _, name = key.rpartition("/")
        told = self._one.key_name(name)
        return f"{namespace}/{told}" if namespace else told

    def listed(self, objects: dict[str, Object], version: str) -> None:
        """All that there is of the resource."""
        there = set()
        for key, json in objects.items():
            named = self._key(key)
            there.add(named)
            self._told(named, json)
        for key in [key for key in self._versions if key not in there]:
            self._gone(key)

    def changed(self, key: str, obj: Object | None, version: str) -> None:
        """One change."""
        if not key:
            return
        if obj is None:
            self._gone(self._key(key))
        else:
            self._told(self._key(key), obj)

    def leave(self) -> None:
        """The resource is served no more: its objects are gone."""
        for key in list(self._versions):
            self._gone(key)

    def _gone(self, key: str) -> None:
        if self._versions.pop(key, None) is not None:
            self._cache.offer(Change(key, None, ""))

    def _told(self, key: str, json: Object) -> None:
        obj = self._one.seen(json)
        version = obj.version
        if self._versions.get(key) == version:
            return
        self._versions[key] = version
        old = self._cache.held_now(key)
        if old is not None and same(old, obj):
            self._cache.refresh(key, obj)
        else:
            self._cache.offer(Change(key, obj, ""))


def same(old: Obj, new: Obj) -> bool:
    """Whether a spec sees no difference between two versions of an object's metadata."""
    before, after = old.meta, new.meta
    return before.get("uid") == after.get("uid") and all(before.get(name) == after.get(name) for name in SEEN)


class _Watching:
    """Listens to a resource that defines others."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def listed(self, objects: dict[str, Object], version: str) -> None:
        """All that there is."""
        self._told()

    def changed(self, key: str, obj: Object | None, version: str) -> None:
        """One change."""
        if key:
            self._told()


class Everything:
    """The feeds of all resources that `"*"` stands for, and the caches that show them."""

    def __init__(self, feeds: Feeds, discovery: Discovery, complain: Callable[[str], None]) -> None:
        self.synced = asyncio.Event()
        self._source = feeds
        self._discovery = discovery
        self._complain = complain
        self._feeds: dict[tuple[str, str], Feed] = {}
        self._caches: dict[KindCache, dict[tuple[str, str], Part]] = {}
        self._again = asyncio.Event()
        self._watching = _Watching(self._again.set)
        self._task: asyncio.Task[None] | None = None

    def join(self, listener: KindCache) -> None:
        """One more cache of a kind `"*"`."""
        self._caches[listener] = {}
        for key, feed in self._feeds.items():
            self._show(listener, key, feed)
        listener.has_synced = self.synced.is_set()

    def attach(self, listener: KindCache) -> None:
        """As `join`: what a cache of all kinds knows already is told by the differences."""
        self.join(listener)

    def leave(self, listener: KindCache) -> None:
        """A cache that is told no more."""
        for key, part in self._caches.pop(listener, {}).items():
            self._feeds[key].leave(part)

    def start(self) -> None:
        """Follows all; idempotent."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="everything")

    async def stop(self) -> None:
        """Looks no more; the feeds end with their source. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def troubled(self, problem: str) -> None:
        """What a feed complains of. That a resource is served no more is no fault, but a reason to look again."""
        if problem.endswith(UNSERVED):
            self._again.set()
        else:
            self._complain(problem)

    # -- looking ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not await self._look(fresh=False):
            await asyncio.sleep(AGAIN_S)
        waits = [feed.synced.wait() for feed in self._feeds.values()]
        try:
            async with asyncio.timeout(SYNC_S):
                await asyncio.gather(*waits)
        except TimeoutError:
            silent = ", ".join(sorted(key[1] for key, feed in self._feeds.items() if not feed.synced.is_set()))
            self._complain(f"everything: no answer yet about {silent}")
        for cache in self._caches:
            cache.has_synced = True
        self.synced.set()
        self._again.clear()
        while True:
            await self._again.wait()
            for pause in (PAUSE_S, AGAIN_S):
                self._again.clear()
                await asyncio.sleep(pause)
                await self._look(fresh=True)

    async def _look(self, *, fresh: bool) -> bool:
        """Follows what is served by now; whether that could be found out."""
        try:
            served = every(await self._discovery.resources(fresh=fresh))
        except (StatusError, TransportError) as error:
            self._complain(f"everything: {error}")
            return False
        failed = {version.rpartition("/")[0] for version in self._discovery.failed}
        self._follow(served, failed)
        return True

    def _follow(self, served: Iterable[Resource], failed: set[str]) -> None:
        """Takes up new resources, and drops those that are served no more; what a group that does not answer had is
        kept, since nobody knows."""
        wanted = {(r.group, r.plural): r for r in served}
        for key, feed in list(self._feeds.items()):
            new = wanted.get(key)
            gone = new is None and key[0] not in failed
            if gone or (new is not None and new.api_version != feed.resource.api_version):
                self._drop(key, feed)
        for key, resource in wanted.items():
            if key not in self._feeds:
                feed = self._feeds[key] = self._source.of(resource, metadata=True)
                if key in DEFINING:
                    feed.join(self._watching)
                for cache in self._caches:
                    self._show(cache, key, feed)
        self._source.start()

    def _drop(self, key: tuple[str, str], feed: Feed) -> None:
        del self._feeds[key]
        for parts in self._caches.values():
            part = parts.pop(key, None)
            if part is not None:
                feed.leave(part)
                part.leave()
        self._source.drop(feed)

    def _show(self, cache: KindCache, key: tuple[str, str], feed: Feed) -> None:
        view = cache.view
        assert isinstance(view, Manifold)
        part = self._caches[cache][key] = Part(cache, view.at(feed.resource))
        feed.join(part)
