"""Pods that no node takes: the rules of placement say which of them stands in the way, not the scheduler's message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from attrs import frozen

from dashpot.model.placement import profile
from dashpot.model.placement.cycle import Refused, prepare
from dashpot.model.placement.shape import Pod
from dashpot.model.placement.snapshot import Snapshot
from dashpot.runtime.doctor.cause import Cause
from dashpot.runtime.doctor.reading import Object, Reading, condition, moment, named

PATIENCE_S = 10.0
"""How old a pod is at least that is told of: a rollout may make room for it."""
RULES: Mapping[str, tuple[str, str, str]] = {
    "PodTopologySpread": ("spread-dead-end", "its topology spread constraints", "loosen them, or add nodes"),
    "InterPodAffinity": ("affinity-dead-end", "affinity or anti-affinity of pods", "loosen it, or add nodes"),
    "NodeAffinity": ("affinity-dead-end", "its node affinity or selector", "loosen it, or label a node"),
    "NodeName": ("affinity-dead-end", "its node name", "name a node that exists"),
    "NodeResourcesFit": ("no-room", "a lack of room", "add nodes, or ask for less"),
    "NodePorts": ("no-room", "host ports that are taken", "add nodes, or give up the host port"),
    "TaintToleration": ("taint-dead-end", "taints that it does not tolerate", "tolerate them, or add nodes"),
    "NodeUnschedulable": ("taint-dead-end", "cordons", "uncordon a node, or add one"),
}
"""Plugin → code, what it is in words, what helps. Where several stand in the way the first is told of."""
TEXTS = (
    ("topology spread constraints", "PodTopologySpread"),
    ("pod affinity rules", "InterPodAffinity"),
    ("anti-affinity", "InterPodAffinity"),
    ("node affinity/selector", "NodeAffinity"),
    ("untolerated taint", "TaintToleration"),
    ("Insufficient", "NodeResourcesFit"),
    ("were unschedulable", "NodeUnschedulable"),
)
"""What kube-scheduler says, and its plugin: for what the rules do not know of (another scheduler, another profile)."""


@frozen
class Verdict:
    """What stands in the way of a pod: the plugin, and nodes that would take the pod if it were not for that alone."""

    plugin: str
    nodes: tuple[str, ...]


def unfit(before: Reading, after: Reading) -> Iterator[Cause]:
    """Pods that both looks show refused, those with the same cause together."""
    refused = {pod["metadata"].get("uid") for pod in before.of("Pod") if _refused(pod)}
    if not refused:
        return
    cluster = _snapshot(after)
    groups: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
    for pod in after.of("Pod"):
        made = moment(pod["metadata"].get("creationTimestamp")) or 0.0
        if _refused(pod) and pod["metadata"].get("uid") in refused and after.at - made > PATIENCE_S:
            owners = pod["metadata"].get("ownerReferences") or ({"uid": pod["metadata"].get("uid")},)
            message = str(condition(pod, "PodScheduled").get("message") or "")
            groups[str(pod["metadata"].get("namespace")), str(owners[0].get("uid")), message].append(pod)
    told: dict[tuple[Verdict, str], list[Object]] = defaultdict(list)
    for (_, _, message), pods in sorted(groups.items()):
        told[_verdict(pods[0], cluster, message), message] += pods
    order = [*RULES, ""]
    for (verdict, message), pods in sorted(told.items(), key=lambda item: order.index(item[0][0].plugin)):
        yield _cause(verdict, message, pods)


def _refused(pod: Object) -> bool:
    spec, found = pod.get("spec") or {}, condition(pod, "PodScheduled")
    gone = pod["metadata"].get("deletionTimestamp")
    return found.get("reason") == "Unschedulable" and not spec.get("nodeName") and not gone


def _snapshot(seen: Reading) -> Snapshot:
    namespaces = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in seen.of("Namespace")}
    objects = {kind: list(seen.of(kind)) for kind in ("Service", "ReplicaSet", "StatefulSet")}
    return Snapshot.of(seen.of("Node"), seen.of("Pod"), namespaces, objects)


def _verdict(obj: Object, cluster: Snapshot, message: str) -> Verdict:
    """By the rules; by the scheduler's words where the rules would place it."""
    pod = Pod.of(obj)
    filters = profile.default().filters
    ready = prepare(pod, cluster, filters)
    if isinstance(ready, Refused):
        return Verdict(ready.status.plugin, ())
    against: dict[str, set[str]] = {}
    for node in cluster.nodes:
        if ready.only is not None and node.name not in ready.only:
            against[node.name] = {ready.named_by[0]}
            continue
        verdicts = [(one.name, one.admits(pod, node, state)) for one, state in ready.states]
        against[node.name] = {name for name, status in verdicts if not status.ok}
    if not all(against.values()):
        return Verdict(next((plugin for part, plugin in TEXTS if part in message), ""), ())
    fewest = min(map(len, against.values()), default=0)
    near = [plugins for plugins in against.values() if len(plugins) == fewest]
    chosen = next((name for name in RULES if any(name in plugins for plugins in near)), "")
    return Verdict(chosen, tuple(sorted(node for node, plugins in against.items() if plugins == {chosen})))


def _cause(verdict: Verdict, message: str, pods: list[Object]) -> Cause:
    code, why, fix = RULES.get(verdict.plugin, ("unschedulable", "what its scheduler says", "see what it asks for"))
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    text = f"no node fits because of {why}: {message}"
    for first in verdict.nodes[:1]:
        others = f" and {len(verdict.nodes) - 1} more" if len(verdict.nodes) > 1 else ""
        text += f" (but for that, {first}{others} would take it)"
    return Cause(code, f"pod {min(map(named, pods))}{more}", text, fix)
