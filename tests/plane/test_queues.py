"""Fifty pods go at once: work queues fill and empty, and no key is in two passes at a time."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from dashpot.runtime.client.rest import Delete
from dashpot.runtime.controller.body import Outcome
from dashpot.runtime.controller.controller import Running
from dashpot.runtime.controller.wakes import Key
from tests.controller.running import until
from tests.library.workload_kit import workload
from tests.plane.kit import World, run

SETS, PODS = 10, 50


class Watched:
    """What the running controllers do: how deep their queues are after each change, which keys they are at."""

    def __init__(self, world: World) -> None:
        self.depths: dict[str, list[int]] = {}
        self.busy: Counter[tuple[str, Key]] = Counter()
        self.passes: Counter[str] = Counter()
        self.most = 0
        for manager in world.plane.managers.values():
            for name, instance in manager.instances.items():
                if isinstance(instance, Running):
                    self._watch(name, instance)

    def _watch(self, name: str, instance: Running) -> None:
        depths = self.depths[name] = [0]
        figures = instance.queue._metrics  # what /metrics shows is what is looked at
        assert figures is not None
        shown, reconcile = figures.depth, instance.reconcile

        def depth(count: int) -> None:
            shown(count)
            depths.append(count)

        async def counted(key: Key) -> Outcome:
            self.busy[name, key] += 1
            self.passes[name] += 1
            self.most = max(self.most, self.busy[name, key])
            try:
                return await reconcile(key)
            finally:
                self.busy[name, key] -= 1

        figures.depth = depth  # type: ignore[method-assign]
        instance.reconcile = counted  # type: ignore[method-assign]


def depth_of(text: str, name: str) -> float:
    """A queue's depth on a page of metrics."""
    found = re.search(rf'^workqueue_depth\{{[^}}]*name="{name}"[^}}]*\}} (\S+)$', text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fifty_pods_deleted_at_once(seed: int) -> None:
    async def test(world: World) -> None:
        client = world.client
        for number in range(SETS):
            made = workload("ReplicaSet", PODS // SETS)
            labels = {"app": f"web-{number}"}
            made["metadata"]["name"] = f"web-{number}"
            made["spec"]["selector"]["matchLabels"] = made["spec"]["template"]["metadata"]["labels"] = labels
            await client.create("replicasets.apps", made, "default")

        async def whole() -> bool:
            pods = (await client.list("pods", "default")).items
            ready = [p for p in pods if p["status"].get("phase") == "Running" and p["metadata"]["uid"] not in first]
            sets = (await client.list("replicasets.apps", "default")).items
            return (
                len(pods) == len(ready) == PODS
                and sum(one["status"].get("readyReplicas", 0) for one in sets) == PODS
                and all(one["status"]["readyReplicas"] == PODS // SETS for one in sets)
            )

        first: set[str] = set()
        await until(whole)
        watched = Watched(world)
        first.update(p["metadata"]["uid"] for p in (await client.list("pods", "default")).items)
        assert len(first) == PODS
        await client.delete_collection("pods", "default", how=Delete(grace=0))
        await until(whole)
        sets = watched.depths["ReplicaSetController"]
        assert max(sets) >= SETS // 2 and sets[-1] == 0
        assert watched.passes["ReplicaSetController"] >= SETS
        assert watched.most == 1
        assert depth_of(world.plane._figures(), "ReplicaSetController") == 0

    run(test, nodes=5, seed=seed)
