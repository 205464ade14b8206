"""Root causes that stop many loops at once: the store, clients, leases, nodes.

Each cause looks at two readings of a cluster some seconds apart. Figures that need a rate are those of the window.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from dashpot.runtime.doctor.cause import Cause
from dashpot.runtime.doctor.clients import clients
from dashpot.runtime.doctor.reading import WAIT_S, Object, Reading, condition, moment, named, rates

SLOW_STORE_S = 0.1
"""Mean time of a write to the store; etcd's own advice is 25 ms at the 99th percentile."""
FULL = 0.8
"""Share of its quota from which a store is told of."""
NODE_LEASES = "kube-node-lease"
SILENT_S = 40.0
"""What the lease of a node would promise (nodeLeaseDurationSeconds)."""
WRITES = ("create", "update", "delete")
PRESSURES = {"DiskPressure": "disk", "MemoryPressure": "memory", "PIDPressure": "process ids"}


def causes(before: Reading, after: Reading) -> list[Cause]:
    """All that is found, the most far-reaching first."""
    found: list[Cause] = []
    for look in (_store, clients, _leases, _nodes, _kubelets, _scheduler):
        found += look(before, after)
    return found


# -- the API server -------------------------------------------------------------------------------------------------


def _store(before: Reading, after: Reading) -> Iterator[Cause]:
    sizes = {labels.get("store", ""): value for labels, value in after.samples("dashpot_store_size_bytes")}
    quotas = {labels.get("store", ""): value for labels, value in after.samples("dashpot_store_quota_bytes")}
    alarms = {labels.get("store", "") for labels, value in after.samples("dashpot_store_alarm") if value}
    for name in sorted(alarms):
        yield Cause(
            "store-quota",
            f"store {name}",
            "its quota alarm is raised: every write is refused (database space exceeded)",
            "compact, defragment and disarm it: dashpot store compact, defrag, disarm",
        )
    for name, size in sorted(sizes.items()):
        quota = quotas.get(name, 0.0)
        if name not in alarms and quota and size > FULL * quota:
            text = f"it takes {size / quota:.0%} of its quota; when that is used up every write is refused"
            yield Cause("store-size", f"store {name}", text, "compact and defragment it, or raise --quota")
    for check in after.failed:
        yield Cause("not-ready", f"check {check}", "the API server's /readyz fails on it", "read the server's messages")
    times = _sums(before, after, "etcd_request_duration_seconds_sum")
    counts = _sums(before, after, "etcd_request_duration_seconds_count")
    total = sum(counts.values())
    mean = sum(times.values()) / total if total else 0.0
    if mean > SLOW_STORE_S:
        worst = max(times, key=lambda plural: times[plural])
        yield Cause(
            "store-slow",
            f"store ({worst})",
            f"a write to it takes {mean * 1000:.0f} ms on average",
            "look at its disk (fsync), its size, and who writes so much",
        )


def _sums(before: Reading, after: Reading, name: str) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for labels, rate in rates(before, after, name):
        if labels.get("operation") in WRITES:
            found[labels.get("resource", "")] += rate
    return found


# -- who should act -------------------------------------------------------------------------------------------------


def _late(lease: Object, at: float) -> float:
    """By how many seconds a lease has run out; 0 or less while it holds."""
    spec = lease.get("spec") or {}
    renewed = moment(spec.get("renewTime"))
    if renewed is None or not spec.get("holderIdentity"):
        return 0.0
    return at - renewed - float(spec.get("leaseDurationSeconds") or 0)


def _leases(before: Reading, after: Reading) -> Iterator[Cause]:
    nodes = {node["metadata"]["name"] for node in after.of("Node")}
    yield from _silent_nodes(after)
    for lease in after.of("Lease"):
        late = _late(lease, after.at)
        if late <= 0:
            continue
        space, name = lease["metadata"].get("namespace", ""), lease["metadata"]["name"]
        holder = (lease.get("spec") or {}).get("holderIdentity")
        if space == NODE_LEASES:
            if name in nodes:
                text = f"its heartbeat is {late:.0f} s late"
                yield Cause(
                    "heartbeat-late", f"node {name}", text, "see whether its kubelet runs and reaches the API server"
                )
        elif not (lease["metadata"].get("labels") or {}).get("apiserver.kubernetes.io/identity"):
            text = f"{holder} holds it and has not renewed it: {late:.0f} s late, nobody leads"
            yield Cause(
                "lease-paused", f"lease {named(lease)}", text, f"see whether {holder} runs; another one may take over"
            )


def _silent_nodes(after: Reading) -> Iterator[Cause]:
    """Nodes that have no lease: no kubelet has ever spoken for them."""
    held = {one["metadata"]["name"] for one in after.of("Lease") if one["metadata"].get("namespace") == NODE_LEASES}
    for node in after.of("Node"):
        name, made = node["metadata"]["name"], moment(node["metadata"].get("creationTimestamp"))
        beats = moment(condition(node, "Ready").get("lastHeartbeatTime")) or 0.0
        age = after.at - max(made or 0.0, beats)
        if "Lease" in after.objects and name not in held and made is not None and age > SILENT_S:
            fix = "start its kubelet, or delete the node"
            yield Cause("heartbeat-late", f"node {name}", f"it has no lease, and has said nothing for {age:.0f} s", fix)


def _nodes(before: Reading, after: Reading) -> Iterator[Cause]:
    for node in after.of("Node"):
        name = node["metadata"]["name"]
        for kind, what in PRESSURES.items():
            found = condition(node, kind)
            if found.get("status") == "True":
                text = f"it runs out of {what} ({kind}): {found.get('message') or found.get('reason') or ''}"
                code = "disk-full" if kind == "DiskPressure" else "pressure"
                yield Cause(
                    code, f"node {name}", text.rstrip(": "), "free some; until then it evicts pods and takes none"
                )


def _stuck(pod: Object, at: float) -> bool:
    """Whether its kubelet should have done something with a pod, and has not."""
    meta, status = pod["metadata"], pod.get("status") or {}
    deleted = moment(meta.get("deletionTimestamp"))
    if deleted is not None:
        return not meta.get("finalizers") and at - deleted > WAIT_S
    bound = moment(condition(pod, "PodScheduled").get("lastTransitionTime")) or moment(meta.get("creationTimestamp"))
    quiet = not status.get("startTime") and not status.get("containerStatuses")
    return status.get("phase") == "Pending" and quiet and bound is not None and at - bound > WAIT_S


def _kubelets(before: Reading, after: Reading) -> Iterator[Cause]:
    late = {lease["metadata"]["name"] for lease in after.of("Lease") if _late(lease, after.at) > 0}
    waiting: dict[str, list[Object]] = defaultdict(list)
    for pod in after.of("Pod"):
        node = (pod.get("spec") or {}).get("nodeName")
        if node and node not in late and _stuck(pod, after.at):
            waiting[node].append(pod)
    for node, pods in sorted(waiting.items()):
        text = (
            f"its heartbeats come, but its kubelet has not touched {len(pods)} pods for {WAIT_S:.0f} s: {_some(pods)}"
        )
        yield Cause(
            "kubelet-starved", f"node {node}", text, "look at the load of the machine and at the container runtime"
        )


def _scheduler(before: Reading, after: Reading) -> Iterator[Cause]:
    pods = []
    for pod in after.of("Pod"):
        spec, meta = pod.get("spec") or {}, pod["metadata"]
        if spec.get("nodeName") or spec.get("schedulingGates") or meta.get("deletionTimestamp"):
            continue
        made = moment(meta.get("creationTimestamp"))
        unlooked = not condition(pod, "PodScheduled").get("status")
        if unlooked and made is not None and after.at - made > WAIT_S:
            pods.append(pod)
    names = Counter(str((pod.get("spec") or {}).get("schedulerName") or "default-scheduler") for pod in pods)
    for name, count in names.items():
        mine = [p for p in pods if str((p.get("spec") or {}).get("schedulerName") or "default-scheduler") == name]
        text = f"it has not looked at {count} pods for {WAIT_S:.0f} s: {_some(mine)}"
        yield Cause("scheduler-behind", f"scheduler {name}", text, "see whether it runs, leads, and keeps up")


def _some(objects: Sequence[Object]) -> str:
    """The first names."""
    names = sorted(named(obj) for obj in objects)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
