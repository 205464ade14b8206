"""Preemption at work (S54 to S58): which pods have to go, and how they are told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from attrs import frozen

from dashpot.model.objects.status import StatusError
from dashpot.model.placement import preempt
from dashpot.model.placement.cycle import Nominations, Profile, Unfit
from dashpot.model.placement.preempt import Candidate
from dashpot.model.placement.shape import Pod
from dashpot.model.placement.snapshot import Snapshot
from dashpot.runtime.client.rest import Client, Delete
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.clock import Clock, rfc3339

Object = dict[str, Any]
REASON = "PreemptionByScheduler"


@frozen
class Answer:
    """A node and its victims; or, in `tail`, why there is none."""

    candidate: Candidate | None
    tail: str = ""


def sought(
    pod: Pod,
    cluster: Snapshot,
    profile: Profile,
    outcome: Unfit,
    promised: Nominations,
    chance: random.Random,
    now: float,
) -> Answer:
    """Where a pod that fits nowhere could stand if less important ones went."""
    offset = chance.randrange(len(cluster.nodes))
    found, tail = preempt.attempted(
        pod, cluster, profile.filters, outcome, now=now, nominations=promised, offset=offset
    )
    return Answer(found[chance.choice(preempt.picks(found, now=now))] if found else None, tail)


class Evictor:
    """Tells victims to go. `told` records an event about a pod: object, reason, note."""

    def __init__(self, client: Client, clock: Clock, name: str, told: Callable[[Object, str, str], None]) -> None:
        self._client, self._clock, self._name, self._told = client, clock, name, told

    async def evict(self, victim: Pod, by: Pod, node: str) -> None:
        """Its condition says why, then it is deleted with the grace that it asks for. A victim that is gone, or another
        one by now, is no victim any more. StatusError, TransportError."""
        meta = victim.object["metadata"]
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": REASON,
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                "pods", meta["name"], patch, meta["namespace"], kind="strategic", subresource="status"
            )
            await self._client.delete("pods", meta["name"], meta["namespace"], how=Delete(uid=meta["uid"]))
        except StatusError as error:
            if error.reason in ("NotFound", "Conflict"):
                return
            raise
        self._told(victim.object, "Preempted", f"Preempted by pod {by.uid} on node {node}")


FAILURES = (StatusError, TransportError)
"""What a write may fail with."""
