"""What kubernetes.job computes.

Sources: pkg/controller/job (job_controller.go, indexed_job_utils.go, backoff_utils.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dashpot.model.extern import workloads
from dashpot.model.extern.workloads import Kept, Object, at, moment, number

INDEX = "batch.kubernetes.io/job-completion-index"
TRACKED = "batch.kubernetes.io/job-tracking"
FIRST_BACKOFF_MS = 10_000
LONGEST_BACKOFF_MS = 360_000
MOST_DOUBLINGS = 30


def token(pod: Kept) -> str:
    """What a pod counts under until its finalizer is gone: its uid."""
    return str(at(pod.json, "metadata", "uid") or "")


# ---------------------------------------------------------------- indexes
def index_of(pod: Object) -> int | None:
    """The completion index of a pod, or None."""
    text = at(pod, "metadata", "annotations", INDEX)
    return int(text) if isinstance(text, str) and text.isdigit() else None


def parsed(text: str | None) -> set[int]:
    """The numbers of "1,3-5"."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            found.update(range(int(first), int(last or first) + 1))
    return found


def told(numbers: Iterable[int]) -> str:
    """Numbers as "1,3-5"; two neighbours are joined by a comma, as upstream writes them."""
    parts: list[str] = []
    run: list[int] = []
    for n in [*sorted(numbers), None]:
        if run and (n is None or n != run[-1] + 1):
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(r) for r in run]
            run = []
        if n is not None:
            run.append(n)
    return ",".join(parts)


def indexes_done(job: Kept, pods: Sequence[Kept]) -> str | None:
    """The indexes that have succeeded, with those of pods that just did; null for none."""
    done = parsed(at(job.json, "status", "completedIndexes"))
    most = number(job.json, "spec", "completions")
    for pod in pods:
        index = index_of(pod.json)
        if at(pod.json, "status", "phase") == "Succeeded" and index is not None and index < most:
            done.add(index)
    return told(done) or None


def count_indexes(done: str | None) -> int:
    """How many they are."""
    return len(parsed(done))


def free_indexes(job: Kept, pods: Sequence[Kept]) -> list[int]:
    """The indexes that neither succeeded nor have an active pod, ascending."""
    done = parsed(indexes_done(job, pods))
    busy = {index_of(p.json) for p in pods if workloads.is_active(p.json)}
    return [i for i in range(number(job.json, "spec", "completions")) if i not in done and i not in busy]


# ---------------------------------------------------------------- pods
def _indexed(index: int) -> dict[str, str]:
    return {INDEX: str(index)} if index >= 0 else {}


def pod_labels(job: Kept, index: int) -> Object:
    """The labels of a new pod; `index` -1: the job has none."""
    return {**workloads.template_labels(at(job.json, "spec", "template")), **_indexed(index)}


def pod_annotations(job: Kept, index: int) -> Object:
    """Its annotations."""
    return {**workloads.template_annotations(at(job.json, "spec", "template")), **_indexed(index)}


def pod_spec(job: Kept, index: int) -> Object:
    """Its spec: an indexed pod has its index in JOB_COMPLETION_INDEX and in its host name."""
    spec = workloads.template_spec(at(job.json, "spec", "template"))
    if index < 0:
        return spec
    where = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": where}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_with_variable(c, variable) for c in spec[kind]]
    return {**spec, "hostname": f"{at(job.json, 'metadata', 'name')}-{index}"}


def _with_variable(container: Object, variable: Object) -> Object:
    env = list(container.get("env") or ())
    if any(e.get("name") == variable["name"] for e in env):
        return container
    return {**container, "env": [*env, variable]}


def pod_prefix(job: Kept, index: int) -> str:
    """What the generated name begins with."""
    name = str(at(job.json, "metadata", "name"))
    prefix = f"{name}-{index}-" if index >= 0 else f"{name}-"
    return prefix if len(prefix) <= 58 else prefix[:57].rstrip("-.") + "-"


# ---------------------------------------------------------------- times
def has_deadline(job: Kept) -> bool:
    """Whether the job may run for some time only, and runs."""
    return number(job.json, "spec", "activeDeadlineSeconds", default=-1) >= 0 and bool(
        at(job.json, "status", "startTime")
    )


def _left(job: Kept, now: int) -> int:
    start = moment(at(job.json, "status", "startTime")) or now
    return start + 1000 * number(job.json, "spec", "activeDeadlineSeconds") - now


def overdue(job: Kept, now: int) -> bool:
    """Whether that time is over."""
    return has_deadline(job) and _left(job, now) <= 0


def until_overdue(job: Kept, now: int) -> int:
    """Milliseconds until it is; at least 1."""
    return max(1, _left(job, now))


def _end(pod: Object) -> int:
    """When a pod ended, in ms: the latest of its containers, else its deletion, else its creation."""
    ends = [
        moment(at(c, "state", "terminated", "finishedAt")) or 0 for c in at(pod, "status", "containerStatuses") or ()
    ]
    if any(ends):
        return max(ends)
    stamp = (workloads.condition(pod, "Ready") or {}).get("lastTransitionTime")
    return moment(stamp) or moment(at(pod, "metadata", "deletionTimestamp")) or workloads.created(pod)


def _failures(pods: Sequence[Kept]) -> list[int]:
    """When pods failed since the last one succeeded."""
    wins = [_end(p.json) for p in pods if at(p.json, "status", "phase") == "Succeeded"]
    last = max(wins, default=-1)
    return sorted(e for p in pods if at(p.json, "status", "phase") == "Failed" and (e := _end(p.json)) > last)


def _backoff(pods: Sequence[Kept], now: int) -> int:
    ends = _failures(pods)
    if not ends:
        return 0
    wait = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(len(ends) - 1, MOST_DOUBLINGS))
    return max(0, ends[-1] + wait - now)


def backing_off(pods: Sequence[Kept], now: int) -> bool:
    """Whether a new pod has to wait because others failed: 10 s, doubled for each failure in a row, at most 6 min."""
    return _backoff(pods, now) > 0


def backoff(pods: Sequence[Kept], now: int) -> int:
    """For how many milliseconds; at least 1."""
    return max(1, _backoff(pods, now))


def expires(job: Kept) -> bool:
    """Whether the job goes by itself when it has finished."""
    return isinstance(at(job.json, "spec", "ttlSecondsAfterFinished"), int)


def _ended(job: Object) -> int | None:
    for type_ in ("Complete", "Failed"):
        found = workloads.condition(job, type_)
        if found is not None and found.get("status") == "True":
            return moment(found.get("lastTransitionTime"))
    return None


def _lifetime(job: Kept, now: int) -> int:
    ended: Any = _ended(job.json)
    return (now if ended is None else int(ended)) + 1000 * number(job.json, "spec", "ttlSecondsAfterFinished") - now


def expired(job: Kept, now: int) -> bool:
    """Whether its time to live after the end is over."""
    return _lifetime(job, now) <= 0


def until_expired(job: Kept, now: int) -> int:
    """Milliseconds until then; at least 1."""
    return max(1, _lifetime(job, now))
