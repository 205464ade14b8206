"""What the workload specs compute: percentages, hashes, indexes, back-off, schedules, choice of nodes."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from dashpot.model.extern import cronjob, daemonset, deployment, job, labels, workloads

Object = dict[str, Any]
NOON = 1_800_014_400_000
"""2027-01-15T12:00:00Z"""


@frozen
class Kept:
    """An object as a spec has it."""

    json: Object


def test_fnv_is_that_of_upstream() -> None:
    assert workloads.fnv32a(b"") == 0x811C9DC5 and workloads.fnv32a(b"a") == 0xE40C292C
    assert workloads.safe(0) == "4" and set(workloads.safe(1234567890)) <= set(workloads.SAFE)


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [("25%", 5, 2, 1), ("0%", 5, 0, 0), (3, 5, 3, 3), ("100%", 7, 7, 7), (None, 5, 0, 0)],
)
def test_percentages_are_rounded_both_ways(value: Any, total: int, up: int, down: int) -> None:
    assert (workloads.scaled(value, total, up=True), workloads.scaled(value, total, up=False)) == (up, down)


@pytest.mark.parametrize(
    ("selector", "have", "chosen"),
    [
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
        ({}, {"a": "1"}, True),
        (None, {"a": "1"}, False),
    ],
)
def test_selectors(selector: Any, have: dict[str, str], chosen: bool) -> None:
    assert labels.matches(selector, have) is chosen


def _sized(name: str, size: int, most: int, made: str) -> Kept:
    meta = {"name": name, "creationTimestamp": made, "annotations": {deployment.MOST: str(most)}}
    return Kept({"metadata": meta, "spec": {"replicas": size}})


def test_scaling_keeps_proportions_and_the_largest_takes_the_rest() -> None:
    rolling = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}}
    d = Kept({"spec": {"replicas": 15, **rolling}, "status": {"replicas": 13}})
    # The example of the Kubernetes documentation: 10 + 3 pods in sets of 8 and 5, scaled to 15.
    old, new = _sized("old", 8, 13, "2026-01-01T00:00:00Z"), _sized("new", 5, 13, "2026-01-02T00:00:00Z")
    assert (deployment.share(d, [old, new], old), deployment.share(d, [old, new], new)) == (11, 7)


@pytest.mark.parametrize("text", ["0", "0,1", "0-2", "0-2,4,6-8", "1,3-5,7,8"])
def test_indexes_are_read_and_written_alike(text: str) -> None:
    assert job.told(job.parsed(text)) == text


def _failed(at_ms: int) -> Kept:
    ended = [{"state": {"terminated": {"finishedAt": workloads.written(at_ms)}}}]
    return Kept({"status": {"phase": "Failed", "containerStatuses": ended}})


@pytest.mark.parametrize(("failures", "wait_s"), [(1, 10), (2, 20), (4, 80), (6, 320), (7, 360), (60, 360)])
def test_back_off_doubles_up_to_six_minutes(failures: int, wait_s: int) -> None:
    assert job.backoff([_failed(NOON)] * failures, NOON) == wait_s * 1000
    assert not job.backing_off([_failed(NOON)] * failures, NOON + wait_s * 1000)


def _cron(schedule: str, last: str, **spec: Any) -> Kept:
    return Kept({"spec": {"schedule": schedule, **spec}, "status": {"lastScheduleTime": last}})


@pytest.mark.parametrize(
    ("schedule", "spec", "due"),
    [
        ("0 * * * *", {}, "2027-01-15T12:00:00Z"),
        ("@daily", {}, "2027-01-15T00:00:00Z"),
        ("30 8 * * *", {"timeZone": "America/New_York"}, None),
        ("30 6 * * *", {"timeZone": "America/New_York"}, "2027-01-15T11:30:00Z"),
        ("0 0 1 1 *", {}, None),
        ("0 11 * * *", {"startingDeadlineSeconds": 60}, None),
        ("@every 1h", {}, "2027-01-15T12:00:00Z"),
    ],
)
def test_the_latest_time_that_is_due(schedule: str, spec: Object, due: str | None) -> None:
    found = _cron(schedule, "2027-01-14T23:00:00Z", **spec)
    wanted = workloads.moment(due)
    assert cronjob.slot(found, NOON) == (wanted // 60_000 if wanted is not None else 0)


@pytest.mark.parametrize(("schedule", "zone"), [("x", None), ("* * * *", None), ("* * * * *", "Nowhere/At-All")])
def test_what_cannot_be_read_is_never_due(schedule: str, zone: str | None) -> None:
    found = _cron(schedule, "2027-01-14T23:00:00Z", **({"timeZone": zone} if zone else {}))
    assert not cronjob.readable(found) and cronjob.slot(found, NOON) == 0


def test_more_than_a_hundred_missed_times_are_many() -> None:
    assert not cronjob.missed_many(_cron("* * * * *", "2027-01-15T10:20:00Z"), NOON)
    assert cronjob.missed_many(_cron("* * * * *", "2027-01-15T10:19:00Z"), NOON)


def _node(*taints: tuple[str, str], **have: str) -> Kept:
    rows = [{"key": key, "effect": effect} for key, effect in taints]
    return Kept({"metadata": {"name": "a", "labels": have}, "spec": {"taints": rows}})


@pytest.mark.parametrize(
    ("node", "spec", "comes", "stays"),
    [
        (_node(), {}, True, True),
        (_node(("node.kubernetes.io/unschedulable", "NoSchedule")), {}, True, True),
        (_node(("node.kubernetes.io/not-ready", "NoExecute")), {}, True, True),
        (_node(("gpu", "NoSchedule")), {}, False, True),
        (_node(("gpu", "NoExecute")), {}, False, False),
        (_node(("gpu", "NoExecute")), {"tolerations": [{"operator": "Exists"}]}, True, True),
        (_node(disk="ssd"), {"nodeSelector": {"disk": "hdd"}}, False, False),
        (_node(("node.kubernetes.io/network-unavailable", "NoSchedule")), {}, False, True),
        (_node(("node.kubernetes.io/network-unavailable", "NoSchedule")), {"hostNetwork": True}, True, True),
    ],
)
def test_which_nodes_want_a_daemon(node: Kept, spec: Object, comes: bool, stays: bool) -> None:
    d = Kept({"spec": {"template": {"spec": spec}}})
    assert (daemonset.should_run(d, node), daemonset.may_stay(d, node)) == (comes, stays)
