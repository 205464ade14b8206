"""The CronJob controller, run from its spec together with that of Jobs."""

from __future__ import annotations

from typing import Any

from dashpot.model.extern.workloads import moment
from tests.library.workload_kit import Live, Object, live, thing

POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}


def cron(schedule: str = "* * * * *", **spec: Any) -> Object:
    """A CronJob with the name `tidy`."""
    made = {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": POD}}}, **spec}
    return thing("batch/v1", "CronJob", made, "tidy")


def test_a_job_each_minute_named_after_it_and_only_a_few_are_kept() -> None:
    async def test(at: Live) -> None:
        await at.client.create("cronjobs", cron(successfulJobsHistoryLimit=2))
        names: set[str] = set()

        async def five() -> bool:
            jobs = await at.all("jobs")
            assert len(jobs) <= 4
            for job in jobs:
                names.add(job["metadata"]["name"])
                stamp = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
                due = moment(stamp)
                assert due is not None and job["metadata"]["name"] == f"tidy-{due // 60000}"
            return len(names) >= 5

        await at.settles(five)
        minutes = sorted(int(n.removeprefix("tidy-")) for n in names)
        assert minutes == list(range(minutes[0], minutes[0] + len(minutes)))

        async def told() -> bool:
            status = await at.status("cronjobs", "tidy")
            last = moment(status.get("lastScheduleTime"))
            return last == minutes[-1] * 60000 and bool(status.get("lastSuccessfulTime")) and not status.get("active")

        await at.settles(told, 50)
        assert "Created job " + min(names) in await at.events("SuccessfulCreate")

    live("cronjob", ["CronJobController", "JobController", "Runner"], test)


def test_forbid_waits_and_replace_takes_away() -> None:
    async def test(at: Live) -> None:
        await at.client.create("cronjobs", cron(concurrencyPolicy="Forbid"))

        async def forbidden() -> bool:
            assert len(await at.all("jobs")) <= 1
            return bool(await at.events("JobAlreadyActive"))

        await at.settles(forbidden)
        (first,) = await at.all("jobs")
        (active,) = (await at.status("cronjobs", "tidy"))["active"]
        assert active["uid"] == first["metadata"]["uid"] and active["kind"] == "Job"
        await at.patch("cronjobs", {"spec": {"concurrencyPolicy": "Replace"}}, "tidy")

        async def replaced() -> bool:
            jobs = await at.all("jobs")
            assert len([j for j in jobs if not j["metadata"].get("deletionTimestamp")]) <= 1
            return bool(jobs) and jobs[-1]["metadata"]["uid"] != first["metadata"]["uid"]

        await at.settles(replaced)

    live("cronjob", ["CronJobController", "JobController"], test)


def test_suspended_or_unreadable_starts_nothing() -> None:
    async def test(at: Live) -> None:
        await at.client.create("cronjobs", cron(suspend=True))
        other = cron()
        other["metadata"]["name"] = "other"
        await at.client.create("cronjobs", other)

        async def runs() -> bool:
            return bool(await at.all("jobs"))

        await at.settles(runs)
        assert all(j["metadata"]["name"].startswith("other-") for j in await at.all("jobs"))

    live("cronjob", ["CronJobController", "JobController"], test)
