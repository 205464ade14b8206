"""Controllers, scheduler and simulated nodes together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashpot.runtime.plane.parts import CONTROLLERS, UnknownController, chosen
from tests.controller.running import until
from tests.library.workload_kit import workload
from tests.plane.kit import World, pod, run

Object = dict[str, Any]


def test_a_deployment_runs_rolls_and_goes_back() -> None:
    async def test(world: World) -> None:
        client = world.client

        async def rolled(image: str) -> bool:
            found = await client.get("deployments.apps", "web", "default")
            pods = [
                p for p in (await client.list("pods", "default")).items if not p["metadata"].get("deletionTimestamp")
            ]
            status = found.get("status") or {}
            return (
                status.get("observedGeneration") == found["metadata"]["generation"]
                and status.get("availableReplicas") == 4 == status.get("updatedReplicas")
                and [p["spec"]["containers"][0]["image"] for p in pods] == [image] * 4
                and all(p["spec"].get("nodeName") and p["status"].get("podIP") for p in pods)
            )

        await client.create("deployments.apps", workload("Deployment", 4, "example.com/x:1"), "default")
        await until(lambda: rolled("example.com/x:1"))
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "example.com/x:2"}]}}}}
        await client.patch("deployments.apps", "web", change, "default")
        await until(lambda: rolled("example.com/x:2"))
        sets = (await client.list("replicasets.apps", "default")).items
        assert sorted(one["spec"]["replicas"] for one in sets) == [0, 4]
        addresses = {p["status"]["podIP"] for p in (await client.list("pods", "default")).items}
        assert len(addresses) == 4

    run(test, nodes=2)


def test_the_same_seed_is_the_same_course() -> None:
    found: list[list[tuple[str, str]]] = []

    async def test(world: World) -> None:
        await world.make(*(pod(f"p{at}") for at in range(12)))
        for at in range(12):
            await world.phase(f"p{at}", "Running")
        pods = (await world.client.list("pods", "default")).items
        found.append([(p["metadata"]["name"], p["spec"]["nodeName"]) for p in pods])

    run(test, nodes=3, controllers=["replicaset-controller"])
    run(test, nodes=3, controllers=["replicaset-controller"])
    assert found[0] == found[1]
    assert len({node for _, node in found[0]}) == 3


def test_controllers_are_chosen_as_for_kube_controller_manager() -> None:
    assert chosen(["*"]) == tuple(CONTROLLERS)
    assert chosen(["-cronjob-controller"]) == tuple(name for name in CONTROLLERS if name != "cronjob-controller")
    assert chosen(["job-controller"]) == ("job-controller",)
    assert chosen(["*", "-job-controller", "-cronjob-controller"])[-1] == "daemonset-controller"
    with pytest.raises(UnknownController, match="there is no controller 'nosuch'; there are: replicaset-controller"):
        chosen(["nosuch"])


def test_what_ran_goes_on_after_the_plane_was_replaced() -> None:
    async def test(world: World) -> None:
        client, plane = world.client, world.plane
        await client.create("replicasets.apps", workload("ReplicaSet", 3), "default")

        async def ready(count: int) -> bool:
            found = await client.get("replicasets.apps", "web", "default")
            return bool((found.get("status") or {}).get("readyReplicas") == count)

        await until(lambda: ready(3))
        before = {p["metadata"]["uid"]: p["status"]["podIP"] for p in (await client.list("pods", "default")).items}
        await plane.stop()
        second = type(plane)(plane.server, nodes=2, complain=world.complaints.append)
        await second.start()
        try:
            await asyncio.sleep(30)
            after = {p["metadata"]["uid"]: p["status"]["podIP"] for p in (await client.list("pods", "default")).items}
            assert after == before
            await client.patch("replicasets.apps", "web", {"spec": {"replicas": 5}}, "default")
            await until(lambda: ready(5))
            addresses = [p["status"]["podIP"] for p in (await client.list("pods", "default")).items]
            assert len(set(addresses)) == 5
        finally:
            await second.stop()

    run(test, nodes=2)
