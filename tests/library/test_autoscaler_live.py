"""The cluster autoscaler, run from its spec on a plane whose nodes are made and taken by a simulated provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dashpot.model.extern.autoscaler import DOOMED
from dashpot.model.objects.status import StatusError
from tests.controller.running import until
from tests.library.autoscaler_kit import WORKLOADS, Scaled, deployment, within
from tests.plane.kit import World, pod, run

Object = dict[str, Any]
GROUPS = "nodegroups.autoscaling.dashpot.dev"
ACTORS = [*WORKLOADS, "cluster-autoscaler", "disruption-controller", "pod-garbage-collector-controller"]


def group(name: str, least: int, most: int, size: int = 0, **template: Any) -> Object:
    spec = {"minSize": least, "maxSize": most, "size": size, "template": {"capacity": {"cpu": "1"}, **template}}
    return {
        "apiVersion": "autoscaling.dashpot.dev/v1",
        "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


class Cluster(Scaled):
    """What tests ask of it."""

    async def size(self, name: str = "pool") -> int:
        """What the group is to have."""
        return int((await self.client.get(GROUPS, name))["spec"]["size"])

    async def nodes(self) -> list[str]:
        """The names of the nodes."""
        return sorted(node["metadata"]["name"] for node in (await self.client.list("nodes")).items)

    async def has(self, *names: str, seconds: float = 60.0) -> None:
        """Waits until these are the nodes."""

        async def there() -> bool:
            return await self.nodes() == sorted(names)

        await within(there, seconds)

    async def scale(self, replicas: int) -> None:
        """Changes the Deployment."""
        await self.client.patch("deployments.apps", "web", {"spec": {"replicas": replicas}}, "default")


def clustered(test: Callable[[Cluster], Awaitable[None]], nodes: int = 0) -> None:
    async def main(world: World) -> None:
        await test(Cluster(world))

    run(main, nodes=nodes, controllers=ACTORS)


def test_nodes_come_with_pods_and_go_when_they_are_idle() -> None:
    async def test(at: Cluster) -> None:
        await at.client.create(GROUPS, group("pool", 0, 5))
        await at.client.create("deployments.apps", deployment(3, request="400m"), "default")
        await at.has("pool-0", "pool-1")
        await until(lambda: at.ready(3))
        assert await at.size() == 2
        told = await at.world.events("TriggeredScaleUp")
        assert set(told) == {"pod triggered scale-up: [{pool 0->2 (max: 5)}]"}
        node = await at.client.get("nodes", "pool-0")
        assert node["metadata"]["labels"]["autoscaling.dashpot.dev/group"] == "pool"
        assert node["status"]["allocatable"]["cpu"] == "1"
        await at.scale(1)
        await asyncio.sleep(580)
        assert len(await at.nodes()) == 2

        async def one() -> bool:
            return len(await at.nodes()) == 1

        await within(one, 120)
        assert await at.size() == 1
        await until(lambda: at.ready(1))
        await at.scale(0)
        await at.has(seconds=1400)
        assert await at.size() == 0

    clustered(test)


def test_a_group_has_its_limits() -> None:
    async def test(at: Cluster) -> None:
        with pytest.raises(StatusError, match="minSize is at most maxSize"):
            await at.client.create(GROUPS, group("pool", 3, 2))
        await at.client.create(GROUPS, group("pool", 1, 2))
        await at.has("pool-0")
        await at.client.create("deployments.apps", deployment(4, request="600m"), "default")
        await at.has("pool-0", "pool-1")
        await asyncio.sleep(60)
        assert await at.size() == 2
        text = "pod didn't trigger scale-up: 1 max node group size reached"
        assert text in await at.world.events("NotTriggerScaleUp")
        await at.scale(0)

        async def one() -> bool:
            return len(await at.nodes()) == 1

        await within(one, 1300)
        await asyncio.sleep(700)
        assert await at.size() == 1

    clustered(test)


def test_pods_say_which_group_they_want() -> None:
    async def test(at: Cluster) -> None:
        await at.client.create(GROUPS, group("big", 0, 3, capacity={"cpu": "8", "example.com/gpu": "1"}))
        taint = {"key": "only", "value": "gpu", "effect": "NoSchedule"}
        await at.client.create(GROUPS, group("gpu", 0, 3, labels={"disk": "fast"}, taints=[taint]))
        await at.client.create(GROUPS, group("small", 0, 3))
        await at.world.make(pod("plain", container={"resources": {"requests": {"cpu": "500m"}}}))
        await at.has("small-0")
        chooses = pod("chooses", nodeSelector={"disk": "fast"}, tolerations=[{"key": "only", "operator": "Exists"}])
        await at.world.make(chooses)
        await at.has("gpu-0", "small-0")
        extended = {"resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}}
        await at.world.make(pod("extended", container=extended))
        await at.has("big-0", "gpu-0", "small-0")
        for name in ("plain", "chooses", "extended"):
            await at.world.phase(name, "Running")
        await at.world.make(pod("nowhere", nodeSelector={"disk": "slow"}))
        await asyncio.sleep(30)
        text = "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector, "
        assert text + "1 node(s) had untolerated taint {only: gpu}" in await at.world.events("NotTriggerScaleUp")
        assert len(await at.nodes()) == 3

    clustered(test)


def test_what_keeps_a_node() -> None:
    async def test(at: Cluster) -> None:
        await at.client.create(GROUPS, group("pool", 0, 3, 2))
        await at.has("pool-0", "pool-1")
        alone = pod("alone", container={"resources": {"requests": {"cpu": "10m"}}})
        await at.world.make(alone)
        await at.world.phase("alone", "Running")
        where = (await at.world.pod("alone"))["spec"]["nodeName"]
        await at.has(where, seconds=900)
        await asyncio.sleep(900)
        assert await at.nodes() == [where]
        safe = {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}}
        await at.client.patch("pods", "alone", safe, "default")
        await asyncio.sleep(900)
        assert await at.nodes() == [where]  # it would fit nowhere else
        await at.client.delete("pods", "alone", "default")
        await at.has(seconds=900)

    clustered(test)


def test_budgets_hold_while_a_node_is_drained() -> None:
    async def test(at: Cluster) -> None:
        await at.client.create(GROUPS, group("pool", 0, 3, 2))
        await at.has("pool-0", "pool-1")
        work = deployment(2, request="200m")
        work["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        await at.client.create("deployments.apps", work, "default")
        await until(lambda: at.ready(2))
        # the host port forbids that one node has both
        budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}
        await at.client.create("poddisruptionbudgets.policy", budget, "default")
        await asyncio.sleep(900)
        assert len(await at.nodes()) == 2
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "ports": None}]}}}}
        await at.client.patch("deployments.apps", "web", change, "default", kind="strategic")
        await asyncio.sleep(900)
        assert len(await at.nodes()) == 2
        failed = [e for e in (await at.client.list("events")).items if e["reason"] == "ScaleDownFailed"]
        assert {e["message"] for e in failed} == {"failed to drain the node, aborting ScaleDown"}
        await at.client.patch("poddisruptionbudgets.policy", "web", {"spec": {"minAvailable": 1}}, "default")

        async def one() -> bool:
            found = await at.client.get("deployments.apps", "web", "default")
            assert (found.get("status") or {}).get("availableReplicas", 0) >= 1
            return len(await at.nodes()) == 1

        await within(one, 1500)
        await until(lambda: at.ready(2))

    clustered(test)


def test_a_group_that_is_deleted_takes_its_nodes_along() -> None:
    async def test(at: Cluster) -> None:
        await at.client.create(GROUPS, group("pool", 2, 3))
        await at.has("node-0", "pool-0", "pool-1")
        await at.client.delete(GROUPS, "pool")
        await at.has("node-0")
        await asyncio.sleep(60)  # nothing keeps them alive
        assert await at.nodes() == ["node-0"]

    clustered(test, nodes=1)


def test_no_node_goes_soon_after_others_came() -> None:
    async def test(at: Cluster) -> None:
        await at.client.create(GROUPS, group("pool", 0, 3, 1))
        await at.client.create(GROUPS, group("late", 0, 3, labels={"for": "late"}))
        await at.has("pool-0")
        await asyncio.sleep(500)
        await at.world.make(pod("late", nodeSelector={"for": "late"}))
        await at.has("pool-0", "late-0")
        await asyncio.sleep(570)  # idle for long enough, but nodes came
        assert await at.nodes() == ["late-0", "pool-0"]
        await at.has("late-0")

    clustered(test)


def test_a_drain_goes_on_where_another_process_left_it() -> None:
    async def test(at: Cluster) -> None:
        await at.client.create(GROUPS, group("pool", 0, 3, 2))
        await at.has("pool-0", "pool-1")
        work = deployment(2, request="200m", **{"stop-after": "20s"})
        await at.client.create("deployments.apps", work, "default")
        await until(lambda: at.ready(2))

        async def marked() -> bool:
            rows = [node["spec"].get("taints") or [] for node in (await at.client.list("nodes")).items]
            return any(taint["key"] == DOOMED for taints in rows for taint in taints)

        await within(marked, 900)
        await at.world.plane.restart_controllers()

        async def one() -> bool:
            return len(await at.nodes()) == 1 == await at.size()

        await within(one, 300)
        await within(lambda: at.ready(2), 60)

    clustered(test)
