"""What the server makes of an object: status, generation, derived fields, and what an endpoint takes back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from attrs import evolve

from dashpot.model.objects import prepare
from dashpot.model.objects.qos import qos_class
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource, Subresource

Object = dict[str, Any]


def resource(plural: str, group: str = "", version: str = "v1") -> Resource:
    found = builtin().find(group, version, plural)
    assert found is not None
    return found


STATUS = Subresource("status", "x.io", "v1", "CronTab", ("get", "patch", "update"))
CRONTABS = Resource(
    "x.io", "v1", "CronTab", "crontabs", "crontab", True, storage_group="", storage_version="", custom=True
)
WITH_STATUS = evolve(CRONTABS, subresources=(STATUS,))
PODS, DEPLOYMENTS = resource("pods"), resource("deployments", "apps")


def created(kind: Resource, obj: Object) -> Object:
    """The object after `on_create`, which changes nothing when it is called again."""
    obj = {"metadata": {}, **obj}
    prepare.on_create(kind, obj)
    again = copy.deepcopy(obj)
    prepare.on_create(kind, again)
    assert again == obj
    return obj


def updated(kind: Resource, new: Object, old: Object, subresource: str = "") -> Object:
    """The object after `on_update` and `generation`; the old one is as it was."""
    new, old = {"metadata": {}, **new}, {"metadata": {}, **old}
    before = copy.deepcopy(old)
    for _ in range(2):
        prepare.on_update(kind, new, old, subresource)
        assert old == before
    prepare.generation(kind, new, old, subresource)
    assert old == before
    return new


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        (
            DEPLOYMENTS,
            {"spec": {}, "status": {"replicas": 5}},
            {"metadata": {"generation": 1}, "spec": {}, "status": {}},
        ),
        (resource("replicasets", "apps"), {}, {"metadata": {"generation": 1}, "status": {"replicas": 0}}),
        (resource("services"), {"status": {"x": 1}}, {"metadata": {}, "status": {"loadBalancer": {}}}),
        (resource("configmaps"), {"data": {"a": "b"}}, {"metadata": {}, "data": {"a": "b"}}),
        (resource("nodes"), {"status": {"capacity": {}}}, {"metadata": {}, "status": {"capacity": {}}}),
        (
            resource("namespaces"),
            {"status": {"phase": "Terminating"}},
            {"metadata": {}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
        ),
        (
            resource("secrets"),
            {"data": {"a": "eA==", "c": "eg=="}, "stringData": {"a": "y", "b": "ä"}},
            {"metadata": {}, "data": {"a": "eQ==", "b": "w6Q=", "c": "eg=="}},
        ),
        (
            resource("serviceaccounts"),
            {"secrets": [{"name": "a", "namespace": "x"}]},
            {"metadata": {}, "secrets": [{"name": "a"}]},
        ),
        (
            resource("persistentvolumeclaims"),
            {"spec": {"dataSource": {"kind": "K", "name": "n"}}},
            {
                "metadata": {},
                "spec": {"dataSource": {"kind": "K", "name": "n"}, "dataSourceRef": {"kind": "K", "name": "n"}},
                "status": {"phase": "Pending"},
            },
        ),
        (
            resource("poddisruptionbudgets", "policy"),
            {},
            {
                "metadata": {"generation": 1},
                "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
            },
        ),
        (CRONTABS, {"status": {"a": 1}}, {"metadata": {"generation": 1}, "status": {"a": 1}}),
        (WITH_STATUS, {"status": {"a": 1}}, {"metadata": {"generation": 1}}),
    ],
)
def test_create(kind: Resource, given: Object, wanted: Object) -> None:
    assert created(kind, given) == wanted


def test_new_pods_are_pending() -> None:
    assert created(PODS, {"spec": {"containers": []}, "status": {"phase": "Running"}}) == {
        "metadata": {"generation": 1},
        "spec": {"containers": []},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }
    gated = created(PODS, {"spec": {"schedulingGates": [{"name": "g"}]}})["status"]["conditions"]
    assert gated == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]


def test_jobs_select_their_pods_by_uid() -> None:
    job = created(
        resource("jobs", "batch"), {"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}}}
    )
    assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]
    assert job["spec"] == {
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
        "template": {
            "metadata": {
                "labels": {
                    "batch.kubernetes.io/controller-uid": "u",
                    "batch.kubernetes.io/job-name": "j",
                    "controller-uid": "u",
                    "job-name": "j",
                }
            },
            "spec": {},
        },
    }
    manual: Object = {"manualSelector": True, "template": {"spec": {}}}
    assert created(resource("jobs", "batch"), {"spec": copy.deepcopy(manual)})["spec"] == manual


def resources(**parts: dict[str, str]) -> Object:
    return {"resources": parts}


HALF = {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "wanted"),
    [
        ([{}], "BestEffort"),
        ([resources(requests={"example.com/gpu": "1"})], "BestEffort"),
        ([resources(requests={"cpu": "0"})], "BestEffort"),
        ([resources(requests={"cpu": "1"})], "Burstable"),
        ([resources(limits=HALF, requests=HALF)], "Guaranteed"),
        ([resources(limits={"cpu": "0.5", "memory": "1024Mi"}, requests=HALF)], "Guaranteed"),
        ([resources(limits=HALF, requests={"cpu": "1m", "memory": "1Gi"})], "Burstable"),
        ([resources(limits={"cpu": "1"}, requests={"cpu": "1"})], "Burstable"),
        ([resources(limits=HALF, requests=HALF), {}], "Burstable"),
        ([resources(limits=HALF)], "Burstable"),
    ],
)
def test_quality_of_service(containers: list[Object], wanted: str) -> None:
    assert qos_class({"containers": containers}) == wanted
    assert qos_class({"initContainers": containers}) == wanted


def test_quality_of_service_of_the_pod_as_a_whole() -> None:
    assert qos_class({"resources": {"limits": HALF, "requests": HALF}, "containers": [{}]}) == "Guaranteed"


OLD: Object = {"metadata": {"generation": 3, "labels": {"a": "1"}}, "spec": {"x": 1}, "status": {"s": 1}}


@pytest.mark.parametrize(
    ("kind", "new", "subresource", "wanted"),
    [
        # the object: status is taken back, a changed spec is counted
        (
            DEPLOYMENTS,
            {"spec": {"x": 2}, "status": {}},
            "",
            {"metadata": {"generation": 4}, "spec": {"x": 2}, "status": {"s": 1}},
        ),
        (DEPLOYMENTS, {"spec": {"x": 1}}, "", {"metadata": {"generation": 3}, "spec": {"x": 1}, "status": {"s": 1}}),
        (
            DEPLOYMENTS,
            {"metadata": {"annotations": {"k": "v"}}, "spec": {"x": 1}},
            "",
            {"metadata": {"annotations": {"k": "v"}, "generation": 4}, "spec": {"x": 1}, "status": {"s": 1}},
        ),
        (
            resource("statefulsets", "apps"),
            {"metadata": {"annotations": {"k": "v"}}, "spec": {"x": 1}},
            "",
            {"metadata": {"annotations": {"k": "v"}, "generation": 3}, "spec": {"x": 1}, "status": {"s": 1}},
        ),
        # the status: all else is taken back; labels only where upstream does so
        (DEPLOYMENTS, {"spec": {}, "status": {"s": 2}}, "status", {**OLD, "status": {"s": 2}}),
        (
            DEPLOYMENTS,
            {"metadata": {"labels": {}, "annotations": {"k": "v"}}, "spec": {}, "status": {"s": 2}},
            "status",
            {
                "metadata": {"labels": {"a": "1"}, "annotations": {"k": "v"}, "generation": 3},
                "spec": {"x": 1},
                "status": {"s": 2},
            },
        ),
        (
            resource("daemonsets", "apps"),
            {"metadata": {"labels": {"b": "2"}}, "extra": 1},
            "status",
            {"metadata": {"labels": {"b": "2"}, "generation": 3}, "spec": {"x": 1}},
        ),
        (
            WITH_STATUS,
            {"metadata": {"labels": {"b": "2"}}, "spec": {"x": 9}, "status": {"s": 2}},
            "status",
            {**OLD, "status": {"s": 2}},
        ),
        (WITH_STATUS, {"spec": {"x": 1}, "status": {}}, "", {**OLD, "metadata": {"generation": 3}}),
        (WITH_STATUS, {"spec": {"x": 1}, "y": 1}, "", {**OLD, "metadata": {"generation": 4}, "y": 1}),
        (CRONTABS, {"spec": {"x": 1}, "status": {}}, "", {**OLD, "metadata": {"generation": 4}, "status": {}}),
    ],
)
def test_update(kind: Resource, new: Object, subresource: str, wanted: Object) -> None:
    assert updated(kind, copy.deepcopy(new), copy.deepcopy(OLD), subresource) == wanted


def test_kinds_that_do_not_count_have_no_generation() -> None:
    assert updated(resource("configmaps"), {"metadata": {"generation": 7}, "data": {}}, {}) == {
        "metadata": {},
        "data": {},
    }
    assert not prepare.counts_generation(resource("configmaps")) and prepare.counts_generation(CRONTABS)


def test_slices_count_labels_too() -> None:
    slices = resource("endpointslices", "discovery.k8s.io")
    old: Object = {"metadata": {"generation": 1}, "endpoints": []}
    assert updated(slices, {"metadata": {"labels": {"a": "b"}}, "endpoints": []}, old)["metadata"]["generation"] == 2
    assert (
        updated(slices, {"metadata": {"annotations": {"a": "b"}}, "endpoints": []}, old)["metadata"]["generation"] == 1
    )


def test_status_of_pods_keeps_what_kubelets_forget() -> None:
    old: Object = {
        "metadata": {"ownerReferences": [1]},
        "spec": {"x": 1},
        "status": {
            "qosClass": "Burstable",
            "observedGeneration": 2,
            "conditions": [{"type": "Ready", "observedGeneration": 2}, {"type": "Other"}],
        },
    }
    new: Object = {"metadata": {}, "status": {"phase": "Running", "conditions": [{"type": "Ready"}, {"type": "New"}]}}
    assert updated(PODS, new, old, "status") == {
        "metadata": {"ownerReferences": [1]},
        "spec": {"x": 1},
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "observedGeneration": 2,
            "conditions": [{"type": "Ready", "observedGeneration": 2}, {"type": "New"}],
        },
    }


def test_only_ephemeral_containers_come_through_their_endpoint() -> None:
    old: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}, "status": {"s": 1}}
    new: Object = {"metadata": {}, "spec": {"containers": [], "ephemeralContainers": [{"name": "e"}]}}
    found = updated(PODS, new, old, "ephemeralcontainers")
    assert found["spec"] == {"containers": [{"name": "c"}], "ephemeralContainers": [{"name": "e"}]}
    assert found["metadata"]["labels"] == {"a": "b"} and found["status"] == {"s": 1}


def test_only_resources_come_through_resize() -> None:
    old: Object = {
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}
    }
    new: Object = {"spec": {"containers": [{"name": "c", "image": "j", "resources": {"limits": {"cpu": "2"}}}]}}
    assert updated(PODS, new, old, "resize")["spec"] == {
        "nodeName": "n",
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}],
    }
    other: Object = {"spec": {"containers": [{"name": "d"}]}}
    assert updated(PODS, copy.deepcopy(other), old, "resize")["spec"] == other["spec"]


def test_finalizers_of_namespaces_have_their_own_endpoint() -> None:
    namespaces = resource("namespaces")
    old: Object = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}}
    assert updated(namespaces, {"spec": {"finalizers": []}}, old) == {"metadata": {}, **old}
    found = updated(namespaces, {"spec": {"finalizers": []}, "status": {}}, old, "finalize")
    assert found == {"metadata": {}, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}


def test_approval_and_issue_of_certificates_are_apart() -> None:
    requests = resource("certificatesigningrequests", "certificates.k8s.io")
    old: Object = {"spec": {"request": "r"}, "status": {"conditions": [{"type": "Failed"}]}}
    both = [{"type": "Approved"}, {"type": "Failed", "reason": "new"}]
    new: Object = {"spec": {}, "status": {"certificate": "c", "conditions": both}}
    found = updated(requests, copy.deepcopy(new), old, "approval")
    assert found["spec"] == {"request": "r"}
    assert found["status"] == {"conditions": [{"type": "Failed"}, {"type": "Approved"}]}
    found = updated(requests, copy.deepcopy(new), old, "status")
    assert found["status"] == {"certificate": "c", "conditions": [{"type": "Failed", "reason": "new"}]}
    assert updated(requests, {"spec": {"request": "other"}}, old)["spec"] == {"request": "r"}


def test_reset_fields_tell_appliers_what_they_cannot_own() -> None:
    assert prepare.reset_fields(DEPLOYMENTS) == [("status",)]
    assert prepare.reset_fields(DEPLOYMENTS, "status") == [("spec",)]
    assert prepare.reset_fields(resource("configmaps")) == []
