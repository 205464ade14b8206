"""HorizontalPodAutoscalers, run from their spec on a plane whose pods say what they use."""

from __future__ import annotations

import asyncio
from typing import Any

from attrs import define

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.discovery import NoMatch
from dashpot.runtime.controller.calls import Answer, ApiError, Caller
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.plane.plane import Plane
from tests.controller.running import until
from tests.library.autoscaler_kit import CPU, HPAS, WORKLOADS, Scaled, autoscaler, deployment
from tests.plane.kit import World, run

Object = dict[str, Any]
ACTORS = [*WORKLOADS, "horizontal-pod-autoscaler-controller"]


def average(name: str, value: str) -> Object:
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def external(**target: str) -> Object:
    kind = "AverageValue" if "averageValue" in target else "Value"
    return {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": kind, **target}}}


async def queue(at: Scaled, value: str) -> None:
    found = {"metadata": {"name": "fake-external-metrics"}, "data": {"queue": value}}
    await at.client.apply("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **found}, "default", manager="test")


def test_it_grows_with_the_load_and_shrinks_after_the_window() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(2, cpu="50m"), autoscaler(1, 10, CPU))
        await at.stays(2, 400)
        hpa = await at.hpa()
        assert hpa["status"]["currentReplicas"] == 2 == hpa["status"]["desiredReplicas"]
        assert hpa["status"]["currentMetrics"] == [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": 50, "averageValue": "50m"}},
            }
        ]
        told = {c["type"]: (c["status"], c["reason"], c["message"]) for c in hpa["status"]["conditions"]}
        assert told == {
            "AbleToScale": ("True", "ReadyForNewScale", "recommended size matches current size"),
            "ScalingActive": (
                "True",
                "ValidMetricFound",
                "the HPA was able to successfully calculate a replica count from cpu resource utilization "
                "(percentage of request)",
            ),
            "ScalingLimited": ("False", "DesiredWithinRange", "the desired count is within the acceptable range"),
        }
        await at.use(cpu="100m")
        await at.becomes(4, 20)
        assert await world.events("SuccessfulRescale") == [
            "New size: 4; reason: cpu resource utilization (percentage of request) above target"
        ]
        assert (await at.hpa())["status"]["lastScaleTime"]
        await until(lambda: at.ready(4))
        await at.use(cpu="10m")
        await at.stays(4, 280)
        assert (await at.condition("AbleToScale"))["reason"] == "ScaleDownStabilized"
        await at.becomes(1, 40)
        assert "New size: 1; reason: All metrics below target" in await world.events("SuccessfulRescale")

    run(test, nodes=2, controllers=ACTORS)


def test_what_changes_nothing_is_not_written() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(2, cpu="50m"), autoscaler(1, 10, CPU))
        await asyncio.sleep(30)
        before = (await at.hpa())["metadata"]["resourceVersion"]
        await asyncio.sleep(120)
        assert (await at.hpa())["metadata"]["resourceVersion"] == before

    run(test, nodes=1, controllers=ACTORS)


def test_limits() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(1, cpu="400m"), autoscaler(2, 3, CPU))
        await at.becomes(2, 20)
        assert await world.events("SuccessfulRescale") == [
            "New size: 2; reason: Current number of replicas below Spec.MinReplicas"
        ]
        await at.becomes(3, 400)
        await asyncio.sleep(20)
        found = await at.condition("ScalingLimited")
        assert (found["status"], found["reason"]) == ("True", "TooManyReplicas")
        assert found["message"] == "the desired replica count is more than the maximum replica count"
        await at.client.patch("deployments.apps", "web", {"spec": {"replicas": 5}}, "default")
        await at.becomes(3, 20)
        reasons = await world.events("SuccessfulRescale")
        assert "New size: 3; reason: Current number of replicas above Spec.MaxReplicas" in reasons
        await at.use(cpu="1m")
        await at.becomes(2, 400)
        found = await at.condition("ScalingLimited")
        assert (found["status"], found["reason"]) == ("True", "TooFewReplicas")

    run(test, nodes=2, controllers=ACTORS)


def test_no_more_than_twice_as_many_at_once() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(3, cpu="50m"))
        await asyncio.sleep(310)
        await at.use(cpu="500m")
        await at.client.create(HPAS, autoscaler(1, 100, CPU), "default")
        await at.becomes(6, 20)
        assert (await at.condition("ScalingLimited"))["reason"] == "ScaleUpLimit"
        await at.becomes(12, 400)

    run(test, nodes=3, controllers=ACTORS)


def test_what_cannot_be_measured_is_told() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(2, request=""), autoscaler(1, 5, CPU))
        await asyncio.sleep(320)
        pods = sorted(p["metadata"]["name"] for p in (await at.client.list("pods", "default")).items)
        found = await at.condition("ScalingActive")
        assert (found["status"], found["reason"]) == ("False", "FailedGetResourceMetric")
        front = "the HPA was unable to compute the replica count: "
        texts = {f"failed to get cpu utilization: missing request for cpu in container c of Pod {p}" for p in pods}
        assert found["message"].removeprefix(front) in texts and found["message"].startswith(front)
        assert set(await world.events("FailedGetResourceMetric")) & texts
        told = await world.events("FailedComputeMetricsReplicas")
        begins = (
            "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to "
        )
        assert any(text.startswith(begins) for text in told)
        assert (await at.hpa())["status"]["currentReplicas"] == 2

    run(test, nodes=1, controllers=ACTORS)


def test_one_metric_that_tells_nothing_keeps_pods_but_lets_them_grow() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await queue(at, "1")
        await at.make(deployment(3, cpu="50m"), autoscaler(1, 8, average("nosuch", "1"), external(averageValue="1")))
        await at.stays(3, 400)
        found = await at.condition("ScalingActive")
        assert found["reason"] == "FailedGetPodsMetric"
        assert found["message"].endswith("unable to get metric nosuch: no metrics returned from custom metrics API")
        await queue(at, "5")
        await at.becomes(5, 20)
        found = await at.condition("ScalingActive")
        assert found["message"].endswith("successfully calculate a replica count from external metric queue(nil)")

    run(test, nodes=1, controllers=ACTORS)


def test_metrics_of_pods_of_an_object_and_of_a_container() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        service = {"metadata": {"name": "front", "annotations": {"metric.fake.dashpot.dev/hits": "900"}}}
        await at.client.create("services", {**service, "spec": {"ports": [{"port": 80}]}}, "default")
        hits = {
            "type": "Object",
            "object": {
                "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
                "metric": {"name": "hits"},
                "target": {"type": "Value", "value": "300"},
            },
        }
        inner = {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "container": "c",
                "target": {"type": "Utilization", "averageUtilization": 100},
            },
        }
        work = deployment(2, cpu="100m")
        work["spec"]["template"]["metadata"]["annotations"]["metric.fake.dashpot.dev/rate"] = "10"
        await at.make(work)
        await asyncio.sleep(310)
        await at.client.create(HPAS, autoscaler(1, 20, average("rate", "5"), hits, inner), "default")
        await at.becomes(4, 20)
        status = (await at.hpa())["status"]
        assert status["currentMetrics"] == [
            {"type": "Pods", "pods": {"metric": {"name": "rate"}, "current": {"averageValue": "10"}}},
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "hits"},
                    "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
                    "current": {"value": "900"},
                },
            },
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "cpu",
                    "container": "c",
                    "current": {"averageUtilization": 100, "averageValue": "100m"},
                },
            },
        ]
        # twice 10 against 5 asks for 4, three times the hits for 6
        assert await world.events("SuccessfulRescale") == ["New size: 4; reason: Service metric hits above target"]
        await at.becomes(8, 60)

    run(test, nodes=2, controllers=ACTORS)


def test_policies_of_behavior() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        behavior = {
            "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
            "scaleDown": {
                "stabilizationWindowSeconds": 0,
                "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}],
            },
        }
        await queue(at, "4")
        await at.make(deployment(1), autoscaler(1, 8, external(averageValue="1"), behavior=behavior))
        await at.becomes(2, 20)
        assert (await at.condition("ScalingLimited"))["reason"] == "ScaleUpLimit"
        await at.stays(2, 50)
        await at.becomes(3, 30)
        await at.stays(3, 50)
        await at.becomes(4, 30)
        await at.stays(4, 65)
        await queue(at, "1")
        await at.becomes(2, 100)
        await asyncio.sleep(2)
        assert (await at.condition("ScalingLimited"))["reason"] == "ScaleDownLimit"
        await at.stays(2, 50)
        await at.becomes(1, 30)

    run(test, nodes=1, controllers=ACTORS)


def test_scaling_down_can_be_disabled_and_scaling_up_delayed() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        behavior = {"scaleUp": {"stabilizationWindowSeconds": 120}, "scaleDown": {"selectPolicy": "Disabled"}}
        await queue(at, "2")
        await at.make(deployment(2), autoscaler(1, 8, external(averageValue="1"), behavior=behavior))
        await asyncio.sleep(130)
        await queue(at, "6")
        await at.stays(2, 100)
        assert (await at.condition("AbleToScale"))["reason"] == "ScaleUpStabilized"
        await at.becomes(6, 60)
        await queue(at, "1")
        await at.stays(6, 700)
        assert (await at.condition("ScalingLimited"))["reason"] == "ScaleDownLimit"

    run(test, nodes=1, controllers=ACTORS)


def test_targets_that_are_not_there_or_asleep() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.client.create(HPAS, autoscaler(1, 5, external(averageValue="1")), "default")
        await asyncio.sleep(20)
        found = await at.condition("AbleToScale")
        text = 'the HPA controller was unable to get the target\'s current scale: deployments.apps "web" not found'
        assert (found["status"], found["reason"], found["message"]) == ("False", "FailedGetScale", text)
        assert await world.events("FailedGetScale") == ['deployments.apps "web" not found']
        await queue(at, "3")
        await at.client.create("deployments.apps", deployment(1), "default")
        await at.becomes(3, 30)
        await at.client.patch("deployments.apps", "web", {"spec": {"replicas": 0}}, "default")
        await asyncio.sleep(20)
        found = await at.condition("ScalingActive")
        assert (found["status"], found["reason"]) == ("False", "ScalingDisabled")
        await at.stays(0, 60)

    run(test, nodes=1, controllers=ACTORS)


def test_a_target_of_a_kind_that_was_defined() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    parts = {
        "specReplicasPath": ".spec.count",
        "statusReplicasPath": ".status.count",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": schema}}},
        "subresources": {"status": {}, "scale": parts},
    }
    crd = {
        "metadata": {"name": "fleets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"},
            "versions": [version],
        },
    }

    async def test(world: World) -> None:
        at = Scaled(world)
        client = at.client
        await queue(at, "3")
        await client.create("customresourcedefinitions", crd)

        async def made() -> bool:
            try:
                await client.discovery.resources(fresh=True)
                await client.create("fleets.example.com", {
                    "apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"count": 1}
                }, "default")  # fmt: skip
            except (StatusError, NoMatch):
                return False
            return True

        await until(made)
        status = {"status": {"count": 1, "selector": "app=fleet"}}
        await client.patch("fleets.example.com", "f", status, "default", subresource="status")
        hpa = autoscaler(1, 8, external(averageValue="1"))
        hpa["spec"]["scaleTargetRef"] = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f"}
        await client.create(HPAS, hpa, "default")

        async def scaled() -> bool:
            found = await client.get("fleets.example.com", "f", "default")
            return bool(found["spec"]["count"] == 3)

        await until(scaled, 60)

    run(test, nodes=1, controllers=ACTORS)


def test_two_autoscalers_of_the_same_pods_do_nothing() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await queue(at, "2")
        await at.make(deployment(2), autoscaler(1, 8, external(averageValue="1")))
        await at.client.create(HPAS, autoscaler(1, 8, external(averageValue="1"), name="other"), "default")
        await asyncio.sleep(40)
        await queue(at, "5")
        await at.stays(2, 60)
        found = await at.condition("ScalingActive")
        text = "pods by selector app=web are controlled by multiple HPAs: [default/other default/web]"
        assert (found["reason"], found["message"]) == ("AmbiguousSelector", text)
        await at.client.delete(HPAS, "other", "default")
        await at.becomes(5, 40)

    run(test, nodes=1, controllers=ACTORS)


def test_a_plane_that_was_replaced_takes_its_time_to_shrink() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await queue(at, "4")
        await at.make(deployment(4), autoscaler(1, 8, external(averageValue="1")))
        await asyncio.sleep(310)
        await queue(at, "1")
        await asyncio.sleep(200)
        await world.plane.stop()
        second = Plane(world.plane.server, nodes=1, controllers=ACTORS, complain=world.complaints.append)
        await second.start()
        try:
            await at.stays(4, 290)
            await at.becomes(1, 60)
        finally:
            await second.stop()

    run(test, nodes=1, controllers=ACTORS)


@define(eq=False)
class Refusing:
    """A caller whose first change of a size is refused."""

    inner: Caller
    told: list[str]

    async def perform(self, request: ApiRequest) -> Answer:
        if request.kind == "Scale" and request.writes and not self.told:
            self.told.append(request.name)
            raise ApiError("Conflict", StatusError("Conflict", "the object has been modified"))
        return await self.inner.perform(request)

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        self.inner.note(about, kind, reason, message)


def test_a_size_that_cannot_be_set_is_told_and_tried_again() -> None:
    told: list[str] = []

    async def test(world: World) -> None:
        at = Scaled(world)
        await queue(at, "3")
        await at.make(deployment(1), autoscaler(1, 8, external(averageValue="1")))

        async def failed() -> bool:
            return (await at.condition("AbleToScale")).get("reason") == "FailedUpdateScale"

        await until(failed, 20)
        found = await at.condition("AbleToScale")
        assert found["status"] == "False"
        assert found["message"].startswith(
            "the HPA controller was unable to update the target scale: the object has been"
        )
        (text,) = await world.events("FailedRescale")
        assert text.startswith(
            "New size: 3; reason: external metric queue(nil) above target; error: the object has been"
        )
        await at.becomes(3, 20)
        assert (await at.condition("AbleToScale"))["status"] == "True" and told == ["web"]

    run(test, nodes=1, controllers=ACTORS, wrap=lambda actor, key, caller: Refusing(caller, told))


def test_what_the_server_says_of_a_metric_is_told() -> None:
    async def test(world: World) -> None:
        at = Scaled(world)
        await at.make(deployment(1), autoscaler(1, 8, external(value="1")))
        await asyncio.sleep(5)
        assert await world.events("FailedGetExternalMetric") == [
            "failed to get external metric queue: unable to get external metric default/queue/nil: unable to fetch "
            "metrics from external metrics API: the server could not find the external metric queue"
        ]

    run(test, nodes=1, controllers=ACTORS)
