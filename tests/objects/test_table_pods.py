"""The status of a pod in one word, how often it was restarted, and what shows with `-o wide`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.objects.test_table import CREATED, NOW, made

from dashpot.model.objects.table_pods import pod


def running(ready: bool = True, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"ready": ready, "restartCount": restarts, "state": {"running": {}}} | more


def waiting(reason: str, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"restartCount": restarts, "state": {"waiting": {"reason": reason}}} | more


def ended(**state: Any) -> dict[str, Any]:
    return {"restartCount": 0, "state": {"terminated": state}}


def last(time: str) -> dict[str, Any]:
    return {"lastState": {"terminated": {"finishedAt": time}}}


def condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status} | more


ONE = {"containers": [{"name": "a"}]}
TWO = {"containers": [{"name": "a"}, {"name": "b"}]}
INIT = ONE | {"initContainers": [{"name": "i"}, {"name": "j"}]}
SIDECAR = ONE | {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}

CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("pending", ONE, {"phase": "Pending"}, "0/1 Pending 0"),
    ("running", TWO, {"phase": "Running", "containerStatuses": [running(), running(False)]}, "1/2 Running 0"),
    ("creating", ONE, {"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]},
     "0/1 ContainerCreating 0"),
    ("crash loop", ONE, {"phase": "Running", "containerStatuses": [
        waiting("CrashLoopBackOff", 3, **last(CREATED))]}, "0/1 CrashLoopBackOff 3 (5m ago)"),
    ("restarts without a time", ONE, {"phase": "Running", "containerStatuses": [running(restarts=2)]},
     "1/1 Running 2"),
    ("the first container has the last word", TWO, {"phase": "Running", "containerStatuses": [
        waiting("ImagePullBackOff"), waiting("CrashLoopBackOff")]}, "0/2 ImagePullBackOff 0"),
    ("completed", ONE, {"phase": "Succeeded", "containerStatuses": [ended(reason="Completed", exitCode=0)]},
     "0/1 Completed 0"),
    ("one completed, one runs", TWO, {"phase": "Running", "conditions": [condition("Ready")],
        "containerStatuses": [ended(reason="Completed", exitCode=0), running()]}, "1/2 Running 0"),
    ("one completed, one runs, not ready", TWO, {"phase": "Running", "containerStatuses": [
        ended(reason="Completed", exitCode=0), running()]}, "1/2 NotReady 0"),
    ("signal", ONE, {"phase": "Failed", "containerStatuses": [ended(signal=9, exitCode=137)]}, "0/1 Signal:9 0"),
    ("exit code", ONE, {"phase": "Failed", "containerStatuses": [ended(exitCode=3)]}, "0/1 ExitCode:3 0"),
    ("evicted", ONE, {"phase": "Failed", "reason": "Evicted"}, "0/1 Evicted 0"),
    ("gated", ONE, {"phase": "Pending", "conditions": [
        condition("PodScheduled", "False", reason="SchedulingGated")]}, "0/1 SchedulingGated 0"),
    ("initialising", INIT, {"phase": "Pending", "initContainerStatuses": [running(False), waiting("PodInitializing")],
        "containerStatuses": [waiting("PodInitializing")]}, "0/1 Init:0/2 0"),
    ("initialising, the second", INIT, {"phase": "Pending", "initContainerStatuses": [
        ended(exitCode=0), waiting("PodInitializing")]}, "0/1 Init:1/2 0"),
    ("initialisation crashes", INIT, {"phase": "Pending", "initContainerStatuses": [
        waiting("CrashLoopBackOff", 2, **last(CREATED))]}, "0/1 Init:CrashLoopBackOff 2 (5m ago)"),
    ("initialisation failed", INIT, {"phase": "Failed", "initContainerStatuses": [ended(exitCode=2)]},
     "0/1 Init:ExitCode:2 0"),
    ("initialisation was killed", INIT, {"phase": "Failed", "initContainerStatuses": [ended(exitCode=1, signal=9)]},
     "0/1 Init:Signal:9 0"),
    ("initialisation failed with a reason", INIT, {"phase": "Failed", "initContainerStatuses": [
        ended(exitCode=1, reason="Error")]}, "0/1 Init:Error 0"),
    ("initialised: its restarts no longer count", INIT, {"phase": "Running", "conditions": [condition("Initialized")],
        "initContainerStatuses": [ended(exitCode=0) | {"restartCount": 5}], "containerStatuses": [running(restarts=1)]},
     "1/1 Running 1"),
    ("a sidecar counts", SIDECAR, {"phase": "Running", "initContainerStatuses": [
        running(restarts=2, name="s", started=True, **last(CREATED))], "containerStatuses": [running()]},
     "2/2 Running 2 (5m ago)"),
    ("a sidecar that has not started", SIDECAR, {"phase": "Pending", "initContainerStatuses": [
        running(False, name="s", started=False)]}, "0/2 Init:0/1 0"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "spec", "status", "shown"), CASES, ids=[case[0] for case in CASES])
def test_status(what: str, spec: Any, status: Any, shown: str) -> None:
    assert " ".join(pod(made(spec=spec, status=status), NOW)[1:4]) == shown


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed", "containerStatuses": [ended(reason="Error", exitCode=1)]}, "Error"),
    ],
)
def test_pods_that_are_deleted(status: Any, shown: str) -> None:
    assert pod(made(metadata={"deletionTimestamp": CREATED}, spec=ONE, status=status), NOW)[2] == shown


def test_wide() -> None:
    spec = ONE | {"nodeName": "n", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]}
    status = {"podIPs": [{"ip": "10.0.0.1"}], "nominatedNodeName": "m", "conditions": [condition("g")]}
    assert pod(made(spec=spec, status=status), NOW)[4:] == ["5m", "10.0.0.1", "n", "m", "1/2"]
    assert pod(made(spec=ONE), NOW)[4:] == ["5m", "<none>", "<none>", "<none>", "<none>"]
