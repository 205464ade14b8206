"""Defaults kind by kind: what a client leaves out and reads back."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dashpot.model.objects import defaults
from dashpot.model.objects.defaults_pod import pull_policy
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.schema import shape

Object = dict[str, Any]


def filled(plural: str, obj: Object, group: str = "", version: str = "v1") -> Object:
    """The object with its defaults; filling again changes nothing, and neither does decoding."""
    resource = builtin().find(group, version, plural)
    assert resource is not None
    obj.setdefault("kind", resource.kind)
    walker = shape(group, version, resource.kind, builtin())
    assert walker.decode(obj) == []
    defaults.fill(resource, obj, None)
    again = copy.deepcopy(obj)
    defaults.fill(resource, again, None)
    assert again == obj
    assert walker.decode(again) == []
    assert again == obj
    del obj["kind"]
    return obj


POD_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
}
CONTAINER = {
    "name": "c",
    "image": "nginx",
    "imagePullPolicy": "Always",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def pod(container: Object | None = None, **spec: Any) -> Object:
    """A pod spec with one container, its defaults filled in."""
    obj = filled("pods", {"spec": {"containers": [{"name": "c", "image": "nginx", **(container or {})}], **spec}})
    found: Object = obj["spec"]
    return found


def test_pod() -> None:
    assert pod() == {**POD_SPEC, "containers": [CONTAINER], "enableServiceLinks": True}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("registry.io:5000/a/b", "Always"),
        ("registry.io:5000/a/b:v1", "IfNotPresent"),
        ("nginx:1.25", "IfNotPresent"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "a" * 64, "Always"),
        ("", "IfNotPresent"),
        ("Not An Image", "IfNotPresent"),
        ("UPPER/case", "Always"),
        ("x/UPPER", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        (
            {"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            {"env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]},
        ),
        (
            {"env": [{"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
            {"env": [{"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}}]},
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 0, "timeoutSeconds": 0}},
            {"livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **PROBE}},
        ),
        (
            {"readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 5}},
            {"readinessProbe": {"grpc": {"port": 1, "service": ""}, **PROBE, "periodSeconds": 5}},
        ),
        (
            {"lifecycle": {"preStop": {"httpGet": {"port": "p"}}}},
            {"lifecycle": {"preStop": {"httpGet": {"port": "p", "path": "/", "scheme": "HTTP"}}}},
        ),
        (
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}}},
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}},
        ),
        ({"imagePullPolicy": "Never"}, {"imagePullPolicy": "Never"}),
    ],
)
def test_containers(given: Object, wanted: Object) -> None:
    assert pod(given)["containers"] == [{**CONTAINER, **wanted}]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {"medium": "Memory"}}, {"emptyDir": {"medium": "Memory"}}),
        ({"configMap": {"name": "m"}}, {"configMap": {"name": "m", "defaultMode": 420}}),
        ({"secret": {"secretName": "s", "defaultMode": 0}}, {"secret": {"secretName": "s", "defaultMode": 0}}),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
        ),
        ({"image": {"reference": "a:1"}}, {"image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}}),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
            {"ephemeral": {"volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}}}},
        ),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "u"}},
            {
                "azureDisk": {
                    "diskName": "d", "diskURI": "u", "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False,
                    "kind": "Shared",
                }
            },
        ),
    ],
)  # fmt: skip
def test_volumes(given: Object, wanted: Object) -> None:
    assert pod(volumes=[{"name": "v", **given}])["volumes"] == [{"name": "v", **wanted}]


def test_the_old_name_of_the_account_is_served_beside_the_new_one() -> None:
    assert pod(serviceAccount="a")["serviceAccountName"] == "a"
    found = pod(serviceAccountName="b", serviceAccount="a")
    assert found["serviceAccount"] == found["serviceAccountName"] == "b"


def test_ports_on_the_host_network_are_the_hosts() -> None:
    found = pod({"ports": [{"containerPort": 80}]}, hostNetwork=True)
    assert found["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_a_template_does_not_get_what_only_pods_have() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "1"}}}]}}
    found = filled("replicasets", {"spec": {"template": template}}, "apps")["spec"]
    assert found == {
        "replicas": 1,
        "template": {"spec": {**POD_SPEC, "containers": [{**CONTAINER, "resources": {"limits": {"cpu": "1"}}}]}},
    }


def test_pod_level_requests_come_from_containers_then_from_limits() -> None:
    containers = [
        {"name": "a", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "b", "resources": {"requests": {"cpu": "300m"}}},
    ]
    init = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
    ]
    limits = {"cpu": "2", "memory": "1Gi"}
    spec: Object = {"containers": containers, "initContainers": init, "resources": {"limits": limits}}
    found = filled("pods", {"spec": spec})["spec"]["resources"]
    assert found == {"limits": limits, "requests": {"cpu": "1050m", "memory": "1Gi"}}


TEMPLATE: Object = {"spec": {**POD_SPEC, "containers": []}}
ROWS: list[tuple[str, str, Object, Object]] = [
    (
        "apps", "deployments", {},
        {"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}}},
    ),
    (
        "apps", "deployments", {"spec": {"replicas": 0, "strategy": {"type": "Recreate"}}},
        {"spec": {"replicas": 0, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                  "strategy": {"type": "Recreate"}}},
    ),
    (
        "apps", "deployments", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}},
        {"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}}}},
    ),
    (
        "apps", "daemonsets", {},
        {"spec": {"revisionHistoryLimit": 10, "updateStrategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}},
    ),
    (
        "apps", "statefulsets", {"spec": {"volumeClaimTemplates": [{"spec": {}}]}},
        {"spec": {
            "replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "volumeClaimTemplates": [{
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }],
        }},
    ),
    (
        "batch", "jobs", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}}},
        {"metadata": {"labels": {"a": "b"}}, "spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "template": {"metadata": {"labels": {"a": "b"}}, **TEMPLATE},
        }},
    ),
    (
        "batch", "jobs", {"spec": {"completions": 3, "backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}},
        {"metadata": {}, "spec": {
            "completions": 3, "parallelism": 1, "backoffLimit": 2147483647, "backoffLimitPerIndex": 1,
            "completionMode": "NonIndexed", "suspend": False, "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
        }},
    ),
    (
        "batch", "cronjobs", {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}},
        {"spec": {
            "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": TEMPLATE}},
        }},
    ),
    (
        "", "replicationcontrollers", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}},
        {"metadata": {"labels": {"a": "b"}}, "spec": {
            "replicas": 1, "selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}}},
    ),
    (
        "", "services", {"spec": {"type": "", "ports": [{"port": 80}, {"port": 81, "targetPort": "web"}]}},
        {"spec": {
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [
                {"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 81, "protocol": "TCP", "targetPort": "web"}
            ],
        }},
    ),
    (
        "", "services", {"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"},
                         "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}}},
        {"spec": {
            "type": "LoadBalancer", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}, "internalTrafficPolicy": "Cluster",
            "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True},
         "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "h"}]}}},
    ),
    (
        "", "services", {"spec": {"type": "ExternalName", "externalName": "x",
                                  "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}},
        {"spec": {"type": "ExternalName", "externalName": "x", "sessionAffinity": "None"}},
    ),
    ("", "namespaces", {"metadata": {"name": "n"}}, {
        "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}, "status": {"phase": "Active"}}),
    ("", "secrets", {"type": ""}, {"type": "Opaque"}),
    ("", "configmaps", {"data": {}}, {}),
    ("", "events", {"reason": "r"}, {"reason": "r", "reportingComponent": "", "reportingInstance": ""}),
    ("", "endpoints", {"subsets": [{"ports": [{"port": 1}]}]},
     {"subsets": [{"ports": [{"port": 1, "protocol": "TCP"}]}]}),
    ("", "persistentvolumes", {"spec": {"hostPath": {"path": "/"}}}, {
        "spec": {"hostPath": {"path": "/", "type": ""}, "persistentVolumeReclaimPolicy": "Retain",
                 "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    ("", "persistentvolumeclaims", {}, {"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    ("", "nodes", {"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "4"}}}, {
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}),
    ("", "limitranges", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}}, {
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"},
                             "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}}]}}),
    ("", "limitranges", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}},
     {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}}),
    ("discovery.k8s.io", "endpointslices", {"ports": [{"port": 80}]},
     {"ports": [{"name": "", "port": 80, "protocol": "TCP"}]}),
    ("networking.k8s.io", "networkpolicies", {"spec": {"ingress": [{"ports": [{"port": 80}]}]}}, {
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"],
                 "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]}}),
    ("networking.k8s.io", "networkpolicies", {"spec": {"podSelector": {}, "egress": [{}]}},
     {"spec": {"podSelector": {}, "egress": [{}], "policyTypes": ["Ingress", "Egress"]}}),
    ("networking.k8s.io", "ingressclasses", {"spec": {"parameters": {"kind": "K", "name": "n"}}},
     {"spec": {"parameters": {"kind": "K", "name": "n", "scope": "Cluster"}}}),
    ("storage.k8s.io", "storageclasses", {"provisioner": "p"},
     {"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("storage.k8s.io", "csidrivers", {"spec": {}}, {"spec": {
        "attachRequired": True, "podInfoOnMount": False, "storageCapacity": False, "requiresRepublish": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType", "seLinuxMount": False, "volumeLifecycleModes": ["Persistent"]}}),
    ("scheduling.k8s.io", "priorityclasses", {"value": 1}, {"value": 1, "preemptionPolicy": "PreemptLowerPriority"}),
    ("rbac.authorization.k8s.io", "rolebindings",
     {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
                                                            {"kind": "ServiceAccount", "name": "s"}]},
     {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
      "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"},
                   {"kind": "ServiceAccount", "name": "s"}]}),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations",
     {"webhooks": [{"name": "w", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{}]}]},
     {"webhooks": [{"name": "w", "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
                    "rules": [{"scope": "*"}], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
                    "timeoutSeconds": 10, "reinvocationPolicy": "Never", "namespaceSelector": {},
                    "objectSelector": {}}]}),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies",
     {"spec": {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"]}]}}},
     {"spec": {"failurePolicy": "Fail", "matchConstraints": {
         "resourceRules": [{"operations": ["CREATE"], "scope": "*"}], "matchPolicy": "Equivalent",
         "namespaceSelector": {}, "objectSelector": {}}}}),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", {"spec": {}}, {"spec": {"matchingPrecedence": 1000}}),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations",
     {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 1}}}}},
     {"spec": {"type": "Limited", "limited": {
         "nominalConcurrencyShares": 30, "lendablePercent": 0,
         "limitResponse": {"type": "Queue", "queuing": {"queues": 1, "handSize": 8, "queueLengthLimit": 50}}}}}),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", {"spec": {"type": "Exempt"}},
     {"spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}}),
    ("apiextensions.k8s.io", "customresourcedefinitions", {"spec": {"names": {"kind": "CronTab"}}},
     {"spec": {"names": {"kind": "CronTab", "singular": "crontab", "listKind": "CronTabList"},
               "conversion": {"strategy": "None"}}}),
    ("apiregistration.k8s.io", "apiservices", {"spec": {"service": {"name": "s"}}},
     {"spec": {"service": {"name": "s", "port": 443}}}),
    ("resource.k8s.io", "resourceclaims", {"spec": {"devices": {"requests": [{"name": "r", "exactly": {}}]}}},
     {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"allocationMode": "ExactCount", "count": 1}}]}}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "plural", "given", "wanted"), ROWS, ids=[f"{row[1]}-{n}" for n, row in enumerate(ROWS)]
)
def test_kinds(group: str, plural: str, given: Object, wanted: Object) -> None:
    assert filled(plural, copy.deepcopy(given), group) == wanted


def test_autoscalers() -> None:
    assert filled("horizontalpodautoscalers", {}, "autoscaling") == {"spec": {"minReplicas": 1}}
    found = filled("horizontalpodautoscalers", {"spec": {"behavior": {"scaleUp": {}}}}, "autoscaling", "v2")["spec"]
    policy = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert found == {
        "minReplicas": 1,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ],
        "behavior": {
            "scaleUp": {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, policy],
            },
            "scaleDown": {"selectPolicy": "Max", "policies": [policy]},
        },
    }


def test_no_value_is_shared_between_objects() -> None:
    one, other = filled("deployments", {}, "apps"), filled("deployments", {}, "apps")
    one["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = 1
    assert other["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == "25%"


def test_every_kind_takes_an_empty_object() -> None:
    for resource in builtin().resources:
        defaults.fill(resource, {"metadata": {}}, None)
