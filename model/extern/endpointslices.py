"""Which endpoints a service has, and how they are laid into slices with few writes.

Sources: k8s.io/endpointslice reconciler.go, utils.go, trafficdist, util/endpointset.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from attrs import define, field

from dashpot.model.extern.workloads import Object, at, is_ready

PER_SLICE = 100
"""The most endpoints of a slice (--max-endpoints-per-slice)."""
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"
RESERVED = (SERVICE_NAME, MANAGED_BY, HEADLESS)
CLOSE = ("PreferClose", "PreferSameZone", "PreferSameNode")


# ---------------------------------------------------------------- endpoints
def published(pod: Object, terminating: bool) -> bool:
    """Whether a pod may be an endpoint at all: it has an address and has not ended; `terminating`: nor need it stay."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed") or not addresses_of(pod):
        return False
    return terminating or not at(pod, "metadata", "deletionTimestamp")


def addresses_of(pod: Object) -> list[str]:
    """The pod's addresses, as they were assigned."""
    status = pod.get("status") or {}
    found = [str(row["ip"]) for row in status.get("podIPs") or () if row.get("ip")]
    return found or ([str(status["podIP"])] if status.get("podIP") else [])


@lru_cache(maxsize=65536)
def parsed(address: str) -> tuple[str, str, bytes]:
    """An address: IPv4 or IPv6, its usual text, its bytes. All empty for what is none."""
    try:
        found = ip_address(address)
    except ValueError:
        return "", "", b""
    return f"IPv{found.version}", str(found), found.packed


def family(address: str) -> str:
    """IPv4 or IPv6; "" for what is no address."""
    return parsed(address)[0]


def families(service: Object) -> list[str]:
    """The address types that a service has slices of; of both families where a headless one names none."""
    spec = service.get("spec") or {}
    named = [name for name in spec.get("ipFamilies") or () if name in ("IPv4", "IPv6")]
    if named:
        return named
    own = str(spec.get("clusterIP") or "None")
    return ["IPv4", "IPv6"] if own == "None" else [family(own) or "IPv4"]


def headless(service: Object) -> bool:
    """Whether it has no address of its own."""
    return at(service, "spec", "clusterIP") in (None, "", "None")


def port_number(pod: Object, port: Object) -> int | None:
    """The number that a service's port has on a pod: by number, or by the name of a port of a container or sidecar."""
    target = port.get("targetPort")
    if target is None:
        target = port.get("port")
    if isinstance(target, int):
        return target
    for kind in ("containers", "initContainers"):
        for container in at(pod, "spec", kind) or ():
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for own in container.get("ports") or ():
                if own.get("name") == target and own.get("protocol", "TCP") == port.get("protocol", "TCP"):
                    return int(own["containerPort"])
    return None


def ports_of(service: Object, pod: Object) -> list[Object]:
    """The ports of a pod's endpoint; those of unknown names are left out."""
    found = []
    for port in at(service, "spec", "ports") or ():
        number = port_number(pod, port)
        if number is not None:
            row: Object = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
            if port.get("appProtocol") is not None:
                row["appProtocol"] = port["appProtocol"]
            found.append(row)
    return found


def hostname_of(service: Object, pod: Object) -> str:
    """The name that the pod has in the service's domain; "" without one."""
    spec = pod.get("spec") or {}
    same = spec.get("subdomain") == at(service, "metadata", "name")
    return str(spec.get("hostname") or "") if same else ""


def endpoint(service: Object, pod: Object, zone: str | None, kind: str) -> Object | None:
    """The endpoint that a pod is for a service in one address family; None if it has no address of it."""
    addresses = [text for version, text, _ in map(parsed, addresses_of(pod)) if version == kind]
    if not addresses:
        return None
    meta, spec = pod["metadata"], service.get("spec") or {}
    serving, terminating = is_ready(pod), bool(meta.get("deletionTimestamp"))
    ready = bool(spec.get("publishNotReadyAddresses")) or (serving and not terminating)
    target = {"kind": "Pod", "namespace": meta.get("namespace"), "name": meta.get("name"), "uid": meta.get("uid")}
    made: Object = {
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": target,
    }
    node, name = at(pod, "spec", "nodeName"), hostname_of(service, pod)
    if node:
        made["nodeName"] = node
    if zone:
        made["zone"] = zone
    if name:
        made["hostname"] = name
    hints = _hints(str(spec.get("trafficDistribution") or ""), made) if ready else None
    if hints:
        made["hints"] = hints
    return made


def _hints(wish: str, one: Object) -> Object:
    if wish not in CLOSE:
        return {}
    made: Object = {}
    if one.get("zone"):
        made["forZones"] = [{"name": one["zone"]}]
    if wish == "PreferSameNode" and one.get("nodeName"):
        made["forNodes"] = [{"name": one["nodeName"]}]
    return made


def _identity(one: Object) -> tuple[Any, ...]:
    """What makes an endpoint the same one: addresses, host name and pod."""
    target = one.get("targetRef") or {}
    addresses = tuple(sorted(one.get("addresses") or ()))
    return addresses, one.get("hostname") or "", target.get("namespace"), target.get("name")


def port_key(ports: Iterable[Object] | None) -> tuple[Any, ...]:
    """What is the same for the same ports, in whatever order."""
    rows = [
        (p.get("name") or "", p.get("port"), p.get("protocol") or "TCP", p.get("appProtocol") or "")
        for p in ports or ()
    ]
    return tuple(sorted(rows, key=repr))


# ---------------------------------------------------------------- slices
@define
class Draft:
    """A slice as it is to be. `before`: the one that is there."""

    kind: str
    ports: list[Object]
    endpoints: list[Object] = field(factory=list)
    before: Object | None = None
    changed: bool = False

    @property
    def room(self) -> int:
        """How many endpoints fit in."""
        return PER_SLICE - len(self.endpoints)


@define
class Plan:
    """What is to be done for one service."""

    create: list[Draft] = field(factory=list)
    update: list[Draft] = field(factory=list)
    delete: list[Object] = field(factory=list)
    unplaced: list[str] = field(factory=list)
    """Pods that are left out because their node is unknown."""
    fresh: list[Object] = field(factory=list)
    """Endpoints that are new or other than before."""


Groups = dict[tuple[Any, ...], tuple[list[Object], dict[tuple[Any, ...], Object]]]
"""By ports: the ports, and the endpoints by identity."""


def plan(service: Object, pods: Sequence[Object], zones: Mapping[str, str], slices: Sequence[Object]) -> Plan:
    """What must happen to `slices`, all that the controller has for the service, so that they list the pods.

    zones: the zone ("" for none) of each node that there is.
    """
    made, kinds = Plan(), families(service)
    for kind in kinds:
        _plan_kind(made, service, pods, zones, kind, [one for one in slices if one.get("addressType") == kind])
    made.delete += [one for one in slices if one.get("addressType") not in kinds]
    return made


def _plan_kind(
    whole: Plan, service: Object, pods: Sequence[Object], zones: Mapping[str, str], kind: str, slices: Sequence[Object]
) -> None:
    wanted = _wanted(whole, service, pods, zones, kind)
    there: dict[tuple[Any, ...], list[Object]] = {}
    for one in sorted(slices, key=lambda s: str(s["metadata"].get("name"))):
        there.setdefault(port_key(one.get("ports")), []).append(one)
    made = Plan()
    for key, (ports, endpoints) in wanted.items():
        _pack(made, service, kind, ports, endpoints, there.pop(key, []))
    made.delete += [one for group in there.values() for one in group]
    if len(made.delete) == len(slices) and not made.create:
        # A service without endpoints keeps one empty slice.
        bare = Draft(kind, [])
        if len(made.delete) == 1 and _is_placeholder(made.delete[0], service):
            made.delete.clear()
        else:
            made.create.append(bare)
    while made.create and made.delete:
        draft = made.create.pop()
        draft.before = made.delete.pop(0)
        made.update.append(draft)
    whole.create += made.create
    whole.update += made.update
    whole.delete += made.delete
    whole.fresh += made.fresh


def _wanted(whole: Plan, service: Object, pods: Sequence[Object], zones: Mapping[str, str], kind: str) -> Groups:
    groups: Groups = {}
    anyway = bool(at(service, "spec", "publishNotReadyAddresses"))
    for pod in sorted(pods, key=lambda p: str(p["metadata"].get("name"))):
        if not published(pod, True):
            continue
        ports = ports_of(service, pod)
        _, endpoints = groups.setdefault(port_key(ports), (ports, {}))
        node = at(pod, "spec", "nodeName")
        if node and node not in zones and not anyway:
            whole.unplaced.append(str(pod["metadata"].get("name")))
            continue
        one = endpoint(service, pod, zones.get(node or ""), kind)
        if one is not None:
            endpoints[_identity(one)] = one
    return groups


def _is_placeholder(one: Object, service: Object) -> bool:
    labels = at(one, "metadata", "labels") or {}
    return not one.get("endpoints") and not one.get("ports") and labels == slice_labels(service)


def _pack(
    made: Plan,
    service: Object,
    kind: str,
    ports: list[Object],
    endpoints: dict[tuple[Any, ...], Object],
    slices: Sequence[Object],
) -> None:
    """Keeps what is where it is, fills slices that change anyway, the fullest first, then one other or new ones."""
    drafts, labels = [], slice_labels(service)
    for one in slices:
        draft = Draft(kind, list(one.get("ports") or ()), before=one)
        for had in one.get("endpoints") or ():
            new = endpoints.pop(_identity(had), None)
            if new is not None:
                draft.endpoints.append(new)
                if not same(had, new):
                    made.fresh.append(new)
                    draft.changed = True
            else:
                draft.changed = True
        if draft.changed and not draft.endpoints:
            made.delete.append(one)
            continue
        draft.changed = draft.changed or (at(one, "metadata", "labels") or {}) != labels
        drafts.append(draft)
    rest = list(endpoints.values())
    made.fresh += rest
    for draft in sorted((d for d in drafts if d.changed), key=lambda d: d.room):
        _fill(draft, rest)
    while rest:
        fits = [d for d in drafts if not d.changed and 0 <= d.room - len(rest)] if len(rest) < PER_SLICE else []
        target = min(fits, key=lambda d: d.room, default=None)
        if target is None:
            target = Draft(kind, ports)
            made.create.append(target)
        target.changed = True
        _fill(target, rest)
    made.update += [d for d in drafts if d.changed]


def _fill(draft: Draft, rest: list[Object]) -> None:
    count = max(0, draft.room)
    draft.endpoints += rest[:count]
    del rest[:count]


def same(had: Object, new: Object) -> bool:
    """Whether an endpoint of a slice says what it should; absent, null and empty are the same."""
    return _bare(had) == _bare(new)


def _bare(one: Object) -> Object:
    return {k: v for k, v in one.items() if v not in (None, "", [], {}) and k != "deprecatedTopology"}


def slice_labels(service: Object, manager: str = "endpointslice-controller.k8s.io") -> Object:
    """The labels of a service's slices: its own, and whose they are."""
    meta = service.get("metadata") or {}
    made = {k: v for k, v in (meta.get("labels") or {}).items() if k not in RESERVED}
    if headless(service):
        made[HEADLESS] = ""
    return {**made, SERVICE_NAME: meta.get("name"), MANAGED_BY: manager}


def transitions(pods: Sequence[Object], fresh: Sequence[Object]) -> Iterator[str]:
    """When the pods of these endpoints last became ready or not, as the API writes it."""
    names = {at(one, "targetRef", "name") for one in fresh}
    for pod in pods:
        if pod["metadata"].get("name") in names:
            for row in at(pod, "status", "conditions") or ():
                if row.get("type") == "Ready" and row.get("lastTransitionTime"):
                    yield str(row["lastTransitionTime"])
