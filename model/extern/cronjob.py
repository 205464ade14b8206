"""What kubernetes.cronjob computes. Sources: pkg/controller/cronjob (cronjob_controllerv2.go, utils.go).

A slot is the minute (since 1970) for which a job is due; 0 stands for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from dashpot.model.extern import workloads
from dashpot.model.extern.workloads import Kept, Object, at, moment, number

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MACROS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
MANY_MISSED = 100
MINUTE_MS = 60_000
DAY_MS = 86_400_000


def _zone(c: Object) -> tzinfo | None:
    name = at(c, "spec", "timeZone")
    if not name:
        return UTC
    try:
        return ZoneInfo(str(name))
    except (ValueError, OSError, KeyError):
        return None


def _schedule(c: Object, ms: int, *, back: bool) -> CronSim | None:
    """The times of the schedule from a moment on, or back from it; None if it cannot be read."""
    zone, text = _zone(c), str(at(c, "spec", "schedule") or "").strip()
    text = MACROS.get(text, text)
    if zone is None or len(text.split()) != 5:
        return None
    try:
        return CronSim(text, datetime.fromtimestamp(ms / 1000, zone), back)
    except CronSimError:
        return None


def _every(c: Object) -> int | None:
    """The interval of `@every 1h30m` in ms, or None."""
    text = str(at(c, "spec", "schedule") or "").strip()
    if not text.startswith("@every "):
        return None
    total, digits = 0, ""
    for letter in text.removeprefix("@every ").strip():
        if letter.isdigit():
            digits += letter
        elif letter in "hms" and digits:
            total, digits = total + int(digits) * {"h": 3_600_000, "m": 60_000, "s": 1000}[letter], ""
        else:
            return None
    return total if total and not digits else None


def readable(c: Kept) -> bool:
    """Whether schedule and time zone can be read."""
    return _every(c.json) is not None or _schedule(c.json, 0, back=False) is not None


def _after(c: Object, ms: int) -> int | None:
    """The first time of the schedule after a moment, in ms."""
    every = _every(c)
    if every is not None:
        return ms - ms % 1000 + every
    times = _schedule(c, ms, back=False)
    try:
        return int(next(times).timestamp() * 1000) if times is not None else None
    except StopIteration:
        return None


def _earliest(c: Object, now: int) -> int:
    last = moment(at(c, "status", "lastScheduleTime"))
    found = last if last is not None else workloads.created(c)
    limit = at(c, "spec", "startingDeadlineSeconds")
    return max(found, now - 1000 * limit) if isinstance(limit, int) else found


def _latest(c: Object, now: int) -> int | None:
    """The latest time that has come and for which nothing has been started, in ms."""
    earliest, every = _earliest(c, now), _every(c)
    if every is not None:
        missed = (now - earliest) // every
        return earliest - earliest % 1000 + missed * every if missed > 0 else None
    times = _schedule(c, now + 1000, back=True)  # backwards from just behind: a time that is now counts
    try:
        found = int(next(times).timestamp() * 1000) if times is not None else None
    except StopIteration:
        return None
    return found if found is not None and earliest < found <= now else None


def slot(c: Kept, now: int) -> int:
    """The minute for which a job is due; 0 if none is."""
    found = _latest(c.json, now)
    return found // MINUTE_MS if found is not None else 0


def slot_time(c: Kept, now: int) -> int:
    """The time for which it is due, in ms."""
    found = _latest(c.json, now)
    return found if found is not None else now


def too_late(c: Kept, now: int) -> bool:
    """Whether startingDeadlineSeconds have passed since."""
    limit, found = at(c.json, "spec", "startingDeadlineSeconds"), _latest(c.json, now)
    return isinstance(limit, int) and found is not None and found + 1000 * limit < now


def missed_many(c: Kept, now: int) -> bool:
    """Whether more than a hundred times have passed without a job."""
    when: int | None = _earliest(c.json, now)
    for _ in range(MANY_MISSED + 1):
        when = _after(c.json, when) if when is not None else None
        if when is None or when > now:
            return False
    return True


def until_next(c: Kept, now: int) -> int:
    """Milliseconds until the next time, and a little more, as upstream waits; a day if there is none."""
    found = _after(c.json, now)
    return max(1, found - now + 100) if found is not None else DAY_MS


# ---------------------------------------------------------------- jobs
def job_labels(c: Kept) -> Object:
    """The labels of a new job."""
    return dict(at(c.json, "spec", "jobTemplate", "metadata", "labels") or {})


def job_annotations(c: Kept, now: int) -> Object:
    """Its annotations: the template's and the time it is for."""
    when = datetime.fromtimestamp(slot_time(c, now) / 1000, _zone(c.json) or UTC)
    stamp = when.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {**(at(c.json, "spec", "jobTemplate", "metadata", "annotations") or {}), SCHEDULED: stamp}


def job_spec(c: Kept) -> Object:
    """Its spec."""
    return dict(at(c.json, "spec", "jobTemplate", "spec") or {})


def started(job: Kept) -> int:
    """When a job began, in ms; those that have not are the latest."""
    found = moment(at(job.json, "status", "startTime"))
    return found if found is not None else 2**62


def references(jobs: Sequence[Kept]) -> Any:
    """References to jobs, by name; null for none."""
    rows = [
        {
            "apiVersion": "batch/v1", "kind": "Job", "name": at(j.json, "metadata", "name"),
            "namespace": at(j.json, "metadata", "namespace"), "uid": at(j.json, "metadata", "uid"),
            "resourceVersion": at(j.json, "metadata", "resourceVersion"),
        }
        for j in jobs
    ]  # fmt: skip
    return sorted(rows, key=lambda r: str(r["name"])) or None


def same_references(c: Kept, jobs: Sequence[Kept]) -> bool:
    """Whether the status refers to just these jobs."""
    have = {r.get("uid") for r in at(c.json, "status", "active") or ()}
    return have == {at(j.json, "metadata", "uid") for j in jobs}


def listed(c: Kept, job: Kept) -> bool:
    """Whether the status says that the job runs."""
    return any(r.get("uid") == at(job.json, "metadata", "uid") for r in at(c.json, "status", "active") or ())


def last_success(c: Kept, jobs: Sequence[Kept]) -> int | None:
    """When the latest of the jobs that completed did; what the status says, if that is later."""
    ends = [moment(at(j.json, "status", "completionTime")) for j in jobs if workloads.condition(j.json, "Complete")]
    known = moment(at(c.json, "status", "lastSuccessfulTime"))
    return max((e for e in [*ends, known] if e is not None), default=None)


def successes_kept(c: Kept) -> int:
    """successfulJobsHistoryLimit"""
    return number(c.json, "spec", "successfulJobsHistoryLimit", default=3)


def failures_kept(c: Kept) -> int:
    """failedJobsHistoryLimit"""
    return number(c.json, "spec", "failedJobsHistoryLimit", default=1)
