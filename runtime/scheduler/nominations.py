"""Which nodes preemption has promised to which pods (S59): memory, ahead of what objects say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field

from dashpot.model.placement.shape import Pod


@define(eq=False)
class Nominations(Mapping[str, Sequence[Pod]]):
    """Node → the pods that it is promised to."""

    _by_node: dict[str, dict[str, Pod]] = field(factory=dict)
    _at: dict[str, str] = field(factory=dict)

    def __getitem__(self, node: str) -> list[Pod]:
        return list(self._by_node[node].values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_node)

    def __len__(self) -> int:
        return len(self._by_node)

    def add(self, pod: Pod, node: str) -> None:
        """The node is promised to the pod; an older promise is taken back."""
        self.remove(pod.uid)
        self._by_node.setdefault(node, {})[pod.uid] = pod
        self._at[pod.uid] = node

    def remove(self, uid: str) -> str:
        """Takes the promise back; the node, or "" where there was none."""
        node = self._at.pop(uid, "")
        if node:
            pods = self._by_node[node]
            del pods[uid]
            if not pods:
                del self._by_node[node]
        return node

    def seen(self, pod: Pod) -> None:
        """A waiting pod as it is now: what it says counts where nothing else was promised."""
        node = self._at.get(pod.uid) or str((pod.object.get("status") or {}).get("nominatedNodeName") or "")
        if node:
            self.add(pod, node)

    def of(self, uid: str) -> str:
        """The node that a pod was promised; "" for none."""
        return self._at.get(uid, "")

    def lower(self, node: str, priority: int) -> list[Pod]:
        """Pods of lower priority that the node is promised to."""
        return [pod for pod in self._by_node.get(node, {}).values() if pod.priority < priority]
