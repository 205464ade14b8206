"""List and watch, for ever: tells a store all that a server knows of a resource, and what becomes of it.

Source: client-go tools/cache/reflector.go, release 1.34; KEP-3157 (streaming lists).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field, frozen

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.backoff import Backoff
from dashpot.runtime.client.failures import expired, too_large_version
from dashpot.runtime.client.indexer import key_of
from dashpot.runtime.client.rest import PAGE, Client
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.client.watch import Watch, WatchEvent

Object = dict[str, Any]

WATCH_S = 300.0
"""A watch is asked for this long, up to twice as long by chance."""
SHORT_S = 1.0
"""A watch that ends sooner without an event has failed."""
SLACK_S = 30.0
"""How much longer than asked for a watch may last before its connection counts as lost."""
RECORDED = 1000
"""Regressions that are kept."""


@frozen
class Regression:
    """The server went back in time: it told `new` after `old`. `key` is empty where a whole list is older."""

    key: str
    old: str
    new: str


class Sink(Protocol):
    """Who is told."""

    def replace(self, objects: dict[str, Object], version: str) -> None:
        """All that there is."""
        ...

    def event(self, event: WatchEvent, key: str) -> None:
        """One change, in order."""
        ...


@define(eq=False)
class Reflector:
    """One resource, or a selected part of it. `streaming` asks for streaming lists; a server that has none is listed.

    It stops for nothing but cancellation: failures are told to `complain`, and tried again after a back-off.
    """

    client: Client
    resource: Resource | str
    sink: Sink
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    streaming: bool = True
    page: int = PAGE
    chance: random.Random = field(factory=lambda: random.Random(0), repr=False)
    complain: Callable[[str], None] = field(default=lambda text: None, repr=False)
    version: str = field(default="", init=False)
    """The newest version that was seen."""
    lists: int = field(default=0, init=False)
    """How often everything was read."""
    watches: int = field(default=0, init=False)
    regressions: list[Regression] = field(factory=list, init=False, repr=False)
    """Where the server went back in time; the newest."""
    _unavailable: bool = field(default=False, init=False)
    """The server cannot list at `version`: only the newest state helps."""
    _doubtful: bool = field(default=False, init=False)
    """The connection was lost: the server behind it may be another."""
    _backoff: Backoff = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._backoff = Backoff(self.chance)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._round()
            except (StatusError, TransportError, LookupError, TypeError, ValueError) as error:
                # the last three: no such resource, or objects that are none
                self.complain(f"{self._named()}: {error}")
            await self._backoff.wait()

    async def _round(self) -> None:
        """Reads everything once, then watches until that must be done again."""
        watch = None
        if self.streaming:
            try:
                watch = await self._streamed()
            except StatusError as error:
                if error.code not in (400, 403, 405, 415, 422):
                    raise
                # the server has no streaming lists, or not for this user
                self.streaming = False
        if watch is None:
            await self._listed()
        await self._follow(watch)

    # -- reading everything -------------------------------------------------------------------------------------

    def _wanted(self, first: str) -> str:
        """The version that a list must not be older than; `first` for the first one."""
        return "" if self._unavailable else self.version or first

    async def _listed(self) -> None:
        found = None
        for _ in range(2):
            version = self._wanted("0")
            try:
                # at "0" the server answers from its cache, and all at once (upstream does not page those either)
                found = await self.client.list(
                    self.resource,
                    self.namespace,
                    labels=self.labels,
                    fields=self.fields,
                    page=0 if version == "0" else self.page,
                    version=version,
                )
                break
            except StatusError as error:
                if self._unavailable or not (expired(error) or too_large_version(error)):
                    raise
                self._unavailable = True
        assert found is not None
        self._replace({key_of(obj): obj for obj in found.items}, found.version)

    async def _streamed(self) -> Watch | None:
        """A streaming list: the watch that goes on behind it; None where it ended too early."""
        while True:
            watch, limit = self._watch(self._wanted(""), initial=True)
            synced = False
            try:
                async with asyncio.timeout(limit):
                    synced = await self._initial(watch)
                return watch if synced else None
            except TimeoutError:
                return None
            except StatusError as error:
                if self._unavailable or not (expired(error) or too_large_version(error)):
                    raise
                self._unavailable = True
            finally:
                if not synced:
                    await watch.close()

    async def _initial(self, watch: Watch) -> bool:
        """Reads up to the bookmark that ends the initial events."""
        objects: dict[str, Object] = {}
        await watch.open()
        async for event in watch:
            if event.ends_initial:
                self._replace(objects, event.version)
                return True
            if event.change == "BOOKMARK":
                continue
            key = key_of(event.object)
            if event.change == "DELETED":
                objects.pop(key, None)
            else:
                objects[key] = event.object
        return False

    def _replace(self, objects: dict[str, Object], version: str) -> None:
        self.lists += 1
        self._unavailable = False
        if older(version, self.version):
            self._regressed("", self.version, version)
        self.version = version
        self.sink.replace(objects, version)

    # -- following ----------------------------------------------------------------------------------------------

    def _watch(self, version: str, *, initial: bool = False) -> tuple[Watch, float]:
        """A watch from a version on, and how many seconds it shall last."""
        seconds = WATCH_S * (1.0 + self.chance.random())
        watch = self.client.watch(
            self.resource,
            self.namespace,
            labels=self.labels,
            fields=self.fields,
            version=version,
            initial=initial,
            seconds=seconds,
        )
        return watch, seconds + SLACK_S

    async def _follow(self, watch: Watch | None) -> None:
        """Watches from `version` on, one watch after another, until only a list helps."""
        limit = 2 * WATCH_S + SLACK_S
        loop = asyncio.get_running_loop()
        while True:
            if watch is None:
                watch, limit = self._watch(self.version)
            begun, version = loop.time(), self.version
            self.watches += 1
            try:
                if self._doubtful and await self._restored():
                    return
                async with asyncio.timeout(limit):
                    await watch.open()
                    async for event in watch:
                        self._event(event)
            except TimeoutError:
                self.complain(f"{self._named()}: a watch did not end")
            except TransportError as error:
                self._doubtful = True
                self.complain(f"{self._named()}: {error}")
                await self._backoff.wait()
            except StatusError as error:
                if expired(error):
                    return
                if error.code != 429 and error.code < 500:
                    raise
                await self._backoff.wait()
            else:
                if loop.time() - begun < SHORT_S and self.version == version:
                    self.complain(f"{self._named()}: a watch ended at once")
                    await self._backoff.wait()
            finally:
                await watch.close()
            watch = None

    async def _restored(self) -> bool:
        """Whether the server, after a loss of the connection, is behind what it told before: restored from a backup. A
        watch from a version that is still to come would say nothing for as long as that takes. Asked is the store, not
        a cache; versions that are no numbers tell nothing."""
        found = await self.client.page(self.resource, self.namespace, labels=self.labels, fields=self.fields, limit=1)
        self._doubtful = False
        self._unavailable = older(found.version, self.version)
        return self._unavailable

    def _event(self, event: WatchEvent) -> None:
        version = event.version
        key = "" if event.change == "BOOKMARK" else key_of(event.object)
        if older(version, self.version):
            self._regressed(key, self.version, version)
        self.version = version or self.version
        if key:
            self.sink.event(event, key)

    def _regressed(self, key: str, old: str, new: str) -> None:
        del self.regressions[: len(self.regressions) - RECORDED + 1]
        self.regressions.append(Regression(key, old, new))
        self.complain(f"{self._named()}: the server went back in time from version {old} to {new}")

    def _named(self) -> str:
        resource = self.resource if isinstance(self.resource, str) else self.resource.qualified
        return f"{resource} in {self.namespace}" if self.namespace else resource


def older(version: str, than: str) -> bool:
    """Whether a version is before another, as far as they can be compared (KEP-5504: they are decimal numbers)."""
    if not (version.isascii() and version.isdigit() and than.isascii() and than.isdigit()):
        return False
    return int(version) < int(than)
