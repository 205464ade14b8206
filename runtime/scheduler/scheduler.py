"""The scheduler: one pod at a time, the filters, the scores, a draw among the best, then the binding (S13 to S23).

    scheduler = Scheduler(client, clock); scheduler.start(); await scheduler.stop()

Volumes are chosen as `volumes.py` says. Filters of several nodes at once (spreading, affinity between pods) and
preemption are not among the rules yet.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.model.placement import message, score
from dashpot.model.placement.shape import NodeView, Pod, Status
from dashpot.model.placement.static import admits
from dashpot.runtime.client.events import Recorder
from dashpot.runtime.client.indexer import key_of
from dashpot.runtime.client.informer import Handler, Informer, Tombstone
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.clock import Clock, rfc3339
from dashpot.runtime.scheduler.cache import Cluster
from dashpot.runtime.scheduler.queue import SchedulingQueue, Waiting
from dashpot.runtime.scheduler.volumes import NOTHING, BindingFailed, Plan, Volumes

Object = dict[str, Any]

NAME = "default-scheduler"
ENDED = ("Succeeded", "Failed")
ALL_BELOW = 100
"""With fewer nodes than this all are looked at (S18)."""


class Scheduler:
    """One scheduler. `chance` draws among equal nodes."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        name: str = NAME,
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._name = name
        self._chance = chance or random.Random(0)
        self._complain = complain
        self.cluster = Cluster()
        self.queue = SchedulingQueue(clock.now)
        self.bound = 0
        """Pods bound so far."""
        self._recorder = Recorder(client, name, clock, complain=complain)
        self._pods = Informer(client, "pods", complain=complain)
        self._nodes = Informer(client, "nodes", complain=complain)
        self.volumes = Volumes(client, self.queue.help, complain=complain)
        self._start_at = 0
        self._task: asyncio.Task[None] | None = None
        self._binds: set[asyncio.Task[None]] = set()
        self._nodes.add_handler(Handler(added=self._node, updated=self._node_changed, deleted=self._node_gone))
        self._pods.add_handler(Handler(added=self._pod, updated=lambda _, new: self._pod(new), deleted=self._pod_gone))

    def start(self) -> None:
        """Begins to follow the cluster and to bind."""
        if self._task is None:
            self._recorder.start()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="scheduler")

    async def stop(self) -> None:
        """Ends; what is being bound is let finish. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.volumes.stop()
        await asyncio.gather(*self._binds, return_exceptions=True)
        await asyncio.gather(self._pods.stop(), self._nodes.stop())
        await self._recorder.stop()

    # -- what the informers tell --------------------------------------------------------------------------------

    def _node(self, obj: Object) -> None:
        self.cluster.node(obj)
        self.queue.help()

    def _node_changed(self, old: Object, new: Object) -> None:
        self.cluster.node(new)
        if _placing(old) != _placing(new):
            self.queue.help()

    def _node_gone(self, obj: Object | Tombstone) -> None:
        self.cluster.node_gone(_last(obj)["metadata"]["name"])

    def _pod(self, obj: Object) -> None:
        spec, ended = obj.get("spec") or {}, (obj.get("status") or {}).get("phase") in ENDED
        key = key_of(obj)
        if ended:
            self._left(obj, key)
        elif spec.get("nodeName"):
            self.cluster.pod(obj)
            self.queue.remove(key)
        elif spec.get("schedulerName", NAME) == self._name and not spec.get("schedulingGates"):
            self.queue.add(key, obj)

    def _pod_gone(self, obj: Object | Tombstone) -> None:
        last = _last(obj)
        self._left(last, key_of(last))

    def _left(self, obj: Object, key: str) -> None:
        self.queue.remove(key)
        if self.cluster.assumed(obj["metadata"]["uid"]):
            self.cluster.pod_gone(obj["metadata"]["uid"])
            self.queue.help()

    # -- the cycle ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._nodes.start()
        await self._nodes.synced()
        await self.volumes.start()
        self._pods.start()
        await self._pods.synced()
        while True:
            waiting = await self.queue.pop()
            if waiting.object["metadata"].get("deletionTimestamp"):
                self.queue.remove(waiting.key)
                continue
            await self._cycle(waiting)

    async def _cycle(self, waiting: Waiting) -> None:
        pod = Pod.of(waiting.object)
        if self.cluster.assumed(pod.uid):
            return
        helped = self.queue.helped
        plan = self.volumes.plan(waiting.object)
        if plan.refusal:
            await self._unfit(waiting, message.refused(len(self.cluster.nodes), plan.refusal), helped)
            return
        node, statuses = self.choose(pod, plan)
        if node is None:
            await self._unfit(waiting, message.unfit(statuses), helped)
            return
        self.cluster.assume(pod, node.name)
        bind = asyncio.get_running_loop().create_task(self._bind(waiting, pod, node, plan, helped))
        self._binds.add(bind)
        bind.add_done_callback(self._binds.discard)
        await asyncio.sleep(0)

    def choose(self, pod: Pod, plan: Plan = NOTHING) -> tuple[NodeView | None, dict[str, Status]]:
        """The node, drawn among the best that fit; or None and why each refuses."""
        nodes = list(self.cluster.nodes.values())
        wanted = _sample(len(nodes))
        statuses: dict[str, Status] = {}
        fitting: list[NodeView] = []
        seen = 0
        for seen in range(1, len(nodes) + 1):
            node = nodes[(self._start_at + seen - 1) % len(nodes)]
            status = admits(pod, node)
            if status.ok:
                status = plan.admits(node)
            if status.ok:
                fitting.append(node)
                if len(fitting) >= wanted:
                    break
            else:
                statuses[node.name] = status
        if nodes:
            self._start_at = (self._start_at + seen) % len(nodes)
        if not fitting:
            return None, statuses
        if len(fitting) == 1:
            return fitting[0], {}
        totals = score.totals(pod, fitting)
        best = max(totals)
        return self._chance.choice([node for node, total in zip(fitting, totals, strict=True) if total == best]), {}

    async def _bind(self, waiting: Waiting, pod: Pod, node: NodeView, plan: Plan, helped: int) -> None:
        if plan.open and not await self._bind_volumes(waiting, pod, node, plan, helped):
            return
        await self._bind_pod(waiting, pod, node.name, helped)

    async def _bind_volumes(self, waiting: Waiting, pod: Pod, node: NodeView, plan: Plan, helped: int) -> bool:
        """Whether the pod's claims are bound; if not, the pod is tried again."""
        try:
            await self.volumes.bind(plan, node)
        except (BindingFailed, StatusError, TransportError) as error:
            self.cluster.forget(pod.uid)
            why = f'running PreBind plugin "VolumeBinding": binding volumes: {error}'
            self._recorder.event(_named(pod.object), "Warning", "FailedScheduling", why)
            self.queue.requeue(waiting, helped, error=True)
            return False
        return True

    async def _bind_pod(self, waiting: Waiting, pod: Pod, node: str, helped: int) -> None:
        meta = pod.object["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create("pods", binding, meta["namespace"], subresource="binding", name=meta["name"])
        except (StatusError, TransportError) as error:
            self.cluster.forget(pod.uid)
            if isinstance(error, StatusError) and error.reason == "NotFound":
                self.queue.remove(waiting.key)
                return
            self._complain(f"binding {waiting.key} to {node}: {error}")
            self.queue.requeue(waiting, helped, error=True)
            return
        self.bound += 1
        where = f"{meta['namespace']}/{meta['name']}"
        self._recorder.event(_named(pod.object), "Normal", "Scheduled", f"Successfully assigned {where} to {node}")

    async def _unfit(self, waiting: Waiting, why: str, helped: int) -> None:
        """Tells why (S63), then parks the pod; without any node it backs off (S65)."""
        self._recorder.event(_named(waiting.object), "Warning", "FailedScheduling", why)
        self.queue.requeue(waiting, helped, error=not self.cluster.nodes)
        known = _condition(waiting.object)
        if known is not None and (known.get("status"), known.get("message")) == ("False", why):
            return
        meta = waiting.object["metadata"]
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastTransitionTime": (known or {}).get("lastTransitionTime") or rfc3339(self._clock.now()),
        }
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                "pods", meta["name"], patch, meta["namespace"], kind="strategic", subresource="status"
            )
        except (StatusError, TransportError) as error:
            if not (isinstance(error, StatusError) and error.reason in ("NotFound", "Conflict")):
                self._complain(f"telling why {waiting.key} waits: {error}")


def _condition(pod: Object) -> Object | None:
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == "PodScheduled":
            found: Object = one
            return found
    return None


def _placing(node: Object) -> tuple[Any, Any, Any]:
    """What of a node the filters read."""
    return node.get("spec"), node["metadata"].get("labels"), (node.get("status") or {}).get("allocatable")


def _named(pod: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}


def _last(obj: Object | Tombstone) -> Object:
    return obj.object if isinstance(obj, Tombstone) else obj


def _sample(nodes: int) -> int:
    """How many fitting nodes are enough (S18)."""
    if nodes < ALL_BELOW:
        return nodes
    return max(100, nodes * max(5, 50 - nodes // 125) // 100)
