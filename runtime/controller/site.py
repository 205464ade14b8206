"""Where actors stand: what all actors of one manager share, and how one of them is put together."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from typing import Any

from attrs import define

from dashpot.model.program import Program
from dashpot.runtime.client.rest import Client
from dashpot.runtime.clock import Clock
from dashpot.runtime.controller.assign import memory_of
from dashpot.runtime.controller.caches import CacheReader, Caches, KindCache, snapshot
from dashpot.runtime.controller.calls import Answer, Caller
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.indices import Indices
from dashpot.runtime.controller.metrics import Metrics
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.ownwrites import OwnWrites
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.controller.terms import Externs, Terms
from dashpot.runtime.controller.uses import Actor, caches_of
from dashpot.runtime.controller.views import Views
from dashpot.runtime.controller.vocabulary import terms_of


def _plain(actor: str, key: str, caller: Caller) -> Caller:
    return caller


@define(eq=False)
class Site:
    """What the actors of a manager share. `callers` makes the caller of an actor; `wrap` may put another around it, for
    each pass (actor, key, caller); `choose` settles what specs leave open: n → 0 … n - 1."""

    program: Program
    client: Client
    views: Views
    externs: Externs
    caches: Caches
    clock: Clock
    chance: random.Random
    callers: Callable[[str], Caller]
    metrics: Metrics
    wrap: Callable[[str, str, Caller], Caller] = _plain
    choose: Callable[[int], int] | None = None
    complain: Callable[[str], None] = lambda text: None
    dry_run: bool = False
    """Writes are not made, so that no cache will ever show them."""

    def chooser(self) -> Callable[[int], int]:
        """What settles choices."""
        return self.choose or self.chance.randrange

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self.clock.now() * 1000)


class Standing:
    """One instance of an actor: its caches, memory and frames. `me` is its place, where it has one."""

    def __init__(self, actor: Actor, site: Site, me: Any = None, modes: dict[str, str] | None = None) -> None:
        self.actor = actor
        self.site = site
        self.me = me
        self.name = actor.name if actor.place is None else f"{actor.name}@{me}"
        self.terms: Terms = terms_of(site.views, site.externs)
        self.kinds = sorted(caches_of(actor, site.program))
        self.caches: dict[str, KindCache] = {kind: site.caches.of(self.name, kind) for kind in self.kinds}
        bare = Frame(site.views.constants, CacheReader({}), site.now_ms)
        self.modes = dict(modes or {})
        for mode in actor.caches:
            if mode.only_if is None or self.terms.term(mode.only_if)(bare):
                self.modes[mode.kind] = mode.mode
        self.reader = CacheReader(self.caches)
        fields = (*actor.memory, *(index.field for index in actor.indexes))
        self._fields = fields
        self.memory: dict[str, Any] = memory_of(fields, site.views.constants)
        self.indices = Indices(actor.indexes, site.views, site.externs)
        self.own = OwnWrites(self.caches)
        self.caller: Caller = site.callers(self.name)

    def frame(self, namespace: str, fresh: dict[str, KindCache] | None = None) -> Frame:
        """The frame of a pass, key expression or guard in a namespace."""
        reader = CacheReader(self.caches, fresh) if fresh else self.reader
        site = self.site
        made = Frame(site.views.constants, reader, site.now_ms, namespace, self.memory, self.me, site.chooser())
        if self.actor.place is not None:
            made.locals[self.actor.place.var] = self.me
        return made

    async def fresh(self, namespace: str) -> dict[str, KindCache]:
        """What the server has now of the kinds whose cache is `live`; StatusError, TransportError."""
        found = {}
        for kind in [kind for kind, mode in self.modes.items() if mode == "live"]:
            view = self.site.views[kind]
            listing = await self.site.client.list(view.resource, namespace if view.namespaced else "")
            found[kind] = snapshot(view, listing.items)
        return found

    def told(self, kind: str, old: Obj | None, new: Obj | None) -> None:
        """Runs the index handlers of a change."""
        for problem in self.indices.told(kind, old, new, self.frame):
            self.site.complain(f"{self.name}: index: {problem}")

    def pass_caller(self, key: Hashable, modes: tuple[str, ...] = ("read_own_writes",)) -> Bookkeeper:
        """The caller of a pass."""
        caller = self.site.wrap(self.name, str(key), self.caller)
        kept = None if self.site.dry_run else self.own
        return Bookkeeper(caller, kept, key, {kind for kind, mode in self.modes.items() if mode in modes})


class Bookkeeper:
    """A caller that notes what it wrote of the kinds whose cache must show it before the next pass for the key."""

    def __init__(self, caller: Caller, own: OwnWrites | None, key: Hashable, kinds: set[str]) -> None:
        self._caller = caller
        self._own = own
        self._key = key
        self._kinds = kinds
        self.writes = 0

    async def perform(self, request: ApiRequest) -> Answer:
        """Makes the call; ApiError."""
        answer = await self._caller.perform(request)
        if request.writes:
            self.writes += 1
            if self._own is not None and request.kind in self._kinds:
                self._own.wrote(self._key, request, answer)
        return answer

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        """Records an event."""
        self._caller.note(about, kind, reason, message)
