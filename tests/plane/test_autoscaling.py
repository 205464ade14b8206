"""All autoscalers together on a whole plane: load brings pods, pods bring nodes, and both go again."""

from __future__ import annotations

import asyncio

from tests.library.autoscaler_kit import HPAS, Scaled, autoscaler, deployment, within
from tests.plane.kit import World, run

GROUPS = "nodegroups.autoscaling.dashpot.dev"
ACTORS = ["*", "cluster-autoscaler", "pod-autosizer-controller"]


def test_load_brings_pods_and_pods_bring_nodes() -> None:
    async def test(world: World) -> None:
        at, client = Scaled(world), world.client

        async def queue(value: str) -> None:
            found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fake-external-metrics"}}
            await client.apply("configmaps", {**found, "data": {"queue": value}}, "default", manager="test")

        async def nodes(count: int) -> bool:
            return len((await client.list("nodes")).items) == count

        pool = {
            "apiVersion": "autoscaling.dashpot.dev/v1",
            "kind": "NodeGroup",
            "metadata": {"name": "pool"},
            "spec": {"minSize": 1, "maxSize": 4, "template": {"capacity": {"cpu": "1"}}},
        }
        await client.create(GROUPS, pool)
        await queue("1")
        await at.make(deployment(1, request="400m"))
        target = {"type": "AverageValue", "averageValue": "1"}
        metric = {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}
        await client.create(HPAS, autoscaler(1, 8, metric), "default")
        await within(lambda: nodes(1), 60)
        await queue("6")
        await within(lambda: at.ready(6), 120)
        assert await nodes(3)
        await queue("1")
        await asyncio.sleep(280)
        assert await at.ready(6)
        await within(lambda: at.ready(1), 60)
        await asyncio.sleep(500)
        assert await nodes(3)
        await within(lambda: nodes(1), 900)
        await within(lambda: at.ready(1), 60)

    run(test, nodes=0, controllers=ACTORS)
