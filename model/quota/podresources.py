"""How much a pod asks for: the sum of its containers, or the largest that initialises it; and its overhead.

Source: k8s.io/component-helpers resource/helpers.go, release 1.34; KEP-753 (sidecars), KEP-2837 (pod-level).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashpot.model.objects import quantity
from dashpot.model.objects.quantity import Quantity

Amounts = dict[str, Quantity]
Object = dict[str, Any]


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """A list of resources, read; what is no quantity is left to validation."""
    found: Amounts = {}
    for name, text in (listed or {}).items():
        try:
            found[name] = quantity.parse(str(text))
        except quantity.QuantityError:
            continue
    return found


def add(left: Amounts, right: Amounts) -> Amounts:
    """The sum, over the names of both."""
    found = dict(left)
    for name, amount in right.items():
        found[name] = found[name] + amount if name in found else amount
    return found


def larger(left: Amounts, right: Amounts) -> Amounts:
    """The larger of each name."""
    found = dict(left)
    for name, amount in right.items():
        if name not in found or found[name] < amount:
            found[name] = amount
    return found


def _of(container: Object, which: str, held: Mapping[str, Object]) -> Amounts:
    """A container's resources; while it is being resized the larger of wish and grant counts."""
    wanted = amounts((container.get("resources") or {}).get(which))
    status = held.get(container.get("name", ""))
    if status is not None and which == "requests" and status.get("allocatedResources"):
        return larger(wanted, amounts(status["allocatedResources"]))
    return wanted


def pod_amounts(spec: Object, which: str, status: Object | None = None) -> Amounts:
    """`requests` or `limits` of a pod.

    Sidecars (init containers that restart) run on, and count while later ones initialise; resources of the pod itself
    replace the sum of its containers; overhead comes on top, for limits only where there is one.
    """
    held = {s.get("name", ""): s for s in (status or {}).get("containerStatuses") or ()}
    running: Amounts = {}
    for container in spec.get("containers") or ():
        running = add(running, _of(container, which, held))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, which, held)
        if container.get("restartPolicy") == "Always":
            running = add(running, own)
            sidecars = add(sidecars, own)
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, add(own, sidecars))
    found = larger(running, peak)
    found.update(amounts((spec.get("resources") or {}).get(which)))
    overhead = amounts(spec.get("overhead"))
    for name, amount in overhead.items():
        if which == "requests" or found.get(name):
            found[name] = found[name] + amount if name in found else amount
    return found
