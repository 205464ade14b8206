"""The ReplicaSet controller, run from its spec."""

from __future__ import annotations

from tests.library.workload_kit import APP, Live, live, thing, workload

ACTORS = ["ReplicaSetController", "Starter"]
POD = {"containers": [{"name": "c", "image": "a"}]}


def test_pods_follow_the_template_and_the_status_counts_them() -> None:
    async def test(at: Live) -> None:
        rs = workload("ReplicaSet", 3)
        rs["spec"]["template"]["metadata"]["annotations"] = {"note": "x"}
        await at.client.create("replicasets", rs)

        async def ready() -> bool:
            return (await at.status("replicasets")).get("availableReplicas") == 3

        await at.settles(ready)
        for pod in await at.all("pods"):
            meta = pod["metadata"]
            (owner,) = meta["ownerReferences"]
            assert meta["name"].startswith("web-") and meta["generateName"] == "web-"
            assert meta["labels"] == APP and meta["annotations"] == {"note": "x"}
            assert owner["kind"] == "ReplicaSet" and owner["controller"] and owner["blockOwnerDeletion"]
        status = await at.status("replicasets")
        assert status["replicas"] == status["fullyLabeledReplicas"] == status["readyReplicas"] == 3
        assert status["observedGeneration"] == 1
        made = sorted(f"Created pod: {p['metadata']['name']}" for p in await at.all("pods"))

        async def told() -> bool:
            return await at.events("SuccessfulCreate") == made

        await at.settles(told)

    live("replicaset", ACTORS, test)


def test_orphans_are_adopted_and_strays_released() -> None:
    async def test(at: Live) -> None:
        await at.client.create("pods", thing("v1", "Pod", POD, "lone", labels=APP))
        await at.client.create("replicasets", workload("ReplicaSet", 2))

        async def settled() -> bool:
            pods = await at.all("pods")
            owned = [p for p in pods if p["metadata"].get("ownerReferences")]
            return len(pods) == len(owned) == 2 and (await at.status("replicasets")).get("readyReplicas") == 2

        await at.settles(settled)
        await at.patch("pods", {"metadata": {"labels": {"app": "other"}}}, "lone")

        async def replaced() -> bool:
            pods = await at.all("pods")
            lone = next(p for p in pods if p["metadata"]["name"] == "lone")
            return len(pods) == 3 and not lone["metadata"].get("ownerReferences")

        await at.settles(replaced)

    live("replicaset", ACTORS, test)


def test_what_is_cheap_goes_first() -> None:
    async def test(at: Live) -> None:
        await at.client.create("replicasets", workload("ReplicaSet", 3))

        async def ready() -> bool:
            return (await at.status("replicasets")).get("readyReplicas") == 3

        await at.settles(ready)
        victim = (await at.all("pods"))[1]["metadata"]["name"]
        cost = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
        await at.patch("pods", {"metadata": {"annotations": cost}}, victim)
        await at.patch("replicasets", {"spec": {"replicas": 2}})

        async def fewer() -> bool:
            return len(await at.all("pods")) == 2

        await at.settles(fewer)
        assert victim not in [p["metadata"]["name"] for p in await at.all("pods")]

    live("replicaset", ACTORS, test)


def test_a_ready_pod_is_available_after_its_time() -> None:
    async def test(at: Live) -> None:
        await at.client.create("replicasets", workload("ReplicaSet", 1, minReadySeconds=30))

        async def ready() -> bool:
            return (await at.status("replicasets")).get("readyReplicas") == 1

        async def available() -> bool:
            return (await at.status("replicasets")).get("availableReplicas") == 1

        await at.settles(ready)
        assert not await available()
        await at.settles(available, 40)

    live("replicaset", ACTORS, test)


def test_a_set_that_is_denied_pods_counts_those_that_it_has() -> None:
    async def test(at: Live) -> None:
        await at.client.create("replicasets", workload("ReplicaSet", 2))

        async def ready() -> bool:
            return (await at.status("replicasets")).get("readyReplicas") == 2

        await at.settles(ready)
        quota = await at.client.create("resourcequotas", thing("v1", "ResourceQuota", {"hard": {"pods": "2"}}, "tight"))
        counted = {"status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}}
        await at.client.patch("resourcequotas", quota["metadata"]["name"], counted, subresource="status")
        await at.patch("replicasets", {"spec": {"replicas": 3}})

        async def failing() -> bool:
            return bool(await at.condition("replicasets", "ReplicaFailure"))

        await at.settles(failing)
        for pod in await at.all("pods"):
            await at.client.delete("pods", pod["metadata"]["name"])

        async def told() -> bool:
            status = await at.status("replicasets")
            return [status.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas")] == [0, 0, 0]

        await at.settles(told)

    live("replicaset", ACTORS, test)
