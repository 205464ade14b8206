"""What the rules of placement look at: a pod, a node with its pods, and what a rule answers.

Quantities are integers (scheduling rule S3): processor in thousandths, everything else in units, each rounded up.
Semantics: kube-scheduler v1.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from attrs import define, field, frozen

from dashpot.model.objects import quantity
from dashpot.model.objects.selector import Selector
from dashpot.model.placement import request

Object = dict[str, Any]
Amounts = dict[str, int]


class Code(IntEnum):
    """What became of a node, or of a whole cycle: later members are worse."""

    SUCCESS = 0
    UNSCHEDULABLE = 1
    """Would pass if other pods went away."""
    UNRESOLVABLE = 2
    """No pod's going would help (upstream: UnschedulableAndUnresolvable)."""


@frozen
class Status:
    """A rule's answer; `plugin` names the rule, `reasons` are told to people."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Whether the node passes."""
        return self.code is Code.SUCCESS


OK = Status()


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """A resource list as integers."""
    found: Amounts = {}
    for name, text in (quantities or {}).items():
        found[name] = request.whole(name, quantity.parse(str(text)))
    return found


@frozen(eq=False)
class Pod:
    """A pod as the rules see it: the object, and what it asks for; what rules look at often is read once.

    priority    0 where none is set (S3)
    terminating whether it is being deleted
    has_terms   whether it has affinity or anti-affinity to other pods
    """

    object: Object
    asks: Amounts
    counted: Amounts
    ports: tuple[tuple[str, str, int], ...]
    spec: Object = field(init=False)
    uid: str = field(init=False)
    name: str = field(init=False)
    namespace: str = field(init=False)
    labels: dict[str, str] = field(init=False)
    terminating: bool = field(init=False)
    priority: int = field(init=False)
    has_terms: bool = field(init=False)
    remembered: dict[str, Any] = field(factory=dict, init=False, repr=False)
    """What rules have read of the object, by a key of their own."""

    def __attrs_post_init__(self) -> None:
        meta, spec = self.object["metadata"], self.object.get("spec") or {}
        affinity = spec.get("affinity") or {}
        for name, value in (
            ("spec", spec),
            ("uid", str(meta.get("uid", ""))),
            ("name", str(meta.get("name", ""))),
            ("namespace", str(meta.get("namespace") or "")),
            ("labels", meta.get("labels") or {}),
            ("terminating", bool(meta.get("deletionTimestamp"))),
            ("priority", int(spec.get("priority") or 0)),
            ("has_terms", bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity"))),
        ):
            object.__setattr__(self, name, value)

    @staticmethod
    def of(obj: Object) -> Pod:
        """From the API's object."""
        spec = obj.get("spec") or {}
        return Pod(obj, request.requests(spec), request.counted(spec), tuple(request.host_ports(spec)))


MOST_SORTS = 64
"""Sorts of pods that a node keeps counts of."""


def _of_sort(pod: Pod, namespace: str, selector: Selector) -> bool:
    return pod.namespace == namespace and not pod.terminating and selector.matches(pod.labels)


@define(eq=False)
class NodeView:
    """A node, and the pods that fill it (bound or assumed, not ended), summed up as they come and go."""

    object: Object
    allocatable: Amounts = field(factory=dict)
    pods: dict[str, Pod] = field(factory=dict)
    used: Amounts = field(factory=dict)
    counted: Amounts = field(factory=dict)
    """As `used`, with what scores count for pods that ask for nothing."""
    termed: dict[str, Pod] = field(factory=dict)
    """Those of the pods that have affinity or anti-affinity to other pods."""
    _sorts: dict[tuple[str, Selector], int] = field(factory=dict)
    """How many pods are of a sort that was asked for, kept as they come and go."""
    name: str = field(init=False)
    labels: dict[str, str] = field(init=False)
    taints: list[Object] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._read()

    def _read(self) -> None:
        self.name = str(self.object["metadata"]["name"])
        self.labels = self.object["metadata"].get("labels") or {}
        self.taints = (self.object.get("spec") or {}).get("taints") or []

    @staticmethod
    def of(obj: Object, pods: Iterable[Pod] = ()) -> NodeView:
        """From the API's object and the pods on it."""
        view = NodeView(obj)
        view.change(obj)
        for pod in pods:
            view.add(pod)
        return view

    def change(self, obj: Object) -> None:
        """The node object is another version now."""
        self.object = obj
        self._read()
        self.allocatable = amounts((obj.get("status") or {}).get("allocatable"))

    def copy(self) -> NodeView:
        """Another view of the same node, from which pods can be taken."""
        return NodeView(
            self.object, self.allocatable, dict(self.pods), dict(self.used), dict(self.counted), dict(self.termed)
        )

    def add(self, pod: Pod) -> None:
        """A pod fills it; a pod that is there already is replaced."""
        self.remove(pod.uid)
        self.pods[pod.uid] = pod
        if pod.has_terms:
            self.termed[pod.uid] = pod
        if self._sorts:
            self._count(pod, 1)
        for name, amount in pod.asks.items():
            self.used[name] = self.used.get(name, 0) + amount
        for name, amount in pod.counted.items():
            self.counted[name] = self.counted.get(name, 0) + amount

    def remove(self, uid: str) -> None:
        """A pod has gone; idempotent."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.termed.pop(uid, None)
            if self._sorts:
                self._count(pod, -1)
            for name, amount in pod.asks.items():
                self.used[name] -= amount
            for name, amount in pod.counted.items():
                self.counted[name] -= amount

    def matching(self, namespace: str, selector: Selector) -> int:
        """How many pods of a namespace a selector matches, those not counted that are being deleted; an empty selector
        matches none here (S35)."""
        if selector.empty:
            return 0
        key = namespace, selector
        found = self._sorts.get(key)
        if found is None:
            if len(self._sorts) >= MOST_SORTS:
                self._sorts.clear()
            found = self._sorts[key] = sum(_of_sort(pod, namespace, selector) for pod in self.pods.values())
        return found

    def _count(self, pod: Pod, by: int) -> None:
        for namespace, selector in self._sorts:
            if _of_sort(pod, namespace, selector):
                self._sorts[namespace, selector] += by
