"""The cells of pods. Source: kubernetes pkg/printers/internalversion/printers.go, printPod, release 1.34."""

from __future__ import annotations

from typing import Any

from attrs import define

from dashpot.model.objects.table_text import (
    NONE,
    Object,
    age,
    columns,
    condition,
    human,
    is_true,
    meta,
    name,
    seconds,
    spec,
    status,
)

COLUMNS = columns("Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*")

COMPLETED = {
    "Succeeded": [
        {
            "type": "Completed",
            "status": "True",
            "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }
    ],
    "Failed": [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}],
}
"""Conditions of the rows of pods that have ended."""


@define
class _Count:
    """Restarts, and when the last one was."""

    restarts: int = 0
    last: float | None = None

    def add(self, container: Object) -> None:
        self.restarts += container.get("restartCount") or 0
        ended = (container.get("lastState") or {}).get("terminated")
        if ended:
            then = seconds(ended.get("finishedAt"))
            if then is not None and (self.last is None or then > self.last):
                self.last = then

    def shown(self, now: float) -> str:
        if not self.restarts or self.last is None:
            return str(self.restarts)
        return f"{self.restarts} ({human(now - self.last)} ago)"


def pod(obj: Object, now: float) -> list[Any]:
    """Name, ready/total, the state by its reason, restarts, age; address, node, nominated node, readiness gates."""
    wanted, found = spec(obj), status(obj)
    sidecars = {row.get("name") for row in wanted.get("initContainers") or () if row.get("restartPolicy") == "Always"}
    total = len(wanted.get("containers") or ()) + len(sidecars)
    reason = found.get("reason") or found.get("phase") or ""
    for row in found.get("conditions") or ():
        if row.get("type") == "PodScheduled" and row.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    count, sidecar_count = _Count(), _Count()
    initial, ready = _initial(wanted, found, sidecars, count, sidecar_count)
    if initial:
        reason = initial
    if not initial or is_true(found.get("conditions"), "Initialized"):
        count = sidecar_count
        reason, running = _main(found, reason, count)
        ready += running
    deleted = meta(obj).get("deletionTimestamp")
    if deleted and found.get("reason") == "NodeLost":
        reason = "Unknown"
    elif deleted and found.get("phase") not in ("Succeeded", "Failed"):
        reason = "Terminating"
    return [name(obj), f"{ready}/{total}", reason, count.shown(now), age(obj, now), *_wide(wanted, found)]


def _initial(
    wanted: Object, found: Object, sidecars: set[Any], count: _Count, sidecar_count: _Count
) -> tuple[str, int]:
    """What initialisation waits for ("" if for nothing), and how many sidecars are ready."""
    ready = 0
    for number, container in enumerate(found.get("initContainerStatuses") or ()):
        count.add(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            sidecar_count.add(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if ended is not None:
            return "Init:" + (ended.get("reason") or _ending(ended)), ready
        if waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return "Init:" + waiting["reason"], ready
        return f"Init:{number}/{len(wanted.get('initContainers') or ())}", ready
    return "", ready


def _main(found: Object, reason: str, count: _Count) -> tuple[str, int]:
    """The reason that the containers give, the first container's last word, and how many are ready."""
    ready = 0
    for container in reversed(found.get("containerStatuses") or ()):
        count.add(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = ended.get("reason") or _ending(ended)
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if reason == "Completed" and ready:
        reason = "Running" if is_true(found.get("conditions"), "Ready") else "NotReady"
    return reason, ready


def _ending(ended: Object) -> str:
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode') or 0}"


def _wide(wanted: Object, found: Object) -> list[str]:
    addresses = found.get("podIPs") or ()
    address = addresses[0].get("ip") if addresses else ""
    gates = wanted.get("readinessGates") or ()
    open_gates = 0
    for gate in gates:
        row = condition(found.get("conditions") or (), gate.get("conditionType"))
        open_gates += row is not None and row.get("status") == "True"
    return [
        address or NONE,
        wanted.get("nodeName") or NONE,
        found.get("nominatedNodeName") or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    ]
