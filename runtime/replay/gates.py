"""Gates: the caches of a replay, each held, and let through change by change as the model delivers.

The model merges a change into the last one of its list where both are of the same object; the changes that it has
merged come through together here. Where its list is full, the oldest is delivered with the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from dashpot.model.kernel.caches import is_late, looks_at_versions
from dashpot.model.kernel.tables import on
from dashpot.model.program import Controller
from dashpot.runtime.controller.caches import Change, KindCache
from dashpot.runtime.controller.manager import Instance
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.views import View
from dashpot.runtime.replay.naming import Names

Object = dict[str, Any]


@define
class Group:
    """Changes that the model counts as one: of which object, and how many."""

    name: str
    count: int


@define(eq=False)
class Gate:
    """One kind in one actor's cache. `merges`: whether changes of one object are: always, never, or only those after
    which it is still there (present)."""

    actor: str
    kind: str
    cache: KindCache
    merges: str
    groups: list[Group] = field(factory=list)

    def take_in(self, names: Names, expected: int | None, noticed: bool, versions: Mapping[str, str]) -> None:
        """Sorts what has come since. `expected`: how many changes the model has under way, None: it delivers at once;
        `noticed`: whether it says that something of the kind has changed; `versions`: of the objects before."""
        if expected is None:
            self.open()
            return
        for change in [c for c in self.cache.pending if c.key][sum(g.count for g in self.groups) :]:
            name = self._name(change, names)
            last = self.groups[-1] if self.groups else None
            if not noticed and last is None:
                self._silent(change, versions)
            elif last is not None and (
                not noticed or (last.name == name and self._joins(change) and len(self.groups) >= expected)
            ):
                last.count += 1
            else:
                self.groups.append(Group(name, 1))
                if len(self.groups) > expected:
                    self.deliver()

    def queue(self, names: Names) -> None:
        """Sorts what has come since, where nobody says how many changes are under way."""
        for change in [c for c in self.cache.pending if c.key][sum(g.count for g in self.groups) :]:
            name = self._name(change, names)
            if self.groups and self._joins(change) and self.groups[-1].name == name:
                self.groups[-1].count += 1
            else:
                self.groups.append(Group(name, 1))

    def deliver(self) -> bool:
        """Lets the oldest through; whether there was one."""
        if not self.groups:
            return False
        self.cache.release(self.groups.pop(0).count)
        return True

    def open(self) -> None:
        """Lets all through."""
        self.groups.clear()
        self.cache.release(None)
        self.cache.hold()

    def drop(self) -> bool:
        """Throws the oldest away; whether there was one."""
        if not self.groups:
            return False
        for _ in range(self.groups.pop(0).count):
            self.cache.drop()
        return True

    def relist(self, objects: Mapping[str, Object], version: str) -> None:
        """Lists anew: what was under way is seen no more, what differs is a change."""
        self.groups.clear()
        self.cache.pending.clear()
        self.cache.held = False
        self.cache.replace({key: Obj(self.cache.view, json) for key, json in objects.items()}, version)
        self.cache.hold()

    def behind(self, changes: list[Change], names: Names) -> None:
        """What came since the list of an API server that lags, in its order."""
        self.groups.clear()
        self.cache.pending.clear()
        for change in changes:
            self.cache.offer(change)
        self.queue(names)

    def _silent(self, change: Change, versions: Mapping[str, str]) -> None:
        """What the model does not see matters to nobody; but it must not bring along what the cache has missed."""
        name = change.key.rpartition("/")[2]
        shown = self.cache.get(change.key.rpartition("/")[0], name)
        if shown is not None and shown.version != versions.get(name):
            self.cache.drop()
        else:
            self.cache.release(1)

    def _joins(self, change: Change) -> bool:
        return self.merges == "always" or (self.merges == "present" and change.obj is not None)

    def _name(self, change: Change, names: Names) -> str:
        return names.model(self.kind, change.key.rpartition("/")[2])


def gates_of(instance: Instance, actor: str) -> list[Gate]:
    """The gates of an actor, shut."""
    found = []
    for kind, cache in instance.caches.items():
        cache.hold()
        found.append(Gate(actor, kind, cache, _merges(instance, kind)))
    return found


def _merges(instance: Instance, kind: str) -> str:
    """Handlers have to see each change, and so do keys that are found at delivery, where versions may have keys of
    their own; else only what takes the object away stands alone for them."""
    actor = instance.actor
    wakes = actor.wakes if isinstance(actor, Controller) else ()
    constants = instance.site.views.constants
    late = [w for w in wakes if w.kind == kind and on(constants, w.only_if) and is_late(w)]
    if any(index.kind == kind for index in actor.indexes) or any(map(looks_at_versions, late)):
        return "never"
    return "present" if late else "always"


@define(eq=False)
class Log:
    """All changes of a kind since the start, in order; a listener of its feed."""

    view: View
    changes: list[Change] = field(factory=list)
    objects: dict[str, Object] = field(factory=dict)
    version: str = ""

    def listed(self, objects: dict[str, Object], version: str) -> None:
        """All that there is."""
        self.objects, self.version = dict(objects), version

    def changed(self, key: str, obj: Object | None, version: str) -> None:
        """One change."""
        if not key:
            return
        self.version = version
        if obj is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        self.changes.append(Change(key, None if obj is None else Obj(self.view, obj), version))
