"""The status that a simulated kubelet writes for a pod."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

TYPES = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def running(pod: Object, *, host: str, address: str, now: str, ready: bool) -> Object:
    """Its containers run, and are ready or not yet. Restart counts and start times of before are kept."""
    status = pod.get("status") or {}
    known = {one["name"]: one for one in status.get("containerStatuses") or ()}
    containers = [_container(one, known.get(one["name"]), now, ready) for one in pod["spec"].get("containers") or ()]
    inits = [_init(one, pod, now) for one in pod["spec"].get("initContainers") or ()]
    names = " ".join(one["name"] for one in containers)
    unready = None if ready else ("ContainersNotReady", f"containers with unready status: [{names}]")
    made = {
        "phase": "Running",
        "conditions": conditions(status, now, {"Ready": unready, "ContainersReady": unready}),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": status.get("startTime") or now,
        "containerStatuses": containers,
        "observedGeneration": pod["metadata"].get("generation", 1),
    }
    if inits:
        made["initContainerStatuses"] = inits
    extra = pod["spec"].get("ephemeralContainers")
    if extra:
        made["ephemeralContainerStatuses"] = [_container(one, None, now, False) for one in extra]
    return made


def ended(pod: Object, *, code: int, now: str) -> Object:
    """All containers have ended with this exit status, for good."""
    status = pod.get("status") or {}
    reason = "PodCompleted" if code == 0 else "PodFailed"
    containers = [
        {
            **one,
            "ready": False,
            "started": False,
            "state": {
                "terminated": {
                    "exitCode": code,
                    "reason": "Completed" if code == 0 else "Error",
                    "startedAt": ((one.get("state") or {}).get("running") or {}).get("startedAt") or now,
                    "finishedAt": now,
                    "containerID": one.get("containerID", ""),
                }
            },
        }
        for one in status.get("containerStatuses") or ()
    ]
    return {
        "phase": "Succeeded" if code == 0 else "Failed",
        "conditions": conditions(status, now, {"Ready": (reason, ""), "ContainersReady": (reason, "")}),
        "containerStatuses": containers,
    }


def conditions(status: Object, now: str, false: dict[str, tuple[str, str] | None]) -> list[Object]:
    """The kubelet's conditions: True, except those that `false` gives a reason and a message. Others' are not touched;
    a transition time moves only with the status."""
    known = {one["type"]: one for one in status.get("conditions") or ()}
    made = []
    for name in TYPES:
        why = false.get(name)
        one: Object = {"type": name, "status": "False" if why else "True"}
        if why:
            one["reason"] = why[0]
            if why[1]:
                one["message"] = why[1]
        before = known.get(name)
        same = before is not None and before.get("status") == one["status"]
        one["lastTransitionTime"] = before["lastTransitionTime"] if same and before else now
        made.append(one)
    return made


def settled(pod: Object) -> bool:
    """Whether a running pod's status shows what its spec says now: images, resources, ephemeral containers."""
    status = pod.get("status") or {}
    known = {one["name"]: one for one in status.get("containerStatuses") or ()}
    for one in pod["spec"].get("containers") or ():
        shown = known.get(one["name"])
        if shown is None or shown.get("image") != one.get("image"):
            return False
        if (shown.get("resources") or {}) != (one.get("resources") or {}):
            return False
    extra = pod["spec"].get("ephemeralContainers") or ()
    return len(status.get("ephemeralContainerStatuses") or ()) == len(extra)


def _container(spec: Object, known: Object | None, now: str, ready: bool) -> Object:
    restarts = (known or {}).get("restartCount", 0)
    started = (((known or {}).get("state") or {}).get("running") or {}).get("startedAt") or now
    if known is not None and known.get("image") != spec.get("image"):
        restarts, started = restarts + 1, now
    made: Object = {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": f"fake://{spec.get('image', '')}",
        "containerID": f"fake://{spec['name']}",
        "ready": ready,
        "started": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": started}},
    }
    resources = spec.get("resources")
    if resources:
        made["resources"] = resources
        if resources.get("requests"):
            made["allocatedResources"] = resources["requests"]
    return made


def _init(spec: Object, pod: Object, now: str) -> Object:
    if spec.get("restartPolicy") == "Always":
        return _container(spec, None, now, True)
    made = _container(spec, None, now, True)
    made["started"] = False
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    made["state"] = {"terminated": {**ended, "containerID": made["containerID"]}}
    return made
