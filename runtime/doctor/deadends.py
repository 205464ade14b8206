"""Root causes that stop one object: no node fits, a budget forbids a drain, no address is left, nobody answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dashpot.model.objects.selector import Selector, SelectorError, from_object
from dashpot.runtime.doctor.causes import WAIT_S, Cause
from dashpot.runtime.doctor.reading import Object, Reading, condition, moment, named

DEAD_ENDS = (
    ("topology spread constraints", "spread-dead-end", "its topology spread constraints"),
    ("pod affinity rules", "affinity-dead-end", "its affinity to other pods"),
    ("anti-affinity", "affinity-dead-end", "the anti-affinity of pods"),
    ("node affinity/selector", "affinity-dead-end", "its node affinity or selector"),
    ("untolerated taint", "taint-dead-end", "taints that it does not tolerate"),
    ("Insufficient", "no-room", "a lack of room"),
)
"""What kube-scheduler's message says, the code, and what that is in words."""


def dead_ends(before: Reading, after: Reading) -> list[Cause]:
    """All that is found."""
    found: list[Cause] = []
    for look in (_addresses, _unfit, _drains, _endpoints):
        found += look(after)
    return found


def _addresses(after: Reading) -> Iterator[Cause]:
    prefix = "kube_apiserver_clusterip_allocator_"
    for labels, free in after.samples(f"{prefix}available_ips"):
        if free <= 0:
            text = "no address is left: new Services are refused (range is full)"
            fix = "delete Services, make some headless, or serve a larger --service-network"
            yield Cause("range-exhausted", f"service range {labels.get('cidr', '')}".rstrip(), text, fix)


def _unfit(after: Reading) -> Iterator[Cause]:
    groups: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
    for pod in after.of("Pod"):
        found = condition(pod, "PodScheduled")
        if found.get("reason") != "Unschedulable" or (pod.get("spec") or {}).get("nodeName"):
            continue
        text = str(found.get("message") or "")
        code, why = next(((c, w) for part, c, w in DEAD_ENDS if part in text), ("unschedulable", "every filter"))
        groups[code, why, text].append(pod)
    for (code, why, text), pods in sorted(groups.items(), key=lambda item: item[0]):
        first = min(named(pod) for pod in pods)
        more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
        yield Cause(code, f"pod {first}{more}", f"no node fits because of {why}: {text}", "loosen it, or add nodes")


def _selector(source: Object | None) -> Selector | None:
    try:
        return from_object(source) if source is not None else None
    except SelectorError:
        return None


def _drains(after: Reading) -> Iterator[Cause]:
    cordoned = {n["metadata"]["name"] for n in after.of("Node") if (n.get("spec") or {}).get("unschedulable")}
    for budget in after.of("PodDisruptionBudget"):
        status, meta = budget.get("status") or {}, budget["metadata"]
        selector = _selector((budget.get("spec") or {}).get("selector"))
        if selector is None or status.get("disruptionsAllowed", 0) > 0:
            continue
        held = [
            pod
            for pod in after.of("Pod")
            if pod["metadata"].get("namespace") == meta.get("namespace")
            and (pod.get("spec") or {}).get("nodeName") in cordoned
            and not _ended(pod)
            and selector.matches(pod["metadata"].get("labels") or {})
        ]
        for node in sorted({pod["spec"]["nodeName"] for pod in held}):
            mine = sorted(named(pod) for pod in held if pod["spec"]["nodeName"] == node)
            text = (
                f"PodDisruptionBudget {named(budget)} allows no disruption: {status.get('currentHealthy', 0)} healthy, "
                f"{status.get('desiredHealthy', 0)} wanted; it keeps {', '.join(mine[:3])}"
            )
            fix = "add replicas elsewhere, or loosen the budget"
            yield Cause("drain-blocked", f"node {node}", text, fix)


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _endpoints(after: Reading) -> Iterator[Cause]:
    ready: set[str] = set()
    for one in after.of("EndpointSlice"):
        meta = one["metadata"]
        if any((e.get("conditions") or {}).get("ready") is not False for e in one.get("endpoints") or ()):
            ready.add(f"{meta.get('namespace')}/{(meta.get('labels') or {}).get('kubernetes.io/service-name')}")
    if "EndpointSlice" not in after.objects or "Pod" not in after.objects:
        return
    for service in after.of("Service"):
        spec, made = service.get("spec") or {}, moment(service["metadata"].get("creationTimestamp"))
        wanted = spec.get("selector")
        young = made is None or after.at - made <= WAIT_S
        if not wanted or spec.get("type") == "ExternalName" or named(service) in ready or young:
            continue
        yield Cause(
            "no-endpoints", f"service {named(service)}", _why(service, wanted, after), "look at the pods behind it"
        )


def _why(service: Object, wanted: Object, after: Reading) -> str:
    pods = [
        pod
        for pod in after.of("Pod")
        if pod["metadata"].get("namespace") == service["metadata"].get("namespace")
        and wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        and not _ended(pod)
    ]
    told = ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    if not pods:
        return f"no ready endpoint: no pod has the labels {told}"
    if any(condition(pod, "Ready").get("status") == "True" for pod in pods):
        return "no ready endpoint, though pods are ready: the endpointslice-controller does not act"
    return f"no ready endpoint: none of {len(pods)} pods is ready, {min(map(named, pods))} first"
