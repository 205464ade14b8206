"""What becomes of events before they are written: many similar ones become one, equal ones are counted, floods stop.

Source: client-go tools/record/events_cache.go, release 1.34.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from dashpot.runtime.client.tokenbucket import TokenBucket

Object = dict[str, Any]
V = TypeVar("V")

REMEMBERED = 4096
"""Keys of each kind that are remembered; the least recently used are forgotten."""
SIMILAR_MOST, SIMILAR_S = 10, 600.0
"""From so many different messages within so many seconds on, similar events are told as one."""
BURST, QPS = 25, 1 / 300
"""Events of one source about one object: so many at once, then one in five minutes."""
COMBINED = "(combined from similar events): "


class Recent(Generic[V]):
    """A dictionary that forgets what was used least recently."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._rows: OrderedDict[Any, V] = OrderedDict()

    def get(self, key: Any) -> V | None:
        """The value of a key."""
        if key in self._rows:
            self._rows.move_to_end(key)
        return self._rows.get(key)

    def put(self, key: Any, value: V) -> None:
        """Sets it."""
        self._rows[key] = value
        self._rows.move_to_end(key)
        if len(self._rows) > self._most:
            self._rows.popitem(last=False)


def _about(event: Object) -> tuple[str, ...]:
    """Which source says something about which object."""
    source, involved = event.get("source") or {}, event.get("involvedObject") or {}
    return (
        *(str(source.get(name) or "") for name in ("component", "host")),
        *(str(involved.get(name) or "") for name in ("kind", "namespace", "name", "uid", "apiVersion")),
    )


def similar_key(event: Object) -> tuple[str, ...]:
    """What similar events have in common: all but the message."""
    names = ("type", "reason", "reportingComponent", "reportingInstance")
    return (*_about(event), *(str(event.get(name) or "") for name in names))


def equal_key(event: Object) -> tuple[str, ...]:
    """What equal events have in common."""
    involved = event.get("involvedObject") or {}
    return (
        *_about(event),
        str(involved.get("fieldPath") or ""),
        *(str(event.get(name) or "") for name in ("type", "reason", "message")),
    )


@define
class _Similar:
    messages: dict[str, None]
    last: float


@define
class _Logged:
    count: int
    first: str
    name: str
    version: str


@frozen
class Correlated:
    """An event as it is to be written; as a patch of the one that is there if `patch`."""

    event: Object
    key: tuple[str, ...] = field(repr=False)
    patch: Object | None = None


class Correlator:
    """What one recorder has written lately. `now` is in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._similar: Recent[_Similar] = Recent()
        self._logged: Recent[_Logged] = Recent()
        self._buckets: Recent[TokenBucket] = Recent()

    def correlate(self, event: Object) -> Correlated | None:
        """How an event is written; None where it is one of a flood."""
        event, key = self._combined(event)
        known = self._logged.get(key)
        patch = None
        if known is not None:
            event = {**event, "count": known.count + 1, "firstTimestamp": known.first}
            event["metadata"] = {**event["metadata"], "name": known.name, "resourceVersion": known.version}
            patch = {name: event[name] for name in ("count", "lastTimestamp", "message")}
        self._logged.put(
            key,
            _Logged(
                event["count"],
                event["firstTimestamp"],
                event["metadata"]["name"],
                event["metadata"].get("resourceVersion") or "",
            ),
        )
        if not self._passes(event):
            return None
        return Correlated(event, key, patch)

    def written(self, key: tuple[str, ...], event: Object) -> None:
        """The server's form of an event: later ones are patches of it."""
        meta = event.get("metadata") or {}
        self._logged.put(
            key,
            _Logged(
                int(event.get("count") or 1),
                str(event.get("firstTimestamp") or ""),
                str(meta.get("name") or ""),
                str(meta.get("resourceVersion") or ""),
            ),
        )

    def _combined(self, event: Object) -> tuple[Object, tuple[str, ...]]:
        now = self._now()
        key = similar_key(event)
        known = self._similar.get(key)
        if known is None or now - known.last > SIMILAR_S:
            known = _Similar({}, now)
        known.messages[event["message"]] = None
        known.last = now
        self._similar.put(key, known)
        if len(known.messages) < SIMILAR_MOST:
            return event, equal_key(event)
        known.messages.pop(next(iter(known.messages)))
        return {**event, "message": COMBINED + event["message"]}, key

    def _passes(self, event: Object) -> bool:
        key = _about(event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = TokenBucket(QPS, BURST, self._now)
            self._buckets.put(key, bucket)
        return bucket.take()
