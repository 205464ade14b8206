"""What the metrics APIs answer, as autoscalers read it: samples of pods, values of objects, or why there are none.

An answer is the JSON of a list of metrics.k8s.io, custom.metrics.k8s.io or external.metrics.k8s.io, or a Status. Values
are thousandths. Source: pkg/controller/podautoscaler/metrics/client.go of release 1.34.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from attrs import frozen

from dashpot.model.extern.workloads import Object, at, moment
from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.objects.registry import builtin

RESOURCE_API = "metrics.k8s.io/v1beta1"
CUSTOM_API = "custom.metrics.k8s.io/v1beta2"
EXTERNAL_API = "external.metrics.k8s.io/v1beta1"
WINDOW_MS = 60_000
"""How long a custom metric was watched that does not say it."""
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


class Unmeasured(Exception):
    """There is no measurement; the text says why, in upstream's words."""


@frozen
class Sample:
    """What one pod uses, when that was measured (ms since 1970), and over how long (ms)."""

    value: int
    at: int = 0
    window: int = 0


def milli(value: Any) -> int | None:
    """The thousandths of a quantity, rounded up; None for what is none."""
    if value is None or isinstance(value, bool):
        return None
    try:
        return parse(str(value)).milli
    except QuantityError:
        return None


def amount(thousandths: int) -> str:
    """Thousandths as a decimal quantity (upstream: NewMilliQuantity): `1500m`, `2`, `3k`."""
    return str(parse(f"{thousandths}m"))


def plural_of(api_version: str, kind: str) -> str:
    """The resource of a kind as paths and messages name it: `deployments.apps`; of kinds that are not built in, what
    custom resources are called by custom."""
    group, _, version = api_version.rpartition("/")
    found = builtin().by_kind(group, version, kind)
    plural = found.plural if found is not None else kind.lower() + ("es" if kind.endswith("s") else "s")
    return f"{plural}.{group}" if group else plural


# ---------------------------------------------------------------- where to ask
def resource_path(namespace: str, selector: str) -> str:
    """Of what the pods of a selector use."""
    return f"{RESOURCE_API}/namespaces/{namespace}/pods?labelSelector={quote(selector, safe='')}"


def pods_path(namespace: str, selector: str, metric: Object) -> str:
    """Of a metric of each pod of a selector."""
    query = [("labelSelector", selector), ("metricLabelSelector", selector_text(metric.get("selector")))]
    return _path(f"{CUSTOM_API}/namespaces/{namespace}/pods/*/{quote(str(metric.get('name')), safe='')}", query)


def object_path(namespace: str, described: Object, metric: Object) -> str:
    """Of a metric of one object; of a namespace it is always the own one."""
    name = quote(str(metric.get("name")), safe="")
    query = [("metricLabelSelector", selector_text(metric.get("selector")))]
    version, kind = str(described.get("apiVersion") or "v1"), str(described.get("kind"))
    if kind == "Namespace" and "/" not in version:
        return _path(f"{CUSTOM_API}/namespaces/{namespace}/metrics/{name}", query)
    target = f"{plural_of(version, kind)}/{quote(str(described.get('name')), safe='')}"
    return _path(f"{CUSTOM_API}/namespaces/{namespace}/{target}/{name}", query)


def external_path(namespace: str, metric: Object) -> str:
    """Of a metric that belongs to no object."""
    query = [("labelSelector", selector_text(metric.get("selector")))]
    return _path(f"{EXTERNAL_API}/namespaces/{namespace}/{quote(str(metric.get('name')), safe='')}", query)


def _path(base: str, query: list[tuple[str, str]]) -> str:
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query if value)
    return f"{base}?{asked}" if asked else base


def selector_text(selector: Any) -> str:
    """A LabelSelector as requests write it, by key."""
    rows = [(str(k), f"{k}={v}") for k, v in (at(selector, "matchLabels") or {}).items()]
    for term in at(selector, "matchExpressions") or ():
        key, values = str(term.get("key")), ",".join(sorted(term.get("values") or ()))
        form = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}
        rows.append((key, form.get(str(term.get("operator")), "{0}").format(key, values)))
    return ",".join(text for _, text in sorted(rows))


def selector_shown(selector: Any) -> str:
    """A LabelSelector as upstream's messages show it."""
    if selector is None:
        return "nil"
    wanted = "".join(f"{k}: {v}," for k, v in sorted((at(selector, "matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{t.get('key')},Operator:{t.get('operator')},"
        f"Values:[{' '.join(t.get('values') or ())}],}},"
        for t in at(selector, "matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{wanted}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )


# ---------------------------------------------------------------- what was answered
def _items(answer: Object | None, api: str) -> list[Object]:
    """The rows of an answer; Unmeasured where it is a Status or empty."""
    if answer is None or answer.get("kind") == "Status":
        text = (answer or {}).get("message") or "the server could not find the requested resource"
        raise Unmeasured(f"unable to fetch metrics from {api} metrics API: {text}")
    rows = answer.get("items")
    if not isinstance(rows, list) or not rows:
        raise Unmeasured(f"no metrics returned from {api} metrics API")
    return [row for row in rows if isinstance(row, dict)]


def resource_samples(answer: Object | None, resource: str, container: str = "") -> dict[str, Sample]:
    """What each pod uses of a resource, or one container of each; Unmeasured. A pod is left out of which a container
    tells nothing."""
    found: dict[str, Sample] = {}
    for row in _items(answer, "resource"):
        name = str(at(row, "metadata", "name"))
        containers = [c for c in row.get("containers") or () if not container or c.get("name") == container]
        if container and not containers:
            where = f"{at(row, 'metadata', 'namespace')}/{name}"
            raise Unmeasured(
                f"failed to get container metrics: container {container} not present in metrics for pod {where}"
            )
        values = [milli(at(c, "usage", resource)) for c in containers]
        told = [value for value in values if value is not None]
        if containers and len(told) == len(containers):
            found[name] = Sample(sum(told), moment(row.get("timestamp")) or 0, _window(row.get("window")))
    return found


def custom_samples(answer: Object | None) -> dict[str, Sample]:
    """The value of a custom metric for each pod; Unmeasured."""
    found: dict[str, Sample] = {}
    for row in _items(answer, "custom"):
        seconds = row.get("windowSeconds")
        window = seconds * 1000 if isinstance(seconds, int) else WINDOW_MS
        name = str(at(row, "describedObject", "name"))
        found[name] = Sample(milli(row.get("value")) or 0, moment(row.get("timestamp")) or 0, window)
    return found


def custom_value(answer: Object | None) -> int:
    """The value of a custom metric of one object; Unmeasured."""
    return milli(_items(answer, "custom")[0].get("value")) or 0


def external_value(answer: Object | None) -> int:
    """The sum of an external metric's values; Unmeasured."""
    return sum(milli(row.get("value")) or 0 for row in _items(answer, "external"))


def _window(text: Any) -> int:
    """Go's text of a duration in milliseconds; 0 for what is none."""
    total, number = 0.0, ""
    rest = str(text or "")
    while rest:
        if rest[0].isdigit() or rest[0] == ".":
            number, rest = number + rest[0], rest[1:]
            continue
        unit = rest[:2] if rest[:2] == "ms" else rest[:1]
        if unit not in _UNITS or not number or number.count(".") > 1 or number == ".":
            return 0
        total, number, rest = total + float(number) * _UNITS[unit], "", rest[len(unit) :]
    return int(total)
