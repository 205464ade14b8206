"""What kubernetes.autoscaler computes: how many nodes would help, which are not needed, and what stands in their way.

Pods and nodes go through the scheduler's own filters of one node (model/placement). Sources: cluster-autoscaler
core/scaleup, core/scaledown, simulator, and its FAQ (release 1.34). Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from dashpot.model.extern.workloads import Kept, Object, at, moment, number
from dashpot.model.objects.quantity import QuantityError
from dashpot.model.placement import static
from dashpot.model.placement.shape import NodeView, Pod, Status

GROUP = "autoscaling.dashpot.dev/group"
DOOMED = "ToBeDeletedByClusterAutoscaler"
NOT_READY = ("node.kubernetes.io/not-ready", "node.cloudprovider.kubernetes.io/uninitialized")
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
KEEP = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
MIRROR = "kubernetes.io/config.mirror"
THRESHOLD = 0.5
"""A node that uses less of what it has is a candidate (--scale-down-utilization-threshold)."""
PROVISION_MS = 900_000
"""How long a node may take to become ready (--max-node-provision-time)."""
ENDED = ("Succeeded", "Failed")
CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110"}

REMEMBERED = 20_000
_PODS: dict[tuple[str, str], Pod] = {}


def _name(obj: Object) -> str:
    return str(at(obj, "metadata", "name"))


def group_of(node: Object) -> str:
    """The group that a node belongs to; "" for none."""
    return str(at(node, "metadata", "labels", GROUP) or "")


def template(group: Object, name: str = "template") -> Object:
    """A node as the group makes them."""
    made = at(group, "spec", "template") or {}
    amounts = {**CAPACITY, **(made.get("capacity") or {})}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **(made.get("labels") or {}),
        GROUP: _name(group),
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(made.get("taints") or ())},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


# ---------------------------------------------------------------- what fits where
def _refusal(pod: Pod, view: NodeView) -> Status | None:
    """The first filter that refuses, or None."""
    status = static.admits(pod, view)
    return None if status.ok else status


def _view(obj: Object, pods: Iterable[Pod] = ()) -> NodeView | None:
    try:
        return NodeView.of(obj, pods)
    except QuantityError:
        return None


def _place(pods: Iterable[Pod], views: Sequence[NodeView]) -> list[Pod]:
    """Puts each pod on the first node that takes it; those that none takes."""
    left = []
    for pod in pods:
        view = next((view for view in views if _refusal(pod, view) is None), None)
        if view is None:
            left.append(pod)
        else:
            view.add(pod)
    return left


def _largest_first(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda p: (-p.asks.get("cpu", 0), -p.asks.get("memory", 0), p.namespace, p.name))


def _waits(obj: Object) -> bool:
    """Whether the scheduler has found no place for a pod."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if spec.get("nodeName") or at(obj, "metadata", "deletionTimestamp") or status.get("phase", "Pending") != "Pending":
        return False
    return any(
        c.get("type") == "PodScheduled" and c.get("status") == "False" and c.get("reason") == "Unschedulable"
        for c in status.get("conditions") or ()
    )


def _standing(pods: Iterable[Object]) -> dict[str, list[Pod]]:
    """The pods that fill nodes, by node."""
    found: dict[str, list[Pod]] = {}
    for obj in pods:
        name = at(obj, "spec", "nodeName")
        if name and at(obj, "status", "phase") not in ENDED:
            found.setdefault(str(name), []).append(_read(obj))
    return found


def _read(obj: Object) -> Pod:
    """A pod as the rules see it; each version is read once."""
    version = (str(at(obj, "metadata", "uid")), str(at(obj, "metadata", "resourceVersion")))
    found = _PODS.get(version)
    if found is None or found.object is not obj:
        if len(_PODS) >= REMEMBERED:
            _PODS.clear()
        found = _PODS[version] = Pod.of(obj)
    return found


def _ready(node: Object) -> bool:
    taints = at(node, "spec", "taints") or ()
    well = any(c.get("type") == "Ready" and c.get("status") == "True" for c in at(node, "status", "conditions") or ())
    return well and not any(t.get("key") in NOT_READY for t in taints)


def _doomed(node: Object) -> bool:
    return any(t.get("key") == DOOMED for t in at(node, "spec", "taints") or ())


def _room(groups: Sequence[Object], nodes: Sequence[Object], pods: Sequence[Object], now: int) -> list[NodeView]:
    """The nodes that there are and those on their way; those that come up are counted as their groups make them."""
    standing = _standing(pods)
    by_name = {_name(group): group for group in groups}
    views = []
    count = dict.fromkeys(by_name, 0)
    for node in nodes:
        name, mine = _name(node), group_of(node)
        count[mine] = count.get(mine, 0) + 1
        if _doomed(node):
            continue
        if not _ready(node):
            young = now - (moment(at(node, "metadata", "creationTimestamp")) or 0) < PROVISION_MS
            if mine not in by_name or not young:
                continue
            node = template(by_name[mine], name)
        views.append(_view(node, standing.get(name, ())))
    for name, group in by_name.items():
        coming = max(0, number(group, "spec", "size") - count[name])
        views += [_view(template(group, f"{name}-coming-{step}")) for step in range(coming)]
    return [view for view in views if view is not None]


# ---------------------------------------------------------------- growing
@frozen
class Option:
    """So many more nodes of a group take these pods and leave so much processor idle (thousandths)."""

    group: str
    nodes: int
    pods: tuple[Pod, ...]
    idle: int


def _option(group: Object, pods: Sequence[Pod]) -> Option | None:
    """What the group can do for pods; None if nothing."""
    room = number(group, "spec", "maxSize") - number(group, "spec", "size")
    views: list[NodeView] = []
    helped = []
    for pod in pods:
        if not _place([pod], views):
            helped.append(pod)
            continue
        if len(views) >= room:
            continue
        fresh = _view(template(group, f"new-{len(views)}"))
        if fresh is not None and _refusal(pod, fresh) is None:
            fresh.add(pod)
            views.append(fresh)
            helped.append(pod)
    if not helped:
        return None
    idle = sum(view.allocatable.get("cpu", 0) - view.used.get("cpu", 0) for view in views)
    return Option(_name(group), len(views), tuple(helped), idle)


def _stuck(groups: Sequence[Object], nodes: Sequence[Object], pods: Sequence[Object], now: int) -> list[Pod]:
    """The pods that wait and would not fit on what there is or comes."""
    waiting = _largest_first(Pod.of(obj) for obj in pods if _waits(obj))
    return _place(waiting, _room(groups, nodes, pods, now)) if waiting else []


def _best(groups: Sequence[Object], nodes: Sequence[Object], pods: Sequence[Object], now: int) -> Option | None:
    """The option that takes most pods, then that wastes least."""
    stuck = _stuck(groups, nodes, pods, now)
    found = [option for group in groups if stuck and (option := _option(group, stuck)) is not None]
    return min(found, key=lambda o: (-len(o.pods), o.idle, o.group), default=None)


def _json(rows: Iterable[Kept]) -> list[Object]:
    return sorted((row.json for row in rows), key=lambda o: (str(at(o, "metadata", "namespace") or ""), _name(o)))


def growth(g: Kept, groups: Iterable[Kept], nodes: Iterable[Kept], pods: Iterable[Kept], now: int) -> int:
    """How many nodes this group is to make more; 0 where another one is the better choice."""
    best = _best(_json(groups), _json(nodes), _json(pods), now)
    return best.nodes if best is not None and best.group == _name(g.json) else 0


def helped(g: Kept, groups: Iterable[Kept], nodes: Iterable[Kept], pods: Iterable[Kept], now: int) -> list[Kept]:
    """The pods for which it grows."""
    rows = list(pods)
    best = _best(_json(groups), _json(nodes), _json(rows), now)
    if best is None or best.group != _name(g.json):
        return []
    uids = {pod.uid for pod in best.pods}
    return [row for row in rows if at(row.json, "metadata", "uid") in uids]


def hopeless(g: Kept, groups: Iterable[Kept], nodes: Iterable[Kept], pods: Iterable[Kept], now: int) -> list[Kept]:
    """The pods that no group can help; told once, by the first of the groups."""
    made, rows = _json(groups), list(pods)
    if not made or _name(made[0]) != _name(g.json):
        return []
    stuck = _stuck(made, _json(nodes), _json(rows), now)
    uids = {pod.uid for pod in stuck if all(_option(group, [pod]) is None for group in made)}
    return [row for row in rows if at(row.json, "metadata", "uid") in uids]


def why_not(pod: Kept, groups: Iterable[Kept]) -> str:
    """Why no group can help a pod."""
    reasons: dict[str, int] = {}
    for group in _json(groups):
        full = number(group, "spec", "size") >= number(group, "spec", "maxSize")
        fresh = _view(template(group))
        refusal = _refusal(Pod.of(pod.json), fresh) if fresh is not None else None
        text = refusal.reasons[0] if refusal is not None else "max node group size reached" if full else ""
        if text:
            reasons[text] = reasons.get(text, 0) + 1
    return "pod didn't trigger scale-up: " + ", ".join(f"{count} {text}" for text, count in sorted(reasons.items()))


def grown_text(g: Kept, size: int) -> str:
    """What a pod is told for which a group grows."""
    had, most = number(g.json, "spec", "size"), number(g.json, "spec", "maxSize")
    return f"pod triggered scale-up: [{{{_name(g.json)} {had}->{size} (max: {most})}}]"


# ---------------------------------------------------------------- shrinking
def _stays(obj: Object) -> bool:
    """Whether a pod goes with its node: it is not moved."""
    owners = at(obj, "metadata", "ownerReferences") or ()
    return any(o.get("controller") and o.get("kind") == "DaemonSet" for o in owners) or MIRROR in (
        at(obj, "metadata", "annotations") or {}
    )


def _blocks(obj: Object) -> bool:
    """Whether a pod keeps its node: nobody would make it anew, or it would lose what it has."""
    told = (at(obj, "metadata", "annotations") or {}).get(SAFE)
    if told == "true":
        return False
    owned = any(o.get("controller") for o in at(obj, "metadata", "ownerReferences") or ())
    local = any("hostPath" in v or _on_disk(v) for v in at(obj, "spec", "volumes") or ())
    return told == "false" or not owned or local or at(obj, "metadata", "namespace") == "kube-system"


def _on_disk(volume: Object) -> bool:
    return "emptyDir" in volume and (volume.get("emptyDir") or {}).get("medium") != "Memory"


def movers(n: Kept, pods: Iterable[Kept]) -> list[Kept]:
    """The pods that have to leave a node before it goes."""
    name = _name(n.json)
    return [
        pod
        for pod in pods
        if at(pod.json, "spec", "nodeName") == name
        and at(pod.json, "status", "phase") not in ENDED
        and not _stays(pod.json)
    ]


def _busy(view: NodeView) -> float:
    """The larger share of processor or memory that pods ask for."""
    shares = [
        view.used.get(name, 0) / view.allocatable[name] for name in ("cpu", "memory") if view.allocatable.get(name)
    ]
    return max(shares, default=1.0)


def _keeps(node: Object) -> bool:
    return (at(node, "metadata", "annotations") or {}).get(KEEP) == "true"


def spares(mine: Iterable[Kept], nodes: Iterable[Kept], pods: Iterable[Kept]) -> list[Kept]:
    """Which of some nodes are not needed, each for itself: it does little, and its pods would fit elsewhere."""
    everything = _json(pods)
    standing = _standing(everything)
    on_node: dict[str, list[Object]] = {}
    for obj in everything:
        on_node.setdefault(str(at(obj, "spec", "nodeName") or ""), []).append(obj)
    views: dict[str, NodeView] = {}
    for node in _json(nodes):
        view = _view(node, standing.get(_name(node), ())) if _ready(node) and not _doomed(node) else None
        if view is not None:
            views[_name(node)] = view
    found = []
    for row in mine:
        name = _name(row.json)
        view = views.get(name)
        if view is None or _keeps(row.json) or _busy(view) >= THRESHOLD:
            continue
        leave = [o for o in on_node.get(name, ()) if at(o, "status", "phase") not in ENDED and not _stays(o)]
        if not any(_blocks(o) for o in leave) and _fit_elsewhere(leave, name, views):
            found.append(row)
    return found


def _fit_elsewhere(pods: Sequence[Object], name: str, views: dict[str, NodeView]) -> bool:
    """Whether the pods of a node fit on the others as they are."""
    others = [view.copy() for other, view in views.items() if other != name] if pods else []
    return not _place(_largest_first(Pod.of(_unbound(o)) for o in pods), others)


def _unbound(obj: Object) -> Object:
    """A pod as one that is made anew: it has no node yet."""
    return {**obj, "spec": {key: value for key, value in (obj.get("spec") or {}).items() if key != "nodeName"}}


def idlest(rows: Iterable[Kept], pods: Iterable[Kept]) -> list[Kept]:
    """The nodes, those that do least first."""
    standing = _standing(_json(pods))

    def order(row: Kept) -> tuple[float, str]:
        name = _name(row.json)
        view = _view(row.json, standing.get(name, ()))
        return (1.0 if view is None else _busy(view)), name

    return sorted(rows, key=order)


def marked(n: Kept, now: int) -> list[Any]:
    """The taints of a node that is to go."""
    mark = {"key": DOOMED, "value": str(now // 1000), "effect": "NoSchedule"}
    return [*unmarked(n), mark]


def unmarked(n: Kept) -> list[Any]:
    """The taints without that mark."""
    return [t for t in at(n.json, "spec", "taints") or () if t.get("key") != DOOMED]


def is_marked(n: Kept) -> bool:
    """Whether a node is to go."""
    return _doomed(n.json)
