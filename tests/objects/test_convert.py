"""Two versions over one storage: what each field becomes, and nothing lost on the way."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects.convert import BEHAVIOR, CONDITIONS, CURRENT, METRICS, convert
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.schema import shape
from dashpot.model.objects.status import StatusError

Object = dict[str, Any]


def test_events() -> None:
    old = {
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"name": "p"}, "message": "m",
        "source": {"component": "c"}, "firstTimestamp": "1", "lastTimestamp": "2", "count": 3, "type": "Normal",
        "reason": "r", "reportingComponent": "rc", "reportingInstance": "ri", "action": "a",
    }  # fmt: skip
    new = convert(old, "events.k8s.io/v1")
    assert new == {
        "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"}, "regarding": {"name": "p"},
        "note": "m", "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "1",
        "deprecatedLastTimestamp": "2", "deprecatedCount": 3, "type": "Normal", "reason": "r",
        "reportingController": "rc", "reportingInstance": "ri", "action": "a",
    }  # fmt: skip
    assert convert(new, "v1") == old


def hpa(version: str, **parts: Any) -> Object:
    base = {"kind": "HorizontalPodAutoscaler", "apiVersion": f"autoscaling/{version}", "metadata": {"name": "h"}}
    return {**base, **parts}


def test_autoscaler_v1_as_v2() -> None:
    reference = {"kind": "Deployment", "name": "d"}
    old = hpa(
        "v1",
        spec={"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70},
        status={"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 60},
    )
    new = convert(old, "autoscaling/v2")
    assert new["spec"] == {
        "scaleTargetRef": reference,
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
            }
        ],
    }
    assert new["status"] == {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 60}}}],
    }


def test_autoscaler_v2_as_v1_carries_the_rest_in_annotations() -> None:
    external = {
        "type": "External",
        "external": {"metric": {"name": "q", "selector": {}}, "target": {"type": "AverageValue", "averageValue": "5"}},
    }
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    conditions = [{"type": "AbleToScale", "status": "True"}]
    new = hpa("v2", spec={"metrics": [cpu, external], "behavior": {"scaleUp": {}}}, status={"conditions": conditions})
    before = copy.deepcopy(new)
    old = convert(new, "autoscaling/v1")
    assert new == before
    assert old["spec"] == {"targetCPUUtilizationPercentage": 50}
    assert {key: msgspec.json.decode(text) for key, text in old["metadata"]["annotations"].items()} == {
        METRICS: [
            {"type": "External", "external": {"metricName": "q", "metricSelector": {}, "targetAverageValue": "5"}}
        ],
        CONDITIONS: conditions,
        BEHAVIOR: {"scaleUp": {}},
    }
    assert convert(old, "autoscaling/v2") == new


@pytest.mark.parametrize("key", [METRICS, CURRENT, CONDITIONS, BEHAVIOR])
@pytest.mark.parametrize("text", ["", "{", "1", '["a"]', "[" * 5000])
def test_annotations_that_cannot_be_read_are_refused(key: str, text: str) -> None:
    with pytest.raises(StatusError) as error:
        convert(hpa("v1", metadata={"annotations": {key: text}}), "autoscaling/v2")
    assert error.value.code == 400 and key in error.value.message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (METRICS, '[{"type": "Pods", "pods": 1}]'),
        (METRICS, '[{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": "x"}}]'),
        (METRICS, '[{"type": 1}]'),
        (BEHAVIOR, '{"scaleUp": 1}'),
        (CONDITIONS, '[{"status": {}}]'),
    ],
)
def test_annotations_with_other_types_are_refused(key: str, text: str) -> None:
    with pytest.raises(StatusError) as error:
        convert(hpa("v1", metadata={"annotations": {key: text}}), "autoscaling/v2")
    assert error.value.code == 400


def test_other_pairs_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="Pod is not converted from v1 to v2"):
        convert({"kind": "Pod", "apiVersion": "v1"}, "v2")
    same = {"kind": "Pod", "apiVersion": "v1"}
    assert convert(same, "v1") is same


amounts = st.sampled_from(["1", "100m", "5k", "1Gi"])
percents = st.integers(1, 300)
words = st.text("abc-", min_size=1, max_size=5)
selectors = st.none() | st.dictionaries(words, words, min_size=1, max_size=2).map(
    lambda labels: {"matchLabels": labels}
)
labels = st.builds(lambda n, s: {"name": n} if s is None else {"name": n, "selector": s}, words, selectors)
plain = st.one_of(
    amounts.map(lambda value: {"type": "Value", "value": value}),
    amounts.map(lambda value: {"type": "AverageValue", "averageValue": value}),
)
average = amounts.map(lambda value: {"type": "AverageValue", "averageValue": value})
used = st.one_of(percents.map(lambda value: {"type": "Utilization", "averageUtilization": value}), average)
described = st.builds(lambda n: {"kind": "Service", "name": n, "apiVersion": "v1"}, words)
metrics = st.one_of(
    st.builds(lambda m, t: {"type": "External", "external": {"metric": m, "target": t}}, labels, plain),
    st.builds(lambda m, t: {"type": "Pods", "pods": {"metric": m, "target": t}}, labels, average),
    st.builds(
        lambda m, t, d: {"type": "Object", "object": {"describedObject": d, "metric": m, "target": t}},
        labels,
        plain,
        described,
    ),
    st.builds(lambda n, t: {"type": "Resource", "resource": {"name": n, "target": t}}, st.just("memory"), used),
    st.builds(
        lambda n, c, t: {"type": "ContainerResource", "containerResource": {"name": n, "container": c, "target": t}},
        st.sampled_from(["cpu", "memory"]),
        words,
        used,
    ),
)
cpus = percents.map(
    lambda value: {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": value}},
    }
)
rules = st.fixed_dictionaries(
    {},
    optional={
        "stabilizationWindowSeconds": st.integers(0, 300),
        "selectPolicy": st.sampled_from(["Max", "Min"]),
        "policies": st.just([{"type": "Pods", "value": 1, "periodSeconds": 15}]),
    },
)
currents = st.builds(
    lambda value, average: {"type": "Resource", "resource": {"name": "cpu", "current": {
        "averageUtilization": value, "averageValue": average}}},
    percents, amounts,
)  # fmt: skip
autoscalers = st.builds(
    lambda first, others, behavior, current, annotations: hpa(
        "v2",
        metadata={"name": "h", **({"annotations": annotations} if annotations else {})},
        spec={
            "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "maxReplicas": 3,
            **({"metrics": [*first, *others]} if first or others else {}),
            **({} if behavior is None else {"behavior": behavior}),
        },
        status={"desiredReplicas": 1, **({"currentMetrics": current} if current else {})},
    ),
    st.lists(cpus, max_size=1),
    st.lists(metrics, max_size=3),
    st.none() | st.fixed_dictionaries({}, optional={"scaleUp": rules, "scaleDown": rules}),
    st.lists(currents, max_size=2),
    st.dictionaries(words, words, max_size=2),
)


@given(autoscalers)
def test_autoscalers_come_back_as_they_went(new: Object) -> None:
    assert shape("autoscaling", "v2", "HorizontalPodAutoscaler", builtin()).decode(new) == []
    before = copy.deepcopy(new)
    old = convert(new, "autoscaling/v1")
    assert shape("autoscaling", "v1", "HorizontalPodAutoscaler", builtin()).decode(copy.deepcopy(old)) == []
    assert convert(old, "autoscaling/v2") == before


@given(st.dictionaries(st.sampled_from(["message", "source", "count", "reason", "series", "metadata"]), st.integers()))
def test_events_come_back_as_they_went(fields: Object) -> None:
    old = {"kind": "Event", "apiVersion": "v1", **fields}
    assert convert(convert(old, "events.k8s.io/v1"), "v1") == old


@given(st.sampled_from([METRICS, CURRENT]), st.recursive(
    st.none() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["type", "pods", "object", "resource", "target", "metricName", "name"]), inner),
))  # fmt: skip
def test_no_annotation_breaks_it(key: str, value: Any) -> None:
    text = msgspec.json.encode([value]).decode()
    try:
        convert(hpa("v1", metadata={"annotations": {key: text}}), "autoscaling/v2")
    except StatusError as error:
        assert error.code == 400
