"""The controller of disruption budgets, run from its spec, against the eviction call of the API server."""

from __future__ import annotations

import asyncio
from typing import Any

from dashpot.model.objects.status import StatusError
from tests.controller.running import until
from tests.library.workload_kit import APP, workload
from tests.plane.kit import Object, World, pod, run

CONTROLLERS = ("disruption-controller", "replicaset-controller", "deployment-controller")


def budget(**spec: Any) -> Object:
    """A budget for the pods with the label app=web."""
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": APP}, **spec}}


async def status(at: World) -> Object:
    """The status of the budget."""
    found: Object = (await at.client.get("poddisruptionbudgets.policy", "web", "default"))["status"]
    return found


async def becomes(at: World, allowed: int, current: int, desired: int, expected: int, seconds: float = 60.0) -> None:
    """Waits until the budget says so, of its present generation."""

    async def so() -> bool:
        found = await at.client.get("poddisruptionbudgets.policy", "web", "default")
        said = found["status"]
        names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        seen = said.get("observedGeneration") == found["metadata"]["generation"]
        return seen and [said.get(name) for name in names] == [allowed, current, desired, expected]

    await until(so, seconds)


async def evict(at: World, name: str) -> int:
    """Asks to evict a pod; the status code."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    try:
        await at.client.create("pods", body, "default", subresource="eviction")
    except StatusError as error:
        return error.code
    return 201


async def names(at: World) -> list[str]:
    """The pods that are not going."""
    found = (await at.client.list("pods", "default")).items
    return sorted(p["metadata"]["name"] for p in found if not p["metadata"].get("deletionTimestamp"))


async def condition(at: World) -> tuple[str, str]:
    """Status and reason of the condition DisruptionAllowed."""
    (row,) = (await status(at))["conditions"]
    return row["status"], row["reason"]


def test_evictions_wait_until_others_have_taken_over() -> None:
    async def test(at: World) -> None:
        await at.client.create("deployments.apps", workload("Deployment", 3), "default")
        await at.client.create("poddisruptionbudgets.policy", budget(minAvailable=2), "default")
        await becomes(at, 1, 3, 2, 3)
        assert await condition(at) == ("True", "SufficientPods")
        first, second, _ = await names(at)
        assert await evict(at, first) == 201
        assert await evict(at, second) == 429
        assert list((await status(at))["disruptedPods"]) == [first]
        await becomes(at, 1, 3, 2, 3)  # the deployment has made another one
        assert not (await status(at)).get("disruptedPods")
        assert await evict(at, second) == 201

    run(test, controllers=CONTROLLERS)


def test_a_drain_of_a_node_never_takes_more_than_the_budget_allows() -> None:
    async def test(at: World) -> None:
        service = {"metadata": {"name": "web"}, "spec": {"selector": APP, "ports": [{"port": 80}]}}
        slow = {"metadata": {"labels": APP, "annotations": {"fake.dashpot.dev/ready-after": "5s"}}}
        made = workload("Deployment", 6)
        made["spec"]["template"] |= slow
        await at.client.create("services", service, "default")
        await at.client.create("deployments.apps", made, "default")
        await at.client.create("poddisruptionbudgets.policy", budget(maxUnavailable=1), "default")
        await becomes(at, 1, 6, 5, 6)
        pods = (await at.client.list("pods", "default")).items
        places = [p["spec"]["nodeName"] for p in pods]
        node = max(places, key=places.count)
        on_it = {p["metadata"]["name"] for p in pods if p["spec"]["nodeName"] == node}
        await at.client.patch("nodes", node, {"spec": {"unschedulable": True}})
        refused = 0

        async def drained() -> bool:
            nonlocal refused
            left = on_it & set(await names(at))
            for name in sorted(left):
                refused += await evict(at, name) == 429
            rows = [
                row
                for one in (await at.client.list("endpointslices.discovery.k8s.io", "default")).items
                for row in one["endpoints"]
                if (row.get("targetRef") or {}).get("kind") == "Pod" and row["conditions"]["ready"]
            ]
            assert len(rows) >= 5
            return not left

        await until(drained)
        assert len(on_it) >= 2 and refused > 0
        await becomes(at, 1, 6, 5, 6)
        assert all(p["spec"]["nodeName"] != node for p in (await at.client.list("pods", "default")).items)

    run(test, controllers=(*CONTROLLERS, "endpointslice-controller"))


def test_percentages_are_of_what_the_owner_is_to_have() -> None:
    async def test(at: World) -> None:
        await at.client.create("deployments.apps", workload("Deployment", 5), "default")
        await at.client.create("poddisruptionbudgets.policy", budget(maxUnavailable="30%"), "default")
        await becomes(at, 2, 5, 3, 5)
        change = {"spec": {"maxUnavailable": None, "minAvailable": "70%"}}
        await at.client.patch("poddisruptionbudgets.policy", "web", change, "default")
        await becomes(at, 1, 5, 4, 5)
        await at.client.patch("deployments.apps", "web", {"spec": {"replicas": 10}}, "default")
        await becomes(at, 3, 10, 7, 10)
        await at.client.patch("poddisruptionbudgets.policy", "web", {"spec": {"minAvailable": 10}}, "default")
        await becomes(at, 0, 10, 10, 10)
        assert await condition(at) == ("False", "InsufficientPods")

    run(test, controllers=CONTROLLERS)


def test_nothing_matches_and_nobody_owns() -> None:
    async def test(at: World) -> None:
        await at.client.create("poddisruptionbudgets.policy", budget(minAvailable=0), "default")
        await becomes(at, 0, 0, 0, 0)  # safe until the first pods are counted
        assert await at.events("NoPods") == ["No matching pods found"]
        one = pod("bare")
        one["metadata"]["labels"] = dict(APP)
        await at.make(one)
        await becomes(at, 1, 1, 0, 1)
        change = {"spec": {"minAvailable": None, "maxUnavailable": 1}}
        await at.client.patch("poddisruptionbudgets.policy", "web", change, "default")
        await becomes(at, 0, 1, 0, 0)
        (text,) = await at.events("UnmanagedPods")
        assert "(selector: app=web)" in text

        owner = {"apiVersion": "example.com/v1", "kind": "Site", "name": "x", "uid": "u", "controller": True}
        await at.client.patch("pods", "bare", {"metadata": {"ownerReferences": [owner]}}, "default")

        async def failed() -> bool:
            return await condition(at) == ("False", "SyncFailed")

        await until(failed)
        (row,) = (await status(at))["conditions"]
        assert row["message"] == 'found no controllers for pod "bare"'
        assert await at.events("CalculateExpectedPodCountFailed")
        assert await evict(at, "bare") == 429

    run(test, controllers=CONTROLLERS)


def test_an_evicted_pod_that_stays_counts_again_after_two_minutes() -> None:
    async def test(at: World) -> None:
        for name in ("a", "b"):
            one = pod(name)
            one["metadata"]["labels"] = dict(APP)
            await at.make(one)
        await at.client.create("poddisruptionbudgets.policy", budget(minAvailable=1), "default")
        await becomes(at, 1, 2, 1, 2)
        # An API server that went away between the two steps of an eviction: noted, not deleted.
        now = (await at.pod("a"))["metadata"]["creationTimestamp"]
        change = {"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": now}}}
        await at.client.patch("poddisruptionbudgets.policy", "web", change, "default", subresource="status")
        await becomes(at, 0, 1, 1, 2)
        await asyncio.sleep(100)
        assert await evict(at, "b") == 429
        await becomes(at, 1, 2, 1, 2, 30)
        assert await at.events("NotDeleted") == ["Pod was expected by PDB default/web to be deleted but it wasn't"]

    run(test, controllers=CONTROLLERS)


def test_owners_of_other_kinds_are_asked_for_their_scale() -> None:
    async def test(at: World) -> None:
        await at.client.create("customresourcedefinitions.apiextensions.k8s.io", definition())

        async def served() -> bool:
            try:
                await at.client.create(
                    "sites.example.com", {"metadata": {"name": "web"}, "spec": {"size": 4}}, "default"
                )
            except (StatusError, LookupError):
                return False
            return True

        await until(served)
        made = await at.client.get("sites.example.com", "web", "default")
        one, owner = pod("a"), {"apiVersion": "example.com/v1", "kind": "Site", "name": "web", "controller": True}
        one["metadata"] |= {"labels": dict(APP), "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}]}
        await at.make(one)
        await at.client.create("poddisruptionbudgets.policy", budget(maxUnavailable="50%"), "default")
        await becomes(at, 0, 1, 2, 4)
        await at.client.patch("sites.example.com", "web", {"spec": {"size": 2}}, "default")
        await at.client.patch("pods", "a", {"metadata": {"labels": {"seen": "again"}}}, "default")
        await becomes(at, 0, 1, 1, 2)

    run(test, controllers=CONTROLLERS)


def definition() -> Object:
    """A kind with a scale subresource."""
    size = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": size, "status": size}}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    }
    names = {"plural": "sites", "singular": "site", "kind": "Site", "listKind": "SiteList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "sites.example.com"}, "spec": spec}
