"""Kinds in two versions over one storage: autoscaling v1 and v2, events of core/v1 and of events.k8s.io/v1.

Nothing is lost on the way there and back: what autoscaling/v1 has no field for travels in annotations, as upstream does
it. Source: pkg/apis/autoscaling/v1/conversion.go, pkg/apis/autoscaling/annotations.go, pkg/apis/events/v1/
conversion.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.schema import shape
from dashpot.model.objects.status import Object, StatusError, bad_request

Convert = Callable[[Object], Object]

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
METRICS: Final = f"{_PREFIX}metrics"
CURRENT: Final = f"{_PREFIX}current-metrics"
CONDITIONS: Final = f"{_PREFIX}conditions"
BEHAVIOR: Final = f"{_PREFIX}behavior"
_CARRIED: Final = (METRICS, CURRENT, CONDITIONS, BEHAVIOR)
_SHARED_SPEC: Final = ("scaleTargetRef", "minReplicas", "maxReplicas")
_SHARED_STATUS: Final = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")

_EVENT_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Fields of core/v1 events to those of events.k8s.io/v1; all others have one name."""
_EVENT_NAMES_BACK: Final = {new: old for old, new in _EVENT_NAMES.items()}


def convert(obj: Object, to_api_version: str) -> Object:
    """The object in another version of its kind; a new one that shares its parts with the old.

    ValueError for a pair of versions that have nothing in common; StatusError 400 where an annotation that carries
    fields of autoscaling/v2 cannot be read.
    """
    came = obj.get("apiVersion", "")
    if came == to_api_version:
        return obj
    found = _PAIRS.get((obj.get("kind", ""), came, to_api_version))
    if found is None:
        raise ValueError(f"{obj.get('kind')} is not converted from {came} to {to_api_version}")
    return found(obj)


def _event(names: dict[str, str], api_version: str) -> Convert:
    def renamed(obj: Object) -> Object:
        return {names.get(key, key): value for key, value in obj.items()} | {"apiVersion": api_version}

    return renamed


def _picked(part: Object, keys: tuple[str, ...]) -> Object:
    return {key: part[key] for key in keys if key in part}


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _is_cpu(metric: Object) -> bool:
    """A metric that autoscaling/v1 has a field for."""
    resource = metric.get("resource") or {}
    target = resource.get("target") or resource.get("current") or {}
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def _older_autoscaler(obj: Object) -> Object:
    """autoscaling/v2 as v1."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    carried: dict[str, str] = {}
    old_spec, old_status = _picked(spec, _SHARED_SPEC), _picked(status, _SHARED_STATUS)
    metrics = spec.get("metrics") or []
    cpu = next((metric for metric in metrics if _is_cpu(metric)), None)
    if cpu is not None:
        old_spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    others = [metric for metric in metrics if metric is not cpu]
    if others:
        carried[METRICS] = _text([_older(metric, "target") for metric in others])
    current = status.get("currentMetrics") or []
    if current:
        used = next((metric for metric in current if _is_cpu(metric)), None)
        if used is not None:
            old_status["currentCPUUtilizationPercentage"] = used["resource"]["current"]["averageUtilization"]
        carried[CURRENT] = _text([_older(metric, "current") for metric in current])
    if status.get("conditions"):
        carried[CONDITIONS] = _text(status["conditions"])
    if spec.get("behavior") is not None:
        carried[BEHAVIOR] = _text(spec["behavior"])
    meta = dict(obj.get("metadata") or {})
    if carried:
        meta["annotations"] = {**(meta.get("annotations") or {}), **carried}
    found = {**obj, "apiVersion": "autoscaling/v1", "metadata": meta, "spec": old_spec}
    if "status" in obj:
        found["status"] = old_status
    return found


def _newer_autoscaler(obj: Object) -> Object:
    """autoscaling/v1 as v2; the annotations that carried fields are gone afterwards."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    meta = dict(obj.get("metadata") or {})
    annotations = dict(meta.get("annotations") or {})
    carried = {key: _read(key, annotations.pop(key)) for key in _CARRIED if key in annotations}
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)
    new_spec, new_status = _picked(spec, _SHARED_SPEC), _picked(status, _SHARED_STATUS)
    percentage = spec.get("targetCPUUtilizationPercentage")
    metrics = [] if percentage is None else [_cpu("target", {"type": "Utilization", "averageUtilization": percentage})]
    metrics += [_newer(metric, "target") for metric in carried.get(METRICS, ())]
    if metrics:
        new_spec["metrics"] = metrics
    used = status.get("currentCPUUtilizationPercentage")
    if CURRENT in carried:
        new_status["currentMetrics"] = [_newer(metric, "current") for metric in carried[CURRENT]]
    elif used is not None:
        new_status["currentMetrics"] = [_cpu("current", {"averageUtilization": used})]
    if CONDITIONS in carried:
        new_status["conditions"] = carried[CONDITIONS]
    if BEHAVIOR in carried:
        new_spec["behavior"] = carried[BEHAVIOR]
    found = {**obj, "apiVersion": "autoscaling/v2", "metadata": meta, "spec": new_spec}
    if "status" in obj or new_status:
        found["status"] = new_status
    if carried:
        # what stood in annotations was checked by nobody
        shape("autoscaling", "v2", "HorizontalPodAutoscaler", builtin()).decode(found)
    return found


def _cpu(which: str, value: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", which: value}}


def _read(key: str, text: str) -> Any:
    """The JSON of an annotation: an object for behaviour, else a list of objects."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise _unreadable(key) from None
    if key == BEHAVIOR:
        if isinstance(found, dict):
            return found
    elif isinstance(found, list) and all(isinstance(item, dict) for item in found):
        return found
    raise _unreadable(key)


def _unreadable(key: str) -> StatusError:
    return bad_request(f"HorizontalPodAutoscaler cannot be converted: the annotation {key} is no JSON of its fields")


_PARTS: Final = ("object", "pods", "resource", "containerResource", "external")


def _older(metric: Object, which: str) -> Object:
    """A metric of v2 as v1 writes it; `which` is `target` (spec) or `current` (status)."""
    found: Object = {"type": metric.get("type", "")}
    for name in _PARTS:
        part = metric.get(name)
        if part is None:
            continue
        value = part.get(which) or {}
        label = part.get("metric") or {}
        row = _picked(part, ("name", "container"))
        if "name" in label:
            row["metricName"] = label["name"]
        if "selector" in label:
            row["metricSelector" if name == "external" else "selector"] = label["selector"]
        if name == "object":
            row["target"] = part.get("describedObject") or {}
        for key, old in _value_names(name, which).items():
            if key in value:
                row[old] = value[key]
        found[name] = row
    return found


def _newer(metric: Object, which: str) -> Object:
    """A metric as v1 writes it, in v2."""
    found: Object = {"type": metric.get("type", "")}
    for name in _PARTS:
        part = metric.get(name)
        if part is None:
            continue
        if not isinstance(part, dict):
            raise bad_request(f"HorizontalPodAutoscaler cannot be converted: the {name} of a metric is no object")
        row = _picked(part, ("name", "container"))
        if "metricName" in part or name in ("object", "pods", "external"):
            row["metric"] = {"name": part.get("metricName", "")}
            selector = part.get("metricSelector" if name == "external" else "selector")
            if selector is not None:
                row["metric"]["selector"] = selector
        if name == "object":
            row["describedObject"] = part.get("target") or {}
        value: Object = {key: part[old] for key, old in _value_names(name, which).items() if old in part}
        if which == "target":
            value = _typed(value)
        row[which] = value
        found[name] = row
    return found


def _typed(value: Object) -> Object:
    """A target with its type, which v1 leaves to be guessed from what is set."""
    if "averageUtilization" in value:
        return {"type": "Utilization", **value}
    if "averageValue" in value:
        if value.get("value") == "0":
            # v1 always writes the plain value of an object's metric
            del value["value"]
        return {"type": "AverageValue", **value}
    return {"type": "Value", **value}


def _value_names(name: str, which: str) -> dict[str, str]:
    """What v1 calls the values of a metric."""
    prefix = which
    average = "averageValue" if name == "object" else f"{prefix}AverageValue"
    names = {"value": f"{prefix}Value", "averageValue": average}
    if name in ("resource", "containerResource"):
        return {"averageValue": average, "averageUtilization": f"{prefix}AverageUtilization"}
    return {"averageValue": average} if name == "pods" else names


_PAIRS: Final[dict[tuple[str, str, str], Convert]] = {
    ("Event", "v1", "events.k8s.io/v1"): _event(_EVENT_NAMES, "events.k8s.io/v1"),
    ("Event", "events.k8s.io/v1", "v1"): _event(_EVENT_NAMES_BACK, "v1"),
    ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2"): _newer_autoscaler,
    ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1"): _older_autoscaler,
}
