"""What the scheduler knows of nodes and the pods on them, those included that it has placed but not yet seen there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from dashpot.model.placement.shape import NodeView, Pod
from dashpot.model.placement.snapshot import Snapshot, ordered, zone_of
from dashpot.runtime.client.indexer import Indexer

Object = dict[str, Any]


@define(eq=False)
class Objects(Mapping[str, list[Object]]):
    """The objects that rules read beside nodes and pods, by kind, as informers have them."""

    indexers: dict[str, Indexer] = field(factory=dict)

    def __getitem__(self, kind: str) -> list[Object]:
        return list(self.indexers[kind])

    def __iter__(self) -> Iterator[str]:
        return iter(self.indexers)

    def __len__(self) -> int:
        return len(self.indexers)


@define(eq=False)
class Live(Snapshot):
    """The cluster as it is now. It changes between cycles, never within one: a cycle does not wait for anything."""

    beside: Objects = field(factory=Objects)

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        """One of the objects beside nodes and pods."""
        found = self.beside.indexers.get(kind)
        return found.get(f"{namespace}/{name}" if namespace else name) if found is not None else None


@define(eq=False)
class Cluster:
    """Nodes by name, each with the pods that fill it. A pod on a node that is not known counts nowhere (S2)."""

    nodes: dict[str, NodeView] = field(factory=dict)
    objects: Objects = field(factory=Objects)
    spaces: dict[str, Mapping[str, str]] = field(factory=dict)
    """Namespace → its labels."""
    _at: dict[str, tuple[str, Pod]] = field(factory=dict)
    """Which node a pod's uid stands on, as seen or as assumed."""
    _assumed: set[str] = field(factory=set)
    _lost: dict[str, dict[str, Pod]] = field(factory=dict)
    """Pods of nodes that are not there (any more), by node."""
    _live: Live | None = None

    def snapshot(self) -> Live:
        """The cluster as rules see it, nodes in the order of the walk (S12)."""
        if self._live is None:
            nodes = ordered(list(self.nodes.values()))
            self._live = Live(nodes, self.spaces, self.objects, self.objects)
        return self._live

    def sizes(self) -> dict[str, int]:
        """How much is known: nodes, pods, assumed_pods."""
        return {"nodes": len(self.nodes), "pods": len(self._at), "assumed_pods": len(self._assumed)}

    # -- nodes --------------------------------------------------------------------------------------------------

    def node(self, obj: Object) -> None:
        """A node is there, or has changed. One that changes its zone goes to the end of the new one (S12)."""
        name = obj["metadata"]["name"]
        view = self.nodes.get(name)
        if view is None:
            self.nodes[name] = NodeView.of(obj, self._lost.pop(name, {}).values())
            self._live = None
            return
        moved = zone_of(view.labels) != zone_of(obj["metadata"].get("labels") or {})
        view.change(obj)
        if moved:
            self.nodes[name] = self.nodes.pop(name)
            self._live = None

    def node_gone(self, name: str) -> None:
        """A node has gone; its pods are remembered, should it come back."""
        view = self.nodes.pop(name, None)
        if view is not None:
            self._live = None
            if view.pods:
                self._lost[name] = dict(view.pods)

    # -- pods ---------------------------------------------------------------------------------------------------

    def pod(self, obj: Object) -> None:
        """A bound pod that has not ended was seen: it fills its node (S1)."""
        self._assumed.discard(obj["metadata"]["uid"])
        self._place(Pod.of(obj), obj["spec"]["nodeName"])

    def pod_gone(self, uid: str) -> None:
        """A pod has gone or ended; idempotent."""
        self._assumed.discard(uid)
        at = self._at.pop(uid, None)
        if at is not None:
            self._take(at[0], uid)

    def assume(self, pod: Pod, node: str) -> None:
        """The pod fills the node from now on, though nobody has seen it there yet (S23)."""
        self._assumed.add(pod.uid)
        self._place(pod, node)

    def forget(self, uid: str) -> None:
        """What was assumed has failed; no effect once the pod was seen bound."""
        if uid in self._assumed:
            self.pod_gone(uid)

    def assumed(self, uid: str) -> bool:
        """Whether it is placed already, seen or not."""
        return uid in self._at

    def _place(self, pod: Pod, node: str) -> None:
        before = self._at.get(pod.uid)
        if before is not None and before[0] != node:
            self._take(before[0], pod.uid)
        self._at[pod.uid] = (node, pod)
        if node in self.nodes:
            self.nodes[node].add(pod)
        else:
            self._lost.setdefault(node, {})[pod.uid] = pod

    def _take(self, node: str, uid: str) -> None:
        if node in self.nodes:
            self.nodes[node].remove(uid)
        elif node in self._lost:
            self._lost[node].pop(uid, None)
            if not self._lost[node]:
                del self._lost[node]
