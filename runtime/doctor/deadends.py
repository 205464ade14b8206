"""Root causes that stop one object: no address is left, a budget forbids a drain."""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterator

from dashpot.model.objects.selector import Selector, SelectorError, from_object
from dashpot.runtime.doctor.cause import Cause
from dashpot.runtime.doctor.controllers import controllers
from dashpot.runtime.doctor.endpoints import endpoints
from dashpot.runtime.doctor.placing import unfit
from dashpot.runtime.doctor.progress import pod_moved
from dashpot.runtime.doctor.quotas import quotas
from dashpot.runtime.doctor.reading import WAIT_S, Object, Reading, condition, named

RESERVED = 2
"""Addresses of a node's network that no pod has: that of the network, that of the bridge."""


def dead_ends(before: Reading, after: Reading) -> list[Cause]:
    """All that is found."""
    found: list[Cause] = []
    for look in (_addresses, _pod_networks, unfit, _drains, quotas, controllers, endpoints):
        found += look(before, after)
    return found


# -- addresses ------------------------------------------------------------------------------------------------------


def _addresses(before: Reading, after: Reading) -> Iterator[Cause]:
    ranges: dict[bool, list[tuple[str, float]]] = defaultdict(list)
    for labels, free in after.samples("kube_apiserver_clusterip_allocator_available_ips"):
        cidr = labels.get("cidr", "")
        ranges[":" in cidr].append((cidr, free))
    fix = "delete Services, make some headless, or serve a larger --service-network"
    for _, rows in sorted(ranges.items()):
        if all(free <= 0 for _, free in rows):
            text = "no address is left: new Services are refused (range is full)"
            yield Cause("range-exhausted", f"service range {', '.join(cidr for cidr, _ in rows)}".rstrip(), text, fix)
    for _, free in after.samples("kube_apiserver_nodeport_allocator_available_ports"):
        if free <= 0:
            text = "no port is left: new Services of type NodePort or LoadBalancer are refused"
            yield Cause("range-exhausted", "node port range", text, "delete such Services, or serve more --node-ports")


def _pod_networks(before: Reading, after: Reading) -> Iterator[Cause]:
    bound = Counter(
        str((pod.get("spec") or {}).get("nodeName"))
        for pod in after.of("Pod")
        if not _ended(pod) and not (pod.get("spec") or {}).get("hostNetwork")
    )
    for node in after.of("Node"):
        name = node["metadata"]["name"]
        cidr = (node.get("spec") or {}).get("podCIDR")
        size = ipaddress.ip_network(cidr, strict=False).num_addresses - RESERVED if cidr else 0
        if cidr and bound[name] > size:
            text = f"its pod network {cidr} has {max(size, 0)} addresses for {bound[name]} pods: some cannot start"
            yield Cause("range-exhausted", f"node {name}", text, "let it take fewer pods, or give it a larger network")


# -- drains ---------------------------------------------------------------------------------------------------------


def _drains(before: Reading, after: Reading) -> Iterator[Cause]:
    known = set(_held(before))
    double = defaultdict(list)
    for (node, budget), pods in sorted(_held(after).items()):
        for pod in pods:
            double[node, named(pod)].append(budget)
        found = next(one for one in after.of("PodDisruptionBudget") if named(one) == budget)
        status = found.get("status") or {}
        moved = max(pod_moved(pod) for pod in _chosen(found, after))
        short = status.get("currentHealthy", 0) < status.get("desiredHealthy", 0)
        if status.get("disruptionsAllowed", 0) > 0 or (node, budget) not in known:
            continue
        if short and after.at - moved <= WAIT_S:
            continue
        text = (
            f"PodDisruptionBudget {budget} allows no disruption: {status.get('currentHealthy', 0)} healthy, "
            f"{status.get('desiredHealthy', 0)} wanted; it keeps {', '.join(sorted(map(named, pods))[:3])}"
        )
        yield Cause("drain-blocked", f"node {node}", text, "add replicas elsewhere, or loosen the budget")
    for (node, pod_name), budgets in sorted(double.items()):
        if len(budgets) > 1:
            text = f"pod {pod_name} has {len(budgets)} PodDisruptionBudgets ({', '.join(budgets)}): it is never evicted"
            yield Cause("drain-blocked", f"node {node}", text, "let one budget cover it")


def _held(seen: Reading) -> dict[tuple[str, str], list[Object]]:
    """Pods of cordoned nodes that a drain would evict, by node and the budget that covers them."""
    cordoned = {n["metadata"]["name"] for n in seen.of("Node") if (n.get("spec") or {}).get("unschedulable")}
    found: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for budget in seen.of("PodDisruptionBudget"):
        always = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        for pod in _chosen(budget, seen):
            node = str((pod.get("spec") or {}).get("nodeName"))
            free = always and condition(pod, "Ready").get("status") != "True"
            if node in cordoned and not free and not _stays(pod):
                found[node, named(budget)].append(pod)
    return found


def _chosen(budget: Object, seen: Reading) -> list[Object]:
    selector = _selector((budget.get("spec") or {}).get("selector"))
    if selector is None:
        return []
    return [
        pod
        for pod in seen.of("Pod")
        if pod["metadata"].get("namespace") == budget["metadata"].get("namespace")
        and not _ended(pod)
        and selector.matches(pod["metadata"].get("labels") or {})
    ]


def _selector(source: Object | None) -> Selector | None:
    try:
        return from_object(source) if source is not None else None
    except SelectorError:
        return None


def _stays(pod: Object) -> bool:
    """Whether a drain leaves it alone, or it goes already."""
    meta = pod["metadata"]
    daemon = any(ref.get("kind") == "DaemonSet" and ref.get("controller") for ref in meta.get("ownerReferences") or ())
    mirror = "kubernetes.io/config.mirror" in (meta.get("annotations") or {})
    pending = (pod.get("status") or {}).get("phase") == "Pending"
    return daemon or mirror or pending or bool(meta.get("deletionTimestamp"))


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
