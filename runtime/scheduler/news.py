"""What informers tell: nodes and placed pods go to the cache, waiting pods to the queue, events to the hints."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from dashpot.model.placement.hints import changed
from dashpot.model.placement.shape import Pod
from dashpot.runtime.client.indexer import key_of
from dashpot.runtime.client.informer import Handler, Tombstone
from dashpot.runtime.scheduler.cache import Cluster
from dashpot.runtime.scheduler.nominations import Nominations
from dashpot.runtime.scheduler.queue import SchedulingQueue
from dashpot.runtime.scheduler.teller import scheduler_of

Object = dict[str, Any]

ENDED = ("Succeeded", "Failed")
BESIDE = {
    "Namespace": "namespaces",
    "Service": "services",
    "ReplicationController": "replicationcontrollers",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
}
"""Kinds that rules read beside nodes, pods and volumes, and their resources."""


class News:
    """Handlers. `names`: of the schedulers whose pods are placed here."""

    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, nominations: Nominations, names: Container[str]
    ) -> None:
        self._cluster, self._queue, self._nominations, self._names = cluster, queue, nominations, names

    def nodes(self) -> Handler:
        """For nodes."""
        return Handler(self._node, self._node_changed, self._node_gone)

    def pods(self) -> Handler:
        """For pods."""
        return Handler(lambda new: self._pod(None, new), self._pod, self._pod_gone)

    def space(self, obj: Object) -> None:
        """A namespace, as it is now."""
        self._cluster.spaces[obj["metadata"]["name"]] = obj["metadata"].get("labels") or {}

    def space_gone(self, obj: Object | Tombstone) -> None:
        """A namespace has gone."""
        self._cluster.spaces.pop(_last(obj)["metadata"]["name"], None)

    def _tell(self, kind: str, old: Object | None, new: Object | None) -> None:
        if self._queue.attentive:
            event = changed(kind, old, new)
            if event is not None:
                self._queue.tell(event)

    # -- nodes --------------------------------------------------------------------------------------------------

    def _node(self, obj: Object) -> None:
        self._cluster.node(obj)
        self._tell("Node", None, obj)

    def _node_changed(self, old: Object, new: Object) -> None:
        self._cluster.node(new)
        self._tell("Node", old, new)

    def _node_gone(self, obj: Object | Tombstone) -> None:
        self._cluster.node_gone(_last(obj)["metadata"]["name"])
        self._tell("Node", _last(obj), None)

    # -- pods ---------------------------------------------------------------------------------------------------

    def _pod(self, old: Object | None, obj: Object) -> None:
        key = key_of(obj)
        if old is not None and old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._left(old, key)
            old = None
        if (obj.get("status") or {}).get("phase") in ENDED:
            self._left(obj, key)
        elif (obj.get("spec") or {}).get("nodeName"):
            self._placed(old, obj, key)
        elif scheduler_of(obj) in self._names:
            self._nominations.seen(Pod.of(obj))
            self._queue.add(key, obj, changed("Pod", old, obj) if old is not None else None)

    def _placed(self, old: Object | None, obj: Object, key: str) -> None:
        self._cluster.pod(obj)
        self._nominations.remove(obj["metadata"]["uid"])
        self._queue.remove(key)
        before = old if old is not None and (old.get("spec") or {}).get("nodeName") else None
        self._tell("Pod", before, obj)

    def _pod_gone(self, obj: Object | Tombstone) -> None:
        last = _last(obj)
        self._left(last, key_of(last))

    def _left(self, obj: Object, key: str) -> None:
        uid = obj["metadata"]["uid"]
        known = self._queue.get(key)
        if known is not None and known.object["metadata"]["uid"] == uid:
            self._queue.remove(key)
        promised = self._nominations.remove(uid)
        if self._cluster.assumed(uid) or promised:
            self._cluster.pod_gone(uid)
            if promised and not (obj.get("spec") or {}).get("nodeName"):
                obj = {**obj, "status": {**(obj.get("status") or {}), "nominatedNodeName": promised}}
            self._tell("Pod", obj, None)


def _last(obj: Object | Tombstone) -> Object:
    return obj.object if isinstance(obj, Tombstone) else obj
