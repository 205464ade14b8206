"""The cells of services, endpoints and what else belongs to the network.

Source: kubernetes pkg/printers/internalversion/printers.go, release 1.34. Address lists are never clipped: the server
prints as for `-o wide`.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.table_text import (
    NONE,
    UNKNOWN,
    Object,
    age,
    at,
    columns,
    cut,
    cut_or_unset,
    join_host_port,
    labels,
    name,
    selector,
    spec,
)


def service(obj: Object, now: float) -> list[Any]:
    """Type, addresses, ports."""
    wanted = spec(obj)
    addresses = wanted.get("clusterIPs") or ([wanted["clusterIP"]] if wanted.get("clusterIP") else [])
    ports = ",".join(map(_port, wanted.get("ports") or ()))
    return [
        name(obj),
        wanted.get("type", ""),
        addresses[0] if addresses else NONE,
        _external(obj),
        ports or NONE,
        age(obj, now),
        labels(wanted.get("selector")),
    ]


def _port(row: Object) -> str:
    node = f":{row['nodePort']}" if row.get("nodePort") else ""
    return f"{row.get('port', 0)}{node}/{row.get('protocol', '')}"


def _external(obj: Object) -> str:
    wanted = spec(obj)
    kind, addresses = wanted.get("type"), wanted.get("externalIPs") or []
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(addresses) or NONE
    if kind == "LoadBalancer":
        balanced = _balancer(obj)
        return ",".join(([balanced] if balanced else []) + addresses) or "<pending>"
    return wanted.get("externalName", "") if kind == "ExternalName" else UNKNOWN


def _balancer(obj: Object) -> str:
    rows = at(obj, "status", "loadBalancer").get("ingress") or ()
    return ",".join(sorted({row.get("ip") or row.get("hostname") or "" for row in rows} - {""}))


def endpoints(obj: Object, now: float) -> list[Any]:
    """The first three addresses."""
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [row.get("ip", "") for row in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += addresses
        for port in ports:
            found += [join_host_port(address, port.get("port", 0)) for address in addresses]
    shown = cut(found, 3) if obj.get("subsets") else NONE
    return [name(obj), shown, age(obj, now)]


def endpointslice(obj: Object, now: float) -> list[Any]:
    """Ports and addresses."""
    ports = [
        str(row["port"]) if row.get("port") is not None else row.get("name", "*") for row in obj.get("ports") or ()
    ]
    addresses = [address for row in obj.get("endpoints") or () for address in row.get("addresses") or ()]
    return [name(obj), obj.get("addressType", ""), cut_or_unset(ports), cut_or_unset(addresses), age(obj, now)]


def ingress(obj: Object, now: float) -> list[Any]:
    """Class, hosts, address and ports."""
    wanted = spec(obj)
    rules = wanted.get("rules") or []
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    shown = ",".join(hosts[:3]) or "*"
    if len(hosts) >= 3 and _more_rules(rules):
        shown += f" + {len(rules) - 3} more..."
    ports = "80, 443" if wanted.get("tls") else "80"
    return [name(obj), wanted.get("ingressClassName") or NONE, shown, _balancer(obj), ports, age(obj, now)]


def _more_rules(rules: list[Object]) -> bool:
    """Whether a rule follows the third one with a host."""
    seen = 0
    for rule in rules:
        if seen == 3:
            return True
        seen += bool(rule.get("host"))
    return False


def ingressclass(obj: Object, now: float) -> list[Any]:
    """Controller, parameters."""
    parameters = spec(obj).get("parameters")
    shown = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        shown = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [name(obj), spec(obj).get("controller", ""), shown, age(obj, now)]


def networkpolicy(obj: Object, now: float) -> list[Any]:
    """Which pods it is for."""
    return [name(obj), selector(spec(obj).get("podSelector")) or NONE, age(obj, now)]


def servicecidr(obj: Object, now: float) -> list[Any]:
    """The ranges."""
    return [name(obj), ",".join(spec(obj).get("cidrs") or ()), age(obj, now)]


def ipaddress(obj: Object, now: float) -> list[Any]:
    """Whose address it is."""
    parent = spec(obj).get("parentRef")
    shown = NONE
    if parent:
        group = f".{parent['group']}" if parent.get("group") else ""
        namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
        shown = f"{parent.get('resource', '')}{group}".lower() + f"{namespace}/{parent.get('name', '')}"
    return [name(obj), shown, age(obj, now)]


PRINTERS = {
    ("", "services"): (columns("Name Type Cluster-IP External-IP Port(s) Age Selector*"), service),
    ("", "endpoints"): (columns("Name Endpoints Age"), endpoints),
    ("discovery.k8s.io", "endpointslices"): (columns("Name AddressType Ports Endpoints Age"), endpointslice),
    ("networking.k8s.io", "ingresses"): (columns("Name Class Hosts Address Ports Age"), ingress),
    ("networking.k8s.io", "ingressclasses"): (columns("Name Controller Parameters Age"), ingressclass),
    ("networking.k8s.io", "networkpolicies"): (columns("Name Pod-Selector Age"), networkpolicy),
    ("networking.k8s.io", "servicecidrs"): (columns("Name CIDRs Age"), servicecidr),
    ("networking.k8s.io", "ipaddresses"): (columns("Name ParentRef Age"), ipaddress),
}
"""Columns and cells by group and plural."""
