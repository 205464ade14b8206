"""What the scheduler tells of pods: events, the condition PodScheduled, and the nominated node (S14, S63, S64)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.model.placement.message import cut
from dashpot.model.placement.shape import Pod
from dashpot.runtime.client.events import Recorder
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.clock import Clock, rfc3339

Object = dict[str, Any]

NAME = "default-scheduler"
"""Of the scheduler that a pod gets that asks for none."""


def scheduler_of(obj: Object) -> str:
    """Which scheduler a pod asks for."""
    return str((obj.get("spec") or {}).get("schedulerName") or NAME)


def named(obj: Object) -> Object:
    """A pod as an event refers to it."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": obj["metadata"]}


class Teller:
    """`recorders`: by the scheduler's name."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorders: Mapping[str, Recorder],
        complain: Callable[[str], None],
    ) -> None:
        self._client, self._clock, self._recorders, self._complain = client, clock, recorders, complain

    def assigned(self, pod: Pod, node: str) -> None:
        """The pod is bound."""
        self._event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.namespace}/{pod.name} to {node}")

    def skipped(self, pod: Pod) -> None:
        """The pod is being deleted."""
        self._event(pod, "Warning", "FailedScheduling", f"skip schedule deleting pod: {pod.namespace}/{pod.name}")

    def failed(self, pod: Pod, error: str) -> None:
        """Something went wrong that is nobody's refusal."""
        self._event(pod, "Warning", "FailedScheduling", cut(error))

    async def unfit(self, pod: Pod, why: str, *, nominated: str | None = None) -> None:
        """The pod stands nowhere. `nominated`: the node that it is promised; "": none any more; None: says nothing."""
        self._event(pod, "Warning", "FailedScheduling", cut(why))
        known = _condition(pod.object)
        said = known is not None and (known.get("status"), known.get("message")) == ("False", why)
        status: Object = {}
        if not said:
            since = known.get("lastTransitionTime") if known is not None and known.get("status") == "False" else None
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": why,
                    "lastTransitionTime": since or rfc3339(self._clock.now()),
                }
            ]
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        await self._write(pod, status)

    async def nominate(self, pod: Pod, node: str) -> None:
        """The pod is promised a node; "": none any more."""
        await self._write(pod, {"nominatedNodeName": node or None})

    async def _write(self, pod: Pod, status: Object) -> None:
        if not status:
            return
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await self._client.patch("pods", pod.name, patch, pod.namespace, kind="strategic", subresource="status")
        except (StatusError, TransportError) as error:
            if not (isinstance(error, StatusError) and error.reason in ("NotFound", "Conflict")):
                self._complain(f"telling why {pod.namespace}/{pod.name} waits: {error}")

    def _event(self, pod: Pod, kind: str, reason: str, note: str) -> None:
        recorder = self._recorders.get(scheduler_of(pod.object)) or next(iter(self._recorders.values()))
        recorder.event(named(pod.object), kind, reason, note)  # type: ignore[arg-type]


def _condition(pod: Object) -> Object | None:
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == "PodScheduled":
            found: Object = one
            return found
    return None
