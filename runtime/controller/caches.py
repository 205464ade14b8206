"""Caches: what informers have told an actor of each kind, indexed as its terms ask for it.

    caches = Caches(client, views); pods = caches.of("ReplicaSetController", "Pod")
    pods.subscribe(lambda old, new: …); caches.start(); await caches.synced()

One feed follows each kind. Actors share one cache of it, unless caches are `private`: then each actor has its own,
which a driver can hold and release change by change.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from attrs import define, field, frozen

from dashpot.runtime.client.indexer import key_of
from dashpot.runtime.client.reflector import older
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.feeds import Feeds
from dashpot.runtime.controller.manifold import Manifold
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import Each, View, Views

Object = dict[str, Any]


class Source(Protocol):
    """What fills a cache: a feed of its resource, or of everything."""

    synced: asyncio.Event

    def join(self, listener: KindCache) -> None:
        """One more cache, which is told first what is known."""
        ...

    def attach(self, listener: KindCache) -> None:
        """One more cache, which knows already what it is to know, and is told what comes."""
        ...

    def leave(self, listener: KindCache) -> None:
        """A cache that is told no more."""
        ...


Told = Callable[[Obj | None, Obj | None], None]
"""A change: before and after. None: not there. The same object twice: a resync."""


@frozen(eq=False)
class Change:
    """One thing that a cache is to take in: an object (None: it is gone) under a key, or a version alone (key "")."""

    key: str
    obj: Obj | None
    version: str


@define(eq=False)
class KindCache:
    """One kind as one actor, or all, see it. `version` is the newest that was taken in; `epoch` counts how often the
    server went back in time."""

    view: View
    version: str = field(default="", init=False)
    epoch: int = field(default=0, init=False)
    has_synced: bool = field(default=False, init=False)
    held: bool = field(default=False, init=False)
    pending: deque[Change] = field(factory=deque, init=False, repr=False)
    """Changes that are held back."""
    _objects: dict[str, Obj] = field(factory=dict, init=False, repr=False)
    _indexes: dict[str, dict[Any, dict[str, Obj]]] = field(factory=dict, init=False, repr=False)
    _under: dict[str, Callable[[Obj], Any]] = field(factory=dict, init=False, repr=False)
    _told: list[Told] = field(factory=list, init=False, repr=False)
    _advanced: list[Callable[[], None]] = field(factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return len(self._objects)

    # -- reading ------------------------------------------------------------------------------------------------

    def get(self, namespace: str, name: str) -> Obj | None:
        """One object; with namespace "" of a namespaced kind the first of that name."""
        if namespace or not self.view.namespaced:
            return self._objects.get(f"{namespace}/{name}" if namespace else name)
        return next(iter(self.all("", "name", name)), None)

    def all(self, namespace: str = "", index: str | None = None, value: Any = None) -> list[Obj]:
        """The objects of a namespace ("": of all), those that an index files under `value`."""
        if index is not None:
            rows: Iterable[Obj] = self._index(index).get(_hashable(value), {}).values()
            return [obj for obj in rows if not namespace or obj.namespace == namespace]
        if namespace and self.view.namespaced:
            return list(self._index("namespace").get(namespace, {}).values())
        return list(self._objects.values())

    def _index(self, name: str) -> dict[Any, dict[str, Obj]]:
        found = self._indexes.get(name)
        if found is None:
            found = self._indexes[name] = {}
            under = _NATIVE.get(name) or self.view.index(name)
            self._under[name] = under
            for key, obj in self._objects.items():
                _file(found, under, key, obj)
        return found

    # -- being told ---------------------------------------------------------------------------------------------

    def subscribe(self, told: Told) -> Callable[[], None]:
        """Tells of every change, first of all that is there; the answer ends it."""
        self._told.append(told)
        for obj in list(self._objects.values()):
            told(None, obj)
        return lambda: self._told.remove(told) if told in self._told else None

    def on_advance(self, told: Callable[[], None]) -> Callable[[], None]:
        """Tells whenever more was taken in, be it only a newer version; the answer ends it."""
        self._advanced.append(told)
        return lambda: self._advanced.remove(told) if told in self._advanced else None

    def resync(self) -> None:
        """Tells of every object again."""
        for obj in list(self._objects.values()):
            for told in list(self._told):
                told(obj, obj)

    # -- taking in ----------------------------------------------------------------------------------------------

    def replace(self, objects: dict[str, Obj], version: str) -> None:
        """All that there is: the differences are changes. A list of an older version begins a new epoch."""
        newest = self.pending[-1].version if self.pending else self.version
        if older(version, newest):
            self.epoch += 1
        known = {key: obj.version for key, obj in self._objects.items()}
        for change in self.pending:
            if change.key:
                known[change.key] = change.obj.version if change.obj is not None else ""
        for key, obj in objects.items():
            if known.get(key, "") != obj.version:
                self.offer(Change(key, obj, ""))
        for key, there in known.items():
            if key not in objects and there:
                self.offer(Change(key, None, ""))
        self.offer(Change("", None, version))
        self.has_synced = True

    def listed(self, objects: dict[str, Object], version: str) -> None:
        """All that there is, as the feed tells it."""
        self.replace({key: Obj(self.view, json) for key, json in objects.items()}, version)

    def changed(self, key: str, obj: Object | None, version: str) -> None:
        """One change, as the feed tells it."""
        self.offer(Change(key, Obj(self.view, obj) if obj is not None else None, version))

    def offer(self, change: Change) -> None:
        """A change that came: taken in, or held back."""
        if self.held or self.pending:
            self.pending.append(change)
        else:
            self._take(change)

    def hold(self) -> None:
        """Takes nothing in from now on."""
        self.held = True

    def held_now(self, key: str) -> Obj | None:
        """What the cache has under a key, if nothing newer is held back."""
        return None if self.held or self.pending else self._objects.get(key)

    def refresh(self, key: str, obj: Obj) -> None:
        """Puts a version in the place of another one from which nobody can tell it apart; nobody is told."""
        self._objects[key] = obj
        for name, index in self._indexes.items():
            _file(index, self._under[name], key, obj)

    def release(self, count: int | None = None) -> int:
        """Takes in the oldest `count` changes that are held back and stays held; None: all, and holds no more. How many
        changes of objects that were."""
        if count is None:
            self.held = False
        taken = 0
        while self.pending and (count is None or taken < count or not self.pending[0].key):
            change = self.pending.popleft()
            taken += bool(change.key)
            self._take(change)
        return taken

    def waiting(self) -> int:
        """How many changes of objects are held back."""
        return sum(1 for change in self.pending if change.key)

    def drop(self) -> None:
        """Throws the oldest change of an object away that is held back."""
        for index, change in enumerate(self.pending):
            if change.key:
                del self.pending[index]
                return

    def _take(self, change: Change) -> None:
        key, obj = change.key, change.obj
        old = self._objects.get(key) if key else None
        if key and obj is not None:
            self._objects[key] = obj
        elif key:
            self._objects.pop(key, None)
        for name, index in self._indexes.items():
            under = self._under[name]
            if old is not None:
                _unfile(index, under, key, old)
            if key and obj is not None:
                _file(index, under, key, obj)
        self.version = change.version or self.version
        if key and (old is not None or obj is not None) and not (old and obj and old.version == obj.version):
            for told in list(self._told):
                told(old, obj)
        for advanced in list(self._advanced):
            advanced()


def _hashable(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int) else repr(value)


def _values(under: Callable[[Obj], Any], obj: Obj) -> tuple[Any, ...]:
    """What an object is filed under; nothing where that has no value, since no comparison with it is true."""
    try:
        value = under(obj)
    except Undefined:
        return ()
    return value if isinstance(value, Each) else (_hashable(value),)


def _file(index: dict[Any, dict[str, Obj]], under: Callable[[Obj], Any], key: str, obj: Obj) -> None:
    for value in _values(under, obj):
        index.setdefault(value, {})[key] = obj


def _unfile(index: dict[Any, dict[str, Obj]], under: Callable[[Obj], Any], key: str, obj: Obj) -> None:
    for value in _values(under, obj):
        rows = index.get(value)
        if rows is not None:
            rows.pop(key, None)
            if not rows:
                del index[value]


_NATIVE: dict[str, Callable[[Obj], Any]] = {"namespace": lambda obj: obj.namespace, "name": lambda obj: obj.name}


class Caches:
    """The caches of all actors. `namespace` "": all namespaces. `feeds`: shared with others, who stop them."""

    def __init__(
        self,
        client: Client,
        views: Views,
        *,
        namespace: str = "",
        private: bool = False,
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
        feeds: Feeds | None = None,
    ) -> None:
        self._views = views
        self._private = private
        self._shared = feeds is not None
        self._source = feeds or Feeds(client, namespace=namespace, chance=chance, complain=complain)
        self._feeds: dict[str, Source] = {}
        self._caches: dict[tuple[str, str], KindCache] = {}

    def of(self, actor: str, kind: str) -> KindCache:
        """An actor's cache of a kind, made when first asked for; it fills once `start` is called."""
        key = (actor if self._private else "", kind)
        found = self._caches.get(key)
        if found is None:
            view = self._views[kind]
            found = self._caches[key] = KindCache(view)
            feed = self._feeds.get(kind)
            if feed is None:
                whole = isinstance(view, Manifold)
                feed = self._feeds[kind] = self._source.everything() if whole else self._source.of(view.resource)
            feed.join(found)
        return found

    def forget(self, actor: str) -> None:
        """Drops an actor's private caches: it has crashed, and will list anew."""
        for key in [key for key in self._caches if self._private and key[0] == actor]:
            cache = self._caches.pop(key)
            self._feeds[key[1]].leave(cache)

    def seed(self, actor: str, kind: str, objects: dict[str, Object], version: str) -> KindCache:
        """An actor's private cache as an API server that lags would fill it: an older list. It is held, and told from
        then on what comes; what came since that list is the caller's to offer."""
        cache = self._caches[actor, kind] = KindCache(self._views[kind])
        cache.listed(objects, version)
        cache.hold()
        self._feeds[kind].attach(cache)
        return cache

    def hold(self, kind: str, actor: str = "") -> None:
        """Holds back what comes of a kind, for one actor or for all that have a cache of it now."""
        for cache in self._some(kind, actor):
            cache.hold()

    def release(self, kind: str, actor: str = "", count: int | None = None) -> int:
        """Lets the oldest `count` changes of a kind (None: all, and what comes) through; how many that were."""
        return sum(cache.release(count) for cache in self._some(kind, actor))

    def _some(self, kind: str, actor: str) -> list[KindCache]:
        return [c for (who, of), c in self._caches.items() if of == kind and actor in ("", who)]

    def start(self) -> None:
        """Follows each kind of which there is a cache."""
        self._source.start()

    async def synced(self, kinds: Iterable[str] | None = None) -> None:
        """Waits until each has all that there was at its start."""
        for kind in list(self._feeds if kinds is None else kinds):
            await self._feeds[kind].synced.wait()

    def resync(self) -> None:
        """Tells everybody of every object again."""
        for cache in list(self._caches.values()):
            cache.resync()

    async def stop(self) -> None:
        """Listens no more; what is not shared follows no more."""
        for (_, kind), cache in self._caches.items():
            self._feeds[kind].leave(cache)
        if not self._shared:
            await self._source.stop()


class CacheReader:
    """The Reader of an actor over its caches. `fresh` has, for one pass, what was read of `live` kinds just before."""

    def __init__(self, caches: dict[str, KindCache], fresh: dict[str, KindCache] | None = None) -> None:
        self._caches = {**caches, **(fresh or {})}

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        """One object."""
        return self._caches[kind].get(namespace, name)

    def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Sequence[Obj]:
        """The objects of a kind."""
        return self._caches[kind].all(namespace, index, value)


def snapshot(view: View, items: Iterable[Object]) -> KindCache:
    """A cache that shows what a list has just read."""
    cache = KindCache(view)
    cache.replace({key_of(item): Obj(view, item) for item in items}, "")
    return cache
