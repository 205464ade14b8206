"""Root causes that stop many loops at once: the store, webhooks, clients, leases, nodes.

Each cause looks at two readings of a cluster some seconds apart. Figures that need a rate are those of the window.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from attrs import frozen

from dashpot.runtime.doctor.reading import KINDS, Object, Reading, condition, moment, named, rates

SLOW_STORE_S = 0.1
"""Mean time of a write to the store; etcd's own advice is 25 ms at the 99th percentile."""
FULL = 0.8
"""Share of its quota from which a store is told of."""
HOT = 50.0
"""Requests a second of one client to one resource with one verb that are a loop without back-off."""
FLOOD = 20.0
"""Watches that a client begins in a second."""
WATCHES_MAX = 500
"""Watches that one client holds open."""
WAIT_S = 30.0
"""How long a controller may take before what it should have done counts as undone."""
SELF = "dashpot-doctor"
CHANGES = ("create", "update", "patch", "delete")
PER_OBJECT = 10
"""Writes of one client to one object in the window that are still work, not a loop."""
WRITES = ("create", "update", "delete")
PRESSURES = {"DiskPressure": "disk", "MemoryPressure": "memory", "PIDPressure": "process ids"}


@frozen
class Cause:
    """Why loops make no progress. `code` is one of docs/doctor.md's table, `object` what it is about."""

    code: str
    object: str
    text: str
    fix: str


def causes(before: Reading, after: Reading) -> list[Cause]:
    """All that is found, the most far-reaching first."""
    found: list[Cause] = []
    for look in (_store, _clients, _leases, _nodes, _kubelets, _scheduler):
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


def _clients(before: Reading, after: Reading) -> Iterator[Cause]:
    begun: Counter[str] = Counter()
    told: set[str] = set()
    loops: list[tuple[float, str, str, str]] = []
    for labels, rate in rates(before, after, "dashpot_client_requests_total"):
        agent = labels.get("user_agent", "")
        if agent.startswith(SELF):
            continue
        if labels.get("verb") == "watch":
            begun[agent] += rate  # type: ignore[assignment]
        else:
            loops.append((rate, agent, labels.get("verb", ""), labels.get("resource", "")))
    open_ = Counter({labels.get("user_agent", ""): int(v) for labels, v in after.samples("dashpot_client_watches")})
    for agent in sorted({*begun, *open_}):
        if begun[agent] > FLOOD or open_[agent] > WATCHES_MAX:
            told.add(agent)
            text = f"it begins {begun[agent]:.0f} watches a second and holds {open_[agent]} open"
            yield Cause(
                "watch-flood", f"client {agent}", text, "let it share one informer, and back off before it watches anew"
            )
    for rate, agent, verb, plural in sorted(loops, reverse=True):
        if rate > HOT and agent not in told and not _spread_out(before, after, verb, plural, rate):
            told.add(agent)
            text = f"it sends {rate:.0f} requests a second: {verb} {plural}".rstrip()
            yield Cause("hot-loop", f"client {agent}", text, "see why its pass never settles; limit its rate meanwhile")
    for labels, rate in rates(before, after, "apiserver_flowcontrol_rejected_requests_total"):
        level = labels.get("priority_level", "")
        text = f"flow control refuses {rate:.1f} requests a second ({labels.get('reason', '')})"
        yield Cause(
            "throttled", f"priority level {level}", text, "find the client that fills it, or give it a level of its own"
        )


def _spread_out(before: Reading, after: Reading, verb: str, plural: str, rate: float) -> bool:
    """Whether so many writes are explained by the objects that changed: a large rollout is no loop."""
    kind = next((kind for kind, path in KINDS.items() if path.endswith(f"/{plural}")), "") if plural else ""
    if verb not in CHANGES or not kind:
        return False
    old, new = (
        {one["metadata"].get("uid"): one["metadata"].get("resourceVersion") for one in reading.of(kind)}
        for reading in (before, after)
    )
    changed = sum(old.get(uid) != new.get(uid) for uid in {*old, *new})
    explained: bool = rate * (after.at - before.at) <= PER_OBJECT * changed
    return explained


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
    for lease in after.of("Lease"):
        late = _late(lease, after.at)
        if late <= 0:
            continue
        space, name = lease["metadata"].get("namespace", ""), lease["metadata"]["name"]
        holder = (lease.get("spec") or {}).get("holderIdentity")
        if space == "kube-node-lease":
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
