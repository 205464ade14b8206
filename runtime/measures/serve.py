"""Metrics as Kubernetes' autoscalers and `kubectl top` ask for them, answered from what pods' annotations say.

    metrics.k8s.io/v1beta1           nodes and pods: `fake.dashpot.dev/cpu`, `fake.dashpot.dev/memory`
    custom.metrics.k8s.io/v1beta2    any object: `metric.fake.dashpot.dev/NAME: "3500m"`
    external.metrics.k8s.io/v1beta1  ConfigMap fake-external-metrics of the namespace: NAME: "12"

Source: k8s.io/metrics, release 0.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from dashpot.model.objects import fieldselector, selector
from dashpot.model.objects.quantity import Quantity, QuantityError, parse, total
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.selector import Selector
from dashpot.model.objects.status import StatusError, Subject, not_found
from dashpot.runtime.api import forms
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.view import View
from dashpot.runtime.clock import Clock, rfc3339
from dashpot.runtime.fleet.script import usage

Object = dict[str, Any]

METRICS = "metrics.k8s.io"
CUSTOM = "custom.metrics.k8s.io"
EXTERNAL = "external.metrics.k8s.io"
METRIC = "metric.fake.dashpot.dev/"
EXTERNALS = "fake-external-metrics"
VERSIONS = {METRICS: "v1beta1", CUSTOM: "v1beta2", EXTERNAL: "v1beta1"}
WINDOW_S = 10
VERBS = ("get", "list")
IDLE = {"cpu": "20m", "memory": "128Mi"}
"""What a node uses beside its pods."""


def resources() -> tuple[Resource, ...]:
    """What discovery tells of custom and external metrics. Which there are is not known beforehand: one name that no
    client can ask for stands for all, so that the groups are found."""
    return (_resource(CUSTOM, "MetricValueList"), _resource(EXTERNAL, "ExternalMetricValueList"))


def _resource(group: str, kind: str) -> Resource:
    version = VERSIONS[group]
    return Resource(
        group, version, kind, "*/*", "", True, VERBS[:1], storage_group=group, storage_version=version, custom=True
    )


@frozen
class Measures:
    """Answers the three groups from the watch cache: `await measures.answer(exchange)`."""

    view: View
    catalog: Catalog
    clock: Clock

    async def answer(self, exchange: Exchange) -> Response:
        """One request; StatusError."""
        info = exchange.info
        if info.verb not in VERBS:
            raise StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")
        if info.version != VERSIONS[info.group]:
            raise StatusError("NotFound", "the server could not find the requested resource")
        if info.group == METRICS:
            return forms.render_plain(exchange, self._metrics(exchange), 200)
        if info.group == CUSTOM:
            return forms.render_plain(exchange, self._custom(exchange), 200)
        return forms.render_plain(exchange, self._external(exchange), 200)

    # -- metrics.k8s.io -----------------------------------------------------------------------------------------

    def _metrics(self, exchange: Exchange) -> Object:
        info = exchange.info
        shown = {"nodes": self._node, "pods": self._pod}.get(info.resource)
        if shown is None:
            raise StatusError("NotFound", "the server could not find the requested resource")
        if info.verb == "get":
            obj = self.view.get("", info.resource, info.namespace, info.name)
            made = shown(obj) if obj is not None else None
            if made is None:
                raise not_found(Subject(METRICS, info.resource), info.name)
            return made
        chosen, place = _chosen(exchange), _placed(exchange, info.resource)
        found = self.view.list("", info.resource, info.namespace or None)
        items = [made for obj in found if chosen.selects(obj) and place(obj) and (made := shown(obj)) is not None]
        kind = "NodeMetricsList" if info.resource == "nodes" else "PodMetricsList"
        return {"kind": kind, "apiVersion": f"{METRICS}/v1beta1", "metadata": {}, "items": items}

    def _pod(self, pod: Object) -> Object | None:
        """A running pod's use, divided among its containers."""
        if (pod.get("status") or {}).get("phase") != "Running":
            return None
        names = [one["name"] for one in pod["spec"]["containers"]]
        used = usage(pod)
        share = {name: _share(amount, len(names)) for name, amount in used.items()}
        made = self._head("PodMetrics", pod)
        made["containers"] = [{"name": name, "usage": share} for name in names]
        return made

    def _node(self, node: Object) -> Object | None:
        name = node["metadata"]["name"]
        sums = {what: [parse(text)] for what, text in IDLE.items()}
        for pod in self.view.list("", "pods"):
            if pod["spec"].get("nodeName") == name and (pod.get("status") or {}).get("phase") == "Running":
                for what, amount in usage(pod).items():
                    sums[what].append(amount)
        made = self._head("NodeMetrics", node)
        made["usage"] = {what: str(total(amounts)) for what, amounts in sums.items()}
        return made

    def _head(self, kind: str, obj: Object) -> Object:
        now = rfc3339(self.clock.now())
        meta: Object = {"name": obj["metadata"]["name"], "creationTimestamp": now}
        for name in ("namespace", "labels"):
            if obj["metadata"].get(name):
                meta[name] = obj["metadata"][name]
        return {
            "kind": kind,
            "apiVersion": f"{METRICS}/v1beta1",
            "metadata": meta,
            "timestamp": now,
            "window": f"{WINDOW_S}s",
        }

    # -- custom and external metrics ----------------------------------------------------------------------------

    def _custom(self, exchange: Exchange) -> Object:
        """`[namespaces/NS/]RESOURCE/NAME/METRIC`, where NAME may be *, or `namespaces/NS/metrics/METRIC`."""
        info = exchange.info
        space, plural, name, metric = info.namespace, info.resource, info.name, info.subresource
        if plural == "metrics" and space:
            space, plural, name, metric = "", "namespaces", space, name
        resource = self._named(plural)
        chosen = _chosen(exchange)
        items = []
        for obj in self.view.list(resource.group, resource.plural, space if resource.namespaced else None):
            if name not in ("*", obj["metadata"]["name"]) or not chosen.selects(obj):
                continue
            value = _told(obj["metadata"].get("annotations"), METRIC + metric)
            if value is not None:
                items.append(self._value(resource, obj, metric, value))
        if not items and name != "*":
            text = f"the server could not find the metric {metric} for {resource.qualified} {name}"
            raise StatusError("NotFound", text)
        return {"kind": "MetricValueList", "apiVersion": f"{CUSTOM}/{info.version}", "metadata": {}, "items": items}

    def _named(self, text: str) -> Resource:
        plural, _, group = text.partition(".")
        found = self.catalog.find(group, "v1", plural)
        if found is None:
            raise StatusError("NotFound", f'the server could not find the resource "{text}"')
        return found

    def _value(self, resource: Resource, obj: Object, metric: str, value: Quantity) -> Object:
        described = {"kind": resource.kind, "name": obj["metadata"]["name"], "apiVersion": resource.api_version}
        if resource.namespaced:
            described["namespace"] = obj["metadata"]["namespace"]
        return {
            "describedObject": described,
            "metric": {"name": metric},
            "timestamp": rfc3339(self.clock.now()),
            "windowSeconds": WINDOW_S,
            "value": str(value),
        }

    def _external(self, exchange: Exchange) -> Object:
        info = exchange.info
        told = self.view.get("", "configmaps", info.namespace, EXTERNALS)
        value = _told((told or {}).get("data"), info.resource)
        if value is None:
            raise StatusError("NotFound", f"the server could not find the external metric {info.resource}")
        items = [] if not _chosen(exchange).matches({}) else [self._external_value(info.resource, value)]
        return {
            "kind": "ExternalMetricValueList",
            "apiVersion": f"{EXTERNAL}/{info.version}",
            "metadata": {},
            "items": items,
        }

    def _external_value(self, name: str, value: Quantity) -> Object:
        return {
            "metricName": name,
            "metricLabels": {},
            "timestamp": rfc3339(self.clock.now()),
            "windowSeconds": WINDOW_S,
            "value": str(value),
        }


def _chosen(exchange: Exchange) -> Selector:
    return selector.from_query(exchange.request.get("labelSelector"))


def _placed(exchange: Exchange, plural: str) -> Callable[[Object], bool]:
    """Whether a field selector, of names and namespaces, means an object; StatusError."""
    text = exchange.request.get("fieldSelector")
    resource = builtin().find("", "v1", plural)
    if not text or resource is None:
        return lambda obj: True
    return fieldselector.parse(resource, text).matches


def _told(named: Object | None, name: str) -> Quantity | None:
    text = (named or {}).get(name)
    try:
        return parse(text) if text is not None else None
    except QuantityError:
        return None


def _share(amount: Quantity, parts: int) -> str:
    nano = amount.milli * 1_000_000 // max(1, parts)
    return f"{nano}n" if nano % 1_000_000 or amount.value < 1000 else str(amount.value // max(1, parts))


def groups() -> Iterable[str]:
    """The groups that `Measures` answers."""
    return (METRICS, CUSTOM, EXTERNAL)
