"""What kubernetes.mirroring computes: Endpoints that people wrote, as slices.

Sources: pkg/controller/endpointslicemirroring (reconciler.go, utils.go), release 1.34.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from dashpot.model.extern.endpointslices import MANAGED_BY, SERVICE_NAME, family, port_key
from dashpot.model.extern.workloads import Kept, Object, at, canonical

CONTROLLER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
PER_SUBSET = 1000
"""The most addresses of a subset that are shown (--mirroring-max-endpoints-per-subset)."""
NOT_SHOWN = ("endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration")


def selecting(service: Kept) -> bool:
    """Whether the service has a selector, so that its endpoints are made by others."""
    return bool(at(service.json, "spec", "selector"))


def mirrors(one: Kept) -> bool:
    """Whether Endpoints are to be shown: not those that say no, and not those of old leader elections."""
    meta = one.json.get("metadata") or {}
    return (meta.get("labels") or {}).get(SKIP) != "true" and LEADER not in (meta.get("annotations") or {})


def mirrored(one: Kept, name: str) -> bool:
    """Whether a slice shows the Endpoints of that name."""
    labels = at(one.json, "metadata", "labels") or {}
    return labels.get(MANAGED_BY) == CONTROLLER and labels.get(SERVICE_NAME) == name


def planned(one: Kept, slices: Sequence[Kept]) -> Any:
    """What is to be done with the slices of Endpoints, for the functions below."""
    groups, invalid, skipped_ = _groups(one.json)
    labels, annotations = _labels(one.json), _annotations(one.json)
    create: list[Object] = []
    update: dict[str, Object] = {}
    spare: list[Object] = []
    there: dict[Any, list[Object]] = {}
    for slice_ in sorted((s.json for s in slices), key=lambda s: str(s["metadata"]["name"])):
        there.setdefault((slice_.get("addressType"), port_key(slice_.get("ports"))), []).append(slice_)
    for key, (ports, endpoints) in groups.items():
        shown = there.pop(key, [])
        first = shown[0] if shown else None
        spare += shown[1:]
        made = {"addressType": key[0], "ports": ports, "endpoints": endpoints}
        made |= {"labels": labels, "annotations": annotations}
        if first is None:
            create.append(made)
        elif not _shows(first, endpoints):
            update[str(first["metadata"]["name"])] = made
        else:
            update[str(first["metadata"]["name"])] = {**made, "endpoints": first.get("endpoints")}
    spare += [s for group in there.values() for s in group]
    delete = [str(s["metadata"]["name"]) for s in spare]
    return {"create": create, "update": update, "delete": delete, "invalid": invalid, "skipped": skipped_}


def _groups(one: Object) -> tuple[dict[Any, tuple[list[Object], list[Object]]], int, int]:
    """By address type and ports, the ports and endpoints; how many addresses are none, and how many are left out."""
    groups: dict[Any, tuple[list[Object], list[Object]]] = {}
    invalid = skipped_ = 0
    for subset in one.get("subsets") or ():
        ports = [_port(port) for port in subset.get("ports") or ()]
        kinds = (("addresses", True), ("notReadyAddresses", False))
        rows = [(row, ready) for name, ready in kinds for row in subset.get(name) or ()]
        taken = 0
        for row, ready in rows:
            if taken >= PER_SUBSET:
                break
            kind = family(str(row.get("ip")))
            if not kind:
                invalid += 1
                continue
            taken += 1
            _, endpoints = groups.setdefault((kind, port_key(ports)), (ports, []))
            endpoints.append(_endpoint(row, ready))
        skipped_ += len(rows) - taken
    return groups, invalid, skipped_


def _port(port: Object) -> Object:
    made = {"name": port.get("name", ""), "port": port.get("port"), "protocol": port.get("protocol", "TCP")}
    return {**made, **({"appProtocol": port["appProtocol"]} if port.get("appProtocol") is not None else {})}


def _endpoint(row: Object, ready: bool) -> Object:
    made: Object = {"addresses": [str(ip_address(row["ip"]))], "conditions": {"ready": ready}}
    for name in ("targetRef", "nodeName", "hostname"):
        if row.get(name):
            made[name] = row[name]
    return made


def _shows(slice_: Object, endpoints: Sequence[Object]) -> bool:
    """Whether a slice has these endpoints, in whatever order."""
    return sorted(map(_said, slice_.get("endpoints") or ())) == sorted(map(_said, endpoints))


def _said(one: Object) -> bytes:
    return canonical({k: v for k, v in one.items() if v not in (None, "", [], {})})


def _labels(one: Object) -> Object:
    meta = one["metadata"]
    return {**(meta.get("labels") or {}), SERVICE_NAME: meta.get("name"), MANAGED_BY: CONTROLLER}


def _annotations(one: Object) -> Object:
    return {k: v for k, v in (at(one, "metadata", "annotations") or {}).items() if k not in NOT_SHOWN}


def additions(plan: Any, one: Kept, slices: Sequence[Kept]) -> list[Object]:
    """The slices that are to be made."""
    return list(plan["create"])


def surplus(plan: Any, slice_: Kept, slices: Sequence[Kept]) -> bool:
    """Whether a slice is to go."""
    return slice_.json["metadata"]["name"] in plan["delete"]


def content(plan: Any, slice_: Kept, one: Kept) -> Any:
    """The endpoints that a slice is to have."""
    return plan["update"][slice_.json["metadata"]["name"]]["endpoints"]


def content_labels(plan: Any, slice_: Kept) -> Any:
    """Its labels."""
    return plan["update"][slice_.json["metadata"]["name"]]["labels"]


def content_annotations(plan: Any, slice_: Kept) -> Any:
    """Its annotations."""
    return plan["update"][slice_.json["metadata"]["name"]]["annotations"]


def slice_prefix(name: str) -> str:
    """What generated names of its slices begin with."""
    return f"{name}-" if len(name) < 253 else name


def new_type(made: Any) -> str:
    """The address type of a slice that is to be made."""
    return str(made["addressType"])


def new_endpoints(made: Any, one: Kept) -> Any:
    """Its endpoints."""
    return made["endpoints"]


def new_ports(made: Any) -> Any:
    """Its ports."""
    return made["ports"]


def new_labels(made: Any) -> Any:
    """Its labels."""
    return made["labels"]


def new_annotations(made: Any) -> Any:
    """Its annotations."""
    return made["annotations"]


def invalid(plan: Any) -> int:
    """How many addresses are none."""
    return int(plan["invalid"])


def skipped(plan: Any) -> int:
    """How many addresses are not shown, those that are none among them."""
    return int(plan["skipped"])
