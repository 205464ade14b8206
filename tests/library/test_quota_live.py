"""The controller of quotas, run from its spec, beside the admission that charges them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from dashpot.model.objects.status import StatusError
from tests.controller.running import until
from tests.library.workload_kit import workload
from tests.plane.kit import Object, World, pod, run

CONTROLLERS = ("resourcequota-controller", "replicaset-controller", "deployment-controller")
HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}


def quota(hard: Mapping[str, str], **spec: Any) -> Object:
    """A quota named `team`."""
    return {"metadata": {"name": "team"}, "spec": {"hard": dict(hard), **spec}}


async def becomes(at: World, wanted: Mapping[str, str], seconds: float = 30.0) -> None:
    """Waits until the quota says that so much is used, and of which limits."""

    async def so() -> bool:
        found = await at.client.get("resourcequotas", "team", "default")
        status = found.get("status") or {}
        return status.get("used") == dict(wanted) and status.get("hard") == found["spec"]["hard"]

    await until(so, seconds)


def sized(name: str, cpu: str = "100m", limit: str = "1", **spec: Any) -> Object:
    """A pod that asks for processor time."""
    return pod(name, container={"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": limit}}}, **spec)


def test_the_count_follows_what_comes_ends_and_goes() -> None:
    async def test(at: World) -> None:
        await at.make(sized("early"))
        hard = {"pods": "3", "requests.cpu": "1", "limits.cpu": "10", "count/pods": "9"}
        await at.client.create("resourcequotas", quota(hard), "default")
        await becomes(at, {"pods": "1", "requests.cpu": "100m", "limits.cpu": "1", "count/pods": "1"})
        await at.make(sized("a", "200m"), sized("b", restartPolicy="Never"))
        with pytest.raises(StatusError, match="exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3"):
            await at.make(sized("c"))
        # b ends by itself: it is still an object, but uses nothing.
        await becomes(at, {"pods": "2", "requests.cpu": "300m", "limits.cpu": "2", "count/pods": "3"})
        await at.client.delete("pods", "a", "default")
        await becomes(at, {"pods": "1", "requests.cpu": "100m", "limits.cpu": "1", "count/pods": "2"})
        await at.client.patch(
            "resourcequotas", "team", {"spec": {"hard": {"pods": None, "count/pods": None}}}, "default"
        )
        await becomes(at, {"requests.cpu": "100m", "limits.cpu": "1"})

    run(test, controllers=CONTROLLERS)


def test_all_kinds_are_counted() -> None:
    async def test(at: World) -> None:
        gold = "gold.storageclass.storage.k8s.io/requests.storage"
        counts = (
            "count/deployments.apps", "count/replicasets.apps", "count/jobs.batch", "count/configmaps", "configmaps",
            "secrets", "services", "services.nodeports", "services.loadbalancers", "persistentvolumeclaims",
            "resourcequotas",
        )  # fmt: skip
        hard = dict.fromkeys(counts, "20") | {"requests.storage": "10Gi", gold: "10Gi"}
        await at.client.create("configmaps", {"metadata": {"name": "early"}}, "default")
        await at.client.create("resourcequotas", quota(hard), "default")
        # The service is that of the API.
        there = dict.fromkeys(("configmaps", "count/configmaps", "resourcequotas", "services"), "1")
        empty = dict.fromkeys(hard, "0") | there
        await becomes(at, empty)
        await at.client.create("deployments.apps", workload("Deployment", 2), "default")
        ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
        await at.client.create(
            "services", {"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": ports}}, "default"
        )
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gold",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await at.client.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": claim}, "default")
        await at.client.delete("configmaps", "early", "default")
        full = empty | {
            "count/deployments.apps": "1",
            "count/replicasets.apps": "1",
            "configmaps": "0",
            "count/configmaps": "0",
            "services": "2",
            "services.nodeports": "2",
            "persistentvolumeclaims": "1",
            "requests.storage": "1Gi",
            gold: "1Gi",
        }
        await becomes(at, full)
        await at.client.patch("services", "web", {"spec": {"type": "ClusterIP"}}, "default")
        await becomes(at, full | {"services.nodeports": "0"})

    run(test, controllers=CONTROLLERS)


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ({"scopes": ["Terminating"]}, {"job"}),
        ({"scopes": ["NotTerminating", "BestEffort"]}, {"bare"}),
        ({"scopes": ["NotBestEffort"]}, {"sized", "job"}),
        ({"scopeSelector": {"matchExpressions": [HIGH]}}, {"top"}),
    ],
)
def test_scopes_choose_what_is_counted(scope: Object, names: set[str]) -> None:
    async def test(at: World) -> None:
        high = {"metadata": {"name": "high"}, "value": 1000}
        await at.client.create("priorityclasses.scheduling.k8s.io", high)
        await at.client.create("resourcequotas", quota({"pods": "10"}, **scope), "default")
        await becomes(at, {"pods": "0"})
        bare = pod("top", priorityClassName="high")
        await at.make(pod("bare"), sized("sized"), sized("job", activeDeadlineSeconds=3600))
        if names == {"top"}:
            await at.make(bare)
        await becomes(at, {"pods": str(len(names))})

    run(test, controllers=CONTROLLERS)


def test_a_burst_is_counted_once_and_all_again_every_five_minutes() -> None:
    async def test(at: World) -> None:
        await at.client.create("resourcequotas", quota({"configmaps": "100"}), "default")
        await becomes(at, {"configmaps": "0"})
        running = at.plane.managers["kubernetes.quota"].instances["QuotaController"]
        await asyncio.sleep(5)
        before = running.passes
        for number in range(50):
            await at.client.create("configmaps", {"metadata": {"name": f"c{number}"}}, "default")
        await asyncio.sleep(5)
        assert running.passes - before <= 4
        wrong = {"status": {"used": {"configmaps": "99"}}}
        await at.client.patch("resourcequotas", "team", wrong, "default", subresource="status")
        await asyncio.sleep(200)
        assert (await at.client.get("resourcequotas", "team", "default"))["status"]["used"] == {"configmaps": "99"}
        await becomes(at, {"configmaps": "50"}, 120)

    run(test, controllers=CONTROLLERS)


def test_a_cache_that_lags_takes_no_charges_back() -> None:
    async def test(at: World) -> None:
        await at.client.create("resourcequotas", quota({"configmaps": "20"}), "default")
        await becomes(at, {"configmaps": "0"})
        await asyncio.sleep(5)
        site = at.plane.managers["kubernetes.quota"].site
        assert site is not None
        site.caches.hold("Object")
        for number in range(20):
            await at.client.create("configmaps", {"metadata": {"name": f"c{number}"}}, "default")
        await asyncio.sleep(1)  # the controller knows the quota as it is, and of the objects none
        shown = site.caches.of("QuotaController", "Object")
        while not any(one.name == "c0" for one in shown.all("default")):
            assert site.caches.release("Object", count=1) == 1
        assert not any(one.name == "c19" for one in shown.all("default"))
        await asyncio.sleep(5)
        with pytest.raises(StatusError, match="exceeded quota"):
            await at.client.create("configmaps", {"metadata": {"name": "more"}}, "default")
        site.caches.release("Object")
        await at.client.delete("configmaps", "c1", "default")
        await becomes(at, {"configmaps": "19"})

    run(test, controllers=CONTROLLERS)


def test_what_was_made_before_the_first_count_was_seen_is_counted_soon() -> None:
    async def test(at: World) -> None:
        site = at.plane.managers["kubernetes.quota"].site
        assert site is not None
        site.caches.hold("Object")
        for number in range(5):
            await at.client.create("configmaps", {"metadata": {"name": f"c{number}"}}, "default")
        await at.client.create("resourcequotas", quota({"configmaps": "20"}), "default")
        await becomes(at, {"configmaps": "0"})
        site.caches.release("Object")
        await becomes(at, {"configmaps": "5"}, 5)

    run(test, controllers=CONTROLLERS)
