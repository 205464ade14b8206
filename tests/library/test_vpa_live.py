"""PodAutosizers, run from their spec: pods are resized where they are, to what they turn out to use."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.library.autoscaler_kit import WORKLOADS, Scaled, deployment, within
from tests.plane.kit import World, run

Object = dict[str, Any]
SIZERS = "podautosizers.autoscaling.dashpot.dev"
ACTORS = [*WORKLOADS, "pod-autosizer-controller"]


def autosizer(**spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling.dashpot.dev/v1",
        "kind": "PodAutosizer",
        "metadata": {"name": "web"},
        "spec": {"targetRef": target, **spec},
    }


async def pods(at: Scaled) -> dict[str, Object]:
    """The resources of each pod's container, by the pod's uid."""
    found = (await at.client.list("pods", "default")).items
    return {pod["metadata"]["uid"]: pod["spec"]["containers"][0].get("resources") or {} for pod in found}


def test_pods_are_resized_where_they_are() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        work = deployment(2, request="100m", cpu="400m")
        work["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "200m"}
        await at.make(work)
        before = await pods(at)
        await at.client.create(SIZERS, autosizer(), "default")
        await asyncio.sleep(240)
        assert await pods(at) == before  # too little is known yet

        async def resized() -> bool:
            made = {"requests": {"cpu": "460m"}, "limits": {"cpu": "920m"}}
            return await pods(at) == dict.fromkeys(before, made)

        await within(resized, 300)
        (row,) = (await at.client.get(SIZERS, "web", "default"))["status"]["recommendation"]
        assert (row["containerName"], row["target"]) == ("c", {"cpu": "460m", "memory": "250Mi"})
        await asyncio.sleep(600)
        version = (await at.client.get(SIZERS, "web", "default"))["metadata"]["resourceVersion"]
        await asyncio.sleep(300)
        assert (await at.client.get(SIZERS, "web", "default"))["metadata"]["resourceVersion"] == version

    run(test, nodes=1, controllers=ACTORS)


def test_what_is_allowed_and_what_is_off() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(1, request="100m", cpu="2"))
        await at.client.create(SIZERS, autosizer(mode="Off", maxAllowed={"cpu": "500m"}), "default")
        await asyncio.sleep(700)
        status = (await at.client.get(SIZERS, "web", "default"))["status"]
        assert status["recommendation"][0]["target"]["cpu"] == "500m"
        assert [one["requests"]["cpu"] for one in (await pods(at)).values()] == ["100m"]
        await at.client.patch(SIZERS, "web", {"spec": {"mode": "InPlace"}}, "default")

        async def resized() -> bool:
            return [one["requests"]["cpu"] for one in (await pods(at)).values()] == ["500m"]

        await within(resized, 120)

    run(test, nodes=1, controllers=ACTORS)


def test_pods_that_ask_for_nothing_keep_their_class() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(1, request="", cpu="2"))
        await at.client.create(SIZERS, autosizer(), "default")
        await asyncio.sleep(700)
        assert list((await pods(at)).values()) == [{}]
        assert await world.events("ResizeFailed") == []

    run(test, nodes=1, controllers=ACTORS)
