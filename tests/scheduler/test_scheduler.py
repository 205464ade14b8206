"""The scheduler at work: what it binds, what it tells of pods that stand nowhere, and when it tries again."""

from __future__ import annotations

import asyncio

import pytest

from dashpot.model.placement import message, request
from dashpot.model.placement.cycle import Unfit
from dashpot.model.placement.preempt import NO_VICTIMS
from dashpot.model.placement.shape import Code, Status
from tests.plane.kit import Object, World, pod, run

ONE = ["replicaset-controller"]


def waits(obj: Object) -> Object:
    """The condition that tells why a pod waits."""
    return next(one for one in obj["status"]["conditions"] if one["type"] == "PodScheduled")


def test_a_pod_that_fits_nowhere_is_told_why_and_fits_later() -> None:
    async def test(world: World) -> None:
        await world.make(pod("picky", nodeSelector={"disk": "ssd"}))
        await asyncio.sleep(2)
        why = (
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are "
            "available: 2 Preemption is not helpful for scheduling."
        )
        told = waits(await world.pod("picky"))
        assert (told["status"], told["reason"], told["message"]) == ("False", "Unschedulable", why)
        assert await world.events("FailedScheduling") == [why]
        await world.client.patch("nodes", "node-1", {"metadata": {"labels": {"disk": "ssd"}}})
        found = await world.phase("picky", "Running")
        assert found["spec"]["nodeName"] == "node-1"
        assert waits(found)["status"] == "True"
        assert "Successfully assigned default/picky to node-1" in await world.events("Scheduled")

    run(test, nodes=2, controllers=ONE)


def test_a_full_node_takes_the_next_pod_when_one_goes() -> None:
    async def test(world: World) -> None:
        big: Object = {"container": {"resources": {"requests": {"cpu": "5"}}}}
        await world.make(pod("a", **big), pod("b", **big))
        await world.phase("a", "Running")
        await asyncio.sleep(2)
        assert waits(await world.pod("b"))["message"].startswith(
            "0/1 nodes are available: 1 Insufficient cpu. preemption"
        )
        await world.client.delete("pods", "a", "default")
        await world.phase("b", "Running")

    run(test, nodes=1, controllers=ONE)


def test_a_node_that_is_not_ready_yet_or_cordoned_takes_nobody() -> None:
    async def test(world: World) -> None:
        await world.make(pod("p"))
        await asyncio.sleep(1)
        told = waits(await world.pod("p"))["message"]
        assert told.startswith(
            "0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."
        )
        await world.client.patch("nodes", "node-0", {"spec": {"unschedulable": True}})
        for name in ("node-0", "node-1"):
            await world.client.patch("nodes", name, {"spec": {"taints": None}})
        assert (await world.phase("p", "Running"))["spec"]["nodeName"] == "node-1"

    run(test, nodes=2, controllers=ONE, ready=False)


def test_without_nodes_a_pod_waits() -> None:
    async def test(world: World) -> None:
        await world.make(pod("p"))
        await asyncio.sleep(3)
        assert waits(await world.pod("p"))["message"] == "no nodes available to schedule pods"

    run(test, nodes=0, controllers=ONE)


def test_others_and_gated_pods_are_left_alone() -> None:
    async def test(world: World) -> None:
        await world.make(pod("theirs", schedulerName="other"), pod("gated", schedulingGates=[{"name": "a.io/b"}]))
        await asyncio.sleep(5)
        assert "nodeName" not in (await world.pod("theirs"))["spec"]
        assert "nodeName" not in (await world.pod("gated"))["spec"]
        await world.client.patch("pods", "gated", {"spec": {"schedulingGates": []}}, "default")
        await world.phase("gated", "Running")

    run(test, nodes=1, controllers=ONE)


def test_reasons_are_counted_and_sorted_as_text() -> None:
    victims = Status(Code.UNRESOLVABLE, (NO_VICTIMS,))
    statuses = {
        "a": Status(Code.UNSCHEDULABLE, ("Insufficient cpu", "Too many pods")),
        "b": Status(Code.UNSCHEDULABLE, ("Insufficient cpu",)),
        **{f"c{at}": Status(Code.UNRESOLVABLE, ("node(s) were unschedulable",)) for at in range(10)},
    }
    tail = message.preempted([victims, victims, *[None] * 10])
    assert message.why(Unfit(statuses, 12), tail) == (
        "0/12 nodes are available: 1 Too many pods, 10 node(s) were unschedulable, 2 Insufficient cpu. preemption: "
        "0/12 nodes are available: 10 Preemption is not helpful for scheduling, 2 No preemption victims found for "
        "incoming pod."
    )


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "1500u"}}}] * 2}, {"cpu": 3}),
        ({"containers": [_c := {"resources": {"requests": {"cpu": "1"}}}], "initContainers": [_c]}, {"cpu": 1000}),
        ({"containers": [_c], "initContainers": [{**_c, "restartPolicy": "Always"}]}, {"cpu": 2000}),
        (
            {
                "containers": [_c],
                "initContainers": [
                    {**_c, "restartPolicy": "Always"},
                    {"resources": {"requests": {"cpu": "3"}}},
                ],
            },
            {"cpu": 4000},
        ),
        ({"containers": [_c], "resources": {"requests": {"cpu": "500m", "example.com/x": "1"}}}, {"cpu": 500}),
        ({"containers": [_c], "overhead": {"cpu": "250m", "memory": "1Ki"}}, {"cpu": 1250, "memory": 1024}),
    ],
)
def test_a_pod_asks_for_the_most_it_needs_at_once(spec: Object, asks: dict[str, int]) -> None:
    assert request.requests(spec) == asks
