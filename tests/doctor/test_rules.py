"""Thresholds and rules by tables; the figures that only this server has."""

from __future__ import annotations

from typing import Any

import pytest

from dashpot.runtime.doctor.causes import causes
from dashpot.runtime.doctor.controllers import controllers
from dashpot.runtime.doctor.diagnosis import LEAST
from dashpot.runtime.doctor.reading import Reading, moment, parse, rates
from dashpot.runtime.doctor.unsettled import unsettled
from tests.doctor.kit import Object, Ward, run

MADE = "2026-01-01T00:00:00Z"
AT = (moment(MADE) or 0.0) + 100


def pages(before: str, after: str, seconds: float = 10.0) -> tuple[Reading, Reading]:
    return Reading(AT, {}, parse(before)), Reading(AT + seconds, {}, parse(after))


def test_pages_are_read() -> None:
    found = parse('# HELP a x\na{n="1 {x}",m="\\"q\\""} 3.5\nb 2\nc nonsense\nb{} 4\n')
    assert found["a"] == {(("m", '\\"q\\"'), ("n", "1 {x}")): 3.5}
    assert found["b"] == {(): 4.0}
    assert "c" not in found


def test_rates_are_of_the_window_and_begin_anew_with_the_server() -> None:
    assert rates(*pages('a{x="1"} 10\na{x="2"} 5', 'a{x="1"} 30\na{x="2"} 5'), "a") == [({"x": "1"}, 2.0)]
    assert rates(*pages("", "a 40"), "a") == [({}, 4.0)]


STAMP = 'workqueue_queue_duration_seconds_count{{controller="C",name="C"}} {}\n'
DEEP = 'workqueue_depth{controller="C",name="C"} 3\n'
LONG = 'workqueue_longest_running_processor_seconds{{controller="JobController",name="JobController"}} {}\n'
PASSED = 'controller_runtime_reconcile_total{{controller="C",result="{}"}} {}\n'
ERRORS = 'controller_runtime_reconcile_errors_total{{controller="C"}} {}\n'
SINCE = 'dashpot_controller_failing_since_seconds{{controller="C",error="no \\"x\\"",key="d/n"}} {}\n'
KEYS = 'dashpot_controller_failing_keys{controller="C"} 2\n'


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            DEEP + STAMP.format(7),
            DEEP + STAMP.format(7),
            "controller-stuck controller C: its queue stands still: 3 keys",
        ),
        (DEEP + STAMP.format(7), DEEP + STAMP.format(8), ""),
        (STAMP.format(7), DEEP + STAMP.format(7), ""),
        ("", LONG.format(45), "controller-stuck controller job-controller: a pass of it has been at work for 45 s"),
        ("", LONG.format(20), ""),
        ("", ERRORS.format(9) + PASSED.format("error", 9), "controller-failing controller C: all its passes fail: 0.9"),
        ("", ERRORS.format(9) + PASSED.format("success", 1), ""),
        ("", ERRORS.format(2) + PASSED.format("error", 2), ""),
        ("", PASSED.format("success", 900), "hot-loop controller C: it makes 90 passes a second"),
        ("", PASSED.format("success", 400), ""),
        (
            KEYS + SINCE.format(AT - 60),
            KEYS + SINCE.format(AT - 60),
            'controller-failing controller C: it has failed on d/n and 1 more for 70 s, last 70 s ago: no "x"',
        ),
        (KEYS + SINCE.format(AT - 60), KEYS + SINCE.format(AT - 50), ""),
        (KEYS + SINCE.format(AT - 5), KEYS + SINCE.format(AT - 5), ""),
    ],
)
def test_figures_of_controllers(before: str, after: str, told: str) -> None:
    found = [f"{one.code} {one.object}: {one.text}" for one in controllers(*pages(before, after))]
    assert [one[: len(told)] for one in found] == ([told] if told else [])


WRITES = 'etcd_request_duration_seconds_{}{{operation="{}",resource="pods"}} {}\n'


@pytest.mark.parametrize(
    ("page", "first"),
    [
        (WRITES.format("sum", "create", 3) + WRITES.format("count", "create", 10), "store-slow store (pods)"),
        (WRITES.format("sum", "create", 0.5) + WRITES.format("count", "create", 10), ""),
        (WRITES.format("sum", "list", 3) + WRITES.format("count", "list", 10), ""),
        ('dashpot_store_size_bytes{store="e"} 90\ndashpot_store_quota_bytes{store="e"} 100\n', "store-size store e"),
        ('dashpot_store_size_bytes{store="e"} 70\ndashpot_store_quota_bytes{store="e"} 100\n', ""),
        ('dashpot_client_requests_total{user_agent="a",verb="get",resource="pods"} 900\n', "hot-loop client a"),
        ('dashpot_client_requests_total{user_agent="a",verb="get",resource="pods"} 400\n', ""),
        ('dashpot_client_requests_total{user_agent="a",verb="watch",resource="pods"} 300\n', "watch-flood client a"),
        ('dashpot_client_requests_total{user_agent="dashpot-doctor",verb="get",resource="pods"} 900\n', ""),
        (
            'apiserver_flowcontrol_rejected_requests_total{priority_level="x",reason="queue-full"} 5\n',
            "throttled priority level x",
        ),
    ],
)
def test_figures(page: str, first: str) -> None:
    found = causes(*pages("", page))
    assert [f"{one.code} {one.object}" for one in found] == ([first] if first else [])


@pytest.mark.parametrize(("objects", "hot"), [(100, False), (5, True)])
def test_a_rollout_is_no_loop(objects: int, hot: bool) -> None:
    def pods(version: str) -> list[Object]:
        return [{"metadata": {"name": f"p{at}", "uid": f"{at}", "resourceVersion": version}} for at in range(objects)]

    page = parse('dashpot_client_requests_total{user_agent="a",verb="patch",resource="pods"} 900\n')
    before, after = Reading(AT, {"Pod": pods("1")}, {}), Reading(AT + 10, {"Pod": pods("2")}, page)
    found = [one.code for one in causes(before, after) if one.code == "hot-loop"]
    assert found == (["hot-loop"] if hot else [])


def thing(spec: Object, status: Object, **meta: Any) -> Object:
    return {
        "metadata": {"name": "n", "namespace": "d", "uid": "u", "creationTimestamp": MADE, **meta},
        "spec": spec,
        "status": status,
    }


def true(kind: str, reason: str = "", message: str = "", status: str = "True") -> Object:
    return {"conditions": [{"type": kind, "status": status, "reason": reason, "message": message}]}


@pytest.mark.parametrize(
    ("kind", "obj", "waits"),
    [
        ("Deployment", thing({"replicas": 3}, {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}), ""),
        ("Deployment", thing({"replicas": 3}, {}), "3 pods to exist (0 do, 0 are ready)"),
        ("Deployment", thing({"replicas": 3, "paused": True}, {}), ""),
        ("Deployment", thing({"replicas": 1}, {}, generation=2), "generation 2 to be observed (0 is)"),
        ("StatefulSet", thing({"replicas": 2}, {"replicas": 2, "readyReplicas": 1}), "2 pods to be ready (1 are)"),
        ("DaemonSet", thing({}, {"desiredNumberScheduled": 2, "numberReady": 1}), "2 pods to be ready (1 are)"),
        ("Job", thing({}, {}), "its pods to be made"),
        ("Job", thing({}, true("Complete")), ""),
        ("Job", thing({}, true("Failed")), "nothing more: it has failed"),
        ("PersistentVolumeClaim", thing({"storageClassName": "fast"}, {"phase": "Pending"}), "a volume of class fast"),
        (
            "Namespace",
            thing({"finalizers": ["kubernetes"]}, {}, deletionTimestamp=MADE),
            "its content to go (kubernetes)",
        ),
        ("Namespace", thing({"finalizers": ["kubernetes"]}, {"phase": "Active"}), ""),
        ("Pod", thing({}, {}, deletionTimestamp=MADE, finalizers=["a.io/b"]), "its finalizers to be removed: a.io/b"),
        ("Node", thing({}, true("Ready", status="Unknown", message="gone")), "its kubelet: gone"),
        ("Service", thing({"type": "LoadBalancer"}, {}), "an address of a load balancer"),
        ("PodDisruptionBudget", thing({}, {}, generation=1), "generation 1 to be observed (0 is)"),
        (
            "HorizontalPodAutoscaler",
            thing({}, true("ScalingActive", "FailedGetResourceMetric", "no metrics", "False")),
            "ScalingActive: no metrics",
        ),
    ],
)
def test_what_an_object_waits_for(kind: str, obj: Object, waits: str) -> None:
    seen = Reading(AT, {kind: [obj]})
    assert [one.waits_for for one in unsettled(seen, seen)] == ([waits] if waits else [])
    young = Reading(AT - 90, {kind: [obj]})
    assert not unsettled(young, young)


def test_what_moves_is_not_stuck() -> None:
    before, after = (thing({"replicas": 9}, {"replicas": 9, "readyReplicas": at}) for at in (3, 5))
    assert not unsettled(Reading(AT, {"Deployment": [before]}), Reading(AT, {"Deployment": [after]}))


def test_the_last_error_is_the_newest_warning() -> None:
    def event(at: str, text: str, kind: str = "Warning") -> Object:
        return {"type": kind, "reason": "R", "message": text, "lastTimestamp": at, "involvedObject": {"uid": "u"}}

    events = [event("2026-01-01T00:00:02Z", "new"), event("2026-01-01T00:00:01Z", "old"), event(MADE, "x", "Normal")]
    seen = Reading(AT, {"ReplicaSet": [thing({}, true("ReplicaFailure", "F", "quota"))]})
    assert [one.error for one in unsettled(seen, seen)] == ["F: quota"]
    told = Reading(AT, {**seen.objects, "Event": events})
    assert [one.error for one in unsettled(told, told)] == ["R: new"]


def test_requests_and_watches_by_user_agent() -> None:
    async def test(ward: Ward) -> None:
        async def figures() -> dict[str, Any]:
            return parse((await ward.server.metrics.page()).body.decode())

        agent = (("user_agent", 'x"y/1'),)
        for _ in range(3):
            await ward.named('x"y/1 (linux)').list("pods", "default")
        watch = await ward.server.local.request(
            "GET", "/api/v1/pods", query={"watch": "true"}, headers={"user-agent": 'x"y/1'}
        )
        shown = tuple((key, value.replace('"', '\\"')) for key, value in agent)
        found = await figures()
        assert set(LEAST) <= set(found)
        assert (
            found["dashpot_client_requests_total"][tuple(sorted((*shown, ("resource", "pods"), ("verb", "list"))))] == 3
        )
        assert found["dashpot_client_watches"][shown] == 1
        await watch.chunks.aclose()  # type: ignore[union-attr]
        assert shown not in (await figures()).get("dashpot_client_watches", {})

    run(test, plane=False)
