"""An informer: a copy of a resource that follows the server, and handlers that are told each change of it.

    pods = Informer(client, "pods")
    pods.add_handler(Handler(added=…, updated=…, deleted=…))
    task = pods.start(); await pods.synced(); pods.lister.get("web", "default")

Handlers are called one after another, in the order of the changes; they must not block. Source: client-go
tools/cache (shared informers), release 1.34.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from dashpot.model.objects.resource import Resource
from dashpot.runtime.client.indexer import Indexer, IndexFunction, Lister
from dashpot.runtime.client.reflector import Reflector, Regression
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.watch import WatchEvent

Object = dict[str, Any]


@frozen
class Tombstone:
    """An object that is gone, though nobody told when: the last state known (upstream: DeletedFinalStateUnknown)."""

    key: str
    object: Object


def _ignored(*_: Any) -> None:
    return


@define(eq=False)
class Handler:
    """Who is told. `deleted` gets a Tombstone where the deletion itself was missed. Objects are shared: copy first."""

    added: Callable[[Object], None] = _ignored
    updated: Callable[[Object, Object], None] = _ignored
    """Before and after; the same object twice at a resync."""
    deleted: Callable[[Object | Tombstone], None] = _ignored
    resync_s: float = 0.0
    """How often it is told of every object again; 0: never."""
    synced: bool = field(default=False, init=False)
    """Whether it has been told all that there was at the start."""
    _due: float = field(default=0.0, init=False)


class Informer:
    """One resource, or a selected part of it. `transform` may shrink an object before it is kept."""

    def __init__(
        self,
        client: Client,
        resource: Resource | str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        indexers: Mapping[str, IndexFunction] | None = None,
        transform: Callable[[Object], Object] | None = None,
        streaming: bool = True,
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.indexer = Indexer(indexers)
        self.lister = Lister(self.indexer)
        self.reflector = Reflector(
            client,
            resource,
            self,
            namespace,
            labels,
            fields,
            streaming,
            chance=chance or random.Random(0),
            complain=complain,
        )
        self._transform = transform
        self._complain = complain
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._more = asyncio.Event()

    # -- what its users call ------------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """Whether all that there was at the start is known, and every handler was told."""
        return self._synced.is_set()

    @property
    def version(self) -> str:
        """The newest version that was seen."""
        return self.reflector.version

    @property
    def regressions(self) -> list[Regression]:
        """Where the server went back in time."""
        return self.reflector.regressions

    async def synced(self) -> None:
        """Waits until `has_synced`."""
        await self._synced.wait()

    def add_handler(self, handler: Handler) -> Handler:
        """Tells it from now on; first of all that is known already."""
        self._handlers.append(handler)
        if handler.resync_s > 0:
            handler._due = asyncio.get_running_loop().time() + handler.resync_s
            self._more.set()
        for obj in self.indexer:
            self._tell(handler.added, obj)
        handler.synced = self.has_synced
        return handler

    def remove_handler(self, handler: Handler) -> None:
        """Tells it no more; idempotent."""
        if handler in self._handlers:
            self._handlers.remove(handler)

    def start(self) -> asyncio.Task[None]:
        """Begins to follow the server, once; the task runs until `stop`."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self.run(), name="informer")
        return self._task

    async def stop(self) -> None:
        """Follows no more; what is known stays. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def run(self) -> None:
        """Follows the server until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reflector.run())
            group.create_task(self._resync())

    # -- what the reflector tells -------------------------------------------------------------------------------

    def replace(self, objects: dict[str, Object], version: str) -> None:
        """All that there is: handlers are told the differences."""
        for key, obj in objects.items():
            self._put(key, obj)
        for key in self.indexer.keys():
            if key not in objects:
                old = self.indexer.remove(key)
                assert old is not None
                for handler in list(self._handlers):
                    self._tell(handler.deleted, Tombstone(key, old))
        for handler in self._handlers:
            handler.synced = True
        self._synced.set()

    def event(self, event: WatchEvent, key: str) -> None:
        """One change."""
        if event.change != "DELETED":
            self._put(key, event.object)
            return
        old = self.indexer.remove(key)
        if old is not None:
            for handler in list(self._handlers):
                self._tell(handler.deleted, self._shrunk(event.object))

    def _put(self, key: str, obj: Object) -> None:
        obj = self._shrunk(obj)
        old = self.indexer.put(key, obj)
        if old is not None and _version(old) == _version(obj):
            return
        for handler in list(self._handlers):
            if old is None:
                self._tell(handler.added, obj)
            else:
                self._tell(handler.updated, old, obj)

    def _shrunk(self, obj: Object) -> Object:
        return obj if self._transform is None else self._transform(obj)

    def _tell(self, function: Callable[..., None], *objects: Any) -> None:
        try:
            function(*objects)
        except Exception as error:
            # one handler's mistake must not keep the others from the change, nor the copy from following
            self._complain(f"a handler failed: {type(error).__name__}: {error}")

    async def _resync(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = min((handler._due for handler in self._handlers if handler.resync_s > 0), default=None)
            self._more.clear()
            try:
                async with asyncio.timeout_at(due):
                    await self._more.wait()
            except TimeoutError:
                now = loop.time()
                for handler in list(self._handlers):
                    if 0 < handler._due <= now:
                        handler._due = now + handler.resync_s
                        if handler.synced:
                            for obj in self.indexer:
                                self._tell(handler.updated, obj, obj)


def _version(obj: Object) -> Any:
    return obj["metadata"].get("resourceVersion")


class Informers:
    """Informers that several users share: one for each resource and selection."""

    def __init__(
        self,
        client: Client,
        *,
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client = client
        self._chance = chance or random.Random(0)
        self._complain = complain
        self._made: dict[tuple[str, str, str, str], Informer] = {}

    async def informer(
        self, resource: Resource | str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Informer:
        """The informer of a resource, made when first asked for; NoMatch. It does not run before `start`."""
        found = await self._client.resource(resource)
        key = (f"{found.api_version}/{found.plural}", namespace, labels, fields)
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = Informer(
                self._client,
                found,
                namespace,
                labels=labels,
                fields=fields,
                chance=random.Random(self._chance.random()),
                complain=self._complain,
            )
        return known

    def start(self) -> None:
        """Starts those that do not run yet."""
        for informer in self._made.values():
            informer.start()

    async def synced(self) -> None:
        """Waits until each has all that there was at its start."""
        for informer in list(self._made.values()):
            await informer.synced()

    async def stop(self) -> None:
        """Stops all."""
        for informer in self._made.values():
            await informer.stop()
