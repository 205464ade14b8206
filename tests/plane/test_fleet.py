"""Simulated nodes: their objects and leases, and pods that do what their annotations say."""

from __future__ import annotations

import asyncio
import math

import pytest

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.rest import Delete
from dashpot.runtime.fleet.nodes import Pool
from dashpot.runtime.fleet.script import Script, ScriptError, usage
from tests.controller.running import until
from tests.plane.kit import Object, World, pod, run

ONE = ["replicaset-controller"]
LEASES = "leases.coordination.k8s.io"


def test_a_node_registers_with_a_lease_and_renews_it() -> None:
    async def test(world: World) -> None:
        node = await world.client.get("nodes", "node-0")
        ready = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        assert ready == {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
        assert node["status"]["allocatable"] == {
            "cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"
        }  # fmt: skip
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-0"
        await asyncio.sleep(60)
        first = await world.client.get(LEASES, "node-0", "kube-node-lease")
        await asyncio.sleep(10)
        second = await world.client.get(LEASES, "node-0", "kube-node-lease")
        assert second["spec"]["renewTime"] > first["spec"]["renewTime"]
        assert second["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        world.plane.fleet.take_down("node-0")
        await asyncio.sleep(60)
        third = await world.client.get(LEASES, "node-0", "kube-node-lease")
        world.plane.fleet.bring_up("node-0")
        await asyncio.sleep(11)
        fourth = await world.client.get(LEASES, "node-0", "kube-node-lease")
        assert third["spec"]["renewTime"] <= second["spec"]["renewTime"] < fourth["spec"]["renewTime"]

    run(test, nodes=1, controllers=ONE)


def test_a_node_that_was_deleted_registers_again() -> None:
    async def test(world: World) -> None:
        before = (await world.client.get("nodes", "node-0"))["metadata"]["uid"]
        await world.client.delete("nodes", "node-0")
        world.plane.fleet.nodes["node-0"].told = -math.inf

        async def back() -> bool:
            try:
                return bool((await world.client.get("nodes", "node-0"))["metadata"]["uid"] != before)
            except StatusError:
                return False

        await until(back)

    run(test, nodes=1, controllers=ONE)


def test_pods_do_what_their_annotations_say() -> None:
    async def test(world: World) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await world.make(
            pod("plain"),
            pod("late", {"start-after": "3s", "ready-after": "2s"}),
            pod("never", {"ready-after": "never"}),
            pod("done", {"run-for": "4s"}, restartPolicy="Never"),
            pod("broken", {"run-for": "1s", "exit-code": "3"}, restartPolicy="Never"),
            pod("loops", {"run-for": "2s", "exit-code": "1"}),
            pod("sticks", {"stop-after": "5s"}),
        )
        plain = await world.phase("plain", "Running")
        assert loop.time() - begun < 1
        assert {one["type"]: one["status"] for one in plain["status"]["conditions"]}["Ready"] == "True"
        late = await world.phase("late", "Running")
        assert 3 <= loop.time() - begun < 4
        assert not late["status"]["containerStatuses"][0]["ready"]
        done = await world.phase("done", "Succeeded")
        assert done["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
        broken = await world.phase("broken", "Failed")
        assert broken["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        await asyncio.sleep(6)
        late = await world.pod("late")
        assert late["status"]["containerStatuses"][0]["ready"]
        assert not (await world.pod("never"))["status"]["containerStatuses"][0]["ready"]
        assert (await world.pod("loops"))["status"]["containerStatuses"][0]["restartCount"] >= 3
        await world.client.delete("pods", "plain", "default")
        await world.client.delete("pods", "sticks", "default", how=Delete(grace=30))
        await asyncio.sleep(1)
        with pytest.raises(StatusError, match='pods "plain" not found'):
            await world.pod("plain")
        assert (await world.pod("sticks"))["metadata"]["deletionTimestamp"]
        await asyncio.sleep(5)
        with pytest.raises(StatusError, match='pods "sticks" not found'):
            await world.pod("sticks")

    run(test, nodes=1, controllers=ONE)


def test_a_bad_annotation_is_told() -> None:
    async def test(world: World) -> None:
        await world.make(pod("bad", {"start-after": "soon"}))
        await asyncio.sleep(2)
        assert await world.events("BadScript") == [
            "annotation fake.dashpot.dev/start-after: 'soon' is no duration: write 500ms, 3s, 1m30s or never"
        ]

    run(test, nodes=1, controllers=ONE)


@pytest.mark.parametrize(
    ("told", "script"),
    [
        ({}, Script()),
        ({"start-after": "1m30s", "ready-after": "500ms"}, Script(start_after=90.0, ready_after=0.5)),
        (
            {"run-for": "2h", "exit-code": "255", "stop-after": "never"},
            Script(run_for=7200.0, exit_code=255, stop_after=math.inf),
        ),
    ],
)
def test_a_script_is_read(told: dict[str, str], script: Script) -> None:
    assert Script.of(pod("p", told)) == script


@pytest.mark.parametrize("told", [{"exit-code": "256"}, {"exit-code": "-1"}, {"run-for": "3"}, {"run-for": "3s x"}])
def test_a_script_that_is_none_is_refused(told: dict[str, str]) -> None:
    with pytest.raises(ScriptError, match=next(iter(told))):
        Script.of(pod("p", told))


def test_use_is_what_is_told_else_what_is_asked_for() -> None:
    asked: Object = {"container": {"resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}}
    assert {name: str(amount) for name, amount in usage(pod("p", **asked)).items()} == {"cpu": "200m", "memory": "1Gi"}
    told = usage(pod("p", {"cpu": "1", "memory": "oops"}, **asked))
    assert {name: str(amount) for name, amount in told.items()} == {"cpu": "1", "memory": "1Gi"}
    assert {name: str(amount) for name, amount in usage(pod("p")).items()} == {"cpu": "1m", "memory": "8Mi"}


def test_a_pool_gives_each_address_once() -> None:
    pool = Pool(300)
    given = [pool.take() for _ in range(Pool.MOST)]
    assert len(set(given)) == Pool.MOST
    assert given[0] == "10.68.176.1"
    pool.free(given[5])
    assert pool.take() == given[5]
    fresh = Pool(300)
    fresh.keep(given[0])
    fresh.keep("10.1.1.1")
    assert fresh.take() == given[1]
