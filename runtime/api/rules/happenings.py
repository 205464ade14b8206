"""Rules of Events: the older API is loose, events.k8s.io/v1 is strict.

Source: pkg/apis/core/validation/events.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.objects.status import Cause, invalid_value, required
from dashpot.runtime.api.rules.place import Trail, find, same
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
OLD_NAMES = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}
"""Fields that only the older API writes, and how they are told."""
NOTE_BYTES = 1024
FIXED = {
    "regarding": "involvedObject",
    "reason": "reason",
    "note": "message",
    **OLD_NAMES,
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
}


def _namespace(entry: Object) -> Check:
    """An event lies in the namespace of its object; one about an object of the cluster in `default`."""
    about = entry["field"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        mine, named = find(value, "metadata.namespace") or "", find(value, f"{about}.namespace") or ""
        if value.get("eventTime"):
            fits = bool(named) or mine in ("default", "kube-system")
        else:
            fits = mine == named if named else mine in ("", "default")
        if not fits:
            scene.causes.append(invalid_value("involvedObject.namespace", named, "does not match event.namespace"))

    return check


def _strict(entry: Object) -> Check:
    """A new event of events.k8s.io/v1 has a type, a short note and nothing of the older API."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        kind = value.get("type") or ""
        if kind not in ("Normal", "Warning"):
            scene.causes.append(invalid_value("type", "", f"has invalid value: {kind}"))
        if len((value.get("note") or "").encode()) > NOTE_BYTES:
            scene.causes.append(invalid_value("message", "", f"can have at most {NOTE_BYTES} characters"))
        for name, told in OLD_NAMES.items():
            if value.get(name):
                scene.causes.append(invalid_value(told, "", "needs to be unset"))

    return check


def _series(entry: Object) -> Check:
    """A series has at least two events and the time of the last."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        was = scene.old.get("series") if scene.old else None
        found = value.get("series")
        if found is None or (scene.old is not None and same(found, was)):
            return
        if (found.get("count") or 0) < 2:
            scene.causes.append(invalid_value("series.count", "", "should be at least 2"))
        if not found.get("lastObservedTime"):
            scene.causes.append(required("series.lastObservedTime"))

    return check


def _fixed(entry: Object) -> Check:
    """Through events.k8s.io/v1 only the series of an event changes."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is None:
            return
        causes: list[Cause] = scene.causes
        for name, told in FIXED.items():
            if not same(value.get(name), scene.old.get(name)):
                causes.append(invalid_value(told, value.get(name), "field is immutable"))

    return check


EVENT_CALLS: dict[str, Callable[[Object], Check]] = {
    "eventNamespace": _namespace,
    "eventStrict": _strict,
    "eventSeries": _series,
    "eventFixed": _fixed,
}
