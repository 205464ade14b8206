"""Nodes that fall silent, come back, or are unwell: the controllers of kubernetes.node on simulated nodes."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from dashpot.model.extern.workloads import condition, moment
from tests.controller.running import until
from tests.library.workload_kit import workload
from tests.plane.kit import Object, World, pod, run

PARTS = ["taint-eviction-controller", "replicaset-controller"]
SILENT = [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]


async def gets(world: World, name: str, taints: list[tuple[str, str]], seconds: float = 300.0) -> None:
    """Waits until a node has these taints."""

    async def reached() -> bool:
        return await world.taints(name) == sorted(taints)

    await until(reached, seconds)


async def standing(world: World) -> list[str]:
    """The nodes of the pods that do not terminate."""
    pods = (await world.client.list("pods", "default")).items
    return sorted(p["spec"].get("nodeName", "") for p in pods if not p["metadata"].get("deletionTimestamp"))


def said(node: Object, type_: str = "Ready") -> Object:
    """A condition of a node."""
    return condition(node, type_) or {}


def test_a_node_that_dies_is_marked_tainted_and_emptied() -> None:
    async def test(world: World) -> None:
        client, fleet = world.client, world.plane.fleet
        await client.create("replicasets.apps", workload("ReplicaSet", 3), "default")

        async def ready() -> bool:
            found = await client.get("replicasets.apps", "web", "default")
            return bool((found.get("status") or {}).get("readyReplicas") == 3)

        await until(ready)
        assert await standing(world) == ["node-0", "node-1", "node-2"]
        loop = asyncio.get_running_loop()
        fleet.take_down("node-1")
        down = loop.time()
        await gets(world, "node-1", SILENT)
        assert 45 <= loop.time() - down <= 57  # the last renewal is up to 10 s old, and the taint waits for 5 s
        node = await world.node("node-1")
        for type_ in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
            found = said(node, type_)
            assert (found["status"], found["reason"]) == ("Unknown", "NodeStatusUnknown")
            assert found["message"] == "Kubelet stopped posting node status."
            assert (moment(found["lastTransitionTime"]) or 0) > (moment(found["lastHeartbeatTime"]) or 0)
        assert all(taint["timeAdded"] for taint in node["spec"]["taints"])
        assert await world.events("NodeNotReady") == ["Node node-1 status is now: NodeNotReady", "Node is not ready"]
        (lost,) = [p for p in (await client.list("pods", "default")).items if p["spec"]["nodeName"] == "node-1"]
        assert (condition(lost, "Ready") or {})["status"] == "False"

        async def evicted() -> bool:
            return bool((await world.pod(lost["metadata"]["name"]))["metadata"].get("deletionTimestamp"))

        await asyncio.sleep(290 - (loop.time() - down - 50))
        assert not await evicted()
        await until(evicted)
        assert 345 <= loop.time() - down <= 361
        target = condition(await world.pod(lost["metadata"]["name"]), "DisruptionTarget") or {}
        assert (target["status"], target["reason"]) == ("True", "DeletionByTaintManager")
        assert target["message"] == "Taint manager: deleting due to NoExecute taint"
        name = f"default/{lost['metadata']['name']}"
        assert await world.events("TaintManagerEviction") == [f"Marking for deletion Pod {name}"]
        await until(ready)
        assert "node-1" not in await standing(world)
        fleet.bring_up("node-1")
        await gets(world, "node-1", [])
        assert said(await world.node("node-1"))["status"] == "True"

        async def gone() -> bool:
            return len((await client.list("pods", "default")).items) == 3

        await until(gone)

    run(test, nodes=3, controllers=PARTS)


def test_a_short_outage_changes_nothing() -> None:
    async def test(world: World) -> None:
        fleet = world.plane.fleet
        await world.make(pod("p", nodeName="node-0"))
        await world.phase("p", "Running")
        before = said(await world.node("node-0"))["lastTransitionTime"]
        await asyncio.sleep(15)
        fleet.take_down("node-0")
        await asyncio.sleep(35)
        fleet.bring_up("node-0")
        await asyncio.sleep(400)
        found = said(await world.node("node-0"))
        assert (found["status"], found["lastTransitionTime"]) == ("True", before)
        assert await world.taints("node-0") == []
        assert not (await world.pod("p"))["metadata"].get("deletionTimestamp")
        assert await world.events("NodeNotReady") == []

    run(test, nodes=2, controllers=PARTS)


def test_each_pod_is_tolerant_in_its_own_way() -> None:
    async def test(world: World) -> None:
        def tolerant(name: str, *rows: Object) -> Object:
            return pod(name, nodeName="node-0", tolerations=list(rows))

        every = {"operator": "Exists", "effect": "NoExecute"}
        ours = {"key": "node.kubernetes.io/unreachable", **every}
        await world.make(
            tolerant("always", every),
            tolerant("short", {**ours, "tolerationSeconds": 20}),
            tolerant("never", {**ours, "tolerationSeconds": 0}),
            tolerant("usual"),
        )
        for name in ("always", "short", "never", "usual"):
            await world.phase(name, "Running")
        world.plane.fleet.take_down("node-0")
        await gets(world, "node-0", SILENT)

        async def going() -> list[str]:
            pods = (await world.client.list("pods", "default")).items
            return [p["metadata"]["name"] for p in pods if p["metadata"].get("deletionTimestamp")]

        await asyncio.sleep(5)
        assert await going() == ["never"]
        await asyncio.sleep(20)
        assert await going() == ["never", "short"]
        await asyncio.sleep(400)
        assert await going() == ["never", "short", "usual"]

    run(test, nodes=2, controllers=PARTS)


def test_a_node_that_is_back_in_time_keeps_its_pods() -> None:
    async def test(world: World) -> None:
        await world.make(pod("p", nodeName="node-0"))
        await world.phase("p", "Running")
        world.plane.fleet.take_down("node-0")
        await gets(world, "node-0", SILENT)
        await asyncio.sleep(200)
        world.plane.fleet.bring_up("node-0")
        await gets(world, "node-0", [])
        await asyncio.sleep(400)
        kept = await world.pod("p")
        assert not kept["metadata"].get("deletionTimestamp") and (condition(kept, "Ready") or {})["status"] == "True"
        assert await world.events("TaintManagerEviction") == ["Cancelling deletion of Pod default/p"]
        # A second outage is a new one: the pod has all of its 300 s again.
        world.plane.fleet.take_down("node-0")
        await gets(world, "node-0", SILENT)
        await asyncio.sleep(290)
        assert not (await world.pod("p"))["metadata"].get("deletionTimestamp")
        await asyncio.sleep(15)
        assert (await world.pod("p"))["metadata"].get("deletionTimestamp")

    run(test, nodes=2, controllers=PARTS)


def test_when_all_nodes_are_silent_nobody_is_evicted() -> None:
    async def test(world: World) -> None:
        for at in range(3):
            await world.make(pod(f"p{at}", nodeName=f"node-{at}"))
            await world.phase(f"p{at}", "Running")
        for at in range(3):
            world.plane.fleet.take_down(f"node-{at}")
        for at in range(3):
            await gets(world, f"node-{at}", [("unreachable", "NoSchedule")])
        await asyncio.sleep(1000)
        assert len(await standing(world)) == 3
        assert not any([("unreachable", "NoExecute") in await world.taints(f"node-{at}") for at in range(3)])
        # One is back: now the others are to blame, one after the other.
        world.plane.fleet.bring_up("node-0")
        await gets(world, "node-0", [])
        await gets(world, "node-1", SILENT)
        await gets(world, "node-2", SILENT)
        await asyncio.sleep(320)
        assert await standing(world) == ["node-0"]

    run(test, nodes=3, controllers=PARTS)


def test_when_all_nodes_fall_at_once_not_even_the_first_is_given_up() -> None:
    async def test(world: World) -> None:
        for at in range(3):
            brittle = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]
            await world.make(pod(f"p{at}", nodeName=f"node-{at}", tolerations=brittle))
            await world.phase(f"p{at}", "Running")
        for at in range(3):
            world.plane.fleet.take_down(f"node-{at}")
        await world.plane.restart_controllers()  # so that all are heard of for the last time at once
        await asyncio.sleep(300)
        assert [await world.taints(f"node-{at}") for at in range(3)] == [[("unreachable", "NoSchedule")]] * 3
        assert len(await standing(world)) == 3

    run(test, nodes=3, controllers=PARTS)


def taint_times(node: Object) -> list[int]:
    """When a node got its NoExecute taints, in seconds."""
    return [
        (moment(taint["timeAdded"]) or 0) // 1000
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] == "NoExecute"
    ]


def test_nodes_of_a_zone_are_given_up_one_in_ten_seconds() -> None:
    async def test(world: World) -> None:
        for at in range(4):
            world.plane.fleet.take_down(f"node-{at}")
        for at in range(4):
            await gets(world, f"node-{at}", SILENT)
        times = sorted([t for at in range(4) for t in taint_times(await world.node(f"node-{at}"))])
        assert all(10 <= later - sooner <= 16 for sooner, later in pairwise(times))

    run(test, nodes=8, controllers=PARTS)


def test_a_zone_with_much_trouble_is_left_alone() -> None:
    async def test(world: World) -> None:
        for at in range(5):
            zone = "a" if at < 4 else "b"
            labels = {"topology.kubernetes.io/zone": zone}
            await world.client.patch("nodes", f"node-{at}", {"metadata": {"labels": labels}})
        world.plane.fleet.take_down("node-0")
        await gets(world, "node-0", SILENT)
        for at in range(1, 3):
            world.plane.fleet.take_down(f"node-{at}")

        async def silent() -> bool:
            return all([said(await world.node(f"node-{at}"))["status"] == "Unknown" for at in range(3)])

        await until(silent)
        await asyncio.sleep(100)
        executed = [("unreachable", "NoExecute") in await world.taints(f"node-{at}") for at in range(3)]
        assert executed[0] and sum(executed) < 3  # those that were given up before the trouble was known
        # The whole zone is silent: that is its own fault, as the other one is well.
        world.plane.fleet.take_down("node-3")
        for at in range(4):
            await gets(world, f"node-{at}", SILENT)
        assert await world.taints("node-4") == []

    run(test, nodes=5, controllers=PARTS)


def test_what_a_node_says_of_itself_becomes_taints() -> None:
    async def test(world: World) -> None:
        client = world.client

        async def says(type_: str, status: str) -> None:
            rows = [{"type": type_, "status": status, "reason": "Test", "message": "test"}]
            patch = {"status": {"conditions": rows}}
            await client.patch("nodes", "node-0", patch, kind="strategic", subresource="status")

        for type_, key in (
            ("MemoryPressure", "memory-pressure"),
            ("DiskPressure", "disk-pressure"),
            ("PIDPressure", "pid-pressure"),
            ("NetworkUnavailable", "network-unavailable"),
        ):
            await says(type_, "True")
            await gets(world, "node-0", [(key, "NoSchedule")])
            await says(type_, "False")
            await gets(world, "node-0", [])
        await client.patch("nodes", "node-0", {"spec": {"unschedulable": True}})
        await gets(world, "node-0", [("unschedulable", "NoSchedule")])
        mine = {"key": "mine", "effect": "NoExecute", "value": "x"}
        taints = (await world.node("node-0"))["spec"]["taints"]
        await client.patch("nodes", "node-0", {"spec": {"unschedulable": None, "taints": [*taints, mine]}})
        await gets(world, "node-0", [("mine", "NoExecute")])
        assert (await world.node("node-0"))["spec"]["taints"] == [mine]
        await says("Ready", "False")
        await gets(world, "node-0", [("mine", "NoExecute"), ("not-ready", "NoExecute"), ("not-ready", "NoSchedule")])
        await says("Ready", "True")
        await gets(world, "node-0", [("mine", "NoExecute")])

    run(test, nodes=2, controllers=PARTS)


def test_a_node_that_never_said_a_word() -> None:
    async def test(world: World) -> None:
        await world.client.create("nodes", {"metadata": {"name": "mute"}})
        await asyncio.sleep(55)
        assert await world.taints("mute") == []
        await gets(world, "mute", SILENT)
        found = said(await world.node("mute"))
        assert (found["status"], found["reason"]) == ("Unknown", "NodeStatusNeverUpdated")
        assert found["message"] == "Kubelet never posted node status."
        assert "Registered Node mute in Controller" in await world.events("RegisteredNode")

    run(test, nodes=2, controllers=PARTS)


def test_a_controller_that_starts_anew_waits_a_whole_grace_period() -> None:
    async def test(world: World) -> None:
        await world.make(pod("p", nodeName="node-0"))
        await world.phase("p", "Running")
        world.plane.fleet.take_down("node-0")
        await asyncio.sleep(38)
        await world.plane.restart_controllers()
        await asyncio.sleep(45)
        assert said(await world.node("node-0"))["status"] == "True"
        await gets(world, "node-0", SILENT, 12)

    run(test, nodes=2, controllers=PARTS)


def test_nodes_that_are_well_cost_next_to_nothing() -> None:
    async def test(world: World) -> None:
        monitor = world.plane.managers["kubernetes.node"].instances["NodeMonitor"]
        writes = [(await world.node(name))["metadata"]["resourceVersion"] for name in world.plane.fleet.nodes]
        before = monitor.passes
        await asyncio.sleep(290)
        # A renewal each 10 s wakes nobody: each node is looked at when its grace period would be over.
        assert monitor.passes - before <= 10 * (290 // 40 + 1)
        after = [(await world.node(name))["metadata"]["resourceVersion"] for name in world.plane.fleet.nodes]
        assert after == writes

    run(test, nodes=10, controllers=PARTS)


def test_a_large_zone_with_much_trouble_is_given_up_slowly() -> None:
    async def test(world: World) -> None:
        down = [f"node-{at}" for at in range(5)]
        for name in down:
            world.plane.fleet.take_down(name)

        async def given_up() -> list[int]:
            return sorted([time for name in down for time in taint_times(await world.node(name))])

        async def three() -> bool:
            return len(await given_up()) >= 3

        await until(three, 600)
        times = await given_up()
        assert 100 <= times[2] - times[1] <= 106

    run(test, nodes=8, controllers=PARTS, constants={"LARGE": 7})


def test_timers_of_evictions_are_lost_with_the_process() -> None:
    async def test(world: World) -> None:
        await world.make(pod("p", nodeName="node-0"))
        await world.phase("p", "Running")
        world.plane.fleet.take_down("node-0")
        await gets(world, "node-0", SILENT)
        await asyncio.sleep(200)
        await world.plane.restart_controllers()
        await gets(world, "node-0", SILENT)
        await asyncio.sleep(295)
        assert not (await world.pod("p"))["metadata"].get("deletionTimestamp")
        await asyncio.sleep(15)
        assert (await world.pod("p"))["metadata"].get("deletionTimestamp")

    run(test, nodes=2, controllers=PARTS)
