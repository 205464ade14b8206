"""The Job controller, run from its spec."""

from __future__ import annotations

from typing import Any

from tests.library.workload_kit import Live, Object, live, thing

POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}


def job(**spec: Any) -> Object:
    """A job with the name `sum`."""
    return thing("batch/v1", "Job", {"template": {"spec": POD}, **spec}, "sum")


async def has(at: Live, type_: str) -> bool:
    """Whether the job has a condition."""
    return (await at.condition("jobs", type_, "sum")).get("status") == "True"


async def active(at: Live) -> list[Object]:
    """Pods that run."""
    return [p for p in await at.all("pods") if p["status"].get("phase") not in ("Succeeded", "Failed")]


def test_a_job_completes_and_lets_its_pods_go() -> None:
    async def test(at: Live) -> None:
        await at.client.create("jobs", job(completions=5, parallelism=2))

        async def complete() -> bool:
            assert len(await active(at)) <= 2
            return await has(at, "Complete")

        await at.settles(complete)
        status = await at.status("jobs", "sum")
        assert status["succeeded"] == 5 and not status.get("active") and status["completionTime"]
        assert status["startTime"] and not status.get("uncountedTerminatedPods")
        found = await at.condition("jobs", "Complete", "sum")
        assert found["reason"] == "CompletionsReached"
        assert found["message"] == "Reached expected number of succeeded pods" and found["lastTransitionTime"]
        assert await has(at, "SuccessCriteriaMet")
        pods = await at.all("pods")
        assert len(pods) == 5 and not any(p["metadata"].get("finalizers") for p in pods)

    live("job", ["JobController", "Runner"], test)


def test_indexed_pods_have_each_an_index() -> None:
    async def test(at: Live) -> None:
        await at.client.create("jobs", job(completions=4, parallelism=3, completionMode="Indexed"))
        await at.settles(lambda: has(at, "Complete"))
        pods = await at.all("pods")
        key = "batch.kubernetes.io/job-completion-index"
        assert [p["metadata"]["annotations"][key] for p in pods] == ["0", "1", "2", "3"]
        assert [p["spec"]["hostname"] for p in pods] == [f"sum-{i}" for i in range(4)]
        assert pods[2]["metadata"]["name"].startswith("sum-2-")
        assert (await at.status("jobs", "sum"))["completedIndexes"] == "0-3"

    live("job", ["JobController", "Runner"], test)


def test_failures_are_tried_again_later_and_no_more_than_allowed() -> None:
    async def test(at: Live) -> None:
        await at.client.create("jobs", job(backoffLimit=1))

        async def one() -> bool:
            return len(await active(at)) == 1

        await at.settles(one)
        await at.put_status((await active(at))[0], phase="Failed")

        async def counted() -> bool:
            return (await at.status("jobs", "sum")).get("failed") == 1

        await at.settles(counted)
        assert not await one(), "the second pod waits for 10 s"
        await at.settles(one, 15)
        await at.put_status((await active(at))[0], phase="Failed")
        await at.settles(lambda: has(at, "Failed"))
        found = await at.condition("jobs", "Failed", "sum")
        assert found["reason"] == "BackoffLimitExceeded"
        assert found["message"] == "Job has reached the specified backoff limit"
        assert await has(at, "FailureTarget")

    live("job", ["JobController"], test)


def test_the_deadline_ends_a_job_and_the_time_to_live_takes_it_away() -> None:
    async def test(at: Live) -> None:
        await at.client.create("jobs", job(activeDeadlineSeconds=30, ttlSecondsAfterFinished=60))
        await at.settles(lambda: has(at, "Failed"), 40)
        assert (await at.condition("jobs", "Failed", "sum"))["reason"] == "DeadlineExceeded"

        async def going() -> bool:
            jobs = await at.all("jobs")
            return not jobs or bool(jobs[0]["metadata"].get("deletionTimestamp"))

        assert not await going()
        await at.settles(going, 70)

    live("job", ["JobController", "JobExpiry"], test)


def test_suspended_and_resumed() -> None:
    async def test(at: Live) -> None:
        await at.client.create("jobs", job(suspend=True))
        await at.settles(lambda: has(at, "Suspended"))
        assert await at.all("pods") == [] and not (await at.status("jobs", "sum")).get("startTime")
        await at.patch("jobs", {"spec": {"suspend": False}}, "sum")
        await at.settles(lambda: has(at, "Complete"))
        assert (await at.condition("jobs", "Suspended", "sum"))["reason"] == "JobResumed"

    live("job", ["JobController", "Runner"], test)


def test_pods_of_a_deleted_job_are_not_held() -> None:
    async def test(at: Live) -> None:
        await at.client.create("jobs", job())

        async def held() -> bool:
            return any(p["metadata"].get("finalizers") for p in await at.all("pods"))

        await at.settles(held)
        await at.client.delete("jobs", "sum")

        async def free() -> bool:
            return not await held()

        await at.settles(free)

    live("job", ["JobController"], test)
