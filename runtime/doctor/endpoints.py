"""Services that lead nowhere: who is behind them, and why nobody answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from dashpot.runtime.doctor.cause import Cause
from dashpot.runtime.doctor.progress import pod_moved, spec_written, written
from dashpot.runtime.doctor.reading import WAIT_S, Object, Reading, condition, moment, named

OWN = "default/kubernetes"
"""The API server's own service: whoever asks it knows that it answers."""
MAKERS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


def endpoints(before: Reading, after: Reading) -> Iterator[Cause]:
    """Services that both looks show without anybody who is ready, and about which nothing has moved for a while."""
    if "EndpointSlice" not in after.objects or "Pod" not in after.objects:
        return
    slices, waited = _slices(after), {named(service) for service in _silent(before, _slices(before))}
    for service in _silent(after, slices):
        if named(service) not in waited or after.at - _moved(service, slices, after) <= WAIT_S:
            continue
        yield Cause("no-endpoints", f"service {named(service)}", _why(service, after), "look at the pods behind it")


def _slices(seen: Reading) -> dict[str, list[Object]]:
    """The slices of each service."""
    found: dict[str, list[Object]] = defaultdict(list)
    for one in seen.of("EndpointSlice"):
        meta = one["metadata"]
        found[f"{meta.get('namespace')}/{(meta.get('labels') or {}).get('kubernetes.io/service-name')}"].append(one)
    return found


def _silent(seen: Reading, slices: dict[str, list[Object]]) -> Iterator[Object]:
    for service in seen.of("Service"):
        spec = service.get("spec") or {}
        if named(service) == OWN:
            continue
        if spec.get("type") != "ExternalName" and not _answers(spec, slices.get(named(service), ())):
            yield service


def _answers(spec: Object, slices: Sequence[Object]) -> bool:
    """Whether somebody ready is behind a port."""
    return any(
        (one.get("ports") or not spec.get("ports"))
        and any((e.get("conditions") or {}).get("ready") is not False for e in one.get("endpoints") or ())
        for one in slices
    )


def _behind(service: Object, seen: Reading) -> list[Object]:
    wanted = (service.get("spec") or {}).get("selector") or {}
    return [
        pod
        for pod in seen.of("Pod")
        if pod["metadata"].get("namespace") == service["metadata"].get("namespace")
        and wanted
        and wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]


def _moved(service: Object, slices: dict[str, list[Object]], seen: Reading) -> float:
    pods = _behind(service, seen)
    ready = any(condition(pod, "Ready").get("status") == "True" for pod in pods)
    made = moment(service["metadata"].get("creationTimestamp")) or 0.0
    # with a ready pod, whoever writes slices has had its cue when that became ready
    return max(
        made, spec_written(service), 0.0 if ready else written(slices.get(named(service), ())), *map(pod_moved, pods)
    )


def _why(service: Object, seen: Reading) -> str:
    spec = service.get("spec") or {}
    wanted = spec.get("selector")
    if not wanted:
        return "no ready endpoint: it has no selector, and nobody has written endpoints for it"
    told = ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    pods = _behind(service, seen)
    if not pods:
        return f"no ready endpoint: no pod has the labels {told}{_maker(service, wanted, seen)}"
    ready = [pod for pod in pods if condition(pod, "Ready").get("status") == "True"]
    if not ready:
        return f"no ready endpoint: none of {len(pods)} pods is ready, {min(map(named, pods))} first"
    if unknown := _unknown_ports(spec, ready):
        return f"no ready endpoint: no container of its pods has a port named {', '.join(unknown)}"
    return "no ready endpoint, though pods are ready: the endpointslice-controller does not act"


def _maker(service: Object, wanted: Object, seen: Reading) -> str:
    """Who would make such pods, and does not."""
    space = service["metadata"].get("namespace")
    for kind in MAKERS:
        for obj in seen.of(kind):
            spec = obj.get("spec") or {}
            labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
            if obj["metadata"].get("namespace") == space and wanted.items() <= labels.items():
                none = kind != "DaemonSet" and spec.get("replicas", 1) == 0
                return f"; {kind} {named(obj)} makes such pods" + (", but is scaled to 0" if none else "")
    return ""


def _unknown_ports(spec: Object, pods: Sequence[Object]) -> list[str]:
    have = {
        port.get("name")
        for pod in pods
        for container in (pod.get("spec") or {}).get("containers") or ()
        for port in container.get("ports") or ()
    }
    wanted = [port.get("targetPort") for port in spec.get("ports") or ()]
    return sorted({name for name in wanted if isinstance(name, str) and name not in have})
