"""Which container a request means, and whether it has a log yet.

Sources: pkg/registry/core/pod/strategy.go (validateContainer), pkg/kubelet/kubelet_pods.go
(validateContainerLogStatus), release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dashpot.model.objects.status import StatusError, bad_request

Object = dict[str, Any]

_PULLS = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


def _names(pod: Object) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            yield container["name"]


def chosen(pod: Object, wanted: str) -> str:
    """The container's name; StatusError 400 if it is not there, or if there are several to choose from."""
    name = pod["metadata"]["name"]
    if wanted:
        if wanted not in _names(pod):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    containers: list[Object] = (pod.get("spec") or {}).get("containers") or []
    if len(containers) == 1:
        only: str = containers[0]["name"]
        return only
    if not containers:
        raise bad_request(f"a container name must be specified for pod {name}")
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(_names(pod))}]")


def host(pod: Object) -> str:
    """The node that a pod runs on; StatusError 400 if it has none yet."""
    found: str = (pod.get("spec") or {}).get("nodeName") or ""
    if not found:
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    return found


def _status(pod: Object, container: str) -> Object | None:
    status = pod.get("status") or {}
    for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for found in status.get(part) or ():
            if found.get("name") == container:
                answer: Object = found
                return answer
    return None


def check_log(pod: Object, container: str, previous: bool) -> None:
    """Nothing if the container has a log; else StatusError 400 with the reason. `pod` as its kubelet knows it."""
    name = pod["metadata"]["name"]
    where = f'container "{container}" in pod "{name}"'
    status = _status(pod, container)
    if status is None:
        raise bad_request(f"{where} is not available")
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    if previous:
        if not (last or {}).get("containerID"):
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return
    if state.get("running") is not None:
        return
    ended = state.get("terminated")
    if ended is not None or last is not None:
        if not ((ended or {}).get("containerID") or (last or {}).get("containerID")):
            raise bad_request(f"{where} is terminated")
        return
    raise _waiting(where, state.get("waiting"))


def _waiting(where: str, waiting: Object | None) -> StatusError:
    if waiting is None:
        return bad_request(f"{where} is waiting to start - no logs yet")
    reason = waiting.get("reason") or ""
    return bad_request(f"{where} is waiting to start: {_PULLS.get(reason, reason)}")
