"""Feeds: what the server tells of each resource, once, however many caches show it.

feeds = Feeds(client); feed = feeds.of(pods); feed.join(cache); feeds.start(); await feed.synced.wait()
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from dashpot.model.objects.resource import Resource
from dashpot.runtime.client.metadata import metadata_client
from dashpot.runtime.client.reflector import Reflector
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.watch import WatchEvent

if TYPE_CHECKING:
    from dashpot.runtime.controller.everything import Everything

Object = dict[str, Any]
Key = tuple[str, str, bool]
"""API version, plural, and whether it is of metadata alone."""


class Listener(Protocol):
    """A cache that is told."""

    def listed(self, objects: dict[str, Object], version: str) -> None:
        """All that there is, by key."""
        ...

    def changed(self, key: str, obj: Object | None, version: str) -> None:
        """One object (None: it is gone), or with the key "" a newer version alone."""
        ...


class Feed:
    """What a reflector tells of a resource, to all who listen."""

    def __init__(self, resource: Resource, *, metadata: bool = False) -> None:
        self.resource = resource
        self.metadata = metadata
        """Whether it tells of metadata alone."""
        self.listeners: list[Listener] = []
        self.objects: dict[str, Object] = {}
        self.version = ""
        self.synced = asyncio.Event()

    def replace(self, objects: dict[str, Object], version: str) -> None:
        """All that there is."""
        self.objects, self.version = dict(objects), version
        for listener in list(self.listeners):
            listener.listed(self.objects, version)
        self.synced.set()

    def event(self, event: WatchEvent, key: str) -> None:
        """One change."""
        obj: Object | None = None if event.change == "DELETED" else event.object
        if obj is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        self.told(key, obj, event.version)

    def told(self, key: str, obj: Object | None, version: str) -> None:
        """Passes a change, or a newer version, on."""
        self.version = version or self.version
        for listener in list(self.listeners):
            listener.changed(key, obj, version)

    def join(self, listener: Listener) -> None:
        """One more listener, which is told first what is known."""
        self.attach(listener)
        if self.synced.is_set():
            listener.listed(self.objects, self.version)

    def attach(self, listener: Listener) -> None:
        """One more listener, which is told what comes from now on."""
        self.listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """A listener that is told no more; idempotent."""
        if listener in self.listeners:
            self.listeners.remove(listener)


class _Reflector(Reflector):
    """A reflector whose bookmarks are told too: they say how far a quiet resource is known."""

    def _event(self, event: WatchEvent) -> None:
        super()._event(event)
        if event.change == "BOOKMARK" and isinstance(self.sink, Feed):
            self.sink.told("", None, event.version)


class Feeds:
    """One feed for each resource that somebody asks for. `namespace` "": all namespaces."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str = "",
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._chance = chance or random.Random(0)
        self._complain = complain
        self._metadata = metadata_client(client)
        self._feeds: dict[Key, Feed] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._everything: Everything | None = None

    def of(self, resource: Resource, *, metadata: bool = False) -> Feed:
        """The feed of a resource, made when first asked for; it fills once `start` is called. `metadata`: its metadata
        will do, so a feed of all of it that is there already is taken, else one of metadata is made."""
        key = (resource.api_version, resource.plural, False)
        if metadata and key not in self._feeds:
            key = (*key[:2], True)
        found = self._feeds.get(key)
        if found is None:
            found = self._feeds[key] = Feed(resource, metadata=key[2])
        return found

    def everything(self) -> Everything:
        """What tells of all resources at once; it begins once `start` is called."""
        if self._everything is None:
            from dashpot.runtime.controller.everything import Everything

            self._everything = Everything(self, self._client.discovery, self._complain)
        return self._everything

    def drop(self, feed: Feed) -> None:
        """Follows a resource no more that is served no more, if nobody listens."""
        if not feed.listeners:
            key = (feed.resource.api_version, feed.resource.plural, feed.metadata)
            self._feeds.pop(key, None)
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()

    def start(self) -> None:
        """Follows each resource that is not followed yet."""
        if self._everything is not None:
            self._everything.start()
        for key, feed in self._feeds.items():
            if key not in self._tasks:
                reflector = _Reflector(
                    self._metadata if feed.metadata else self._client,
                    feed.resource,
                    feed,
                    self._namespace if feed.resource.namespaced else "",
                    chance=random.Random(self._chance.random()),
                    complain=self._everything.troubled
                    if feed.metadata and self._everything is not None
                    else self._complain,
                )
                self._tasks[key] = asyncio.get_running_loop().create_task(reflector.run(), name=f"feed {key[1]}")

    async def stop(self) -> None:
        """Follows no more; idempotent."""
        if self._everything is not None:
            await self._everything.stop()
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
