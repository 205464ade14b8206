"""Where a proxy request goes: `pods|services|nodes/[SCHEME:]NAME[:PORT]/proxy` to an address.

Sources: k8s.io/apimachinery pkg/util/net (SplitSchemeNamePort), pkg/registry/core/{pod,service,node} ResourceLocation,
release 1.34.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from dashpot.model.objects.status import StatusError, Subject, bad_request, not_found
from dashpot.runtime.api.view import View

Object = dict[str, Any]


@frozen
class Named:
    """A name of the URL, taken apart; `port` is a number, a name, or empty."""

    scheme: str
    name: str
    port: str

    @property
    def secure(self) -> bool:
        """Whether TLS is asked for."""
        return self.scheme == "https"


@frozen
class Target:
    """An address to connect to."""

    scheme: str
    host: str
    port: int

    @property
    def netloc(self) -> str:
        """`10.0.0.1:80`, `[fd00::1]:80`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def named(text: str, resource: str) -> Named:
    """Takes `https:web:8443` apart; StatusError 400 for what is none. `resource`: pods, services or nodes."""
    parts = text.split(":")
    scheme, name, port = "", parts[0], ""
    if len(parts) == 2:
        name, port = parts
    elif len(parts) == 3:
        scheme, name, port = parts
    if len(parts) > 3 or not name or scheme not in ("", "http", "https"):
        raise bad_request(f'invalid {resource.removesuffix("s")} request "{text}"')
    return Named(scheme or "http", name, port)


def unavailable(why: str) -> StatusError:
    """503."""
    return StatusError("ServiceUnavailable", why)


def allowed(address: str) -> bool:
    """Whether anybody may be sent there: never to this machine, link-local or multicast addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified)


def _number(port: str, host: str) -> int:
    if port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536:
        return int(port)
    raise unavailable(f"error trying to reach service: dial tcp: address {host}:{port[:64]}: invalid port")


def of_pod(pod: Object, asked: Named) -> Target:
    """A pod's address; without a port the first that a container names."""
    port = asked.port
    if not port:
        spec = pod.get("spec") or {}
        named_ports = (p for c in spec.get("containers") or () for p in (c.get("ports") or ())[:1])
        first = next(named_ports, None)
        port = str(first["containerPort"]) if first is not None else "443" if asked.secure else "80"
    status = pod.get("status") or {}
    addresses = status.get("podIPs") or ()
    host = addresses[0].get("ip") or "" if addresses else status.get("podIP") or ""
    if not allowed(host):
        raise bad_request("address not allowed")
    return Target(asked.scheme, host, _number(port, host))


def of_node(node: Object, asked: Named) -> Target:
    """A port of a node that is not its kubelet's."""
    found = {a.get("type"): a.get("address") for a in (node.get("status") or {}).get("addresses") or ()}
    host = found.get("InternalIP") or found.get("ExternalIP") or ""
    if not allowed(host):
        raise bad_request("address not allowed")
    return Target(asked.scheme, host, _number(asked.port, host))


async def of_service(view: View, namespace: str, asked: Named, pick: random.Random) -> Target:
    """One of a service's ready endpoints; StatusError 503 if there is none."""
    service = await view.fresh("", "services", namespace, asked.name)
    if service is None:
        raise not_found(Subject("", "services"), asked.name)
    port = asked.port
    if port.isascii() and port.isdigit():
        ports = (service.get("spec") or {}).get("ports") or ()
        entry = next((p for p in ports if str(p.get("port")) == port.lstrip("0")), None)
        if entry is None:
            raise unavailable(f'no service port {port} found for service "{asked.name}"')
        port = entry.get("name") or ""
    # a resource that nobody has read yet is not in the view: asking for one object brings it in
    await view.fresh("discovery.k8s.io", "endpointslices", namespace, asked.name)
    await view.fresh("", "endpoints", namespace, asked.name)
    ready = sorted(set(_ready(view, namespace, asked.name, port)))
    if not ready:
        raise unavailable(f'no endpoints available for service "{asked.name}"')
    host, number = pick.choice(ready)
    return Target(asked.scheme, host, number)


def _ready(view: View, namespace: str, name: str, port: str) -> Iterator[tuple[str, int]]:
    """Addresses of the slices, and of the older Endpoints where there are no slices."""
    sliced = False
    for one in view.list("discovery.k8s.io", "endpointslices", namespace):
        if (one["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
            continue
        sliced = True
        numbers = [p["port"] for p in one.get("ports") or () if (p.get("name") or "") == port and p.get("port")]
        for endpoint in one.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                addresses = endpoint.get("addresses") or ()
                yield from ((address, number) for address in addresses if allowed(address) for number in numbers)
    if sliced:
        return
    older = view.get("", "endpoints", namespace, name) or {}
    for subset in older.get("subsets") or ():
        numbers = [p["port"] for p in subset.get("ports") or () if (p.get("name") or "") == port]
        addresses = [a["ip"] for a in subset.get("addresses") or ()]
        yield from ((address, number) for address in addresses if allowed(address) for number in numbers)
