"""Nodes that are alike to every pod in question, and what each sort of pod meets there before anything is placed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field, frozen

from dashpot.checker.feasibility.instance import Instance, Template
from dashpot.model.placement.interpod import terms_of
from dashpot.model.placement.plugin import SKIP, Filter
from dashpot.model.placement.shape import OK, NodeView, Pod, Status

ALONE = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts")
"""Filters whose answer about an empty place does not change while pods are placed, but for host ports."""


@frozen(eq=False)
class NodeClass:
    """Nodes with the same answers of the filters that look at one node alone, and the same domains."""

    nodes: tuple[NodeView, ...]
    domains: dict[str, str]

    @property
    def title(self) -> str:
        """As people may call them."""
        names = [node.name for node in self.nodes]
        return names[0] if len(names) == 1 else f"{len(names)} nodes ({', '.join(names[:3])}{', …' * (len(names) > 3)})"


@define(eq=False)
class World:
    """An instance with its classes. `verdicts`: (template, class) → what refuses such a pod there, or OK."""

    instance: Instance
    classes: list[NodeClass]
    verdicts: list[list[Status]]
    by_node: dict[str, int] = field(factory=dict)

    def admissible(self, template: int, which: int) -> bool:
        """Whether nothing but room and other pods can refuse it there."""
        return self.verdicts[template][which].ok


def world(instance: Instance) -> World:
    """Groups the nodes; each filter of one node alone is asked once for each template and each sort of node."""
    keys = sorted(topology_keys(instance.templates))
    filters = [one for one in instance.profile.filters if one.name in ALONE]
    by_name = any(_names_nodes(template.pod) for template in instance.templates)
    ported = any(template.pod.ports for template in instance.templates)
    asked: dict[Any, list[Status]] = {}
    groups: dict[Any, list[NodeView]] = {}
    told: dict[Any, list[Status]] = {}
    for node in instance.cluster.nodes:
        facts = _facts(node, by_name, ported)
        if facts not in asked:
            asked[facts] = [alone(template.pod, node, filters, instance) for template in instance.templates]
        statuses = asked[facts]
        domains = tuple((key, node.labels[key]) for key in keys if key in node.labels)
        key = tuple((status.code, status.reasons) for status in statuses), domains
        groups.setdefault(key, []).append(node)
        told[key] = statuses
    classes = [NodeClass(tuple(nodes), dict(key[1])) for key, nodes in groups.items()]
    verdicts = [[told[key][t] for key in groups] for t in range(len(instance.templates))]
    return World(instance, classes, verdicts, {n.name: k for k, one in enumerate(classes) for n in one.nodes})


def _names_nodes(pod: Pod) -> bool:
    return bool(pod.spec.get("nodeName")) or "matchFields" in str(pod.spec.get("affinity") or "")


def _facts(node: NodeView, by_name: bool, ported: bool) -> Any:
    """What filters of one node alone can read of it."""
    spec = node.object.get("spec") or {}
    taints = tuple((t.get("key"), t.get("value"), t.get("effect")) for t in node.taints)
    ports = tuple(sorted(port for pod in node.pods.values() for port in pod.ports)) if ported else ()
    name = node.name if by_name else ""
    return bool(spec.get("unschedulable")), taints, tuple(sorted(node.labels.items())), ports, name


def alone(pod: Pod, node: NodeView, filters: Iterable[Filter], instance: Instance) -> Status:
    """The first refusal of the filters that look at one node alone."""
    for one in filters:
        if one.prepare(pod, instance.cluster) is SKIP:
            continue
        status = one.admits(pod, node, None)
        if not status.ok:
            return status
    return OK


def topology_keys(templates: Iterable[Template]) -> set[str]:
    """The labels of nodes over which pods in question spread, or want to be near or far."""
    found: set[str] = set()
    for template in templates:
        spec = template.pod.spec
        found |= {one.get("topologyKey", "") for one in spec.get("topologySpreadConstraints") or ()}
        terms = terms_of(template.pod)
        found |= {term.key for term in (*terms.near, *terms.far)}
    return found
