"""Single changes after which the pods can be placed, each tried: the question is asked again with it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve, frozen

from dashpot.checker.feasibility.facts import Fact
from dashpot.checker.feasibility.instance import Instance, Template
from dashpot.checker.feasibility.verdict import Feasible, decide
from dashpot.model.placement.shape import NodeView, Pod
from dashpot.model.placement.snapshot import Snapshot, ordered

Object = dict[str, Any]
Edit = Callable[[Object], None]
MOST_NODES = 256


@frozen
class Repair:
    """A change in words, and the question with it."""

    text: str
    instance: Instance


def repairs(instance: Instance, core: tuple[Fact, ...], *, most: int = 5) -> list[Repair]:
    """The first few changes that help, the cheapest first."""
    found = []
    for one in _candidates(instance, core):
        if isinstance(decide(one.instance), Feasible):
            found.append(one)
            if len(found) >= most:
                break
    if not found:
        found += _more_nodes(instance)
    return found


def _candidates(instance: Instance, core: tuple[Fact, ...]) -> Iterator[Repair]:
    concerned = sorted({fact.template for fact in core if fact.template >= 0})
    kinds = {fact.kind for fact in core}
    yield from _nodes(instance, concerned)
    for t in concerned:
        yield from _pods(instance, t, kinds)


def _nodes(instance: Instance, concerned: list[int]) -> Iterator[Repair]:
    """Uncordon, or take a taint away: each node of a sort stands for its like, so one of each is tried."""
    tried: set[Any] = set()
    for node in instance.cluster.nodes:
        spec = node.object.get("spec") or {}
        zone = sorted((k, v) for k, v in node.labels.items() if "zone" in k)
        if spec.get("unschedulable") and ("cordon", str(zone)) not in tried:
            tried.add(("cordon", str(zone)))
            yield Repair(f"uncordon node {node.name}", _with_node(instance, node, _uncordoned))
        for taint in node.taints:
            key = taint.get("key"), taint.get("value"), taint.get("effect"), str(zone)
            if taint.get("effect") == "PreferNoSchedule" or key in tried:
                continue
            tried.add(key)
            said = f"{taint.get('key')}{'=' + taint['value'] if taint.get('value') else ''}:{taint.get('effect')}"
            yield Repair(f"take the taint {said} from node {node.name}", _with_node(instance, node, _without(taint)))


def _uncordoned(node: Object) -> None:
    node["spec"].pop("unschedulable", None)
    rows = node["spec"].get("taints") or []
    node["spec"]["taints"] = [one for one in rows if one.get("key") != "node.kubernetes.io/unschedulable"]


def _without(taint: Object) -> Edit:
    def edit(node: Object) -> None:
        node["spec"]["taints"] = [one for one in node["spec"]["taints"] if one != taint]

    return edit


def _pods(instance: Instance, t: int, kinds: set[str]) -> Iterator[Repair]:
    template = instance.templates[t]
    name = template.name
    taints = {(x.get("key"), x.get("value"), x.get("effect")): x for n in instance.cluster.nodes for x in n.taints}
    for taint in taints.values():
        if taint.get("effect") != "PreferNoSchedule":
            said = f"{taint.get('key')}{'=' + taint['value'] if taint.get('value') else ''}:{taint.get('effect')}"
            yield Repair(f"let {name} tolerate {said}", _with_pods(instance, t, _tolerating(taint)))
    for at, one in enumerate(template.pod.spec.get("topologySpreadConstraints") or ()):
        if one.get("whenUnsatisfiable") != "DoNotSchedule" or "spread" not in kinds:
            continue
        key = one.get("topologyKey")
        if one.get("nodeTaintsPolicy", "Ignore") != "Honor":
            edit = _spread(at, nodeTaintsPolicy="Honor")
            yield Repair(f"nodeTaintsPolicy: Honor in {name}'s spread over {key}", _with_pods(instance, t, edit))
        wider = int(one.get("maxSkew", 1)) + 1
        yield Repair(
            f"maxSkew: {wider} in {name}'s spread over {key}", _with_pods(instance, t, _spread(at, maxSkew=wider))
        )
        soft = _spread(at, whenUnsatisfiable="ScheduleAnyway")
        yield Repair(f"ScheduleAnyway in {name}'s spread over {key}", _with_pods(instance, t, soft))
    if "far" in kinds:
        yield Repair(f"prefer anti-affinity in {name}, not require it", _with_pods(instance, t, _preferring))
    if template.count > 1:
        fewer = _fewer(instance, t, template.count - 1)
        yield Repair(f"one less of {name}", fewer)


def _tolerating(taint: Object) -> Edit:
    def edit(pod: Object) -> None:
        one = {
            "key": taint.get("key"),
            "operator": "Equal",
            "value": taint.get("value") or "",
            "effect": taint.get("effect"),
        }
        pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or ()), one]

    return edit


def _spread(at: int, **values: Any) -> Edit:
    def edit(pod: Object) -> None:
        pod["spec"]["topologySpreadConstraints"][at] |= values

    return edit


def _preferring(pod: Object) -> None:
    far = pod["spec"]["affinity"]["podAntiAffinity"]
    required = far.pop("requiredDuringSchedulingIgnoredDuringExecution", [])
    rows = far.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    rows += [{"weight": 100, "podAffinityTerm": one} for one in required]


def _with_pods(instance: Instance, t: int, edit: Edit) -> Instance:
    template = instance.templates[t]
    members = tuple(_edited(pod, edit) for pod in template.members)
    changed = Template(template.name, members[0], members, template.place)
    return evolve(instance, templates=[changed if at == t else one for at, one in enumerate(instance.templates)])


def _fewer(instance: Instance, t: int, count: int) -> Instance:
    template = instance.templates[t]
    changed = evolve(template, members=template.members[:count])
    return evolve(instance, templates=[changed if at == t else one for at, one in enumerate(instance.templates)])


def _edited(pod: Pod, edit: Edit) -> Pod:
    made = copy.deepcopy(pod.object)
    edit(made)
    return Pod.of(made)


def _with_node(instance: Instance, node: NodeView, edit: Edit) -> Instance:
    made = copy.deepcopy(node.object)
    made.setdefault("spec", {})
    edit(made)
    changed = NodeView.of(made, node.pods.values())
    nodes = [changed if one is node else one for one in instance.cluster.nodes]
    return _over(instance, nodes)


def _over(instance: Instance, nodes: list[NodeView]) -> Instance:
    cluster = instance.cluster
    return evolve(instance, cluster=Snapshot(nodes, cluster.namespaces, cluster.objects))


def _more_nodes(instance: Instance) -> list[Repair]:
    """How many more of one of the nodes would do: the sort of which the fewest are needed."""
    best: tuple[int, Repair] | None = None
    seen: set[Any] = set()
    for node in instance.cluster.nodes:
        sort = tuple(sorted(node.allocatable.items())), str(node.taints)
        if sort in seen or (node.object.get("spec") or {}).get("unschedulable"):
            continue
        seen.add(sort)
        count = _enough(instance, node, best[0] - 1 if best else MOST_NODES)
        if count:
            text = f"{count} more node{'s' * (count > 1)} like {node.name}"
            best = count, Repair(text, _grown(instance, node, count))
    return [best[1]] if best else []


def _enough(instance: Instance, node: NodeView, most: int) -> int:
    """The fewest further nodes with which a placement is found; 0: not even with the most."""
    if most < 1 or not isinstance(decide(_grown(instance, node, most)), Feasible):
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if isinstance(decide(_grown(instance, node, middle)), Feasible):
            high = middle
        else:
            low = middle + 1
    return low


def _grown(instance: Instance, node: NodeView, count: int) -> Instance:
    nodes = list(instance.cluster.nodes)
    for at in range(count):
        made = copy.deepcopy(node.object)
        name = f"{node.name}-more-{at}"
        made["metadata"]["name"] = name
        labels = made["metadata"].get("labels") or {}
        if "kubernetes.io/hostname" in labels:
            labels["kubernetes.io/hostname"] = name
        nodes.append(NodeView.of(made))
    return _over(instance, ordered(nodes))
