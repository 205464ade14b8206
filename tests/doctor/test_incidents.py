"""Incidents planted on running servers: the doctor's first line names cause and object; a healthy plane gives none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import User
from dashpot.runtime.clock import SystemClock, rfc3339_micro
from dashpot.runtime.doctor.diagnosis import Diagnosis, diagnose
from tests.api.admit_kit import Authority, webhook
from tests.api.test_admit_doctor import hook, on_a_cluster
from tests.doctor.kit import Object, Ward, run, until_late

WEB = {"app": "web"}
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": WEB},
        "template": {
            "metadata": {"labels": WEB},
            "spec": {"containers": [{"name": "c", "image": "example.com/x:1"}]},
        },
    },
}


def finds(test: Callable[[Ward], Awaitable[Any]], first: str, **options: Any) -> Diagnosis:
    """Plants an incident; the diagnosis, whose first line begins so."""
    found: list[Diagnosis] = []

    async def plant(ward: Ward) -> None:
        await test(ward)
        found.append(await ward.examine())

    run(plant, **options)
    assert found[0].first.startswith(first), found[0]
    assert found[0].sick
    return found[0]


def test_a_healthy_plane_gives_nothing() -> None:
    async def test(ward: Ward) -> None:
        await ward.client.create("deployments.apps", DEPLOYMENT, "default")
        await until_late(120)
        found = await ward.examine()
        assert not found.sick, found
        assert found.first == "" and found.unseen == ()

    run(test)


# -- webhooks: over sockets, on the machine's time ------------------------------------------------------------------


def examined(tmp_path: Path, *hooks: Object) -> Awaitable[Diagnosis]:
    found: Awaitable[Diagnosis] = on_a_cluster(tmp_path, lambda c: diagnose(c, SystemClock(), 0.1), *hooks)
    return found


def test_slow_hook(authority: Authority, tmp_path: Path) -> None:
    async def answer(request: Object) -> Object:
        await asyncio.sleep(0.6)
        return {"allowed": True}

    async def main() -> Diagnosis:
        async with webhook(authority, answer) as port:
            return await examined(tmp_path, hook("late", authority, port, "configmaps"))

    assert asyncio.run(main()).first.startswith("webhook-slow: webhook late.x.y (late): at 4 writes a second it adds")


def test_dead_hook_that_must_answer(authority: Authority, tmp_path: Path) -> None:
    async def main() -> Diagnosis:
        return await examined(tmp_path, hook("dead", authority, 1, "configmaps"))

    found = asyncio.run(main())
    assert found.first.startswith("webhook-away: webhook dead.x.y (dead): at 4 writes a second 4 of 4 got no answer")


# -- the API server -------------------------------------------------------------------------------------------------


def test_quota_alarm() -> None:
    async def fill(ward: Ward) -> None:
        with pytest.raises(StatusError, match="database space exceeded"):
            for at in range(100):
                data = {"metadata": {"name": f"c{at}"}, "data": {"k": "x" * 100_000}}
                await ward.client.create("configmaps", data, "default")

    finds(fill, "store-quota: store memory-0: its quota alarm is raised", plane=False, quota=3_000_000)


def test_watch_flood() -> None:
    async def held(ward: Ward) -> None:
        for _ in range(600):
            path = "/api/v1/pods"
            answer = await ward.server.local.request(
                "GET", path, query={"watch": "true"}, headers={"user-agent": "greedy/2.0 (linux)"}
            )
            assert answer.code == 200

    finds(held, "watch-flood: client greedy/2.0: it begins 0 watches a second and holds 600 open", plane=False)


def test_hot_loop() -> None:
    async def loop(ward: Ward) -> None:
        client = ward.named("operator/0.1")
        await client.create("configmaps", {"metadata": {"name": "c"}, "data": {"n": "0"}}, "default")

        async def spin() -> None:
            for at in range(10_000):
                await client.patch("configmaps", "c", {"data": {"n": str(at)}}, "default")
                await asyncio.sleep(0.01)

        asyncio.get_running_loop().create_task(spin())

    found = finds(loop, "hot-loop: client operator/0.1: it sends ", plane=False)
    assert "patch configmaps" in found.first


def test_exhausted_address_range() -> None:
    async def exhaust(ward: Ward) -> None:
        with pytest.raises(StatusError, match="range is full"):
            for at in range(20):
                service = {"metadata": {"name": f"s{at}"}, "spec": {"ports": [{"port": 80}]}}
                await ward.client.create("services", service, "default")

    finds(exhaust, "range-exhausted: service range 10.0.0.0/29", plane=False, service_network="10.0.0.0/29")


# -- who should act -------------------------------------------------------------------------------------------------


def test_paused_lease() -> None:
    async def pause(ward: Ward) -> None:
        now = rfc3339_micro(ward.server.clock.now())
        spec = {"holderIdentity": "manager-a", "leaseDurationSeconds": 15, "renewTime": now, "acquireTime": now}
        await ward.client.create(
            "leases.coordination.k8s.io", {"metadata": {"name": "op"}, "spec": spec}, "kube-system"
        )
        await until_late()

    finds(pause, "lease-paused: lease kube-system/op: manager-a holds it")


def test_late_heartbeat() -> None:
    async def take_down(ward: Ward) -> None:
        ward.plane.fleet.take_down("node-1")
        await until_late(120)

    finds(take_down, "heartbeat-late: node node-1: its heartbeat is ")


def test_starved_kubelet() -> None:
    async def starve(ward: Ward) -> None:
        ward.plane.fleet._queue.shut_down()  # heartbeats go on, pods are not looked at
        await ward.pod("one", nodeName="node-0")
        await until_late()

    finds(starve, "kubelet-starved: node node-0: its heartbeats come, but its kubelet has not touched 1 pods")


def test_full_disk() -> None:
    async def fill(ward: Ward) -> None:
        full = {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "disk is full"}
        await ward.client.patch(
            "nodes", "node-0", {"status": {"conditions": [full]}}, kind="strategic", subresource="status"
        )

    finds(fill, "disk-full: node node-0: it runs out of disk (DiskPressure): disk is full")


def test_scheduler_away() -> None:
    async def stop(ward: Ward) -> None:
        await ward.plane.scheduler.stop()
        await ward.pod("one")
        await until_late()

    finds(stop, "scheduler-behind: scheduler default-scheduler: it has not looked at 1 pods for 30 s: default/one")


# -- dead ends ------------------------------------------------------------------------------------------------------


def test_spread_dead_end() -> None:
    """The status is what kube-scheduler writes of such a pod."""
    text = "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints."

    async def spread(ward: Ward) -> None:
        await ward.pod("one", schedulerName="other")
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
        await ward.client.patch(
            "pods", "one", {"status": {"conditions": [told]}}, "default", kind="strategic", subresource="status"
        )
        await until_late()

    finds(spread, f"spread-dead-end: pod default/one: no node fits because of its topology spread constraints: {text}")


def test_affinity_dead_end() -> None:
    async def nowhere(ward: Ward) -> None:
        await ward.pod("one", nodeSelector={"disk": "ssd"})
        await until_late()

    found = finds(nowhere, "affinity-dead-end: pod default/one: no node fits because of its node affinity or selector")
    (stuck,) = found.stuck
    assert (stuck.kind, stuck.name, stuck.waits_for) == ("Pod", "default/one", "a node")
    assert stuck.error.startswith("FailedScheduling: 0/2 nodes are available")


def test_blocked_drain() -> None:
    async def drain(ward: Ward) -> None:
        await ward.pod("one", WEB, nodeName="node-0")
        budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": WEB}}}
        await ward.client.create("poddisruptionbudgets.policy", budget, "default")
        await ward.client.patch("nodes", "node-0", {"spec": {"unschedulable": True}})
        await until_late()
        where = "/api/v1/namespaces/default/pods/one/eviction"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}
        with pytest.raises(StatusError, match="disruption budget"):
            await ward.server.local.call("POST", where, eviction)

    finds(drain, "drain-blocked: node node-0: PodDisruptionBudget default/b allows no disruption: 1 healthy, 1 wanted")


@pytest.mark.parametrize(
    ("labels", "told", "why", "controllers"),
    [
        ({"app": "other"}, {}, "no ready endpoint: no pod has the labels app=web", ["*"]),
        (WEB, {"ready-after": "never"}, "no ready endpoint: none of 1 pods is ready, default/one first", ["*"]),
        (
            WEB,
            {},
            "no ready endpoint, though pods are ready: the endpointslice-controller does not act",
            ["-endpointslice-controller"],
        ),
    ],
)
def test_missing_endpoint(labels: Object, told: dict[str, str], why: str, controllers: list[str]) -> None:
    async def serve(ward: Ward) -> None:
        await ward.pod("one", labels, told=told)
        service = {"metadata": {"name": "web"}, "spec": {"selector": WEB, "ports": [{"port": 80}]}}
        await ward.client.create("services", service, "default")
        await until_late()

    finds(serve, f"no-endpoints: service default/web: {why}", controllers=controllers)


def test_a_service_with_ready_pods_is_well() -> None:
    async def serve(ward: Ward) -> None:
        await ward.pod("one", WEB)
        service = {"metadata": {"name": "web"}, "spec": {"selector": WEB, "ports": [{"port": 80}]}}
        await ward.client.create("services", service, "default")
        await until_late()
        found = await ward.examine()
        assert not found.sick, found

    run(serve)


# -- what cannot be seen --------------------------------------------------------------------------------------------


def test_what_is_refused_is_not_called_fine() -> None:
    async def test(ward: Ward) -> None:
        found = await ward.examine(user=User("guest", ("system:authenticated",)))
        assert not found.sick
        text = "\n".join(found.unseen)
        for part in ("pods: ", "nodes: ", "/metrics: refused", "admission webhooks: "):
            assert part in text

    run(test)
