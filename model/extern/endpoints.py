"""What kubernetes.endpoints computes: which slices and which Endpoints a service should have.

Sources: k8s.io/endpointslice reconciler.go, util/trigger_time_tracker.go;
pkg/controller/endpoint/endpoints_controller.go; pkg/api/v1/endpoints/util.go; release 1.34.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashpot.model.extern.endpointslices import (
    HEADLESS,
    MANAGED_BY,
    Draft,
    Plan,
    addresses_of,
    families,
    family,
    headless,
    hostname_of,
    parsed,
    plan,
    ports_of,
    published,
    slice_labels,
    transitions,
)
from dashpot.model.extern.endpointslices import ZONE as ZONE_LABEL
from dashpot.model.extern.workloads import Kept, Object, at, is_ready, moment

TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
ENDPOINTS_BY = "endpoints.kubernetes.io/managed-by"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
CAPACITY = 1000
"""The most addresses of an Endpoints."""
CONTROLLER = "endpointslice-controller.k8s.io"


# ---------------------------------------------------------------- services and pods
def routed(service: Kept) -> bool:
    """Whether endpoints of the service are ours to make: it has a selector, and is no name of something outside."""
    spec = service.json.get("spec") or {}
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def selects(service: Kept, pod: Kept) -> bool:
    """Whether the service's selector selects the pod. None or an empty one selects nothing."""
    wanted = at(service.json, "spec", "selector")
    if not wanted:
        return False
    have = at(pod.json, "metadata", "labels") or {}
    return all(have.get(k) == v for k, v in wanted.items())


def matters(old: Kept, new: Kept) -> bool:
    """Whether a change of a pod may change endpoints: labels, phase, readiness, deletion, addresses, node or name."""
    return _seen(old.json) != _seen(new.json)


def _seen(pod: Object) -> tuple[Any, ...]:
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return (
        meta.get("labels"),
        bool(meta.get("deletionTimestamp")),
        at(pod, "status", "phase") in ("Succeeded", "Failed"),
        is_ready(pod),
        addresses_of(pod),
        spec.get("nodeName"),
        spec.get("hostname"),
        spec.get("subdomain"),
    )


# ---------------------------------------------------------------- slices
def managed(one: Kept) -> bool:
    """Whether a slice is this controller's."""
    return bool(at(one.json, "metadata", "labels", MANAGED_BY) == CONTROLLER)


def planned(service: Kept, pods: Sequence[Kept], nodes: Sequence[Kept], slices: Sequence[Kept]) -> Any:
    """What is to be done with the slices of a service, for the functions below."""
    zones = {str(n.json["metadata"]["name"]): str(at(n.json, "metadata", "labels", ZONE_LABEL) or "") for n in nodes}
    known = [one.json for one in slices]
    made = plan(service.json, [p.json for p in pods], zones, known)
    stamp = min(transitions([p.json for p in pods], made.fresh), default="")
    if not slices:
        stamp = str(at(service.json, "metadata", "creationTimestamp") or "")
    labels = slice_labels(service.json)
    return {
        "create": [_slice(draft, labels, stamp) for draft in made.create],
        "update": {str(d.before["metadata"]["name"]): _slice(d, labels, stamp) for d in made.update if d.before},
        "delete": [str(one["metadata"]["name"]) for one in made.delete],
        "unplaced": _unplaced(made),
    }


def _unplaced(made: Plan) -> list[str]:
    return sorted(set(made.unplaced))


def _slice(draft: Draft, labels: Object, stamp: str) -> Object:
    annotations = dict(at(draft.before, "metadata", "annotations") or {})
    annotations.pop(TRIGGER, None)
    if stamp:
        annotations[TRIGGER] = stamp
    return {
        "addressType": draft.kind,
        "ports": draft.ports,
        "endpoints": draft.endpoints,
        "labels": labels,
        "annotations": annotations,
    }


def additions(plan_: Any, service: Kept, pods: Sequence[Kept], slices: Sequence[Kept]) -> list[Object]:
    """The slices that are to be made; none for a service that is going."""
    going = at(service.json, "metadata", "deletionTimestamp")
    return [] if going else list(plan_["create"])


def surplus(plan_: Any, one: Kept, slices: Sequence[Kept]) -> bool:
    """Whether a slice is to go."""
    return one.json["metadata"]["name"] in plan_["delete"]


def content(plan_: Any, one: Kept, pods: Sequence[Kept]) -> Any:
    """The endpoints that a slice is to have."""
    return _planned(plan_, one, "endpoints", one.json.get("endpoints"))


def content_ports(plan_: Any, one: Kept) -> Any:
    """Its ports."""
    return _planned(plan_, one, "ports", one.json.get("ports"))


def content_labels(plan_: Any, one: Kept) -> Any:
    """Its labels."""
    return _planned(plan_, one, "labels", at(one.json, "metadata", "labels") or {})


def content_annotations(plan_: Any, one: Kept) -> Any:
    """Its annotations."""
    return _planned(plan_, one, "annotations", at(one.json, "metadata", "annotations") or {})


def _planned(plan_: Any, one: Kept, part: str, otherwise: Any) -> Any:
    row = plan_["update"].get(one.json["metadata"]["name"])
    return otherwise if row is None else row[part]


def new_type(one: Any) -> str:
    """The address type of a slice that is to be made."""
    return str(one["addressType"])


def new_endpoints(one: Any, pods: Sequence[Kept]) -> Any:
    """Its endpoints."""
    return one["endpoints"]


def new_ports(one: Any) -> Any:
    """Its ports."""
    return one["ports"]


def new_labels(one: Any) -> Any:
    """Its labels."""
    return one["labels"]


def new_annotations(one: Any) -> Any:
    """Its annotations."""
    return one["annotations"]


def incomplete(plan_: Any) -> bool:
    """Whether a pod was left out because its node is not known yet."""
    return bool(plan_["unplaced"])


def slice_prefix(name: str) -> str:
    """What generated names of a service's slices begin with."""
    return f"{name}-" if len(name) < 253 else name


# ---------------------------------------------------------------- Endpoints
def subsets(service: Kept, pods: Sequence[Kept]) -> list[Object]:
    """The subsets of a service's Endpoints: addresses that have the same ports stand together; at most 1,000."""
    return _truncated(_all_subsets(service, pods))


def _all_subsets(service: Kept, pods: Sequence[Kept]) -> list[Object]:
    """By port, the addresses; ports with the same addresses together (upstream: RepackSubsets)."""
    by_port: dict[tuple[Any, ...], tuple[Object | None, dict[str, tuple[bool, Object]]]] = {}
    spec = service.json.get("spec") or {}
    anyway = bool(spec.get("publishNotReadyAddresses"))
    wanted = families(service.json)[0]
    for pod in sorted((p.json for p in pods), key=lambda p: str(p["metadata"].get("name"))):
        address = next((a for a in addresses_of(pod) if family(a) == wanted), None)
        if address is None or not published(pod, anyway):
            continue
        ready, row = anyway or is_ready(pod), _address(service.json, pod, address)
        ports_: list[Object | None] = [*ports_of(service.json, pod)]
        if not spec.get("ports") and spec.get("clusterIP") == "None":
            ports_ = [None]
        for port in ports_:
            key = () if port is None else tuple(sorted((k, str(v)) for k, v in port.items()))
            _, rows = by_port.setdefault(key, (port, {}))
            rows[repr(sorted(row.items(), key=str))] = ready, row
    groups: dict[tuple[Any, ...], tuple[list[Object], list[tuple[bool, Object]]]] = {}
    for port, rows in by_port.values():
        where = tuple(sorted((text, ready) for text, (ready, _) in rows.items()))
        ports_found, _ = groups.setdefault(where, ([], list(rows.values())))
        if port is not None:
            ports_found.append(port)
    return sorted((_subset(*group) for group in groups.values()), key=lambda s: repr(s.get("ports")))


def _address(service: Object, pod: Object, address: str) -> Object:
    meta, node, name = pod["metadata"], at(pod, "spec", "nodeName"), hostname_of(service, pod)
    target = {"kind": "Pod", "namespace": meta.get("namespace"), "name": meta.get("name"), "uid": meta.get("uid")}
    row: Object = {"ip": parsed(address)[1], "targetRef": target}
    if node:
        row["nodeName"] = node
    if name:
        row["hostname"] = name
    return row


def _subset(ports_: Sequence[Object], rows: Sequence[tuple[bool, Object]]) -> Object:
    made: Object = {}
    for name, which in (("addresses", True), ("notReadyAddresses", False)):
        found = [row for ready, row in rows if ready is which]
        if found:
            made[name] = sorted(found, key=lambda row: (parsed(row["ip"])[2], row["targetRef"]["uid"] or ""))
    if ports_:
        made["ports"] = sorted(
            ({k: v for k, v in p.items() if v != ""} for p in ports_),
            key=lambda p: (p.get("name", ""), p["port"], p["protocol"]),
        )
    return made


def _size(rows: Sequence[Object], name: str) -> int:
    return sum(len(row.get(name) or ()) for row in rows)


def _truncated(rows: list[Object]) -> list[Object]:
    """At most 1,000 addresses, the ready ones first, of each subset its share, rounded up."""
    ready, waiting = _size(rows, "addresses"), _size(rows, "notReadyAddresses")
    if ready + waiting <= CAPACITY:
        return rows
    name, total, most = "notReadyAddresses", waiting, CAPACITY - ready
    if ready > CAPACITY:
        name, total, most = "addresses", ready, CAPACITY
    left, made = most, []
    for row in rows:
        had = row.get(name) or []
        count = min(left, -(-len(had) * most // total))
        kept = {**row, name: had[:count]}
        if name == "addresses":
            kept["notReadyAddresses"] = []
        left -= len(kept[name])
        made.append({k: v for k, v in kept.items() if v})
    return made


def _over(rows: Sequence[Object]) -> bool:
    return _size(rows, "addresses") + _size(rows, "notReadyAddresses") > CAPACITY


def outdated(service: Kept, pods: Sequence[Kept], current: Kept) -> bool:
    """Whether an Endpoints says anything else than it should, apart from the time of its last change."""
    rows, have = _all_subsets(service, pods), at(current.json, "metadata", "annotations") or {}
    return (
        _over(rows) != (OVER_CAPACITY in have)
        or endpoint_labels(service) != (at(current.json, "metadata", "labels") or {})
        or _truncated(rows) != _plain(current.json.get("subsets"))
    )


def _plain(value: Any) -> Any:
    """Without what is null or empty, and without versions of pods, which say nothing of endpoints."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v not in (None, "", [], {}) and k != "resourceVersion"}
    return [] if value is None else value


def endpoint_labels(service: Kept) -> Object:
    """The labels of a service's Endpoints: its own; and that it is headless, and whose they are."""
    made = dict(at(service.json, "metadata", "labels") or {})
    made.pop(HEADLESS, None)
    if headless(service.json):
        made[HEADLESS] = ""
    return {**made, ENDPOINTS_BY: "endpoint-controller"}


def made_by_us(one: Kept) -> bool:
    """Whether Endpoints are the controller's, and no people's."""
    return bool(at(one.json, "metadata", "labels", ENDPOINTS_BY) == "endpoint-controller")


def endpoint_annotations(service: Kept, pods: Sequence[Kept], current: Kept | None) -> Object:
    """The annotations: when the oldest of the changes happened, and whether addresses were left out."""
    made = dict(at(current.json, "metadata", "annotations") or {}) if current is not None else {}
    made.pop(TRIGGER, None)
    made.pop(OVER_CAPACITY, None)
    if current is None:
        stamp = at(service.json, "metadata", "creationTimestamp")
    else:
        stamp = min(transitions([p.json for p in pods], _moved(subsets(service, pods), current)), default=None)
    if stamp and moment(stamp) is not None:
        made[TRIGGER] = stamp
    if _over(_all_subsets(service, pods)):
        made[OVER_CAPACITY] = "truncated"
    return made


def _moved(said: list[Object], current: Kept) -> list[Object]:
    """The addresses that are new, or ready where they were not, or the other way."""
    had = _standing(_plain(current.json.get("subsets")))
    return [row for key, row in _standing(said).items() if key not in had]


def _standing(rows: list[Object]) -> dict[tuple[Any, ...], Object]:
    return {
        (name, row.get("ip"), at(row, "targetRef", "uid")): row
        for subset in rows
        for name in ("addresses", "notReadyAddresses")
        for row in subset.get(name) or ()
    }
