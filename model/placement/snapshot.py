"""The cluster at one moment, as a scheduling cycle sees it: nodes in the order of the walk, and what rules look up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from dashpot.model.placement.shape import NodeView, Pod

Object = dict[str, Any]
Labels = Mapping[str, str]

ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGIONS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


@define(eq=False)
class Snapshot:
    """Nodes with their pods, in order (S12), and objects beside them.

    namespaces  name → labels; a namespace that is not listed has none
    objects     kind → objects, of the kinds that rules read beside nodes and pods (PodDisruptionBudget, Service …)
    """

    nodes: list[NodeView]
    namespaces: Mapping[str, Labels] = field(factory=dict)
    objects: Mapping[str, list[Object]] = field(factory=dict)
    by_name: dict[str, NodeView] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.by_name = {node.name: node for node in self.nodes}

    @staticmethod
    def of(
        nodes: Iterable[Object],
        pods: Iterable[Object],
        namespaces: Mapping[str, Labels] | None = None,
        objects: Mapping[str, list[Object]] | None = None,
    ) -> Snapshot:
        """From the API's objects: pods that have ended, or stand on no node that is here, count nowhere (S1, S2)."""
        views = ordered([NodeView.of(node) for node in nodes])
        made = Snapshot(views, namespaces or {}, objects or {})
        for pod in pods:
            where = (pod.get("spec") or {}).get("nodeName")
            phase = (pod.get("status") or {}).get("phase")
            if where in made.by_name and phase not in ("Succeeded", "Failed"):
                made.by_name[where].add(Pod.of(pod))
        return made

    def labels_of(self, namespace: str) -> Labels:
        """The labels of a namespace."""
        return self.namespaces.get(namespace) or {}

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        """One of the objects beside them."""
        for one in self.objects.get(kind, ()):
            meta = one["metadata"]
            if meta.get("namespace", "") == namespace and meta["name"] == name:
                return one
        return None


def ordered(nodes: list[NodeView]) -> list[NodeView]:
    """The order of the walk (S12): the first node of each zone, then the second of each, zones as first seen."""
    zones: dict[str, list[NodeView]] = {}
    for node in nodes:
        zones.setdefault(zone_of(node.labels), []).append(node)
    if len(zones) == 1:
        return nodes
    found: list[NodeView] = []
    for turn in range(max(map(len, zones.values()), default=0)):
        found += [rows[turn] for rows in zones.values() if turn < len(rows)]
    return found


def zone_of(labels: Labels) -> str:
    """Region and zone as one key; "" for a node in none."""
    region, zone = _first(labels, REGIONS), _first(labels, ZONES)
    return f"{region}:\0:{zone}" if region or zone else ""


def _first(labels: Labels, keys: Iterable[str]) -> str:
    return next((labels[key] for key in keys if key in labels), "")
