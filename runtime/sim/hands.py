"""The client of a run: people and pipelines that create, scale, roll out, delete, drain and label."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.indexer import key_of
from dashpot.runtime.client.rest import Client, Delete
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.sim.deed import CLIENT, DEED, Deed
from dashpot.runtime.sim.plan import Item
from dashpot.runtime.sim.truth import Truth

Object = dict[str, Any]
SPACES = ("default", "team")
MOST = 3
"""Replicas that anything has: the properties of the library are about worlds of this size."""
WORKLOADS_MOST = 5
PLURALS = {
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
}
SHARES = {"Deployment": 8, "ReplicaSet": 5, "StatefulSet": 3, "DaemonSet": 1, "Job": 4, "CronJob": 1}
SCALED = ("Deployment", "ReplicaSet", "StatefulSet")
QUOTA = "limit"
PREFIX = "fake.dashpot.dev/"
SLOW = ("start-after", "ready-after", "stop-after")


@define(eq=False)
class Hands:
    """Does one write at a time, as the truth suggests, and tells of each."""

    client: Client
    truth: Truth
    told: Callable[[Item, str], None]
    kinds: tuple[str, ...] = tuple(PLURALS)
    """Of workloads whose controllers run."""
    done: int = field(default=0, init=False)

    async def do(self, item: Item) -> None:
        """One item of the plan. What the server refuses is told, and is no matter."""
        token = DEED.set(Deed(CLIENT, verb=item.what, number=item.number))
        try:
            text = await _DEEDS[item.what](self, item.chance, item)
        except (StatusError, TransportError) as error:
            text = f"{item.what}: refused: {error}"
        finally:
            DEED.reset(token)
        self.done += 1
        self.told(item, text or f"{item.what}: nothing there to do it to")

    async def settle(self) -> None:
        """Takes back what keeps the plane from what it wants: quotas, cordons, pauses."""
        token = DEED.set(Deed(CLIENT, verb="settle"))
        try:
            for quota in self.truth.of("ResourceQuota"):
                await self._try(self.client.delete("resourcequotas", QUOTA, quota["metadata"]["namespace"]))
            for node in self.truth.of("Node"):
                if node["spec"].get("unschedulable"):
                    await self._try(self._patch("nodes", node, {"spec": {"unschedulable": None}}))
            for one in self.truth.of("Deployment"):
                if one["spec"].get("paused"):
                    await self._try(self._patch("deployments.apps", one, {"spec": {"paused": False}}))
            for one in self.truth.of("Job"):
                if one["spec"].get("suspend"):
                    await self._try(self._patch("jobs.batch", one, {"spec": {"suspend": False}}))
        finally:
            DEED.reset(token)

    @staticmethod
    async def _try(write: Awaitable[Object]) -> None:
        try:
            await write
        except (StatusError, TransportError):
            return  # it is gone, or changed under our hands by somebody who wanted the same

    async def meddle(self, deed: Deed) -> None:
        """Writes to the object that a controller is about to update."""
        obj = self.truth.get(deed.kind, deed.name)
        plural = PLURALS.get(deed.kind) or {"Pod": "pods", "Node": "nodes"}.get(deed.kind)
        if obj is None or plural is None:
            return
        token = DEED.set(Deed(CLIENT, verb="contend"))
        try:
            mark = {"metadata": {"annotations": {"example.com/seen": str(self.truth.commits[-1].revision)}}}
            await self._try(self._patch(plural, obj, mark))
        finally:
            DEED.reset(token)

    async def _patch(self, plural: str, obj: Object, patch: Object) -> Object:
        meta = obj["metadata"]
        return await self.client.patch(plural, meta["name"], patch, meta.get("namespace", ""))

    # -- choosing -----------------------------------------------------------------------------------------------

    def _workloads(self, *kinds: str) -> list[Object]:
        """Those that a person made and that are not going."""
        return [
            one
            for kind in kinds or self.kinds
            for one in self.truth.of(kind)
            if not one["metadata"].get("ownerReferences") and not one["metadata"].get("deletionTimestamp")
        ]

    def _pods(self) -> list[Object]:
        return [one for one in self.truth.of("Pod") if not one["metadata"].get("deletionTimestamp")]

    # -- writes -------------------------------------------------------------------------------------------------

    async def create(self, chance: random.Random, item: Item) -> str:
        """A new workload, or, where there are enough, another image for one."""
        kind = chance.choices(self.kinds, [SHARES[kind] for kind in self.kinds])[0]
        space = chance.choice(SPACES)
        if len(self._workloads()) >= WORKLOADS_MOST:
            return await self.image(chance, item)
        made = workload(kind, f"{kind.lower()}-{item.number}", chance)
        await self.client.create(PLURALS[kind], made, space)
        size = made["spec"].get("replicas")
        return f"creates {kind} {space}/{made['metadata']['name']}" + (f" with {size} replicas" if size else "")

    async def scale(self, chance: random.Random, item: Item) -> str:
        """Another number of replicas, by the scale subresource or the object itself."""
        one = _pick(chance, self._workloads(*(kind for kind in SCALED if kind in self.kinds)))
        size = chance.randint(0, MOST)
        sub = chance.random() < 0.5
        if one is None:
            return ""
        meta = one["metadata"]
        await self.client.patch(
            PLURALS[one["kind"]], meta["name"], {"spec": {"replicas": size}}, meta["namespace"],
            subresource="scale" if sub else "",
        )  # fmt: skip
        return f"scales {one['kind']} {key_of(one)} to {size}"

    async def image(self, chance: random.Random, item: Item) -> str:
        """Another image: a rollout."""
        kinds = [kind for kind in ("Deployment", "StatefulSet", "DaemonSet") if kind in self.kinds]
        one = _pick(chance, self._workloads(*kinds))
        tag = chance.randint(1, 5)
        if one is None:
            return ""
        image = f"example.com/x:{tag}"
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
        meta = one["metadata"]
        await self.client.patch(PLURALS[one["kind"]], meta["name"], patch, meta["namespace"], kind="strategic")
        return f"sets the image of {one['kind']} {key_of(one)} to {image}"

    async def remove(self, chance: random.Random, item: Item) -> str:
        """Deletes a workload."""
        one = _pick(chance, self._workloads())
        how = chance.choice(("Background", "Background", "Foreground"))
        if one is None:
            return ""
        meta = one["metadata"]
        await self.client.delete(PLURALS[one["kind"]], meta["name"], meta["namespace"], how=Delete(propagation=how))
        return f"deletes {one['kind']} {key_of(one)} ({how.lower()})"

    async def delete_pod(self, chance: random.Random, item: Item) -> str:
        """Deletes a pod, with its time or at once."""
        one = _pick(chance, self._pods())
        grace = chance.choice((None, None, 1, 0))
        if one is None:
            return ""
        meta = one["metadata"]
        await self.client.delete("pods", meta["name"], meta["namespace"], how=Delete(grace=grace))
        return f"deletes Pod {key_of(one)}" + (f" with {grace} s of grace" if grace is not None else "")

    async def evict(self, chance: random.Random, item: Item) -> str:
        """A step of a drain: a pod of a cordoned node, if there is one, is evicted."""
        closed = {one["metadata"]["name"] for one in self.truth.of("Node") if one["spec"].get("unschedulable")}
        pods = self._pods()
        there = [pod for pod in pods if pod["spec"].get("nodeName") in closed] or pods
        one = _pick(chance, there)
        if one is None:
            return ""
        meta = one["metadata"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {k: meta[k] for k in ("name", "namespace")}}
        await self.client.create("pods", body, meta["namespace"], subresource="eviction", name=meta["name"])
        return f"evicts Pod {key_of(one)}"

    async def cordon(self, chance: random.Random, item: Item) -> str:
        """Closes a node, while another is open."""
        open_ = [one for one in self.truth.of("Node") if not one["spec"].get("unschedulable")]
        one = _pick(chance, open_)
        if one is None or len(open_) < 2:
            return ""
        await self._patch("nodes", one, {"spec": {"unschedulable": True}})
        return f"cordons Node {key_of(one)}"

    async def uncordon(self, chance: random.Random, item: Item) -> str:
        """Opens a node."""
        one = _pick(chance, [one for one in self.truth.of("Node") if one["spec"].get("unschedulable")])
        if one is None:
            return ""
        await self._patch("nodes", one, {"spec": {"unschedulable": None}})
        return f"uncordons Node {key_of(one)}"

    async def label(self, chance: random.Random, item: Item) -> str:
        """Puts a label on a node, pod or workload that nothing selects by."""
        rows = [*self.truth.of("Node"), *self._pods(), *self._workloads()]
        one, value = _pick(chance, rows), str(chance.randint(1, 9))
        if one is None:
            return ""
        plural = PLURALS.get(one["kind"]) or {"Node": "nodes", "Pod": "pods"}[one["kind"]]
        await self._patch(plural, one, {"metadata": {"labels": {"team": value}}})
        return f"labels {one['kind']} {key_of(one)} team={value}"

    async def pause(self, chance: random.Random, item: Item) -> str:
        """Pauses a rollout, or lets it go on."""
        one = _pick(chance, self._workloads("Deployment"))
        if one is None:
            return ""
        paused = not one["spec"].get("paused", False)
        await self._patch("deployments.apps", one, {"spec": {"paused": paused}})
        return f"{'pauses' if paused else 'resumes'} Deployment {key_of(one)}"

    async def suspend(self, chance: random.Random, item: Item) -> str:
        """Suspends a job, or lets it go on."""
        one = _pick(chance, self._workloads("Job"))
        if one is None:
            return ""
        held = not one["spec"].get("suspend", False)
        await self._patch("jobs.batch", one, {"spec": {"suspend": held}})
        return f"{'suspends' if held else 'resumes'} Job {key_of(one)}"

    async def quota(self, chance: random.Random, item: Item) -> str:
        """A quota of pods that is used up, or more than that."""
        space = SPACES[1]
        there = sum(1 for pod in self.truth.of("Pod") if pod["metadata"]["namespace"] == space)
        hard = {"pods": str(max(0, there - chance.randint(0, 2)))}
        if self.truth.get("ResourceQuota", f"{space}/{QUOTA}") is None:
            made = {"metadata": {"name": QUOTA}, "spec": {"hard": hard}}
            await self.client.create("resourcequotas", made, space)
        else:
            await self.client.patch("resourcequotas", QUOTA, {"spec": {"hard": hard}}, space)
        return f"limits the namespace {space} to {hard['pods']} pods"

    async def lift(self, chance: random.Random, item: Item) -> str:
        """No quota any more."""
        if self.truth.get("ResourceQuota", f"{SPACES[1]}/{QUOTA}") is None:
            return ""
        await self.client.delete("resourcequotas", QUOTA, SPACES[1])
        return f"lifts the limit of the namespace {SPACES[1]}"


_DEEDS: dict[str, Callable[[Hands, random.Random, Item], Awaitable[str]]] = {
    "create": Hands.create,
    "scale": Hands.scale,
    "image": Hands.image,
    "remove": Hands.remove,
    "delete_pod": Hands.delete_pod,
    "evict": Hands.evict,
    "cordon": Hands.cordon,
    "uncordon": Hands.uncordon,
    "label": Hands.label,
    "pause": Hands.pause,
    "suspend": Hands.suspend,
    "quota": Hands.quota,
    "lift": Hands.lift,
}


def _pick(chance: random.Random, rows: list[Object]) -> Object | None:
    drawn = chance.randrange(1 << 30)
    return rows[drawn % len(rows)] if rows else None


def workload(kind: str, name: str, chance: random.Random) -> Object:
    """A workload of some size, whose pods take their time."""
    template = _template(name, chance)
    select = {"selector": {"matchLabels": {"app": name}}}
    size = {"replicas": chance.choice((1, 1, 2, MOST))}
    meta = {"name": name, "labels": {"app": name}}
    match kind:
        case "Deployment":
            roll = chance.choice(({}, {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}))
            spec: Object = {**size, **select, "template": template}
            if roll:
                spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": roll}
            elif chance.random() < 0.2:
                spec["strategy"] = {"type": "Recreate"}
        case "ReplicaSet":
            spec = {**size, **select, "template": template}
        case "StatefulSet":
            order = chance.choice(("OrderedReady", "Parallel"))
            spec = {**size, **select, "serviceName": name, "podManagementPolicy": order, "template": template}
        case "DaemonSet":
            spec = {**select, "template": template}
        case "CronJob":
            policy = chance.choice(("Allow", "Forbid", "Replace"))
            spec = {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": _job(name, chance)}}
        case _:
            spec = _job(name, chance)
    return {"metadata": meta, "spec": spec}


def _template(name: str, chance: random.Random) -> Object:
    told = {f"{PREFIX}{what}": f"{chance.randint(1, 20) / 10}s" for what in SLOW if chance.random() < 0.4}
    meta = {"labels": {"app": name}, "annotations": told}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "example.com/x:0"}]}}


def _job(name: str, chance: random.Random) -> Object:
    template = _template(name, chance)
    template["spec"]["restartPolicy"] = "Never"
    template["metadata"]["annotations"][f"{PREFIX}run-for"] = f"{chance.randint(1, 40) / 10}s"
    if chance.random() < 0.2:
        template["metadata"]["annotations"][f"{PREFIX}exit-code"] = "1"
    width = chance.randint(1, 2)
    return {"completions": chance.randint(width, 3), "parallelism": width, "backoffLimit": 1, "template": template}
