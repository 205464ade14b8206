"""Validation beyond the schema: each rule of the data file accepts a valid object and refuses an invalid one.

rule_cases.json holds a valid object for each kind (`bases`) and for each rule a change that makes it invalid (`cases`):
rule, kind, what to set (a path and its value; null removes), the field that is told. With a fifth entry, another set
of changes, the case is an update of the object as those make it; the sixth is the subresource.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.rule_kit import BASES, CASES, causes, changed

from dashpot.model.objects.registry import builtin
from dashpot.runtime.api.rules import builtin_rules
from dashpot.runtime.api.rules.schedule import schedule_errors

Object = dict[str, Any]


@pytest.mark.parametrize("kind", BASES)
def test_a_valid_object_passes_on_create_and_when_nothing_changes(kind: str) -> None:
    obj = changed(kind, {})
    assert causes(kind, obj) == []
    assert causes(kind, obj, changed(kind, {})) == []


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_each_rule_refuses(case: list[Any]) -> None:
    rule, kind, changes, field, *rest = case
    old = changed(kind, rest[0]) if rest else None
    found = causes(kind, changed(kind, changes), old, rest[1] if len(rest) > 1 else "")
    entry = next(entry for entry in builtin_rules().entries if entry["id"] == rule)
    told = [cause.message for cause in found if cause.field == field]
    assert told, [str(cause) for cause in found]
    assert any(entry.get("message", "") in text for text in told), told


def test_every_rule_has_its_case() -> None:
    ids = [entry["id"] for entry in builtin_rules().entries]
    assert len(set(ids)) == len(ids)
    assert sorted(set(ids)) == sorted({case[0] for case in CASES})


def test_every_kind_of_a_rule_exists() -> None:
    known = {f"{r.group}/{r.plural}" if r.group else r.plural for r in builtin().resources}
    named = set(builtin_rules()._by_kind)
    assert named - known == {"autoscaling/scales"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"spec.containers[0].image": "y"}, ""),
        ({"spec.initContainers[0].image": "y"}, ""),
        ({"spec.activeDeadlineSeconds": 5}, ""),
        ({"spec.tolerations[0].tolerationSeconds": 5}, ""),
        ({"spec.tolerations[1]": None}, ""),
        ({"metadata.labels": {"a": "b"}}, ""),
        ({"spec.tolerations[0].key": "z"}, "existing toleration can not be modified except its tolerationSeconds"),
        ({"spec.containers[0].args": ["x"]}, '+ containers: [{"name"'),
        ({"spec.nodeName": "n"}, '+ nodeName: "n"'),
    ],
)
def test_what_an_update_of_a_pod_may_change(change: Object, told: str) -> None:
    two = {"spec.tolerations": [*BASES["pods"]["spec"]["tolerations"], {"key": "y", "operator": "Exists"}]}
    new = changed("pods", two if "spec.tolerations[1]" in change else change)
    found = [str(cause) for cause in causes("pods", new, changed("pods", {}))]
    assert (found == []) if not told else (len(found) == 1 and told in found[0]), found


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({}, {"spec.resources.requests.storage": "2Gi"}, []),
        ({}, {"spec.resources.requests.storage": "1Mi"}, ["spec.resources.requests.storage: Forbidden: field can not"]),
        (
            {"status.phase": "Pending"},
            {"spec.resources.requests.storage": "2Gi"},
            ["spec: Forbidden: spec is immutable"],
        ),
        (
            {"spec.resources.requests.storage": "4Gi", "status.capacity": {"storage": "1Gi"}},
            {"spec.resources.requests.storage": "2Gi"},
            [],
        ),
        ({"spec.volumeName": None}, {}, []),
        ({}, {"spec.volumeName": "w"}, ["spec: Forbidden: spec is immutable"]),
    ],
)
def test_a_bound_claim_grows(old: Object, new: Object, told: list[str]) -> None:
    kind = "persistentvolumeclaims"
    found = [str(cause) for cause in causes(kind, changed(kind, new), changed(kind, old))]
    assert len(found) == len(told)
    assert all(text.startswith(start) for text, start in zip(found, told, strict=True)), found


def test_a_resize_changes_cpu_and_memory_alone() -> None:
    path = "spec.containers[0].resources"
    old = changed("pods", {})
    assert causes("pods", changed("pods", {f"{path}.requests.cpu": "200m"}), old, "resize") == []
    lowered = causes("pods", changed("pods", {f"{path}.requests": {}}), old, "resize")
    assert [str(cause) for cause in lowered] == [f"{path}.requests: Forbidden: resource requests cannot be removed"]
    renamed = causes("pods", changed("pods", {"spec.containers[0].name": "z"}), old, "resize")
    assert [cause.field for cause in renamed] == ["spec.containers"]
    bare = changed("pods", {f"{path}": {}})
    grown = causes("pods", changed("pods", {f"{path}": {"requests": {"cpu": "1"}}}), bare, "resize")
    assert "Pod QOS Class may not change as a result of resizing" in grown[0].message
    above = causes("pods", changed("pods", {f"{path}.requests.cpu": "2"}), old, "resize")
    told = f'{path}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
    assert [str(cause) for cause in above] == [told]


def test_what_was_stored_before_a_rule_may_stay() -> None:
    old = changed("services", {"spec.ports[0].name": "A"})
    assert causes("services", changed("services", {"spec.ports[0].name": "A", "metadata.labels": {}}), old) == []
    assert causes("services", changed("services", {"spec.ports[0].name": "B"}), old) != []


def test_a_suspended_job_may_move() -> None:
    old = changed("batch/jobs", {"spec.suspend": True})
    moved = changed("batch/jobs", {"spec.template.spec.nodeSelector": {"a": "b"}})
    assert causes("batch/jobs", moved, old) == []
    started = changed("batch/jobs", {"spec.suspend": True, "status.startTime": "2026-01-01T00:00:00Z"})
    assert [cause.field for cause in causes("batch/jobs", moved, started)] == ["spec.template"]


def test_a_service_may_become_internal_again() -> None:
    ports = [{"name": "http", "port": 80, "targetPort": 80, "protocol": "TCP"}]
    inner = changed("services", {"spec.type": "ClusterIP", "spec.ports": ports})
    assert causes("services", inner, changed("services", {"spec.ports": ports})) == []


def test_a_cluster_ip_is_given_once() -> None:
    fresh = changed("services", {"spec.clusterIP": None})
    assert causes("services", changed("services", {}), fresh) == []
    external = changed("services", {"spec.type": "ExternalName", "spec.externalName": "a.b"})
    assert causes("services", changed("services", {"spec.clusterIP": "10.96.0.7"}), external) == []


@pytest.mark.parametrize(
    "text", ["* * * * *", "*/5 0-6,12 1 jan-mar MON", "@hourly", "@every 1h30m", "0 0 * * 0", "5/10 * * * ?"]
)
def test_good_schedules(text: str) -> None:
    assert schedule_errors(text) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected exactly 5 fields, found 0: []"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
    ],
)
def test_bad_schedules(text: str, told: str) -> None:
    assert schedule_errors(text) == [told]


@pytest.mark.parametrize("value", [None, 1, "x", [], [1], {}, {"a": 1}, True])
@pytest.mark.parametrize("kind", BASES)
def test_no_rule_falls_over_an_odd_shape(kind: str, value: Any) -> None:
    """Rules run after the schema, but a hole in a schema must not become a traceback."""
    for name in BASES[kind]:
        obj = changed(kind, {})
        obj[name] = value
        causes(kind, obj)
        causes(kind, obj, changed(kind, {}))
        causes(kind, changed(kind, {}), obj)
