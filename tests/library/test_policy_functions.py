"""What kubernetes.pdb and kubernetes.quota compute, case by case.

Upstream's cases: disruption_test.go, resource_quota_controller_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from dashpot.model.extern import pdb, quota
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource

Object = dict[str, Any]
NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z


@frozen
class View:
    """Where an object is served."""

    resource: Resource


@frozen
class Kept:
    """An object as externs see it."""

    json: Object
    view: View | None = None


def pod(name: str = "a", ready: bool = True, owner: str = "", going: bool = False, **labels: str) -> Kept:
    """A pod."""
    meta: Object = {"name": name, "namespace": "n", "uid": f"u-{name}", "labels": labels or {"app": "web"}}
    if owner:
        meta["ownerReferences"] = [{"kind": "X", "uid": owner, "controller": True}]
    if going:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Kept({"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}})


def budget(status: Object | None = None, **spec: Any) -> Kept:
    """A disruption budget."""
    return Kept({"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": status or {}})


def sized(uid: str, replicas: int | None, owner: Object | None = None) -> Kept:
    """An owner of pods."""
    meta: Object = {"name": uid, "uid": uid}
    if owner:
        meta["ownerReferences"] = [{**owner, "controller": True}]
    return Kept({"metadata": meta, "spec": {} if replicas is None else {"replicas": replicas}})


# ---------------------------------------------------------------- disruption budgets
@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, True),
    ],
)
def test_budgets_select(selector: Object | None, selected: bool) -> None:
    assert pdb.selects(budget(selector=selector), pod()) is selected


@pytest.mark.parametrize(
    ("spec", "total", "desired"),
    [
        ({"minAvailable": 2}, 5, 2),
        ({"minAvailable": "50%"}, 5, 3),
        ({"minAvailable": "0%"}, 5, 0),
        ({"maxUnavailable": 1}, 5, 4),
        ({"maxUnavailable": "30%"}, 5, 3),
        ({"maxUnavailable": "100%"}, 5, 0),
        ({"maxUnavailable": 9}, 5, 0),
        ({}, 0, 0),
    ],
)
def test_how_many_must_stay(spec: Object, total: int, desired: int) -> None:
    assert pdb.desired(budget(**spec), total) == desired


def test_how_many_there_should_be() -> None:
    deployment, single, other = sized("d", 5), sized("rs", 3), sized("sts", None)
    old, new = (sized(uid, 4, {"kind": "Deployment", "uid": "d"}) for uid in ("old", "new"))
    lost = sized("lost", 2, {"kind": "Deployment", "uid": "unknown"})
    known = pdb.scales([old, new, single, lost], [deployment], [other], [])
    assert known == {"d": ("d", 5), "sts": ("sts", 1), "rs": ("rs", 3), "old": ("d", 5), "new": ("d", 5)}
    share = budget(maxUnavailable=1)
    # Both sets are one Deployment; a pod without owner counts for nothing.
    pods = [pod("a", owner="old"), pod("b", owner="new"), pod("c", owner="rs"), pod("d", owner="sts"), pod("e")]
    assert pdb.expected(share, pods, known, {}) == 5 + 3 + 1
    assert pdb.ownerless(pods) and not pdb.ownerless(pods[:4])
    assert pdb.expected(budget(minAvailable=1), pods, known, {}) == 5
    strange = [pod("y", owner="site"), pod("x", owner="site")]
    assert [p.json["metadata"]["name"] for p in pdb.strangers([*pods, *strange], known)] == ["y"]
    text = 'found no controllers for pod "x"'
    assert pdb.problem(strange, known, {}) == text == pdb.problem(strange, known, {"site": None})
    assert pdb.problem(strange, known, {"site": 7}) == ""
    assert pdb.expected(share, [*pods, *strange], known, {"site": 7}) == 16


def test_owners_that_have_no_scale() -> None:
    one = pod(owner="job")
    one.json["metadata"]["ownerReferences"][0] |= {"apiVersion": "batch/v1", "kind": "Job"}
    assert pdb.problem([one], {}, {"job": None}) == "jobs.batch does not implement the scale subresource"


def test_evicted_pods_count_again_after_two_minutes() -> None:
    said = {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01T00:01:00Z", "gone": "2026-01-01T00:00:00Z"}
    one = budget({"disruptedPods": said})
    pods = [pod("a"), pod("b"), pod("c"), pod("d", ready=False), pod("e", going=True)]

    def healthy(seconds: int) -> list[str]:
        return [p.json["metadata"]["name"] for p in pods if pdb.counts(one, p, NOW + seconds * 1000)]

    assert [healthy(at) for at in (0, 119, 121, 181)] == [["c"], ["c"], ["a", "c"], ["a", "b", "c"]]
    assert pdb.disrupted(one, pods, NOW + 60_000) == {"a": said["a"], "b": said["b"]}
    assert pdb.until_due(one, pods, NOW + 60_000) == 60_001
    late = NOW + 121_000
    assert pdb.disrupted(one, pods, late) == {"b": said["b"]} and pdb.waits(one, pods, late)
    assert [pdb.overdue(one, p, late) for p in pods] == [True, False, False, False, False]
    assert pdb.disrupted(one, [pod("a", going=True)], NOW) == {}


def test_conditions_of_a_budget() -> None:
    first = pdb.conditions(budget(), True, NOW)
    assert first == [
        {
            "type": "DisruptionAllowed",
            "status": "True",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "SufficientPods",
            "message": "",
        }
    ]
    other = {"type": "Other", "status": "True"}
    later = pdb.conditions(budget({"conditions": [*first, other]}), True, NOW + 5000)
    assert later == [other, *first]
    failed = pdb.failing(budget({"conditions": first, "observedGeneration": 2}), "why", NOW + 5000)
    assert [(c["status"], c["reason"], c["message"], c["observedGeneration"]) for c in failed] == [
        ("False", "SyncFailed", "why", 2)
    ]
    assert failed[0]["lastTransitionTime"] == "2026-01-01T00:00:05Z"


def test_selectors_as_text() -> None:
    terms = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists"},
    ]
    text = pdb.selector_text(budget(selector={"matchLabels": {"z": "1", "app": "web"}, "matchExpressions": terms}))
    assert text == "app=web,z=1,tier in (a,b),!old,new"


@pytest.mark.parametrize(
    ("change", "matters"),
    [({}, False), ({"ready": False}, True), ({"going": True}, True), ({"owner": "x"}, True), ({"app": "db"}, True)],
)
def test_which_changes_of_pods_matter(change: dict[str, Any], matters: bool) -> None:
    assert pdb.matters(pod(), pod(**change)) is matters


# ---------------------------------------------------------------- quotas
def limits(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Kept:
    """A quota."""
    status = {"used": used} if used is not None else {}
    return Kept({"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status})


def heavy(name: str, cpu: str, phase: str = "Running", going: str = "", **spec: Any) -> Kept:
    """A pod that asks for processor time."""
    meta: Object = {"name": name, "uid": f"u-{name}-{cpu}-{phase}", "resourceVersion": "1"}
    if going:
        meta |= {"deletionTimestamp": going, "deletionGracePeriodSeconds": 30}
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return Kept({"metadata": meta, "spec": {"containers": containers, **spec}, "status": {"phase": phase}})


def served(group: str, kind: str, count: int) -> list[Any]:
    """Objects of a kind, by their metadata."""
    found = builtin().by_kind(group, "v1", kind)
    assert found is not None
    return [Kept({"metadata": {"name": f"x{n}"}}, View(found)) for n in range(count)]


def used(of: Kept, *pods: Kept, others: list[Any] | None = None) -> Object:
    """What is used."""
    return quota.used(of, pods, [], [], others or [], NOW)


def test_pods_that_ended_use_nothing_but_their_place() -> None:
    of = limits({"pods": "9", "count/pods": "9", "cpu": "9", "requests.cpu": "9"})
    pods = [heavy("a", "300m"), heavy("b", "1"), heavy("c", "2", "Succeeded"), heavy("d", "2", "Failed")]
    assert used(of, *pods) == {"pods": "2", "count/pods": "4", "cpu": "1300m", "requests.cpu": "1300m"}


@pytest.mark.parametrize(("going", "count"), [("2026-01-01T00:00:00Z", "1"), ("2025-12-31T23:59:00Z", "0")])
def test_pods_that_overstay_their_grace_use_nothing(going: str, count: str) -> None:
    assert used(limits({"pods": "9"}), heavy("a", "1", going=going)) == {"pods": count}


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"scopes": ["Terminating"]}, "1"),
        ({"scopes": ["NotTerminating"]}, "2"),
        ({"scopes": ["BestEffort"]}, "1"),
        ({"scopes": ["NotBestEffort", "NotTerminating"]}, "1"),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}, "1"),
    ],
)
def test_scopes(spec: Object, count: str) -> None:
    light = Kept(
        {"metadata": {"name": "l", "uid": "l", "resourceVersion": "1"}, "spec": {"containers": [{"name": "c"}]}}
    )
    pods = [heavy("a", "1", activeDeadlineSeconds=5), heavy("b", "1", priorityClassName="high"), light]
    assert used(limits({"pods": "9", "configmaps": "9"}, **spec), *pods) == {"pods": count, "configmaps": "0"}


def test_counts_of_kinds_by_all_their_names() -> None:
    of = limits(
        {"configmaps": "9", "count/configmaps": "9", "count/deployments.apps": "9", "count/sites.example.com": "9"}
    )
    there = [*served("", "ConfigMap", 3), *served("apps", "Deployment", 2), *served("", "Pod", 4)]
    assert used(of, others=there) == {
        "configmaps": "3",
        "count/configmaps": "3",
        "count/deployments.apps": "2",
        "count/sites.example.com": "0",
    }


def test_what_nobody_can_measure_stays_as_it_was() -> None:
    assert used(limits({"pods": "9", "strange": "1", "new": "1"}, {"strange": "7", "dropped": "1"})) == {
        "pods": "0",
        "strange": "7",
    }


def test_which_changes_free_something() -> None:
    base = heavy("a", "1")
    assert quota.replenishes(base, heavy("a", "1", "Succeeded")) and quota.replenishes(base, heavy("a", "500m"))
    assert not quota.replenishes(base, heavy("a", "1", "Pending"))
    one, other = Kept({"spec": {"type": "NodePort"}}), Kept({"spec": {"type": "ClusterIP"}})
    assert quota.remeasured_service(one, other) and not quota.remeasured_service(one, one)
    grown = Kept({"spec": {"type": "NodePort"}, "status": {"allocatedResources": {"storage": "2Gi"}}})
    assert quota.remeasured_claim(one, grown) and not quota.remeasured_claim(one, one)
