"""The StatefulSet controller, run from its spec."""

from __future__ import annotations

from typing import Any

from tests.library.workload_kit import Live, Object, live, template, workload

ACTORS = ["StatefulSetController", "SetStarter"]
CLAIM: Object = {
    "metadata": {"name": "www"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
IMAGE_B = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}}


def stateful(replicas: int = 3, **spec: Any) -> Object:
    """A StatefulSet with the service `web`."""
    return workload("StatefulSet", replicas, serviceName="web", **spec)


async def images(at: Live) -> list[str]:
    """The images of the pods, by name of pod."""
    return [p["spec"]["containers"][0]["image"] for p in await at.all("pods")]


async def ready(at: Live, count: int) -> bool:
    """Whether so many pods are ready, and there are no others."""
    status = await at.status("statefulsets")
    found: int = status.get("readyReplicas", 0)
    return found == len(await at.all("pods")) == count


def test_pods_come_one_after_the_other_with_an_identity_and_claims() -> None:
    async def test(at: Live) -> None:
        await at.client.create("statefulsets", stateful(volumeClaimTemplates=[CLAIM]))

        async def up() -> bool:
            pods = await at.all("pods")
            unready = [p for p in pods if p["status"].get("phase") != "Running"]
            assert len(unready) <= 1
            return await ready(at, 3)

        await at.settles(up)
        pods = await at.all("pods")
        assert [p["metadata"]["name"] for p in pods] == ["web-0", "web-1", "web-2"]
        labels = pods[1]["metadata"]["labels"]
        status = await at.status("statefulsets")
        assert labels["statefulset.kubernetes.io/pod-name"] == "web-1"
        assert labels["apps.kubernetes.io/pod-index"] == "1"
        assert labels["controller-revision-hash"] == status["updateRevision"] == status["currentRevision"]
        assert status["currentReplicas"] == status["updatedReplicas"] == status["availableReplicas"] == 3
        assert pods[1]["spec"]["hostname"] == "web-1" and pods[1]["spec"]["subdomain"] == "web"
        assert {"name": "www", "persistentVolumeClaim": {"claimName": "www-web-1"}} in pods[1]["spec"]["volumes"]
        names = [c["metadata"]["name"] for c in await at.all("persistentvolumeclaims")]
        assert names == ["www-web-0", "www-web-1", "www-web-2"]

        async def told() -> bool:
            return "create Pod web-0 in StatefulSet web successful" in await at.events("SuccessfulCreate")

        await at.settles(told)
        await at.patch("statefulsets", {"spec": {"replicas": 1}})
        await at.settles(lambda: ready(at, 1))
        assert len(await at.all("persistentvolumeclaims")) == 3

    live("statefulset", ACTORS, test)


def test_a_partition_keeps_what_is_below_and_undo_finds_the_old_revision() -> None:
    async def test(at: Live) -> None:
        await at.client.create("statefulsets", stateful())
        await at.settles(lambda: ready(at, 3))
        first = (await at.status("statefulsets"))["currentRevision"]
        below = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
        await at.patch("statefulsets", {"spec": {**IMAGE_B["spec"], **below}})

        async def canary() -> bool:
            return await images(at) == ["a", "a", "b"] and await ready(at, 3)

        await at.settles(canary)
        await at.client.delete("pods", "web-0")
        await at.settles(canary)
        assert (await at.one("pods", "web-0"))["metadata"]["labels"]["controller-revision-hash"] == first
        await at.patch("statefulsets", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})

        async def over() -> bool:
            status = await at.status("statefulsets")
            return (
                await images(at) == ["b", "b", "b"] and status["currentRevision"] == status["updateRevision"] != first
            )

        await at.settles(over)
        await at.patch("statefulsets", {"spec": {"template": template("a")}})

        async def undone() -> bool:
            status = await at.status("statefulsets")
            return await images(at) == ["a", "a", "a"] and status["currentRevision"] == first

        await at.settles(undone)
        numbers = {r["metadata"]["name"]: r["revision"] for r in await at.all("controllerrevisions")}
        assert sorted(numbers.values()) == [2, 3] and numbers[first] == 3

    live("statefulset", ACTORS, test)


def test_on_delete_leaves_pods_alone() -> None:
    async def test(at: Live) -> None:
        await at.client.create("statefulsets", stateful(2, updateStrategy={"type": "OnDelete"}))
        await at.settles(lambda: ready(at, 2))
        await at.patch("statefulsets", IMAGE_B)

        async def seen() -> bool:
            s = await at.one("statefulsets")
            return bool(s["status"]["observedGeneration"] == s["metadata"]["generation"])

        await at.settles(seen)
        await at.client.delete("pods", "web-1")

        async def replaced() -> bool:
            return await images(at) == ["a", "b"] and await ready(at, 2)

        await at.settles(replaced)

    live("statefulset", ACTORS, test)


def test_parallel_ordinals_begin_where_the_set_says() -> None:
    async def test(at: Live) -> None:
        spec = stateful(2, podManagementPolicy="Parallel", ordinals={"start": 5})
        await at.client.create("statefulsets", spec)

        async def both() -> bool:
            return [p["metadata"]["name"] for p in await at.all("pods")] == ["web-5", "web-6"]

        await at.settles(both)

    live("statefulset", ["StatefulSetController"], test)


def test_claims_belong_to_the_set_and_to_pods_that_are_scaled_away() -> None:
    async def test(at: Live) -> None:
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        spec = stateful(2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
        await at.client.create("statefulsets", spec)
        await at.settles(lambda: ready(at, 2))
        await at.patch("statefulsets", {"spec": {"replicas": 1}})
        await at.settles(lambda: ready(at, 1))
        owners = [c["metadata"]["ownerReferences"][0] for c in await at.all("persistentvolumeclaims")]
        assert [(o["kind"], o["name"]) for o in owners] == [("StatefulSet", "web"), ("Pod", "web-1")]

    live("statefulset", ACTORS, test)
