"""What the scheduler knows of nodes and the pods on them, those included that it has placed but not yet seen there."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from dashpot.model.placement.shape import NodeView, Pod

Object = dict[str, Any]


@define(eq=False)
class Cluster:
    """Nodes by name, each with the pods that fill it. A pod on a node that is not known counts nowhere (S2)."""

    nodes: dict[str, NodeView] = field(factory=dict)
    _at: dict[str, tuple[str, Pod]] = field(factory=dict)
    """Which node a pod's uid stands on, as seen or as assumed."""
    _assumed: set[str] = field(factory=set)

    # -- nodes --------------------------------------------------------------------------------------------------

    def node(self, obj: Object) -> None:
        """A node is there, or has changed."""
        name = obj["metadata"]["name"]
        view = self.nodes.get(name)
        if view is not None:
            view.change(obj)
        else:
            self.nodes[name] = NodeView.of(obj, [pod for at, pod in self._at.values() if at == name])

    def node_gone(self, name: str) -> None:
        """A node has gone; its pods are remembered, should it come back."""
        self.nodes.pop(name, None)

    # -- pods ---------------------------------------------------------------------------------------------------

    def pod(self, obj: Object) -> None:
        """A bound pod that has not ended was seen: it fills its node (S1)."""
        self._assumed.discard(obj["metadata"]["uid"])
        self._place(Pod.of(obj), obj["spec"]["nodeName"])

    def pod_gone(self, uid: str) -> None:
        """A pod has gone or ended; idempotent."""
        self._assumed.discard(uid)
        at = self._at.pop(uid, None)
        if at is not None and at[0] in self.nodes:
            self.nodes[at[0]].remove(uid)

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
        if before is not None and before[0] != node and before[0] in self.nodes:
            self.nodes[before[0]].remove(pod.uid)
        self._at[pod.uid] = (node, pod)
        if node in self.nodes:
            self.nodes[node].add(pod)
