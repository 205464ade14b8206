"""Pods that no kubelet will take away: the controllers of kubernetes.podgc on simulated nodes."""

from __future__ import annotations

import asyncio

from dashpot.model.extern.workloads import condition
from dashpot.model.objects.status import StatusError
from tests.controller.running import until
from tests.plane.kit import Object, World, pod, run

PARTS = ["pod-garbage-collector-controller"]


async def names(world: World) -> list[str]:
    """The names of the pods."""
    return sorted(p["metadata"]["name"] for p in (await world.client.list("pods", "default")).items)


async def lost(world: World, name: str) -> None:
    """Takes a node down, and its object away, as a cloud's controller does."""
    world.plane.fleet.take_down(name)
    await world.client.delete("nodes", name)


def test_pods_of_a_node_that_is_gone_fail_and_go() -> None:
    async def test(world: World) -> None:
        last: dict[str, Object] = {}
        for name in ("runs", "ended"):
            told = {"run-for": "1s"} if name == "ended" else {}
            await world.make(pod(name, told, nodeName="node-0", restartPolicy="Never" if told else "Always"))
        await world.make(pod("other", nodeName="node-1"))
        await world.phase("ended", "Succeeded")
        await world.phase("runs", "Running")
        await world.phase("other", "Running")
        watch = asyncio.get_running_loop().create_task(_follow(world, last))
        await lost(world, "node-0")
        await asyncio.sleep(39)
        assert await names(world) == ["ended", "other", "runs"]

        async def gone() -> bool:
            return await names(world) == ["other"]

        async def heard() -> bool:
            return "deletionTimestamp" in last["runs"]["metadata"] or last["runs"]["status"]["phase"] != "Running"

        await until(gone, 5)
        await until(heard, 5)  # the list may be ahead of this watch
        watch.cancel()
        assert last["ended"]["status"]["phase"] == "Succeeded"
        assert last["runs"]["status"]["phase"] == "Failed"
        target = condition(last["runs"], "DisruptionTarget") or {}
        assert (target["status"], target["reason"]) == ("True", "DeletionByPodGC")
        assert target["message"] == "PodGC: node no longer exists"

    run(test, nodes=2, controllers=PARTS)


async def _follow(world: World, last: dict[str, Object]) -> None:
    """Notes each pod as it was last."""
    page = await world.client.list("pods", "default")
    last.update({one["metadata"]["name"]: one for one in page.items})
    async with world.client.watch("pods", "default", version=page.version) as events:
        async for event in events:
            if event.object["metadata"].get("name"):
                last[event.object["metadata"]["name"]] = event.object


def test_a_node_that_registers_anew_within_the_quarantine_keeps_its_pods() -> None:
    async def test(world: World) -> None:
        await world.make(pod("p", nodeName="node-0"))
        await world.phase("p", "Running")
        await lost(world, "node-0")
        await asyncio.sleep(25)
        await world.client.create("nodes", {"metadata": {"name": "node-0"}})
        await asyncio.sleep(100)
        assert await names(world) == ["p"]
        await world.client.delete("nodes", "node-0")
        await asyncio.sleep(35)
        assert await names(world) == ["p"]
        await asyncio.sleep(10)
        assert await names(world) == []

    run(test, nodes=2, controllers=PARTS)


def test_what_terminates_out_of_service_goes_at_once() -> None:
    async def test(world: World) -> None:
        client = world.client
        await world.make(pod("p", nodeName="node-0"), pod("stays", nodeName="node-0"))
        await world.phase("p", "Running")
        await world.phase("stays", "Running")
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        world.plane.fleet.take_down("node-0")
        await client.delete("pods", "p", "default")
        await client.patch("nodes", "node-0", {"spec": {"taints": [taint]}})
        await asyncio.sleep(30)  # the taint alone is not enough: the node still counts as ready
        assert await names(world) == ["p", "stays"]

        async def gone() -> bool:
            return await names(world) == ["stays"]

        await until(gone, 60)

    run(test, nodes=2, controllers=PARTS)


def test_a_pod_that_terminates_and_stands_nowhere_goes() -> None:
    async def test(world: World) -> None:
        made = pod("p", schedulingGates=[{"name": "example.com/wait"}])
        made["metadata"]["finalizers"] = ["example.com/held"]
        await world.make(made)
        await world.client.delete("pods", "p", "default")

        async def failed() -> bool:
            return bool((await world.pod("p"))["status"]["phase"] == "Failed")

        await until(failed)
        await world.client.patch("pods", "p", {"metadata": {"finalizers": None}}, "default")

        async def gone() -> bool:
            return await names(world) == []

        await until(gone)

    run(test, nodes=1, controllers=PARTS)


def test_of_pods_that_have_ended_the_oldest_go() -> None:
    async def test(world: World) -> None:
        for at in range(5):
            await world.make(pod(f"p{at}", {"run-for": "1s"}, restartPolicy="Never"))
            await asyncio.sleep(2)
        for at in range(2, 5):
            await world.phase(f"p{at}", "Succeeded")
        await asyncio.sleep(5)
        assert await names(world) == ["p2", "p3", "p4"]
        # An evicted pod goes before older ones.
        await world.make(pod("late", {"run-for": "1h"}, restartPolicy="Never"))
        await world.phase("late", "Running")
        status = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await world.client.patch("pods", "late", status, "default", subresource="status")

        async def gone() -> bool:
            return await names(world) == ["p2", "p3", "p4"]

        await until(gone)
        try:
            await world.client.get("pods", "late", "default")
            raise AssertionError("it is still there")
        except StatusError as error:
            assert error.reason == "NotFound"

    run(test, nodes=1, controllers=PARTS, constants={"KEPT": 3})
