"""The truth of a run: what the store holds, write by write, and who wrote it.

It looks on where the store commits, inside the call that writes, so that each write is known with its author.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from attrs import define, field, frozen

from dashpot.runtime.client.indexer import key_of
from dashpot.runtime.sim.deed import DEED, Deed
from dashpot.runtime.store.base import Event, Store
from dashpot.runtime.store.engine import Engine

Object = dict[str, Any]
SKIPPED = ("/events/",)
"""What says nothing about the loops."""
HEARTBEATS = ("Lease",)
"""Kinds that change all the time: known, but not among the commits."""
OBJECTS = "/registry/"
_DECODE = msgspec.json.Decoder(Object)


@frozen(eq=False)
class Commit:
    """One write as the store took it. `old` and `new`: None where there was or is nothing. `at`: seconds of the run."""

    at: float
    revision: int
    deed: Deed
    kind: str
    api_version: str
    key: str
    old: Object | None
    new: Object | None

    @property
    def object(self) -> Object:
        """The object after the write, or as it was last."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found

    @property
    def verb(self) -> str:
        """What became of the object."""
        return "create" if self.old is None else "remove" if self.new is None else "update"

    def __str__(self) -> str:
        deed = self.deed
        where = f" at {deed.span}" if deed.span.file else ""
        said = f" ({deed.verb})" if deed.verb else ""
        return f"{self.at:.6f} r{self.revision} {deed.actor}{said}: {self.verb} {self.kind} {self.key}{where}"


@define(eq=False)
class Truth:
    """All objects but events and leases, by kind and key. `told` hears of each write before it counts as done, `after`
    when it does."""

    now: Callable[[], float]
    prefix: str = ""
    objects: dict[str, dict[str, Object]] = field(factory=dict)
    commits: list[Commit] = field(factory=list)
    told: list[Callable[[Commit], None]] = field(factory=list)
    after: list[Callable[[Commit], None]] = field(factory=list)

    def of(self, kind: str) -> list[Object]:
        """The objects of a kind, in the order of their creation."""
        return list(self.objects.get(kind, {}).values())

    def get(self, kind: str, key: str) -> Object | None:
        """One object, by `namespace/name` or name."""
        return self.objects.get(kind, {}).get(key)

    async def join(self, store: Store) -> None:
        """Takes in what there is, and looks on from then on; a store of another process tells too late for that."""
        if not isinstance(store, Engine):
            raise TypeError("the truth is known of a store in this process alone")
        for entry in (await store.range("")).entries:
            self.take(Event(entry.modified, entry.key, entry.value, None, entry.created))
        store.hub.join(self)

    def take(self, event: Event) -> None:
        """One write (see Hub)."""
        if any(part in event.key for part in SKIPPED) or not event.key.startswith(OBJECTS):
            return
        raw = event.value if event.value is not None else event.previous.value if event.previous else b"{}"
        obj = _DECODE.decode(raw)
        kind = str(obj.get("kind"))
        rows = self.objects.setdefault(kind, {})
        key = key_of(obj)
        new = obj if event.value is not None else None
        obj["metadata"]["resourceVersion"] = str(event.revision)
        commit = Commit(
            self.now(), event.revision, DEED.get(), kind, str(obj.get("apiVersion")), key, rows.get(key), new
        )
        if kind not in HEARTBEATS:
            self.commits.append(commit)
        for listener in self.told:
            listener(commit)
        if new is None:
            rows.pop(key, None)
        else:
            rows[key] = new
        for listener in self.after:
            listener(commit)

    def wake(self) -> None:
        """Nothing waits here."""
        return

    def revision_at(self, moment: float) -> int:
        """The newest revision of that moment; 0 before the first."""
        found = 0
        for commit in reversed(self.commits):
            if commit.at <= moment:
                found = commit.revision
                break
        return found
