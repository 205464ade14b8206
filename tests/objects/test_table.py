"""Tables: the columns and cells of each kind, by hand-made objects, as kubectl prints them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objects.test_mergepatch import json_values

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.table import SCALE, cells, columns, custom_printer, printer, row, table
from dashpot.model.objects.table_text import human, seconds, selector

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:55:00Z"  # five minutes before NOW
R = builtin()


def resource(name: str) -> Resource:
    """`deployments.apps`, `horizontalpodautoscalers.autoscaling/v1`."""
    qualified, _, version = name.partition("/")
    return next(r for r in R.resources if r.qualified == qualified and (not version or r.version == version))


def made(name: str = "x", /, **parts: Any) -> dict[str, Any]:
    meta = {"name": name, "creationTimestamp": CREATED} | parts.pop("metadata", {})
    return {"metadata": meta, **parts}


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}
LABELS = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["2", "1"]}]}
TRUE = [{"type": "Ready", "status": "True"}]

GOLDEN: list[tuple[str, dict[str, Any], str]] = [
    ("deployments.apps", made(spec={"replicas": 3, "template": TEMPLATE, "selector": LABELS},
        status={"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}),
     "x | 2/3 | 3 | 1 | 5m | a,b | i:1,j | a in (1,2),app=x"),
    ("replicasets.apps", made(spec={"replicas": 3, "template": TEMPLATE, "selector": {"matchLabels": {"a": "b"}}},
        status={"replicas": 2, "readyReplicas": 1}), "x | 3 | 2 | 1 | 5m | a,b | i:1,j | a=b"),
    ("replicationcontrollers", made(spec={"replicas": 1, "selector": {"b": "2", "a": "1"}}),
     "x | 1 | 0 | 0 | 5m |  |  | a=1,b=2"),
    ("statefulsets.apps", made(spec={"replicas": 2, "template": TEMPLATE}, status={"readyReplicas": 2}),
     "x | 2/2 | 5m | a,b | i:1,j"),
    ("daemonsets.apps", made(spec={"template": {"spec": {"nodeSelector": {"k": "v"}}}, "selector": {}},
        status={"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
                "updatedNumberScheduled": 2, "numberAvailable": 1}), "x | 5 | 4 | 3 | 2 | 1 | k=v | 5m |  |  | <none>"),
    ("jobs.batch", made(spec={"completions": 3, "template": TEMPLATE}, status={"succeeded": 1,
        "startTime": "2027-01-15T07:58:30Z"}), "x | Running | 1/3 | 90s | 5m | a,b | i:1,j | <none>"),
    ("jobs.batch", made(spec={"parallelism": 4}, status={"startTime": "2027-01-15T07:50:00Z",
        "completionTime": "2027-01-15T07:53:20Z", "succeeded": 1, "conditions": [
            {"type": "Complete", "status": "True"}]}), "x | Complete | 1/1 of 4 | 3m20s | 5m |  |  | <none>"),
    ("jobs.batch", made(spec={}, status={"conditions": [{"type": "Failed", "status": "True"}]}),
     "x | Failed | 0/1 |  | 5m |  |  | <none>"),
    ("jobs.batch", made(spec={}, status={"conditions": [{"type": "Suspended", "status": "True"}]}),
     "x | Suspended | 0/1 |  | 5m |  |  | <none>"),
    ("cronjobs.batch", made(spec={"schedule": "* * * * *", "suspend": False,
        "jobTemplate": {"spec": {"template": TEMPLATE}}}, status={"active": [{}, {}], "lastScheduleTime": CREATED}),
     "x | * * * * * | <none> | False | 2 | 5m | 5m | a,b | i:1,j | <none>"),
    ("cronjobs.batch", made(spec={"schedule": "@daily", "timeZone": "Etc/UTC"}),
     "x | @daily | Etc/UTC | <unset> | 0 | <none> | 5m |  |  | <none>"),
    ("podtemplates", made(template=TEMPLATE | {"metadata": {"labels": {"a": "b"}}}), "x | a,b | i:1,j | a=b"),
    ("controllerrevisions.apps", made(revision=4, metadata={"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True}]}),
     "x | statefulset.apps/s | 4 | 5m"),
    ("poddisruptionbudgets.policy", made(spec={"minAvailable": "50%"}, status={"disruptionsAllowed": 1}),
     "x | 50% | N/A | 1 | 5m"),
    ("horizontalpodautoscalers.autoscaling/v2", made(spec={"scaleTargetRef": {"kind": "Deployment", "name": "d"},
        "minReplicas": 1, "maxReplicas": 5, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
            {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}},
            {"type": "Pods", "pods": {"target": {"averageValue": "10"}}}]},
        status={"currentReplicas": 2, "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 42}}}]}),
     "x | Deployment/d | cpu: 42%/80%, memory: <unknown>/1Gi + 1 more... | 1 | 5 | 2 | 5m"),
    ("horizontalpodautoscalers.autoscaling/v1", made(spec={"scaleTargetRef": {"kind": "Deployment", "name": "d"},
        "maxReplicas": 5, "targetCPUUtilizationPercentage": 80}),
     "x | Deployment/d | cpu: <unknown>/80% | <unset> | 5 | 0 | 5m"),
    ("services", made(spec={"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "selector": {"a": "b"},
        "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]}),
     "x | ClusterIP | 10.0.0.1 | <none> | 80/TCP,53:30053/UDP | 5m | a=b"),
    ("services", made(spec={"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}),
     "x | LoadBalancer | 10.0.0.1 | <pending> | <none> | 5m | <none>"),
    ("services", made(spec={"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}, status={"loadBalancer": {
        "ingress": [{"ip": "2.2.2.2"}, {"hostname": "1.example.com"}]}}),
     "x | LoadBalancer | <none> | 1.example.com,2.2.2.2,9.9.9.9 | <none> | 5m | <none>"),
    ("services", made(spec={"type": "ExternalName", "externalName": "e.example.com"}),
     "x | ExternalName | <none> | e.example.com | <none> | 5m | <none>"),
    ("endpoints", made(subsets=[{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [
        {"port": 80}, {"port": 81}]}]), "x | 10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more... | 5m"),
    ("endpoints", made(), "x | <none> | 5m"),
    ("endpointslices.discovery.k8s.io", made(addressType="IPv4", ports=[{"port": 80}, {"name": "n"}, {}],
        endpoints=[{"addresses": ["1.1.1.1", "2.2.2.2"]}, {"addresses": ["3.3.3.3", "4.4.4.4"]}]),
     "x | IPv4 | 80,n,* | 1.1.1.1,2.2.2.2,3.3.3.3 + 1 more... | 5m"),
    ("endpointslices.discovery.k8s.io", made(addressType="IPv6"), "x | IPv6 | <unset> | <unset> | 5m"),
    ("ingresses.networking.k8s.io", made(spec={"ingressClassName": "nginx", "tls": [{}], "rules": [
        {"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}]}, status={"loadBalancer": {
            "ingress": [{"ip": "1.1.1.1"}]}}), "x | nginx | a,b,c + 1 more... | 1.1.1.1 | 80, 443 | 5m"),
    ("ingresses.networking.k8s.io", made(spec={}), "x | <none> | * |  | 80 | 5m"),
    ("ingressclasses.networking.k8s.io", made(spec={"controller": "k/c", "parameters": {
        "apiGroup": "g", "kind": "K", "name": "p"}}), "x | k/c | K.g/p | 5m"),
    ("networkpolicies.networking.k8s.io", made(spec={"podSelector": {}}), "x | <none> | 5m"),
    ("servicecidrs.networking.k8s.io", made(spec={"cidrs": ["10.0.0.0/8", "fd00::/64"]}),
     "x | 10.0.0.0/8,fd00::/64 | 5m"),
    ("ipaddresses.networking.k8s.io", made(spec={"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}),
     "x | services/n/s | 5m"),
    ("nodes", made(metadata={"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "master"}},
        spec={"unschedulable": True}, status={"conditions": TRUE, "nodeInfo": {"kubeletVersion": "v1.34.0",
            "osImage": "Linux"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}),
     "x | Ready,SchedulingDisabled | control-plane,master | 5m | v1.34.0 | 10.0.0.1 | <none> | Linux | <unknown> |"
     " <unknown>"),
    ("nodes", made(status={"conditions": [{"type": "Ready", "status": "Unknown"}]}),
     "x | NotReady | <none> | 5m |  | <none> | <none> | <unknown> | <unknown> | <unknown>"),
    ("namespaces", made(status={"phase": "Active"}), "x | Active | 5m"),
    ("configmaps", made(data={"a": "1", "b": "2"}, binaryData={"c": ""}), "x | 3 | 5m"),
    ("secrets", made(type="Opaque", data={"a": "MQ=="}), "x | Opaque | 1 | 5m"),
    ("serviceaccounts", made(), "x | 0 | 5m"),
    ("events", made(type="Normal", reason="Pulled", message=" done\n", count=3, firstTimestamp="2027-01-15T07:00:00Z",
        lastTimestamp=CREATED, source={"component": "kubelet", "host": "n1"},
        involvedObject={"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"}),
     "5m | Normal | Pulled | pod/p | spec.containers{c} | kubelet, n1 | done | 60m | 3 | x"),
    ("events.events.k8s.io", made(type="Warning", reason="R", note="n", eventTime="2027-01-15T07:58:00.000000Z",
        regarding={"kind": "Node", "name": "n"}, reportingController="c", reportingInstance="i",
        series={"count": 7, "lastObservedTime": "2027-01-15T07:59:50.000000Z"}),
     "10s | Warning | R | node/n |  | c, i | n | 2m | 7 | x"),
    ("persistentvolumes", made(spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"},
        "storageClassName": "fast", "volumeMode": "Filesystem"}, status={"phase": "Bound"}),
     "x | 1Gi | RWO,RWX | Retain | Bound | n/c | fast | <unset> |  | 5m | Filesystem"),
    ("persistentvolumeclaims", made(spec={"volumeName": "v", "storageClassName": "fast", "volumeMode": "Block"},
        status={"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadOnlyMany"]}),
     "x | Bound | v | 2Gi | ROX | fast | <unset> | 5m | Block"),
    ("persistentvolumeclaims", made(metadata={"deletionTimestamp": CREATED}, spec={}, status={"phase": "Pending"}),
     "x | Terminating |  |  |  |  | <unset> | 5m | <unset>"),
    ("storageclasses.storage.k8s.io", made(provisioner="p", metadata={"annotations": {
        "storageclass.kubernetes.io/is-default-class": "true"}}), "x (default) | p | Delete | Immediate | False | 5m"),
    ("volumeattributesclasses.storage.k8s.io", made(driverName="d"), "x | d | 5m"),
    ("volumeattachments.storage.k8s.io", made(spec={"attacher": "a", "nodeName": "n",
        "source": {"persistentVolumeName": "v"}}, status={"attached": True}), "x | a | v | n | True | 5m"),
    ("csinodes.storage.k8s.io", made(spec={"drivers": [{}, {}]}), "x | 2 | 5m"),
    ("csidrivers.storage.k8s.io", made(spec={"podInfoOnMount": True, "tokenRequests": [{"audience": "a"}],
        "volumeLifecycleModes": ["Persistent", "Ephemeral"]}),
     "x | True | True | False | a | False | Persistent,Ephemeral | 5m"),
    ("csistoragecapacities.storage.k8s.io", made(storageClassName="s", capacity="1Gi"), "x | s | 1Gi"),
    ("resourcequotas", made(status={"hard": {"limits.cpu": "2", "pods": "10", "cpu": "1"}, "used": {"pods": "3"}}),
     "x | cpu: 0/1, pods: 3/10 | limits.cpu: 0/2 | 5m"),
    ("rolebindings.rbac.authorization.k8s.io", made(roleRef={"kind": "Role", "name": "r"}, subjects=[
        {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]), "x | Role/r | 5m | u, v | g | n/s"),
    ("clusterrolebindings.rbac.authorization.k8s.io", made(roleRef={"kind": "ClusterRole", "name": "r"}),
     "x | ClusterRole/r | 5m |  |  | "),
    ("roles.rbac.authorization.k8s.io", made(), f"x | {CREATED}"),
    ("clusterroles.rbac.authorization.k8s.io", made(), f"x | {CREATED}"),
    ("limitranges", made(), f"x | {CREATED}"),
    ("customresourcedefinitions.apiextensions.k8s.io", made(), f"x | {CREATED}"),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", made(webhooks=[{}]), "x | 1 | 5m"),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", made(webhooks=[{}, {}]), "x | 2 | 5m"),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", made(spec={"validations": [{}], "paramKind": {
        "apiVersion": "v1", "kind": "ConfigMap"}}), "x | 1 | v1/ConfigMap | 5m"),
    ("mutatingadmissionpolicies.admissionregistration.k8s.io", made(spec={"mutations": [{}]}), "x | 1 | <unset> | 5m"),
    ("validatingadmissionpolicybindings.admissionregistration.k8s.io", made(spec={"policyName": "p",
        "paramRef": {"name": "c"}}), "x | p | */c | 5m"),
    ("certificatesigningrequests.certificates.k8s.io", made(spec={"signerName": "s", "username": "u",
        "expirationSeconds": 3600}, status={"certificate": "Y2U=", "conditions": [{"type": "Approved"}]}),
     "x | 5m | s | u | 60m | Approved,Issued"),
    ("certificatesigningrequests.certificates.k8s.io", made(spec={}), "x | 5m | <none> |  | <none> | Pending"),
    ("clustertrustbundles.certificates.k8s.io", made(spec={}), "x | <none>"),
    ("leases.coordination.k8s.io", made(spec={"holderIdentity": "h"}), "x | h | 5m"),
    ("priorityclasses.scheduling.k8s.io", made(value=10, preemptionPolicy="Never"), "x | 10 | False | 5m | Never"),
    ("runtimeclasses.node.k8s.io", made(handler="h"), "x | h | 5m"),
    ("flowschemas.flowcontrol.apiserver.k8s.io", made(spec={"priorityLevelConfiguration": {"name": "p"},
        "matchingPrecedence": 100, "distinguisherMethod": {"type": "ByUser"}}, status={"conditions": [
            {"type": "Dangling", "status": "False"}]}), "x | p | 100 | ByUser | 5m | False"),
    ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", made(spec={"type": "Limited", "limited": {
        "nominalConcurrencyShares": 30, "limitResponse": {"queuing": {"queues": 64, "handSize": 6,
            "queueLengthLimit": 50}}}}), "x | Limited | 30 | 64 | 6 | 50 | 5m"),
    ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", made(spec={"type": "Exempt"}),
     "x | Exempt | <none> | <none> | <none> | <none> | 5m"),
    ("deviceclasses.resource.k8s.io", made(), "x | 5m"),
    ("resourceclaims.resource.k8s.io", made(status={"allocation": {}, "reservedFor": [{}]}),
     "x | allocated,reserved | 5m"),
    ("resourceclaims.resource.k8s.io", made(), "x | pending | 5m"),
    ("resourceslices.resource.k8s.io", made(spec={"nodeName": "n", "driver": "d", "pool": {"name": "p"}}),
     "x | n | d | p | 5m"),
    ("nodes.metrics.k8s.io", made(usage={"cpu": "250m", "memory": "1Gi"}, window="30s"), "x | 250m | 1Gi | 30s"),
    ("pods.metrics.k8s.io", made(containers=[{"usage": {"cpu": "250m", "memory": "512Mi"}}, {"usage": {"cpu": "1",
        "memory": "512Mi"}}], window="30s"), "x | 1250m | 1Gi | 30s"),
    ("apiservices.apiregistration.k8s.io", made(spec={}, status={"conditions": [
        {"type": "Available", "status": "True"}]}), "x | Local | True | 5m"),
    ("apiservices.apiregistration.k8s.io", made(spec={"service": {"namespace": "n", "name": "s"}}, status={
        "conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]}), "x | n/s | False (Gone) | 5m"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "obj", "shown"), GOLDEN, ids=[f"{n}-{case[0]}" for n, case in enumerate(GOLDEN)])
def test_cells(name: str, obj: dict[str, Any], shown: str) -> None:
    found = cells(resource(name), obj, NOW)
    assert " | ".join(map(str, found)) == shown
    assert len(found) == len(columns(resource(name)))


def test_at_least_25_kinds_have_columns_of_their_own() -> None:
    assert len({name for name, _, _ in GOLDEN}) > 45


HEADERS = [
    ("pods", "Name,Ready,Status,Restarts,Age,IP*,Node*,Nominated Node*,Readiness Gates*"),
    ("nodes", "Name,Status,Roles,Age,Version,Internal-IP*,External-IP*,OS-Image*,Kernel-Version*,Container-Runtime*"),
    ("services", "Name,Type,Cluster-IP,External-IP,Port(s),Age,Selector*"),
    ("events", "Last Seen,Type,Reason,Object,Subobject*,Source*,Message,First Seen*,Count*,Name*"),
    ("deployments.apps", "Name,Ready,Up-to-date,Available,Age,Containers*,Images*,Selector*"),
    ("roles.rbac.authorization.k8s.io", "Name,Created At"),
    ("priorityclasses.scheduling.k8s.io", "Name,Value,Global-Default,Age,PreemptionPolicy"),
]


@pytest.mark.parametrize(("name", "shown"), HEADERS)
def test_headers(name: str, shown: str) -> None:
    found = columns(resource(name))
    assert ",".join(column.name + "*" * column.priority for column in found) == shown
    assert [column.name for column in found if column.format == "name"] == ["Name"]


def test_a_table_of_a_list() -> None:
    obj = made(metadata={"resourceVersion": "5", "namespace": "n"}, data={"a": "1"})
    found = table(resource("configmaps"), [obj], NOW, list_meta={"resourceVersion": "9"})
    assert found["kind"] == "Table" and found["apiVersion"] == "meta.k8s.io/v1"
    assert found["metadata"] == {"resourceVersion": "9"}
    assert [set(column) for column in found["columnDefinitions"]] == [
        {"name", "type", "format", "description", "priority"}
    ] * 3
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    assert found["rows"] == [{"cells": ["x", 1, "5m"], "object": partial}]
    assert table(resource("configmaps"), [obj], NOW, "Object")["rows"][0]["object"] is obj
    assert "object" not in table(resource("configmaps"), [obj], NOW, "None")["rows"][0]
    msgspec.json.encode(found)


def test_a_table_of_one_object() -> None:
    obj = made(metadata={"resourceVersion": "5"})
    first = row(resource("configmaps"), obj, NOW)
    assert first["metadata"] == {"resourceVersion": "5"} and len(first["columnDefinitions"]) == 3
    later = row(resource("configmaps"), obj, NOW, first=False)
    assert later["columnDefinitions"] == [] and later["rows"] == first["rows"]


def test_rows_of_ended_pods_say_so() -> None:
    for phase in ("Succeeded", "Failed"):
        found = row(resource("pods"), made(status={"phase": phase}), NOW)["rows"][0]["conditions"]
        assert [(c["type"], c["status"], c["reason"]) for c in found] == [("Completed", "True", phase)]
    assert "conditions" not in row(resource("pods"), made(status={"phase": "Running"}), NOW)["rows"][0]


def test_scales_have_columns_of_their_own() -> None:
    obj = made(spec={"replicas": 3}, status={"replicas": 2})
    assert SCALE.cells(obj, NOW) == ["x", 3, 2, "5m"]


COLUMNS: list[dict[str, Any]] = [
    {"name": "Spec", "type": "string", "jsonPath": ".spec.s"},
    {"name": "N", "type": "integer", "jsonPath": ".spec.n"},
    {"name": "F", "type": "number", "jsonPath": ".spec.f", "priority": 1},
    {"name": "B", "type": "boolean", "jsonPath": ".spec.b", "description": "told"},
    {"name": "D", "type": "date", "jsonPath": ".spec.d", "format": "date-time"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({}, [None] * 5),
        ({"s": "a", "n": 3, "f": 2, "b": True, "d": CREATED}, ["a", 3, 2.0, True, "5m"]),
        ({"s": 3, "n": 3.9, "f": 1.5, "b": False, "d": "x"}, ["3", 3, 1.5, False, "<invalid>"]),
        (
            {"s": {"b": 1, "a": [True]}, "n": "3", "f": "x", "b": 1, "d": 3},
            ['{"a":[true],"b":1}', None, None, None, None],
        ),
        ({"s": None, "n": None, "b": None, "f": True, "d": None}, ["<nil>", None, None, None, None]),
    ],
)
def test_columns_of_custom_resources(spec: Any, shown: list[Any]) -> None:
    made_printer = custom_printer(COLUMNS)
    obj = made(spec=spec, status={"conditions": [{"type": "A", "status": "False"}, *TRUE]})
    assert made_printer.cells(obj, NOW) == ["x", *shown, "True"]


def test_definitions_of_custom_columns() -> None:
    found = custom_printer(COLUMNS).columns
    assert [column.priority for column in found] == [0, 0, 0, 1, 0, 0, 0]
    assert found[4].description == "told" and found[5].format == "date-time"
    assert found[1].description == "Custom resource definition column (in JSONPath format): .spec.s"


def test_custom_resources_without_columns_show_their_age() -> None:
    foo = Resource("g", "v1", "Foo", "foos", "foo", True, storage_group="g", storage_version="v1", custom=True)
    assert [column.name for column in columns(foo)] == ["Name", "Age"]
    assert cells(foo, made(), NOW) == ["x", "5m"]
    assert [column.name for column in columns(foo, COLUMNS)][:3] == ["Name", "Spec", "N"]


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (-5, "<invalid>"), (-1.5, "0s"), (0, "0s"), (119.9, "119s"), (120, "2m"), (121, "2m1s"), (599, "9m59s"),
        (600, "10m"), (10_799, "179m"), (10_800, "3h"), (10_860, "3h1m"), (28_799, "7h59m"), (28_800, "8h"),
        (172_799, "47h"), (172_800, "2d"), (450_000, "5d5h"), (691_199, "7d23h"), (691_200, "8d"),
        (63_071_999, "729d"), (63_072_000, "2y"), (63_158_400, "2y1d"), (252_287_999, "7y364d"), (252_288_000, "8y"),
    ],
)  # fmt: skip
def test_ages(span: float, shown: str) -> None:
    assert human(span) == shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-01T00:00:10Z", 10),
        ("1970-01-01T00:00:10.5Z", 10.5),
        ("1970-01-01T02:00:10+02:00", 10),
        ("1970-01-01T00:00:10.500000", 10.5),
        ("", None), ("x", None), (None, None), (3, None),
        ("1970-99-01T00:00:10Z", None), ("xxxx-01-01T00:00:00Z", None),
    ],
)  # fmt: skip
def test_timestamps(text: Any, found: float | None) -> None:
    assert seconds(text) == found


def test_selectors_are_sorted_by_key() -> None:
    rows = [
        {"key": "c", "operator": "Exists"},
        {"key": "b", "operator": "DoesNotExist"},
        {"key": "a", "operator": "NotIn", "values": ["z", "y"]},
    ]
    assert selector({"matchExpressions": rows, "matchLabels": {"d": "1"}}) == "a notin (y,z),!b,c,d=1"
    assert selector(None) == ""


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "data", "subsets", "webhooks"]), json_values))
def test_whatever_an_object_holds_it_can_be_shown(obj: Any) -> None:
    for one in R.resources:
        found = printer(one)
        assert len(found.cells(obj, NOW)) == len(found.columns)
