"""Preemption, nominations, restarts and several schedulers, on a plane on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashpot.model.placement import cycle
from dashpot.model.placement.shape import Pod
from dashpot.model.placement.snapshot import Snapshot
from dashpot.runtime.scheduler.scheduler import Scheduler
from tests.controller.running import until
from tests.plane.kit import Object, World, pod, run

ONE = ["replicaset-controller"]


async def classes(world: World, **values: int) -> None:
    """Priority classes."""
    for name, value in values.items():
        await world.client.create("priorityclasses", {"metadata": {"name": name}, "value": value})
    await asyncio.sleep(1)  # admission looks them up in a cache


def sized(name: str, cpu: str, priority: str = "", told: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod that asks for so much."""
    if priority:
        spec["priorityClassName"] = priority
    return pod(name, told, container={"resources": {"requests": {"cpu": cpu}}}, **spec)


async def placed(world: World) -> dict[str, str]:
    """Pod → node, of those that stand somewhere."""
    pods = (await world.client.list("pods", "default")).items
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")}


def test_the_least_important_pods_make_room() -> None:
    async def test(world: World) -> None:
        await classes(world, low=1, middle=5, high=10)
        # 8 processors each: on one node the victims matter less than on the other
        await world.make(sized("a", "5", "middle"), sized("b", "5", "low"))
        await world.phase("a", "Running")
        await world.phase("b", "Running")
        before = await placed(world)
        await world.make(sized("c", "6", "high"))
        found = await world.phase("c", "Running")
        assert found["spec"]["nodeName"] == before["b"]
        assert "nominatedNodeName" not in found["status"] or found["status"]["nominatedNodeName"] == before["b"]
        assert set(await placed(world)) == {"a", "c"}
        (said,) = await world.events("Preempted")
        assert said == f"Preempted by pod {found['metadata']['uid']} on node {before['b']}"
        failed = [one for one in await world.events("FailedScheduling") if one.startswith("0/2")]
        assert failed == ["0/2 nodes are available: 2 Insufficient cpu."]

    run(test, nodes=2, controllers=ONE)


def test_a_victim_says_why_it_goes_and_has_its_grace() -> None:
    async def test(world: World) -> None:
        await classes(world, low=1, high=10)
        await world.make(sized("a", "5", "low", {"stop-after": "7s"}, terminationGracePeriodSeconds=20))
        await world.phase("a", "Running")
        await world.make(sized("b", "5", "high"))

        async def told() -> bool:
            return "deletionTimestamp" in (await world.pod("a"))["metadata"]

        await until(told, 5)
        victim, waits = await world.pod("a"), await world.pod("b")
        (target,) = (one for one in victim["status"]["conditions"] if one["type"] == "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
        assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        assert waits["status"]["nominatedNodeName"] == "node-0"
        # the node is promised: a pod of less importance does not take what comes free
        await world.make(sized("c", "5", "low"))
        await world.phase("b", "Running", 30)
        assert set(await placed(world)) == {"b"}

    run(test, nodes=1, controllers=ONE)


def test_budgets_are_spared_where_others_can_go() -> None:
    async def test(world: World) -> None:
        await classes(world, low=1, high=10)
        guarded = sized("guarded", "5", "low")
        guarded["metadata"]["labels"] = {"app": "guarded"}
        await world.make(guarded, sized("free", "5", "low"))
        budget = {
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
        await world.phase("guarded", "Running")
        await world.phase("free", "Running")
        await world.client.create("poddisruptionbudgets.policy", budget, "default")
        await asyncio.sleep(2)
        await world.make(sized("vip", "6", "high"))
        await world.phase("vip", "Running")
        assert set(await placed(world)) == {"guarded", "vip"}

    run(test, nodes=2, controllers=[*ONE, "disruption-controller"])


@pytest.mark.parametrize(
    ("spec", "tail"),
    [
        ({"preemptionPolicy": "Never"}, "preemption: not eligible due to preemptionPolicy=Never."),
        ({}, "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
    ],
)
def test_who_may_not_preempt_is_told_so(spec: Object, tail: str) -> None:
    async def test(world: World) -> None:
        await classes(world, low=1)
        value = {"metadata": {"name": "mine"}, "value": 10 if spec else 1, **spec}
        await world.client.create("priorityclasses", value)
        await asyncio.sleep(1)
        await world.make(sized("a", "5", "low"))
        await world.phase("a", "Running")
        await world.make(sized("b", "5", "mine"))
        await asyncio.sleep(3)
        (told,) = await world.events("FailedScheduling")
        assert told == f"0/1 nodes are available: 1 Insufficient cpu. {tail}"

    run(test, nodes=1, controllers=ONE)


def test_two_schedulers_stand_side_by_side() -> None:
    async def test(world: World) -> None:
        client = world.client
        other = Scheduler(client, world.plane.server.clock, name="other", complain=world.complaints.append)
        other.start()
        try:
            pods = [sized(f"p{n}", "3", schedulerName="other" if n % 2 else "default-scheduler") for n in range(4)]
            await world.make(*pods)
            for n in range(4):
                await world.phase(f"p{n}", "Running")
            assert (other.bound, world.plane.scheduler.bound) == (2, 2)
            events = (await client.list("events", "default")).items
            sources = {
                (one["involvedObject"]["name"], one["source"]["component"])
                for one in events
                if one["reason"] == "Scheduled"
            }
            assert ("p1", "other") in sources and ("p0", "default-scheduler") in sources
        finally:
            await other.stop()

    run(test, nodes=3, controllers=ONE)


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_a_scheduler_that_dies_between_assuming_and_binding_loses_and_doubles_nothing(kills: int) -> None:
    async def test(world: World) -> None:
        count = kills * 4
        await world.make(*(sized(f"p{n}", "10m") for n in range(count)))
        for _ in range(kills):
            scheduler = world.plane.scheduler
            start = scheduler.bound

            async def some(scheduler: Scheduler = scheduler, start: int = start) -> bool:
                return (
                    bool(scheduler.cluster.sizes()["assumed_pods"])
                    or scheduler.bound > start + 2
                    or not scheduler.queue
                )

            await until(some, 60)
            for task in [scheduler._task, *scheduler._work]:
                if task is not None:
                    task.cancel()
            await world.plane.restart_scheduler()

        async def all_run() -> bool:
            pods = (await world.client.list("pods", "default")).items
            return all(p["status"].get("phase") == "Running" for p in pods)

        await until(all_run, 120)
        pods = (await world.client.list("pods", "default")).items
        assert len(pods) == count == len({p["metadata"]["uid"] for p in pods})
        view = Snapshot.of((await world.client.list("nodes")).items, pods)
        for node in view.nodes:
            assert len(node.pods) <= node.allocatable["pods"]
        cluster = world.plane.scheduler.cluster
        assert {n.name: set(n.pods) for n in view.nodes} == {n.name: set(n.pods) for n in cluster.nodes.values()}

    run(test, nodes=3, controllers=ONE)


@pytest.mark.parametrize(("pods", "nodes"), [(60, 10), pytest.param(500, 50, marks=pytest.mark.soak)])
def test_pods_are_bound_as_the_definitions_say(pods: int, nodes: int) -> None:
    """A sample of the decisions is taken again from objects alone: the node is among the best there."""

    async def test(world: World) -> None:
        scheduler = world.plane.scheduler
        decided = scheduler.decide
        sampled: list[tuple[Pod, Snapshot, Any, Any]] = []
        every = max(1, pods // 20) if pods < 100 else pods // 100

        def watched(one: Pod, profile: cycle.Profile) -> Any:
            start = scheduler._start_at
            live = scheduler.cluster.snapshot()
            copy = Snapshot.of(
                [node.object for node in scheduler.cluster.nodes.values()],
                [
                    {**other.object, "spec": {**other.spec, "nodeName": node.name}}
                    for node in live.nodes
                    for other in node.pods.values()
                ],
                dict(scheduler.cluster.spaces),
                {kind: list(rows) for kind, rows in scheduler.cluster.objects.items()},
            )
            found = decided(one, profile)
            if len(sampled) * every <= scheduler.bound:
                again = cycle.run(Pod.of(one.object), copy, profile, start=start)
                sampled.append((one, copy, found, again))
            return found

        scheduler.decide = watched  # type: ignore[assignment, method-assign]
        for n in range(pods):
            cpu = ("100m", "250m", "1")[n % 3]
            made = sized(f"p{n}", cpu)
            made["metadata"]["labels"] = {"app": f"a{n % 4}"}
            spread = {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
            if n % 4 == 0:
                made["spec"]["topologySpreadConstraints"] = [
                    {**spread, "labelSelector": {"matchLabels": {"app": "a0"}}}
                ]
            await world.make(made)
        for n in range(pods):
            await world.phase(f"p{n}", "Running", 120)
        assert len(sampled) >= 5
        for one, _, found, again in sampled:
            assert (found.feasible, found.best, found.points) == (again.feasible, again.best, again.points)
            where = (await world.pod(one.name))["spec"]["nodeName"]
            assert where in again.best

    run(test, nodes=nodes, controllers=ONE)


def test_what_the_figures_say() -> None:
    async def test(world: World) -> None:
        await world.make(sized("a", "1"), sized("big", "100"), pod("gated", schedulingGates=[{"name": "a.io/b"}]))
        await world.phase("a", "Running")
        await asyncio.sleep(2)
        text = world.plane.scheduler.metrics.text().decode()
        for line in (
            'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0',
            'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1.0',
            'scheduler_pending_pods{queue="unschedulable"} 1.0',
            'scheduler_pending_pods{queue="gated"} 1.0',
            'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1.0',
            'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"} 2.0',
            'scheduler_cache_size{type="nodes"} 1.0',
            'scheduler_cache_size{type="assumed_pods"} 0.0',
            'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 1.0',
        ):
            assert line in text, line
        assert "scheduler_schedule_attempts_total" in world.plane._figures()

    run(test, nodes=1, controllers=ONE)
