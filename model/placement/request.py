"""What a pod asks of a node (rules S3, S4): resources and host ports. Source: component-helpers resource, v1.34."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dashpot.model.objects.quantity import Quantity, parse

Object = dict[str, Any]
Sums = dict[str, Quantity]

POD_LEVEL = ("cpu", "memory")
"""Resources for which the pod's own request replaces that of its containers, with hugepages-*."""


NONZERO = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""What a container without a request counts for in scores: thousandths of a processor, bytes."""


def requests(spec: Object) -> dict[str, int]:
    """The largest need of a pod's life: containers and sidecars together, or an init container beside the sidecars
    before it; then what the pod itself says, then overhead. Exact sums, rounded up once."""
    total: Sums = {}
    for container in spec.get("containers") or ():
        _add(total, _asked(container))
    sidecars: Sums = {}
    peak: Sums = {}
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            asked = dict(sidecars)
        else:
            _add(asked, sidecars)
        _raise(peak, asked)
    _raise(total, peak)
    own = (spec.get("resources") or {}).get("requests") or {}
    for name, text in own.items():
        if name in POD_LEVEL or name.startswith("hugepages-"):
            total[name] = parse(str(text))
    _add(total, {name: parse(str(text)) for name, text in (spec.get("overhead") or {}).items()})
    return {name: whole(name, amount) for name, amount in total.items()}


def counted(spec: Object) -> dict[str, int]:
    """Processor and memory as scores count them (S6): a container that names no request counts for `NONZERO`; a request
    of the pod itself wins."""
    own = (spec.get("resources") or {}).get("requests") or {}
    found: dict[str, int] = {}
    for name, least in NONZERO.items():
        if name in own:
            found[name] = whole(name, parse(str(own[name])))
            continue
        main = [_counts(one, name, least) for one in spec.get("containers") or ()]
        inits = [_counts(one, name, least) for one in spec.get("initContainers") or ()]
        found[name] = max(sum(main), max(inits, default=0))
    return found


def host_ports(spec: Object) -> Iterator[tuple[str, str, int]]:
    """(address, protocol, port) of every host port of containers and sidecars (rule S28)."""
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or ()), *sidecars]:
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]


def scalar(name: str) -> bool:
    """Resources beside the basic ones that nodes are asked for (S7): extended ones, huge pages, attachable volumes."""
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def extended(name: str) -> bool:
    """Resources that Kubernetes itself knows nothing of (S7)."""
    return "/" in name and "kubernetes.io/" not in name


def _asked(container: Object) -> Sums:
    named = (container.get("resources") or {}).get("requests") or {}
    return {name: parse(str(text)) for name, text in named.items()}


def _add(total: Sums, more: Sums) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: Sums, least: Sums) -> None:
    for name, amount in least.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def _counts(container: Object, name: str, least: int) -> int:
    named = (container.get("resources") or {}).get("requests") or {}
    return whole(name, parse(str(named[name]))) if name in named else least


def whole(name: str, amount: Quantity) -> int:
    """The integer that placement counts with (S3): thousandths of a processor, whole units of all else."""
    return amount.milli if name == "cpu" else amount.value
