"""Controllers, scheduler and simulated nodes together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashpot.runtime.client.rest import Delete
from dashpot.runtime.plane.parts import CONTROLLERS, UnknownController, chosen, source
from tests.controller.running import until
from tests.library.workload_kit import workload
from tests.plane.kit import World, pod, run
from tests.tree import ROOT

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
    usual = tuple(name for name, part in CONTROLLERS.items() if not part.asked)
    assert chosen(["*"]) == usual
    assert chosen(["-cronjob-controller"]) == tuple(name for name in usual if name != "cronjob-controller")
    assert chosen(["*", "cluster-autoscaler"])[-1] == "cluster-autoscaler" not in usual
    assert chosen(["job-controller"]) == ("job-controller",)
    spared = ("job-controller", "cronjob-controller")
    assert chosen(["*", *(f"-{name}" for name in spared)]) == tuple(n for n in usual if n not in spared)
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


def test_a_namespace_ends_with_the_workloads_in_it() -> None:
    async def test(world: World) -> None:
        client = world.client
        await client.create("namespaces", {"metadata": {"name": "far"}})
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}

        async def running() -> bool:
            pods = (await client.list("pods", "far")).items
            return len(pods) == 3 and all(p["status"].get("phase") == "Running" for p in pods)

        async def ended() -> bool:
            return all(ns["metadata"]["name"] != "far" for ns in (await client.list("namespaces")).items)

        async def equipped() -> bool:
            accounts = (await client.list("serviceaccounts", "far")).items
            maps = (await client.list("configmaps", "far")).items
            return [o["metadata"]["name"] for o in (*accounts, *maps)] == ["default", "kube-root-ca.crt"]

        await until(equipped, 10)
        ca = (await client.get("configmaps", "kube-root-ca.crt", "far"))["data"]["ca.crt"]
        assert ca == world.plane.server.pki.ca.decode()
        await client.create("deployments", {"metadata": {"name": "web"}, "spec": spec}, "far")
        await until(running, 60)
        await client.delete("namespaces", "far")
        await until(ended, 60)

    run(test)


def test_owners_go_with_their_dependents_or_without() -> None:
    async def test(world: World) -> None:
        client = world.client
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}

        async def counts() -> tuple[int, ...]:
            return tuple([len((await client.list(r, "default")).items) for r in ("deployments", "replicasets", "pods")])

        async def are(*wanted: int) -> None:
            async def so() -> bool:
                return await counts() == wanted

            await until(so, 120)

        for way, left in (("Background", (0, 0, 0)), ("Foreground", (0, 0, 0)), ("Orphan", (0, 1, 2))):
            await client.create("deployments", {"metadata": {"name": "web"}, "spec": spec}, "default")
            await are(1, 1, 2)
            await client.delete("deployments", "web", "default", how=Delete(propagation=way))
            await are(*left)
        await asyncio.sleep(60)
        assert await counts() == (0, 1, 2)

    run(test)


def test_the_manual_lists_every_controller() -> None:
    text = (ROOT / "docs" / "control-plane.md").read_text(encoding="utf-8")
    for name, part in CONTROLLERS.items():
        assert f"| `{name}` | {part.module.removeprefix('kubernetes.')} | {part.account} |" in text
    asked = [name for name, part in CONTROLLERS.items() if part.asked]
    assert asked == list(CONTROLLERS)[-2:]  # "the last two"


def test_events_name_the_components_that_upstream_names() -> None:
    assert source("DeploymentController") == "deployment-controller"
    assert source("ClaimBinder") == "persistentvolume-controller"
    assert source("DisruptionController") == "controllermanager"
    assert source("SomebodyElse") == "SomebodyElse"
