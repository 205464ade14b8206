"""All simulated nodes of a plane and the one kubelet that plays them: `Fleet(client, clock, count=3).start()`.

What a pod does is told by its annotations (`script`). A node can be taken down for a test: its lease is not renewed and
its pods are not touched, until it is up again.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any

from attrs import define, field

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.events import Recorder
from dashpot.runtime.client.indexer import key_of, split_key
from dashpot.runtime.client.informer import Handler, Informer, Tombstone
from dashpot.runtime.client.queue import WorkQueue, work
from dashpot.runtime.client.rest import Client, Delete
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.clock import Clock, rfc3339, rfc3339_micro
from dashpot.runtime.fleet import nodes, status
from dashpot.runtime.fleet.nodes import LEASES, Pool, Shape
from dashpot.runtime.fleet.script import Script, ScriptError

Object = dict[str, Any]

RENEW_S = 10.0
STATUS_S = 300.0
RETRY_S = 1.0
WORKERS = 8
ENDED = ("Succeeded", "Failed")


@define(eq=False)
class FakeNode:
    """One node: its number, its addresses, and whether it is down."""

    name: str
    number: int
    shape: Shape
    pool: Pool = field(init=False)
    down: bool = False
    lease: Object | None = None
    told: float = -math.inf
    """When its status was written last."""

    def __attrs_post_init__(self) -> None:
        self.pool = Pool(self.number)


class Fleet:
    """`count` nodes named `<prefix>-0` and so on. `chance` spreads the heartbeats."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        count: int,
        prefix: str = "node",
        shape: Shape | None = None,
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._chance = chance or random.Random(0)
        self._complain = complain
        self.nodes = {f"{prefix}-{at}": FakeNode(f"{prefix}-{at}", at, shape or Shape()) for at in range(count)}
        self._next = count
        self._recorder = Recorder(client, "kubelet", clock, complain=complain)
        self._pods = Informer(client, "pods", fields="spec.nodeName!=", complain=complain)
        self._pods.add_handler(Handler(added=self._seen, updated=lambda _, new: self._seen(new), deleted=self._gone))
        self._queue: WorkQueue[str] = WorkQueue()
        self._since: dict[str, dict[str, float]] = {}
        """When a pod's stages began, by its uid."""
        self._task: asyncio.Task[None] | None = None
        self._beats: dict[str, asyncio.Task[None]] = {}
        """What keeps each node alive."""

    async def start(self) -> None:
        """Registers the nodes, then plays them until `stop`."""
        loop = asyncio.get_running_loop()
        self._recorder.start()
        for node in self.nodes.values():
            await self._register(node)
        for node in self.nodes.values():
            self._beat(node)
        self._pods.start()
        await self._pods.synced()
        self._task = loop.create_task(work(self._queue, self._sync, workers=WORKERS), name="fake kubelets")

    def _beat(self, node: FakeNode) -> None:
        loop = asyncio.get_running_loop()
        self._beats[node.name] = loop.create_task(self._heartbeats(node), name=node.name)

    async def stop(self) -> None:
        """Ends; idempotent."""
        self._queue.shut_down()
        tasks = [*self._beats.values(), *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._beats, self._task = {}, None
        await self._pods.stop()
        await self._recorder.stop()

    # -- nodes that come and go -----------------------------------------------------------------------------------

    async def add(self, name: str, shape: Shape | None = None) -> None:
        """One more node; nothing happens if there is one of that name."""
        if name in self.nodes:
            return
        node = self.nodes[name] = FakeNode(name, self._next, shape or Shape())
        self._next += 1
        await self._register(node)
        self._beat(node)
        for pod in self._pods.lister.list():
            if pod["spec"].get("nodeName") == name:
                self._seen(pod)

    async def remove(self, name: str) -> None:
        """The machine is switched off for good; its Node object is somebody else's business. Idempotent."""
        self.nodes.pop(name, None)
        task = self._beats.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- what a test may do -------------------------------------------------------------------------------------

    def take_down(self, name: str) -> None:
        """The machine is gone as far as anybody can see."""
        self.nodes[name].down = True

    def bring_up(self, name: str) -> None:
        """It is back: heartbeats go on, and its pods are looked at again."""
        node = self.nodes[name]
        node.down = False
        node.told = -math.inf
        for pod in self._pods.lister.list():
            if pod["spec"].get("nodeName") == name:
                self._queue.add(key_of(pod))

    # -- nodes --------------------------------------------------------------------------------------------------

    async def _register(self, node: FakeNode) -> None:
        made = nodes.node(node.name, node.number, node.shape)
        while True:
            try:
                try:
                    made = await self._client.create("nodes", made)
                except StatusError as error:
                    if error.reason != "AlreadyExists":
                        raise
                    made = await self._client.get("nodes", node.name)
                await self._tell(node, made)
                return
            except (StatusError, TransportError) as error:
                self._complain(f"registering node {node.name}: {error}")
                await asyncio.sleep(RETRY_S)

    async def _heartbeats(self, node: FakeNode) -> None:
        """Renews the lease each 10 s and tells the status each 5 min, each node at its own moment."""
        first = True
        while True:
            if not node.down:
                try:
                    if self._clock.now() - node.told >= STATUS_S:
                        await self._tell(node, await self._client.get("nodes", node.name))
                    await self._renew(node)
                except StatusError as error:
                    node.lease = None
                    if error.reason == "NotFound":
                        await self._register(node)
                    else:
                        self._complain(f"heartbeat of {node.name}: {error}")
                except TransportError as error:
                    self._complain(f"heartbeat of {node.name}: {error}")
            await asyncio.sleep(self._chance.uniform(0, RENEW_S) if first else RENEW_S)
            first = False

    async def _tell(self, node: FakeNode, known: Object) -> None:
        now = rfc3339(self._clock.now())
        told = nodes.node_status(node.name, node.number, node.shape, now, known.get("status") or {})
        await self._client.patch("nodes", node.name, {"status": told}, kind="strategic", subresource="status")
        node.told = self._clock.now()

    async def _renew(self, node: FakeNode) -> None:
        now = rfc3339_micro(self._clock.now())
        if node.lease is None:
            try:
                node.lease = await self._client.get("leases.coordination.k8s.io", node.name, LEASES)
            except StatusError as error:
                if error.reason != "NotFound":
                    raise
                uid = (await self._client.get("nodes", node.name))["metadata"]["uid"]
                made = nodes.lease(node.name, uid, now)
                node.lease = await self._client.create("leases.coordination.k8s.io", made, LEASES)
                return
        spec = {**node.lease["spec"], "renewTime": now}
        node.lease = await self._client.update("leases.coordination.k8s.io", {**node.lease, "spec": spec}, LEASES)

    # -- pods ---------------------------------------------------------------------------------------------------

    def _seen(self, pod: Object) -> None:
        node = self.nodes.get((pod.get("spec") or {}).get("nodeName", ""))
        if node is not None:
            address = (pod.get("status") or {}).get("podIP")
            if address:
                node.pool.keep(address)
            self._queue.add(key_of(pod))

    def _gone(self, pod: Object | Tombstone) -> None:
        last = pod.object if isinstance(pod, Tombstone) else pod
        node = self.nodes.get((last.get("spec") or {}).get("nodeName", ""))
        self._since.pop(last["metadata"]["uid"], None)
        address = (last.get("status") or {}).get("podIP")
        if node is not None and address:
            node.pool.free(address)

    async def _sync(self, key: str) -> None:
        space, name = split_key(key)
        pod = self._pods.lister.get(name, space)
        node = self.nodes.get(pod["spec"].get("nodeName", "")) if pod is not None else None
        if pod is None or node is None or node.down:
            return
        try:
            await self._step(key, pod, node, Script.of(pod))
        except ScriptError as error:
            self._recorder.event(_named(pod), "Warning", "BadScript", str(error))
        except (StatusError, TransportError) as error:
            if isinstance(error, StatusError) and error.reason in ("NotFound", "Conflict"):
                return
            self._complain(f"pod {key}: {error}")
            self._queue.add_after(key, RETRY_S)

    async def _step(self, key: str, pod: Object, node: FakeNode, script: Script) -> None:
        """The next thing that its script wants, if it is time for it; else a look at that time."""
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if pod["metadata"].get("deletionTimestamp"):
            if self._reached(key, pod, "stop", 0.0 if phase in ENDED else script.stop_after, self._grace(pod)):
                await self._remove(pod)
        elif phase in ENDED:
            return
        elif phase == "Pending":
            if self._reached(key, pod, "start", script.start_after):
                await self._run(pod, node, ready=script.ready_after <= 0)
        elif not status.settled(pod):
            await self._run(pod, node, ready=_ready(pod))
        elif self._reached(key, pod, "run", script.run_for):
            await self._end(pod, script)
        elif not _ready(pod) and self._reached(key, pod, "ready", script.ready_after):
            await self._run(pod, node, ready=True)

    def _reached(self, key: str, pod: Object, stage: str, after: float, most: float = math.inf) -> bool:
        """Whether a stage has lasted so long; if not, the pod is looked at again then."""
        after = min(after, most)
        if after <= 0:
            return True
        now = asyncio.get_running_loop().time()
        begun = self._since.setdefault(pod["metadata"]["uid"], {}).setdefault(stage, now)
        left = begun + after - now
        if left > 0 and not math.isinf(left):
            self._queue.add_after(key, left)
        return left <= 0

    @staticmethod
    def _grace(pod: Object) -> float:
        return float(pod["metadata"].get("deletionGracePeriodSeconds", 30))

    async def _run(self, pod: Object, node: FakeNode, *, ready: bool) -> None:
        address = (pod.get("status") or {}).get("podIP") or node.pool.take()
        if pod["spec"].get("hostNetwork"):
            address = nodes.host(node.number)
        now = rfc3339(self._clock.now())
        made = status.running(pod, host=nodes.host(node.number), address=address, now=now, ready=ready)
        await self._write(pod, made)

    async def _end(self, pod: Object, script: Script) -> None:
        if pod["spec"].get("restartPolicy", "Always") == "Always" or (
            script.exit_code and pod["spec"].get("restartPolicy") == "OnFailure"
        ):
            await self._restart(pod, script)
            return
        await self._write(pod, status.ended(pod, code=script.exit_code, now=rfc3339(self._clock.now())))

    async def _restart(self, pod: Object, script: Script) -> None:
        """The containers start anew, at once: the back-off of a crash loop is not played."""
        self._since[pod["metadata"]["uid"]]["run"] = asyncio.get_running_loop().time()
        now = rfc3339(self._clock.now())
        made = [
            {**one, "restartCount": one.get("restartCount", 0) + 1, "state": {"running": {"startedAt": now}}}
            for one in pod["status"].get("containerStatuses") or ()
        ]
        self._queue.add_after(key_of(pod), script.run_for)
        await self._write(pod, {"containerStatuses": made})

    async def _remove(self, pod: Object) -> None:
        meta = pod["metadata"]
        await self._client.delete("pods", meta["name"], meta["namespace"], how=Delete(grace=0, uid=meta["uid"]))

    async def _write(self, pod: Object, made: Object) -> None:
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": made}
        await self._client.patch("pods", meta["name"], patch, meta["namespace"], kind="strategic", subresource="status")


def _ready(pod: Object) -> bool:
    return any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in (pod.get("status") or {}).get("conditions") or ()
    )


def _named(pod: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
