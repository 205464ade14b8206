"""Why a pod stands nowhere, in the scheduler's words (rules S60, S61)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dashpot.model.placement.shape import Code, Status

NO_NODES = "no nodes available to schedule pods"
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_HELP = "Preemption is not helpful for scheduling"


def unfit(statuses: Mapping[str, Status]) -> str:
    """`0/3 nodes are available: 1 Insufficient cpu, …. preemption: …`; `statuses` by node, none of them a success."""
    if not statuses:
        return NO_NODES
    tail = {name: NO_HELP if one.code is Code.UNRESOLVABLE else NO_VICTIMS for name, one in statuses.items()}
    told = _composed(len(statuses), Counter(reason for one in statuses.values() for reason in one.reasons))
    return f"{told} preemption: {_composed(len(statuses), Counter(tail.values()))}"


def refused(nodes: int, why: str) -> str:
    """The same for a pod that no node can help, whatever its state (upstream: refused before the filters)."""
    if not nodes:
        return NO_NODES
    return f"0/{nodes} nodes are available: {why}. preemption: {_composed(nodes, Counter({NO_HELP: nodes}))}"


def _composed(nodes: int, reasons: Counter[str]) -> str:
    lines = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(lines)}."
