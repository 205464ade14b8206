"""The quality of service of a pod: what is evicted first when a node runs short. Source: pkg/apis/core/helper/qos."""

from __future__ import annotations

from dashpot.model.objects.quantity import ZERO, Quantity, QuantityError, parse
from dashpot.model.objects.status import Object

_COUNTED = ("cpu", "memory")


def qos_class(spec: Object) -> str:
    """Guaranteed (limits of CPU and memory everywhere, requests as much), BestEffort (nothing said), else Burstable."""
    if spec.get("resources"):
        groups = [spec["resources"]]
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        groups = [found.get("resources") or {} for found in containers]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for group in groups:
        _add(requests, group.get("requests"))
        found = _add(limits, group.get("limits"))
        guaranteed = guaranteed and found == 2
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _add(sums: dict[str, Quantity], amounts: dict[str, str] | None) -> int:
    """Adds what counts; how many of the two resources were there."""
    found = 0
    for name in _COUNTED:
        try:
            amount = parse(amounts[name]) if amounts and name in amounts else ZERO
        except QuantityError:
            continue
        if amount > ZERO:
            sums[name] = sums[name] + amount if name in sums else amount
            found += 1
    return found
