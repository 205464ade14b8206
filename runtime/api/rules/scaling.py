"""Rules of HorizontalPodAutoscalers about what they measure.

Source: pkg/apis/autoscaling/validation/validation.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.objects.status import forbidden_field, invalid_value, not_supported, required
from dashpot.runtime.api.rules.place import Trail, spelled
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
TARGETS = ("Utilization", "Value", "AverageValue")


def _source(entry: Object) -> Check:
    """A metric has the source that its type names, and no other."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        kind = value.get("type") or ""
        wanted = SOURCES.get(kind)
        given = [name for name in SOURCES.values() if value.get(name) is not None]
        if not kind:
            scene.causes.append(required(spelled(trail, "type"), "must specify a metric source type"))
        if wanted is None:
            scene.causes.append(not_supported(spelled(trail, "type"), kind, list(SOURCES)))
        elif wanted not in given:
            text = "must populate information for the given metric source"
            scene.causes.append(required(spelled(trail, wanted), text))
        if len(given) != 1:
            text = "must populate the given metric source only"
            others = [name for name in given if name != wanted]
            scene.causes.extend(forbidden_field(spelled(trail, name), text) for name in others)

    return check


def _target(entry: Object) -> Check:
    """A target says of what type it is."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        kind = value.get("type") or ""
        path = spelled(trail, "type")
        if not kind:
            scene.causes.append(required(path, "must specify a metric target type"))
        if kind not in TARGETS:
            scene.causes.append(invalid_value(path, kind, "must be either Utilization, Value, or AverageValue"))

    return check


SCALING_CALLS: dict[str, Callable[[Object], Check]] = {
    "metricSource": _source,
    "metricTarget": _target,
}
