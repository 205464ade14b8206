"""The controllers of endpoints, run from their spec on a plane with simulated nodes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import pytest

from dashpot.model.objects.status import StatusError
from dashpot.runtime.fleet.nodes import Shape
from tests.controller.running import until
from tests.library.workload_kit import workload
from tests.plane.kit import Object, World, pod, run

APP = {"app": "web"}
CONTROLLERS = ("endpoints-controller", "endpointslice-controller", "replicaset-controller", "deployment-controller")
NAME, MANAGED = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"


def service(name: str = "web", ports: Sequence[Object] = ({"port": 80, "targetPort": 8080},), **spec: Any) -> Object:
    """A service of the pods with the label app=web."""
    return {
        "metadata": {"name": name, "labels": {"team": "a"}},
        "spec": {"selector": APP, "ports": list(ports), **spec},
    }


def labelled(name: str, told: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """A pod with the label app=web."""
    made = pod(name, dict(told or {}), **spec)
    made["metadata"]["labels"] = dict(APP)
    return made


async def slices(at: World, name: str = "web") -> list[Object]:
    """The slices of a service, the fullest first."""
    found = (await at.client.list("endpointslices.discovery.k8s.io", "default")).items
    mine = [one for one in found if one["metadata"]["labels"].get(NAME) == name]
    return sorted(mine, key=lambda one: -len(one.get("endpoints") or ()))


async def told(at: World, name: str = "web") -> dict[str, tuple[bool, bool, bool]]:
    """Pod → ready, serving, terminating, as the slices say."""
    rows = [row for one in await slices(at, name) for row in one.get("endpoints") or ()]
    said = ((row["targetRef"]["name"], row["conditions"]) for row in rows)
    made = {name: (bool(c["ready"]), bool(c["serving"]), bool(c["terminating"])) for name, c in said}
    assert len(made) == len(rows)
    return made


async def becomes(at: World, wanted: Mapping[str, tuple[bool, bool, bool]], seconds: float = 120.0) -> None:
    """Waits until the slices say that."""

    async def so() -> bool:
        return await told(at) == dict(wanted)

    await until(so, seconds)


UP, DOWN, GOING = (True, True, False), (False, False, False), (False, True, True)


def test_pods_come_fail_and_go() -> None:
    async def test(at: World) -> None:
        await at.client.create("services", service(), "default")

        async def empty() -> bool:
            return [one.get("endpoints") for one in await slices(at)] == [[]]

        await until(empty)
        (bare,) = await slices(at)
        assert bare["metadata"]["labels"] == {"team": "a", NAME: "web", MANAGED: "endpointslice-controller.k8s.io"}
        assert bare["metadata"]["generateName"] == "web-" and bare["addressType"] == "IPv4"
        assert bare["metadata"]["ownerReferences"][0]["kind"] == "Service"

        await at.make(labelled("a"), labelled("b", {"stop-after": "5s"}))
        await becomes(at, {"a": UP, "b": UP})
        (one,) = await slices(at)
        assert one["metadata"]["name"] == bare["metadata"]["name"]  # the empty slice is filled
        assert one["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
        a = await at.pod("a")
        row = next(r for r in one["endpoints"] if r["targetRef"]["name"] == "a")
        assert row["addresses"] == [a["status"]["podIP"]] and row["nodeName"] == a["spec"]["nodeName"]
        assert row["targetRef"] == {"kind": "Pod", "namespace": "default", "name": "a", "uid": a["metadata"]["uid"]}
        assert "endpoints.kubernetes.io/last-change-trigger-time" in one["metadata"]["annotations"]

        ends = await at.client.get("endpoints", "web", "default")
        assert ends["subsets"][0]["ports"] == [{"port": 8080, "protocol": "TCP"}]
        assert ends["metadata"]["labels"] == {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}

        await at.client.delete("pods", "b", "default")
        await becomes(at, {"a": UP, "b": GOING})  # it serves until it is gone, and gets nothing new
        await becomes(at, {"a": UP})

    run(test, controllers=CONTROLLERS)


def test_only_what_is_ready_is_ready() -> None:
    async def test(at: World) -> None:
        await at.client.create("services", service(), "default")
        late, ends = {"ready-after": "20s"}, {"run-for": "5s", "exit-code": "1"}
        await at.make(labelled("a"), labelled("b", late), labelled("c", ends, restartPolicy="Never"))
        await becomes(at, {"a": UP, "b": DOWN, "c": UP}, 4)
        found = await at.client.get("endpoints", "web", "default")
        assert [len(found["subsets"][0][k]) for k in ("addresses", "notReadyAddresses")] == [2, 1]
        await becomes(at, {"a": UP, "b": DOWN}, 10)
        await becomes(at, {"a": UP, "b": UP}, 20)
        stamp = (await slices(at))[0]["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"]
        ready = next(c for c in (await at.pod("b"))["status"]["conditions"] if c["type"] == "Ready")
        assert stamp == ready["lastTransitionTime"]

    run(test, controllers=CONTROLLERS)


def test_unready_addresses_are_published_where_the_service_says_so() -> None:
    async def test(at: World) -> None:
        await at.client.create("services", service(publishNotReadyAddresses=True, clusterIP="None"), "default")
        await at.make(labelled("a", {"ready-after": "never"}, hostname="a", subdomain="web"))
        await becomes(at, {"a": (True, False, False)})
        (one,) = await slices(at)
        assert one["endpoints"][0]["hostname"] == "a"
        assert one["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
        found = await at.client.get("endpoints", "web", "default")
        assert found["subsets"][0]["addresses"][0]["hostname"] == "a"
        assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""

    run(test, controllers=CONTROLLERS)


def test_a_service_that_goes_takes_its_endpoints_along() -> None:
    async def test(at: World) -> None:
        await at.client.create("services", service(), "default")
        await at.make(labelled("a"))
        await becomes(at, {"a": UP})
        await at.client.patch("services", "web", {"spec": {"selector": {"app": "other"}}}, "default")
        await becomes(at, {})
        await at.client.delete("services", "web", "default")

        async def gone() -> bool:
            return not (await at.client.list("endpoints", "default", fields="metadata.name=web")).items

        await until(gone)

    run(test, controllers=CONTROLLERS)


def test_endpoints_whose_service_went_unseen_go() -> None:
    async def test(at: World) -> None:
        ours = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        for name, labels in (("left-over", ours), ("written", {})):
            made = {"metadata": {"name": name, "labels": labels}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}]}
            await at.client.create("endpoints", made, "default")

        async def gone() -> bool:
            names = [one["metadata"]["name"] for one in (await at.client.list("endpoints", "default")).items]
            assert "written" in names
            return "left-over" not in names

        await until(gone)

    run(test, controllers=CONTROLLERS)


def test_ports_by_name_are_those_of_the_pod() -> None:
    async def test(at: World) -> None:
        ports = [{"name": "http", "port": 80, "targetPort": "web"}]
        await at.client.create("services", service(ports=ports), "default")
        for name, number in (("a", 8080), ("b", 9090), ("c", 8080)):
            await at.make(labelled(name, container={"ports": [{"name": "web", "containerPort": number}]}))
        await becomes(at, {"a": UP, "b": UP, "c": UP})
        found = {one["ports"][0]["port"]: len(one["endpoints"]) for one in await slices(at)}
        assert found == {8080: 2, 9090: 1}
        subsets = (await at.client.get("endpoints", "web", "default"))["subsets"]
        assert {s["ports"][0]["port"]: len(s["addresses"]) for s in subsets} == found

    run(test, controllers=CONTROLLERS)


def test_250_pods_are_three_slices_and_one_that_goes_is_one_write() -> None:
    async def test(at: World) -> None:
        await at.client.create("services", service(), "default")
        await at.client.create("replicasets.apps", workload("ReplicaSet", 250), "default")

        async def full() -> bool:
            return [len(one["endpoints"]) for one in await slices(at)] == [100, 100, 50] and all(
                row["conditions"]["ready"] for one in await slices(at) for row in one["endpoints"]
            )

        await until(full, 600)
        before = {one["metadata"]["name"]: one["metadata"]["generation"] for one in await slices(at)}
        await at.client.patch("replicasets.apps", "web", {"spec": {"replicas": 249}}, "default")

        async def fewer() -> bool:
            return sum(len(one["endpoints"]) for one in await slices(at)) == 249

        await until(fewer)
        after = {one["metadata"]["name"]: one["metadata"]["generation"] for one in await slices(at)}
        changed = [name for name in after if after[name] != before.get(name)]
        assert after.keys() == before.keys() and len(changed) == 1

    run(test, controllers=CONTROLLERS, nodes=3, shape=Shape(pods=200))


def test_a_rollout_never_leaves_the_service_without_endpoints() -> None:
    async def test(at: World) -> None:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await at.client.create("services", service(), "default")
        await at.client.create("deployments.apps", workload("Deployment", 3, strategy=rolling), "default")

        async def serving() -> bool:
            return sum(ready for ready, _, _ in (await told(at)).values()) == 3

        await until(serving)
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}}
        old = set(await told(at))
        await at.client.patch("deployments.apps", "web", change, "default")

        async def replaced() -> bool:
            found = await told(at)
            assert sum(ready for ready, _, _ in found.values()) >= 3
            return not old & set(found) and len(found) == 3

        await until(replaced)

    run(test, controllers=CONTROLLERS)


@pytest.mark.parametrize("seed", [2, 5, 6])
def test_after_any_course_of_things_each_service_lists_its_pods(seed: int) -> None:
    chance = random.Random(seed)

    async def quietly(call: Awaitable[Any]) -> None:
        with contextlib.suppress(StatusError):  # what is not there, or already is, may be asked for
            await call

    async def act(at: World) -> None:
        name, app = f"p{chance.randrange(8)}", chance.choice(["web", "db"])
        match chance.randrange(7):
            case 0 | 1:
                one = labelled(name, {"ready-after": chance.choice(["0s", "3s", "never"]), "stop-after": "2s"})
                one["metadata"]["labels"] = {"app": app}
                await quietly(at.client.create("pods", one, "default"))
            case 2:
                await quietly(at.client.delete("pods", name, "default"))
            case 3:
                await quietly(at.client.patch("pods", name, {"metadata": {"labels": {"app": app}}}, "default"))
            case 4:
                change = {"spec": {"selector": {"app": app}, "publishNotReadyAddresses": chance.random() < 0.3}}
                await quietly(at.client.patch("services", chance.choice(["s0", "s1"]), change, "default"))
            case 5:
                await quietly(at.client.create("services", service(f"s{chance.randrange(2)}"), "default"))
            case _:
                await quietly(at.client.delete("services", f"s{chance.randrange(2)}", "default"))

    async def agrees(at: World) -> bool:
        pods = (await at.client.list("pods", "default")).items
        services = [one for one in (await at.client.list("services", "default")).items if "selector" in one["spec"]]
        for one in services:
            wanted: dict[str, tuple[bool, bool, bool]] = {}
            for p in pods:
                mine = p["metadata"]["labels"]["app"] == one["spec"]["selector"]["app"]
                if mine and p["status"].get("podIP"):
                    up = any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"]["conditions"])
                    wanted[p["metadata"]["name"]] = (
                        one["spec"].get("publishNotReadyAddresses", False) or up,
                        up,
                        False,
                    )
            name = one["metadata"]["name"]
            found = await at.client.list("endpoints", "default", fields=f"metadata.name={name}")
            subsets = found.items[0].get("subsets") or () if found.items else ()
            ready = {a["targetRef"]["name"] for row in subsets for a in row.get("addresses") or ()}
            if await told(at, name) != wanted or ready != {key for key, said in wanted.items() if said[0]}:
                return False
        left = {one["metadata"]["name"] for one in (await at.client.list("endpoints", "default")).items}
        return left - {"kubernetes"} == {one["metadata"]["name"] for one in services}

    async def test(at: World) -> None:
        for number in range(2):
            await at.client.create("services", service(f"s{number}"), "default")
        for _ in range(60):
            await act(at)
            await asyncio.sleep(chance.choice([0, 0, 0.05, 1, 4]))
        for number in range(2):
            await quietly(at.client.create("services", service(f"s{number}"), "default"))
        await asyncio.sleep(10)
        await until(lambda: agrees(at), 30)

    run(test, controllers=(*CONTROLLERS, "garbage-collector-controller"))
