"""Why a pod stands nowhere, in the scheduler's words (rules S60, S61)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dashpot.model.placement.cycle import Unfit
from dashpot.model.placement.shape import Status

NO_NODES = "no nodes available to schedule pods"
LONGEST, MORE = 1024, " ..."
NO_HELP = "Preemption is not helpful for scheduling"


def why(outcome: Unfit, tail: str = "") -> str:
    """The whole of it (S60, S61): what the cycle found, and what preemption did."""
    if outcome.refused is not None:
        first = f"0/{len(outcome.statuses)} nodes are available: {', '.join(outcome.refused.reasons)}."
    else:
        reasons = Counter(reason for one in outcome.statuses.values() for reason in one.reasons)
        first = _composed(len(outcome.statuses), reasons)
    return f"{first} {tail}" if tail else first


def preempted(tried: Sequence[Status | None]) -> str:
    """What preemption says that found nothing: of each node why its pods' going would not do; None: not tried."""
    reasons = Counter(reason for one in tried for reason in ((NO_HELP,) if one is None else one.reasons))
    return f"preemption: {_composed(len(tried), reasons)}"


def cut(text: str) -> str:
    """The note of an event: 1024 bytes, with ` ...` where it was longer (S63)."""
    raw = text.encode()
    return text if len(raw) <= LONGEST else raw[: LONGEST - len(MORE)].decode(errors="ignore") + MORE


def _composed(nodes: int, reasons: Counter[str]) -> str:
    lines = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(lines)}."
