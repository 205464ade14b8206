"""The cells of what runs pods: deployments, jobs, autoscalers and their kin.

Source: kubernetes pkg/printers/internalversion/printers.go, release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.table_text import (
    NONE,
    UNKNOWN,
    UNSET,
    Object,
    age,
    at,
    columns,
    containers,
    human,
    is_true,
    labels,
    meta,
    name,
    seconds,
    selector,
    since,
    spec,
    status,
)


def _template(obj: Object) -> Object:
    return at(obj, "spec", "template", "spec")


def _shown_selector(found: Any) -> str:
    return selector(found) or NONE


def _number(found: Object, key: str) -> int:
    value = found.get(key)
    return value if isinstance(value, int) else 0


def deployment(obj: Object, now: float) -> list[Any]:
    """Ready/desired, updated, available."""
    found = status(obj)
    ready = f"{_number(found, 'readyReplicas')}/{_number(spec(obj), 'replicas')}"
    counts = (_number(found, "updatedReplicas"), _number(found, "availableReplicas"))
    return [name(obj), ready, *counts, age(obj, now), *containers(_template(obj)), selector(spec(obj).get("selector"))]


def _replicas(obj: Object, now: float, chosen: str) -> list[Any]:
    found = status(obj)
    counts = (_number(spec(obj), "replicas"), _number(found, "replicas"), _number(found, "readyReplicas"))
    return [name(obj), *counts, age(obj, now), *containers(_template(obj)), chosen]


def replicaset(obj: Object, now: float) -> list[Any]:
    """Desired, current, ready."""
    return _replicas(obj, now, _shown_selector(spec(obj).get("selector")))


def replicationcontroller(obj: Object, now: float) -> list[Any]:
    """Desired, current, ready."""
    return _replicas(obj, now, labels(spec(obj).get("selector")))


def statefulset(obj: Object, now: float) -> list[Any]:
    """Ready/desired."""
    ready = f"{_number(status(obj), 'readyReplicas')}/{_number(spec(obj), 'replicas')}"
    return [name(obj), ready, age(obj, now), *containers(_template(obj))]


_DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def daemonset(obj: Object, now: float) -> list[Any]:
    """Desired, current, ready, updated, available, and on which nodes."""
    found = status(obj)
    counts = [_number(found, key) for key in _DAEMON_COUNTS]
    nodes = labels(_template(obj).get("nodeSelector"))
    chosen = _shown_selector(spec(obj).get("selector"))
    return [name(obj), *counts, nodes, age(obj, now), *containers(_template(obj)), chosen]


def job(obj: Object, now: float) -> list[Any]:
    """State, completions, how long it ran or runs."""
    chosen = _shown_selector(spec(obj).get("selector"))
    cells = [_job_state(obj), _completions(obj), _job_duration(status(obj), now)]
    return [name(obj), *cells, age(obj, now), *containers(_template(obj)), chosen]


def _job_state(obj: Object) -> str:
    rows = status(obj).get("conditions")
    if is_true(rows, "Complete"):
        return "Complete"
    if is_true(rows, "Failed"):
        return "Failed"
    if meta(obj).get("deletionTimestamp"):
        return "Terminating"
    if is_true(rows, "Suspended"):
        return "Suspended"
    return "FailureTarget" if is_true(rows, "FailureTarget") else "Running"


def _completions(obj: Object) -> str:
    done, wanted = _number(status(obj), "succeeded"), spec(obj)
    if wanted.get("completions") is not None:
        return f"{done}/{wanted['completions']}"
    parallel = _number(wanted, "parallelism")
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(found: Object, now: float) -> str:
    start, end = seconds(found.get("startTime")), seconds(found.get("completionTime"))
    if start is None:
        return ""
    return human((now if end is None else end) - start)


def cronjob(obj: Object, now: float) -> list[Any]:
    """Schedule, time zone, whether suspended, active jobs, when it last ran."""
    wanted, found = spec(obj), status(obj)
    last = found.get("lastScheduleTime")
    suspended = wanted.get("suspend")
    template = at(obj, "spec", "jobTemplate", "spec")
    return [
        name(obj),
        wanted.get("schedule", ""),
        wanted.get("timeZone") or NONE,
        UNSET if suspended is None else str(suspended),
        len(found.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(at(template, "template", "spec")),
        _shown_selector(template.get("selector")),
    ]


def podtemplate(obj: Object, now: float) -> list[Any]:
    """Containers, images, labels."""
    return [name(obj), *containers(at(obj, "template", "spec")), labels(at(obj, "template", "metadata").get("labels"))]


def controllerrevision(obj: Object, now: float) -> list[Any]:
    """Whose revision it is, and its number."""
    owner = next((row for row in meta(obj).get("ownerReferences") or () if row.get("controller")), None)
    shown = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = owner.get("kind", "")
        shown = f"{f'{kind}.{group}' if group else kind}".lower() + "/" + owner.get("name", "")
    return [name(obj), shown, _number(obj, "revision"), age(obj, now)]


def poddisruptionbudget(obj: Object, now: float) -> list[Any]:
    """The two limits, and how many disruptions are allowed now."""
    limits = [str(value) if (value := spec(obj).get(key)) is not None else "N/A" for key in _LIMITS]
    return [name(obj), *limits, _number(status(obj), "disruptionsAllowed"), age(obj, now)]


_LIMITS = ("minAvailable", "maxUnavailable")


def autoscaler(obj: Object, now: float) -> list[Any]:
    """What it scales, current/target of each metric, bounds and replicas; autoscaling/v1 and v2."""
    wanted, found = spec(obj), status(obj)
    target = wanted.get("scaleTargetRef") or {}
    least = wanted.get("minReplicas")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(wanted, found),
        UNSET if least is None else str(least),
        _number(wanted, "maxReplicas"),
        _number(found, "currentReplicas"),
        age(obj, now),
    ]


def _metrics(wanted: Object, found: Object) -> str:
    if wanted.get("targetCPUUtilizationPercentage") is not None:
        current = found.get("currentCPUUtilizationPercentage")
        shown = UNKNOWN if current is None else f"{current}%"
        return f"cpu: {shown}/{wanted['targetCPUUtilizationPercentage']}%"
    metrics = wanted.get("metrics") or []
    if not metrics:
        return NONE
    states = found.get("currentMetrics") or []
    told = [_metric(row, states[at] if at < len(states) else {}) for at, row in enumerate(metrics)]
    text = ", ".join(told[:2])
    return f"{text} + {len(told) - 2} more..." if len(told) > 2 else text


_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metric(row: Object, state: Object) -> str:
    key = _SOURCES.get(row.get("type", ""))
    if key is None:
        return "<unknown type>"
    source, current = row.get(key) or {}, at(state, key, "current")
    target = source.get("target") or {}
    average = target.get("averageValue")
    if key == "pods":
        return f"{current.get('averageValue', UNKNOWN)}/{average if average is not None else '0'}"
    if key in ("resource", "containerResource"):
        prefix = f"{source.get('name', '')}: "
        if average is not None:
            return f"{prefix}{current.get('averageValue', UNKNOWN)}/{average}"
        return f"{prefix}{_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"
    if average is not None:
        return f"{current.get('averageValue', UNKNOWN)}/{average} (avg)"
    return f"{current.get('value', UNKNOWN)}/{target.get('value', '0')}"


def _percent(found: Object, missing: str) -> str:
    value = found.get("averageUtilization")
    return missing if value is None else f"{value}%"


def scale(obj: Object, now: float) -> list[Any]:
    """Desired and available replicas."""
    return [name(obj), _number(spec(obj), "replicas"), _number(status(obj), "replicas"), age(obj, now)]


_REPLICAS = columns("Name Desired:i Current:i Ready:i Age Containers* Images* Selector*")

PRINTERS = {
    ("apps", "deployments"): (
        columns("Name Ready Up-to-date Available Age Containers* Images* Selector*"),
        deployment,
    ),
    ("apps", "replicasets"): (_REPLICAS, replicaset),
    ("", "replicationcontrollers"): (_REPLICAS, replicationcontroller),
    ("apps", "statefulsets"): (columns("Name Ready Age Containers* Images*"), statefulset),
    ("apps", "daemonsets"): (
        columns(
            "Name Desired:i Current:i Ready:i Up-to-date:i Available:i Node_Selector Age Containers* Images* Selector*"
        ),
        daemonset,
    ),
    ("batch", "jobs"): (columns("Name Status Completions Duration Age Containers* Images* Selector*"), job),
    ("batch", "cronjobs"): (
        columns("Name Schedule Timezone Suspend:b Active:i Last_Schedule Age Containers* Images* Selector*"),
        cronjob,
    ),
    ("", "podtemplates"): (columns("Name Containers Images Pod_Labels"), podtemplate),
    ("apps", "controllerrevisions"): (columns("Name Controller Revision Age"), controllerrevision),
    ("policy", "poddisruptionbudgets"): (
        columns("Name Min_Available Max_Unavailable Allowed_Disruptions:i Age"),
        poddisruptionbudget,
    ),
    ("autoscaling", "horizontalpodautoscalers"): (
        columns("Name Reference Targets MinPods MaxPods Replicas Age"),
        autoscaler,
    ),
    ("autoscaling", "scale"): (columns("Name Desired:i Available:i Age"), scale),
}
"""Columns and cells by group and plural."""
