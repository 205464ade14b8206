"""The Deployment controller, run from its spec together with that of ReplicaSets."""

from __future__ import annotations

from functools import partial

from tests.library.workload_kit import Live, live, workload

ACTORS = ["DeploymentController", "ReplicaSetController", "Starter"]
REVISION = "deployment.kubernetes.io/revision"


async def rolled_out(at: Live, image: str, replicas: int) -> bool:
    """What `kubectl rollout status` waits for, and that the pods have the image."""
    d = await at.one("deployments")
    s = d.get("status") or {}
    images = [p["spec"]["containers"][0]["image"] for p in await at.all("pods")]
    return (
        s.get("observedGeneration") == d["metadata"]["generation"]
        and s.get("updatedReplicas") == s.get("availableReplicas") == s.get("replicas") == replicas
        and images == [image] * replicas
    )


def test_rollout_undo_and_the_history() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 3))
        await at.settles(lambda: rolled_out(at, "a", 3))
        (rs,) = await at.all("replicasets")
        digest = rs["metadata"]["labels"]["pod-template-hash"]
        assert rs["metadata"]["name"] == f"web-{digest}"
        assert rs["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
        assert (await at.one("deployments"))["metadata"]["annotations"][REVISION] == "1"

        async def progressed() -> bool:
            found = await at.condition("deployments", "Progressing")
            return found.get("reason") == "NewReplicaSetAvailable"

        await at.settles(progressed)
        found = await at.condition("deployments", "Progressing")
        assert found["message"] == f'ReplicaSet "web-{digest}" has successfully progressed.'
        assert (await at.condition("deployments", "Available"))["reason"] == "MinimumReplicasAvailable"

        before = (await at.one("deployments"))["spec"]["template"]
        await at.patch("deployments", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}})
        await at.settles(lambda: rolled_out(at, "b", 3))
        assert (await at.one("deployments"))["metadata"]["annotations"][REVISION] == "2"
        await at.patch("deployments", {"spec": {"template": before}})  # what `kubectl rollout undo` sends
        await at.settles(lambda: rolled_out(at, "a", 3))
        sets = {r["metadata"]["name"]: r for r in await at.all("replicasets")}
        again = sets[f"web-{digest}"]["metadata"]["annotations"]
        assert len(sets) == 2
        assert again[REVISION] == "3" and again["deployment.kubernetes.io/revision-history"] == "1"
        assert f"Scaled up replica set web-{digest} from 0 to 3" in await at.events("ScalingReplicaSet")

    live("deployment", ACTORS, test)


def test_never_more_than_surge_nor_less_than_available() -> None:
    async def test(at: Live) -> None:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
        await at.client.create("deployments", workload("Deployment", 5, strategy=rolling))
        await at.settles(lambda: rolled_out(at, "a", 5))
        await at.patch("deployments", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}})

        async def watched() -> bool:
            wanted = sum(r["spec"]["replicas"] for r in await at.all("replicasets"))
            pods = [p for p in await at.all("pods") if not p["metadata"].get("deletionTimestamp")]
            ready = [p for p in pods if any(c["type"] == "Ready" for c in p["status"].get("conditions") or ())]
            assert wanted <= 7 and len(ready) >= 4
            return await rolled_out(at, "b", 5)

        await at.settles(watched)

    live("deployment", ACTORS, test)


def test_paused_scaled_and_resumed() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 2))
        await at.settles(lambda: rolled_out(at, "a", 2))
        pause = {"spec": {"paused": True, "template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}}
        await at.patch("deployments", pause)

        async def paused() -> bool:
            return (await at.condition("deployments", "Progressing")).get("reason") == "DeploymentPaused"

        await at.settles(paused)
        await at.patch("deployments", {"spec": {"replicas": 4}})

        async def scaled() -> bool:
            return (await at.status("deployments")).get("availableReplicas") == 4

        await at.settles(scaled)
        assert len(await at.all("replicasets")) == 1
        await at.patch("deployments", {"spec": {"paused": None}})
        await at.settles(lambda: rolled_out(at, "b", 4))

    live("deployment", ACTORS, test)


def test_recreate_lets_the_old_ones_go_first() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 2, strategy={"type": "Recreate"}))
        await at.settles(lambda: rolled_out(at, "a", 2))
        await at.patch("deployments", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}})

        async def watched() -> bool:
            assert len({p["spec"]["containers"][0]["image"] for p in await at.all("pods")}) <= 1
            return await rolled_out(at, "b", 2)

        await at.settles(watched)

    live("deployment", ACTORS, test)


def test_a_rollout_that_does_not_progress_says_so() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 1, progressDeadlineSeconds=60))

        async def late() -> bool:
            return (await at.condition("deployments", "Progressing")).get("reason") == "ProgressDeadlineExceeded"

        await at.settles(late)
        found = await at.condition("deployments", "Progressing")
        assert found["status"] == "False" and found["message"].endswith("has timed out progressing.")

    live("deployment", ["DeploymentController", "ReplicaSetController"], test)


def test_old_sets_beyond_the_history_go() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 1, revisionHistoryLimit=1))
        await at.settles(lambda: rolled_out(at, "a", 1))
        for image in ("b", "c"):
            change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
            await at.patch("deployments", change)
            await at.settles(partial(rolled_out, at, image, 1))

        async def cleaned() -> bool:
            return len(await at.all("replicasets")) == 2

        await at.settles(cleaned)

    live("deployment", ACTORS, test)
