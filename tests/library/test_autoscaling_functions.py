"""The arithmetic of the horizontal autoscaler: each kind of metric, pods that tell nothing, limits, texts."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.extern import hpa, metrics, replicas
from dashpot.model.extern.metrics import Sample, Unmeasured
from dashpot.model.extern.replicas import Tolerance
from dashpot.model.extern.workloads import written

Object = dict[str, Any]
NOW = 1_700_000_000_000
MIN = 60_000


@frozen
class Kept:
    json: Object


def pod(
    name: str, *, phase: str = "Running", ready: bool = True, started: int = 10, moved: int = 10, **more: Any
) -> Object:
    """A pod that started and changed its readiness so many minutes ago and asks for 1 cpu."""
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": written(NOW - moved * MIN)}]
    return {
        "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **more.pop("spec", {})},
        "status": {"phase": phase, "startTime": written(NOW - started * MIN), "conditions": conditions, **more},
    }


def pods(count: int) -> list[Object]:
    return [pod(f"p{at}") for at in range(count)]


def used(*values: int | None) -> dict[str, Sample]:
    """Samples of p0, p1 …, in thousandths; None: no sample."""
    return {f"p{at}": Sample(value, NOW, MIN) for at, value in enumerate(values) if value is not None}


def utilization(current: int, target: int, samples: dict[str, Sample], rows: list[Object], **more: Any) -> int:
    return replicas.by_utilization(current, target, "cpu", samples, rows, NOW, **more).replicas


# ---------------------------------------------------------------- utilization
@pytest.mark.parametrize(
    ("target", "values", "wanted"),
    [
        (30, (300, 500, 700), 5),
        (100, (100, 300, 500, 250, 250), 2),
        (50, (500, 500, 500), 3),
        (50, (540, 540), 2),  # within a tenth
        (50, (560, 560), 3),
        (50, (455, 455), 2),
        (50, (440, 440, 440, 440, 440), 5),  # four and a half
        (50, (0, 0), 0),
        (90, (1000, 1000, 1000, 1000), 5),
    ],
)
def test_a_share_of_what_pods_ask_for(target: int, values: tuple[int, ...], wanted: int) -> None:
    count = len(values)
    assert utilization(count, target, used(*values), pods(count)) == wanted


@pytest.mark.parametrize(
    ("target", "values", "wanted"),
    [
        (100, (400, 950, None), 3),  # down: who tells nothing is taken to use all it asked for
        (30, (450, 450, None), 3),  # up: nothing; then what is left is as good as the target
        (50, (1500, 1500, None, None), 6),
        (30, (310, 310, None), 3),  # what was nearly enough does not turn into less
        (300, (100, 100, None), 2),  # a target above 100 %: it is taken to use the target
    ],
)
def test_pods_without_a_sample(target: int, values: tuple[int | None, ...], wanted: int) -> None:
    assert utilization(len(values), target, used(*values), pods(len(values))) == wanted


def test_pods_that_are_not_ready_use_nothing_where_more_are_wanted() -> None:
    rows = [pod("p0"), pod("p1"), pod("p2", ready=False, started=1, moved=1)]
    assert utilization(3, 30, used(600, 600, 900), rows) == 4
    assert utilization(3, 50, used(600, 600, 900), rows) == 3
    # where fewer are wanted they do not count at all
    assert utilization(3, 50, used(100, 100, 900), rows) == 1


@pytest.mark.parametrize(
    ("row", "early"),
    [
        (pod("p0", ready=True, started=10, moved=10), False),
        (pod("p0", ready=True, started=4, moved=2), False),
        (pod("p0", ready=True, started=4, moved=0), True),  # less than a window since it became ready
        (pod("p0", ready=False, started=4, moved=3), True),
        (pod("p0", ready=False, started=10, moved=3), False),  # it has been ready once
        (pod("p0", ready=False, started=10, moved=10), True),  # it never was
        (pod("p0", phase="Pending"), True),
        ({**pod("p0"), "status": {"phase": "Running"}}, True),
    ],
)
def test_who_is_not_ready(row: Object, early: bool) -> None:
    found = replicas.group([row], used(100), "cpu", NOW)
    assert (found.unready == {"p0"}) is early and found.ready == (not early)


def test_only_processors_ask_how_long_a_pod_has_been_ready() -> None:
    row = pod("p0", ready=False, started=1, moved=1)
    assert replicas.group([row], used(100), "memory", NOW).ready == 1


def test_pods_that_go_or_failed_do_not_count() -> None:
    rows = [pod("p0"), pod("p1", phase="Failed"), pod("p2", metadata={"deletionTimestamp": written(NOW)})]
    assert replicas.group(rows, used(1, 1, 1), "cpu", NOW).ignored == {"p1", "p2"}
    assert utilization(3, 50, used(1000, 9000, 9000), rows) == 2


def test_what_cannot_be_computed_is_said() -> None:
    bare = {**pod("p1"), "spec": {"containers": [{"name": "c"}]}}
    for rows, samples, text in [
        ([], used(1), "no pods returned by selector while calculating replica count"),
        ([pod("p0", phase="Pending")], used(1), "did not receive metrics for targeted pods (pods might be unready)"),
        ([pod("p0"), bare], used(1, 1), "missing request for cpu in container c of Pod p1"),
        ([pod("other")], used(1), "no metrics returned matched known pods"),
    ]:
        with pytest.raises(Unmeasured) as caught:
            utilization(1, 50, samples, rows)
        assert str(caught.value) == text


def test_requests_of_pods_sidecars_and_single_containers() -> None:
    row = pod("p0")
    row["spec"]["initContainers"] = [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
        {"name": "once"},
    ]
    assert replicas.requests([row], "cpu") == {"p0": 1250}
    assert replicas.requests([row], "cpu", "side") == {"p0": 250}
    row["spec"]["resources"] = {"requests": {"cpu": "4"}}
    assert replicas.requests([row], "cpu") == {"p0": 4000}


# ---------------------------------------------------------------- other targets
@pytest.mark.parametrize(
    ("values", "wanted"),
    [((20_000, 10_000, 30_000), 4), ((10_000, 10_000), 2), ((4_000, 4_000, 4_000), 1), ((30_000, None), 2)],
)
def test_a_mean_of_pods(values: tuple[int | None, ...], wanted: int) -> None:
    count = len(values)
    assert replicas.by_average(count, 15_000, used(*values), pods(count), NOW).replicas == wanted


def test_one_value() -> None:
    assert replicas.by_value(3, 20_000, 30_000, pods(3)).replicas == 5
    assert replicas.by_value(3, 20_000, 21_000, pods(3)).replicas == 3
    assert replicas.by_value(3, 20_000, 10_000, [*pods(2), pod("p2", ready=False)]).replicas == 1
    assert replicas.by_value(0, 20_000, 30_000, []).replicas == 2
    with pytest.raises(Unmeasured, match="unable to calculate ready pods: no pods returned by selector"):
        replicas.by_value(3, 20_000, 60_000, [])


def test_a_value_that_is_shared() -> None:
    assert replicas.by_share(3, 10_000, 45_000) == replicas.Proposal(5, 15_000)
    assert replicas.by_share(3, 10_000, 32_000).replicas == 3
    assert replicas.by_share(0, 10_000, 25_000).replicas == 3


def test_a_tolerance_of_its_own() -> None:
    narrow = Tolerance(0.1, 0.0)
    assert replicas.by_value(10, 100, 101, pods(10), narrow).replicas == 11
    assert replicas.by_value(10, 100, 95, pods(10), narrow).replicas == 10


@given(
    st.integers(1, 12),
    st.integers(1, 150),
    st.lists(st.one_of(st.none(), st.integers(0, 3000)), min_size=12, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_pods_that_tell_nothing_never_turn_the_direction(
    count: int, target: int, values: list[int | None], well: list[bool]
) -> None:
    rows = [pod(f"p{at}", ready=well[at], started=1, moved=1) for at in range(count)]
    samples = used(*values[:count])
    measured = [one.value for at in range(count) if well[at] and (one := samples.get(f"p{at}")) is not None]
    if measured:
        percent = sum(measured) * 100 // (1000 * len(measured))
        made = utilization(count, target, samples, rows)
        assert made >= count if percent > target else made <= count


# ---------------------------------------------------------------- answers
def test_samples_of_pods() -> None:
    row = {
        "metadata": {"name": "p0", "namespace": "default"},
        "timestamp": written(NOW),
        "window": "1m30s",
        "containers": [{"name": "c", "usage": {"cpu": "1500u"}}, {"name": "d", "usage": {"cpu": "2"}}],
    }
    assert metrics.resource_samples({"items": [row]}, "cpu") == {"p0": Sample(2002, NOW, 90_000)}
    assert metrics.resource_samples({"items": [row]}, "cpu", "d") == {"p0": Sample(2000, NOW, 90_000)}
    assert metrics.resource_samples({"items": [row]}, "memory") == {}
    text = "failed to get container metrics: container x not present in metrics for pod default/p0"
    with pytest.raises(Unmeasured, match=text):
        metrics.resource_samples({"items": [row]}, "cpu", "x")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "unable to fetch metrics from custom metrics API: the server could not find the requested resource"),
        ({"kind": "Status", "message": "no"}, "unable to fetch metrics from custom metrics API: no"),
        ({"items": []}, "no metrics returned from custom metrics API"),
        ({}, "no metrics returned from custom metrics API"),
    ],
)
def test_answers_that_tell_nothing(answer: Object | None, text: str) -> None:
    with pytest.raises(Unmeasured) as caught:
        metrics.custom_value(answer)
    assert str(caught.value) == text


def test_where_metrics_are_asked_for() -> None:
    chosen = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}],
    }
    assert metrics.selector_text(chosen) == "a=1,b=2,c in (x,y)"
    assert (
        metrics.resource_path("n", "a=1,b=2") == "metrics.k8s.io/v1beta1/namespaces/n/pods?labelSelector=a%3D1%2Cb%3D2"
    )
    front = "custom.metrics.k8s.io/v1beta2/namespaces/n/"
    assert metrics.pods_path("n", "a=1", {"name": "r"}) == front + "pods/*/r?labelSelector=a%3D1"
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "w"}
    assert metrics.object_path("n", ingress, {"name": "r"}) == front + "ingresses.networking.k8s.io/w/r"
    assert metrics.object_path("n", {"kind": "Namespace", "name": "x"}, {"name": "r"}) == front + "metrics/r"
    assert metrics.external_path("n", {"name": "q", "selector": {"matchLabels": {"a": "1"}}}) == (
        "external.metrics.k8s.io/v1beta1/namespaces/n/q?labelSelector=a%3D1"
    )
    assert metrics.selector_shown({"matchLabels": {"a": "1"}}) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,},MatchExpressions:[]LabelSelectorRequirement{},}"
    )


# ---------------------------------------------------------------- limits
def behaving(**behavior: Any) -> Kept:
    return Kept({"metadata": {"name": "h", "namespace": "n"}, "spec": {"behavior": behavior}})


PLAIN = Kept({"metadata": {"name": "h", "namespace": "n"}, "spec": {}})


@pytest.mark.parametrize(
    ("current", "stable", "size", "reason"),
    [
        (3, 5, 5, "DesiredWithinRange"),
        (1, 9, 4, "ScaleUpLimit"),
        (3, 9, 6, "ScaleUpLimit"),
        (8, 30, 10, "TooManyReplicas"),
        (5, 1, 2, "TooFewReplicas"),
        (5, 2, 2, "DesiredWithinRange"),
    ],
)
def test_limits_without_behavior(current: int, stable: int, size: int, reason: str) -> None:
    assert hpa.limited(PLAIN, current, stable, 2, 10, [], NOW) == size
    found = hpa.conditions(PLAIN, [{"replicas": stable, "name": "m"}], stable, stable, size, current, [], 2, 10, NOW)
    limited = next(c for c in found if c["type"] == "ScalingLimited")
    assert (limited["reason"], limited["status"]) == (reason, str(size != stable))


def policy(kind: str, value: int, seconds: int = 60) -> Object:
    return {"type": kind, "value": value, "periodSeconds": seconds}


@pytest.mark.parametrize(
    ("rules", "current", "changes", "up", "bound"),
    [
        ({}, 3, [], True, 7),
        ({}, 9, [], True, 18),
        ({}, 9, [], False, 0),
        ({"policies": [policy("Pods", 2)]}, 5, [], True, 7),
        ({"policies": [policy("Pods", 2)]}, 5, [(2, 30)], True, 5),
        ({"policies": [policy("Pods", 2)]}, 5, [(2, 61)], True, 7),
        ({"policies": [policy("Pods", 2)]}, 5, [(-2, 30)], True, 9),
        ({"policies": [policy("Percent", 10)]}, 5, [], True, 6),
        ({"policies": [policy("Percent", 50)]}, 5, [], False, 2),
        ({"policies": [policy("Percent", 50)]}, 3, [(-2, 10)], False, 2),
        ({"policies": [policy("Pods", 4), policy("Percent", 10)]}, 10, [], True, 14),
        ({"policies": [policy("Pods", 4), policy("Percent", 10)], "selectPolicy": "Min"}, 10, [], True, 11),
        ({"policies": [policy("Pods", 4), policy("Percent", 10)]}, 10, [], False, 6),
        ({"policies": [policy("Pods", 4), policy("Percent", 10)], "selectPolicy": "Min"}, 10, [], False, 9),
        ({"selectPolicy": "Disabled"}, 7, [], True, 7),
    ],
)
def test_rates(rules: Object, current: int, changes: list[tuple[int, int]], up: bool, bound: int) -> None:
    made = [{"by": by, "at": NOW - 1000 * seconds} for by, seconds in changes]
    assert hpa.rate(rules, current, made, NOW, up=up) == bound


def test_a_rate_that_is_used_up_does_not_shrink_what_grew() -> None:
    slow = behaving(scaleUp={"policies": [policy("Pods", 1)]})
    changes = [{"by": 3, "at": NOW - 1000}]
    assert hpa.limited(slow, 5, 9, 1, 10, changes, NOW) == 5
    assert hpa.limited(slow, 5, 5, 1, 10, changes, NOW) == 5


def test_changes_are_kept_as_long_as_a_policy_counts_them() -> None:
    rules = {"policies": [policy("Pods", 1, 120)]}
    old = [{"by": 1, "at": NOW - 130_000}, {"by": 1, "at": NOW - 110_000}]
    assert hpa.changed(behaving(scaleUp=rules), old, 3, 5, NOW) == [old[1], {"by": 2, "at": NOW}]
    assert hpa.changed(PLAIN, old, 3, 5, NOW) == []


def test_windows() -> None:
    assert (hpa.up_window(PLAIN), hpa.down_window(PLAIN)) == (0, 300_000)
    told = behaving(scaleUp={"stabilizationWindowSeconds": 30}, scaleDown={"stabilizationWindowSeconds": 0})
    assert (hpa.up_window(told), hpa.down_window(told)) == (30_000, 0)


# ---------------------------------------------------------------- texts
def test_conditions_move_only_with_their_status() -> None:
    first = hpa.condition(None, "AbleToScale", True, "A", "a", NOW)
    second = hpa.condition(first, "AbleToScale", True, "B", "b", NOW + MIN)
    third = hpa.condition(second, "AbleToScale", False, "C", "c", NOW + MIN)
    assert [c[0]["lastTransitionTime"] for c in (first, second, third)] == [
        written(NOW), written(NOW), written(NOW + MIN)
    ]  # fmt: skip
    assert third[0]["reason"] == "C" and first[0]["reason"] == "A"


def test_why_the_size_changes() -> None:
    found: list[Object] = [{"replicas": 3, "name": "a"}, {"replicas": 5, "name": "b"}, {"replicas": -1}]
    assert hpa.why(found, 4, 1, 9) == "b above target"
    assert hpa.why(found, 6, 1, 9) == "All metrics below target"
    assert hpa.why(found, 10, 1, 9) == "Current number of replicas above Spec.MaxReplicas"
    assert hpa.why(found, 1, 2, 9) == "Current number of replicas below Spec.MinReplicas"


def test_a_source_that_nobody_knows() -> None:
    scale = Kept({"spec": {"replicas": 1}, "status": {"replicas": 1, "selector": "a=b"}})
    found = hpa.proposal(PLAIN, scale, {"type": "Moon"}, [], None, NOW)
    assert hpa.failure(found) == "InvalidMetricSourceType" and hpa.told(found) == 'unknown metric source type "Moon"'


def test_selectors_that_are_unfit() -> None:
    def scale(selector: str) -> Kept:
        return Kept({"spec": {"replicas": 1}, "status": {"selector": selector}})

    assert hpa.said(hpa.unfit(PLAIN, scale(""), [], [], {})) == "selector is required"
    assert hpa.event_of(hpa.unfit(PLAIN, scale("a in (b"), [], [], {})) == "InvalidSelector"
    assert hpa.event_of(hpa.unfit(PLAIN, scale("a=b"), [], [], {})) == ""
    other = Kept({"metadata": {"name": "i", "namespace": "n"}})
    labelled = Kept({"metadata": {"name": "p", "labels": {"a": "b", "c": "d"}}})
    assert hpa.said(hpa.unfit(PLAIN, scale("a=b"), [labelled], [other], {"n/i": "c=d"})) == (
        "pods by selector a=b are controlled by multiple HPAs: [n/h n/i]"
    )
    assert hpa.unfit(PLAIN, scale("a=b"), [labelled], [other], {"n/i": "c=x"}) == {}
