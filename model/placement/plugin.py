"""What a scheduler plugin is here: a filter, a score, or both, pure functions of a pod and a snapshot.

`prepare` runs once a cycle and may skip the plugin or refuse the pod outright; `admits` judges one node; `shift` is
another pod that comes to a node or goes from it (nominated pods, preemption).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

from attrs import frozen

from dashpot.model.placement.shape import NodeView, Pod, Status
from dashpot.model.placement.snapshot import Snapshot

MOST = 100
"""The highest score of a node."""


class Skip:
    """The plugin has nothing to say in this cycle."""


SKIP: Final = Skip()


@frozen
class Only:
    """A prepared state, and the only nodes that come into question."""

    names: frozenset[str]
    state: Any = None


class Filter(Protocol):
    """Judges nodes for a pod. `name` as in a KubeSchedulerConfiguration."""

    name: str

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """PreFilter: SKIP, a Status that refuses, Only, or a state for `admits`."""
        ...

    def admits(self, pod: Pod, node: NodeView, state: Any) -> Status:
        """Filter."""
        ...

    def copied(self, state: Any) -> Any:
        """A state of its own that says the same."""
        ...

    def shift(self, state: Any, pod: Pod, other: Pod, node: NodeView, by: Literal[1, -1]) -> None:
        """Changes the state as if `other` came to the node (1) or went from it (-1)."""
        ...


class Score(Protocol):
    """Rates the nodes that a pod fits."""

    name: str

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """0 to 100 for each node after NormalizeScore, in their order; SKIP where PreScore skips."""
        ...


class Plain:
    """A filter of one node alone, without a state."""

    name = ""

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """Nothing to prepare."""
        return None

    def copied(self, state: Any) -> Any:
        """There is none."""
        return state

    def shift(self, state: Any, pod: Pod, other: Pod, node: NodeView, by: Literal[1, -1]) -> None:
        """What a pod changes of its node, the node's own sums show."""
