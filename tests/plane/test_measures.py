"""The metrics APIs of a plane: what clients and autoscalers ask of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import User
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from tests.controller.running import until
from tests.plane.kit import World, pod, run

Object = dict[str, Any]
ONE = ["replicaset-controller"]
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
METRICS = "/apis/metrics.k8s.io/v1beta1"


async def names(client: Client, path: str, **query: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await client.call("GET", path, query=query))["items"]]


async def refused(client: Client, method: str, path: str) -> str:
    with pytest.raises(StatusError) as caught:
        await client.call(method, path)
    return caught.value.reason


def test_pods_use_what_they_say_or_ask_for() -> None:
    async def test(world: World) -> None:
        asking = {"resources": {"requests": {"cpu": "200m", "memory": "64Mi"}}}
        await world.make(
            pod("told", {"cpu": "250m", "memory": "10Mi"}),
            pod("asks", container=asking),
            pod("late", {"start-after": "1h"}),
        )
        await world.phase("told", "Running")
        await world.phase("asks", "Running")
        found = await world.client.call("GET", f"{METRICS}/namespaces/default/pods")
        assert (found["kind"], found["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
        used = {one["metadata"]["name"]: one["containers"] for one in found["items"]}
        assert used == {
            "told": [{"name": "c", "usage": {"cpu": "250000000n", "memory": "10485760"}}],
            "asks": [{"name": "c", "usage": {"cpu": "200000000n", "memory": "67108864"}}],
        }
        assert {one["window"] for one in found["items"]} == {"10s"}
        node = await world.client.call("GET", f"{METRICS}/nodes/node-0")
        assert node["usage"] == {"cpu": "470m", "memory": "202Mi"} and node["kind"] == "NodeMetrics"
        assert await refused(world.client, "GET", f"{METRICS}/namespaces/default/pods/late") == "NotFound"
        assert await refused(world.client, "GET", f"{METRICS}/nodes/node-9") == "NotFound"

    run(test, nodes=1, controllers=ONE)


def test_pods_are_chosen_by_label_name_and_namespace() -> None:
    async def test(world: World) -> None:
        for at in range(3):
            made = pod(f"p{at}")
            made["metadata"]["labels"] = {"app": "web" if at else "db"}
            await world.make(made)
            await world.phase(f"p{at}", "Running")
        client, path = world.client, f"{METRICS}/namespaces/default/pods"
        assert await names(client, path, labelSelector="app=web") == ["p1", "p2"]
        assert await names(client, path, fieldSelector="metadata.name=p1") == ["p1"]
        assert await names(client, f"{METRICS}/pods") == ["p0", "p1", "p2"]
        assert await names(client, f"{METRICS}/namespaces/other/pods") == []
        assert await names(client, f"{METRICS}/nodes", labelSelector="kubernetes.io/hostname=node-0") == ["node-0"]
        assert await refused(client, "GET", f"{path}?labelSelector=a+in+(") == "BadRequest"

    run(test, nodes=1, controllers=ONE)


def test_custom_and_external_metrics() -> None:
    async def test(world: World) -> None:
        made = pod("p0")
        made["metadata"]["annotations"]["metric.fake.dashpot.dev/rate"] = "2500m"
        made["metadata"]["labels"] = {"app": "web"}
        await world.make(made, pod("p1"))
        await world.phase("p1", "Running")
        client, space = world.client, f"{CUSTOM}/namespaces/default"
        found = await client.call("GET", f"{space}/pods/*/rate")
        assert found["kind"] == "MetricValueList"
        (value,) = found["items"]
        assert value["describedObject"] == {"kind": "Pod", "namespace": "default", "name": "p0", "apiVersion": "v1"}
        assert (value["value"], value["metric"]) == ("2500m", {"name": "rate"})
        assert (await client.call("GET", f"{space}/pods/*/rate", query={"labelSelector": "app=x"}))["items"] == []
        assert (await client.call("GET", f"{space}/pods/p0/rate"))["items"][0]["value"] == "2500m"
        assert await refused(client, "GET", f"{space}/pods/p1/rate") == "NotFound"
        assert await refused(client, "GET", f"{space}/moons/m/rate") == "NotFound"
        change = {"metadata": {"annotations": {"metric.fake.dashpot.dev/load": "7"}}}
        await client.patch("namespaces", "default", change)
        await asyncio.sleep(1)
        assert (await client.call("GET", f"{space}/metrics/load"))["items"][0]["value"] == "7"
        await client.patch("nodes", "node-0", change)
        await asyncio.sleep(1)
        assert (await client.call("GET", f"{CUSTOM}/nodes/node-0/load"))["items"][0]["value"] == "7"
        told = {"metadata": {"name": "fake-external-metrics"}, "data": {"queue": "12"}}
        await client.create("configmaps", told, "default")
        await asyncio.sleep(1)
        path = f"{EXTERNAL}/namespaces/default/queue"
        assert [one["value"] for one in (await client.call("GET", path))["items"]] == ["12"]
        assert (await client.call("GET", path, query={"labelSelector": "a=b"}))["items"] == []
        assert await refused(client, "GET", f"{EXTERNAL}/namespaces/default/nosuch") == "NotFound"

    run(test, nodes=1, controllers=ONE)


def test_the_groups_are_found_and_guarded() -> None:
    async def test(world: World) -> None:
        groups = {one["name"]: one for one in (await world.client.call("GET", "/apis"))["groups"]}
        for name, version in (("metrics", "v1beta1"), ("custom.metrics", "v1beta2"), ("external.metrics", "v1beta1")):
            assert groups[f"{name}.k8s.io"]["preferredVersion"]["version"] == version
        rows = (await world.client.call("GET", METRICS))["resources"]
        assert [(r["name"], r["kind"], r["namespaced"], r["verbs"]) for r in rows] == [
            ("nodes", "NodeMetrics", False, ["get", "list"]),
            ("pods", "PodMetrics", True, ["get", "list"]),
        ]
        for method, path in (("DELETE", f"{METRICS}/nodes/node-0"), ("POST", f"{METRICS}/namespaces/default/pods")):
            assert await refused(world.client, method, path) == "MethodNotAllowed"
        for path in (METRICS.replace("v1beta1", "v1") + "/nodes", CUSTOM.replace("v1beta2", "v1beta1") + "/nodes/*/m"):
            assert await refused(world.client, "GET", path) == "NotFound"
        nobody = Client(InProcess(world.plane.server.local, User("nobody", ("system:authenticated",))))
        for path in (f"{METRICS}/nodes", f"{CUSTOM}/nodes/*/m", f"{EXTERNAL}/namespaces/default/q"):
            assert await refused(nobody, "GET", path) == "Forbidden"
        rule = {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]}
        await world.client.create("clusterroles", {"metadata": {"name": "m"}, "rules": [rule]})
        binding = {
            "metadata": {"name": "m"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
        }
        await world.client.create("clusterrolebindings", binding)

        async def allowed() -> bool:
            try:
                return await names(nobody, f"{METRICS}/pods") == []
            except StatusError:
                return False

        await until(allowed)
        assert await refused(nobody, "GET", f"{METRICS}/namespaces/default/pods/x") == "Forbidden"

    run(test, nodes=1, controllers=ONE)
