"""Rules at their edges: what is told, word by word, and the neighbour that is let through."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.rule_kit import told

from dashpot.model.objects.status import shown

Object = dict[str, Any]
JOB, CRON = "batch/jobs", "batch/cronjobs"
SERVICE = "services"
SLICE = "discovery.k8s.io/endpointslices"
INGRESS, POLICY = "networking.k8s.io/ingresses", "networking.k8s.io/networkpolicies"
CLASS = "networking.k8s.io/ingressclasses"
HOOKS = "admissionregistration.k8s.io/validatingwebhookconfigurations"
BINDING = "admissionregistration.k8s.io/validatingadmissionpolicybindings"
EVENT, OLD_EVENT = "events.k8s.io/events", "events"
CLAIM, QUOTA, LIMITS = "persistentvolumeclaims", "resourcequotas", "limitranges"
HPA = "autoscaling/horizontalpodautoscalers"
STORAGE, VOLUME = "storage.k8s.io/storageclasses", "persistentvolumes"
CSR = "certificates.k8s.io/certificatesigningrequests"
RESTART = "spec.template.spec.restartPolicy"
BACKEND = "spec.rules[0].http.paths[0].backend"
PATH = "spec.rules[0].http.paths[0].path"
RESOURCES = "webhooks[0].rules[0].resources"
NAME = 'must be a domain-prefixed path (such as "acme.io/foo")'
INDEXED: Object = {"spec.completionMode": "Indexed", "spec.completions": 5}
EACH: Object = {**INDEXED, "spec.backoffLimitPerIndex": 1}


def rule(**fields: Any) -> Object:
    """A job with one rule about failures."""
    return {"spec.podFailurePolicy": {"rules": [{"action": "FailJob", **fields}]}}


def exits(**fields: Any) -> Object:
    return rule(onExitCodes={"operator": "In", "values": [1, 2], **fields})


def success(**fields: Any) -> Object:
    return {**INDEXED, "spec.successPolicy": {"rules": [fields]}}


FAILURE = "spec.podFailurePolicy.rules[0]"
EXIT = f"{FAILURE}.onExitCodes"
SUCCESS = "spec.successPolicy.rules[0]"
TOO_FAR = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"
MOST = "must be less than or equal to 100000"
NEVER = 'only "Never" is supported when podFailurePolicy is specified'
OPERATORS, STATUSES = '["In" "NotIn"]', '["False" "True" "Unknown"]'
ACTIONS = '["Count" "FailIndex" "FailJob" "Ignore"]'
CONDITION = [{"type": "DisruptionTarget", "status": "True"}]
MARK = "kubernetes.io/ingress.class"

REFUSED: list[tuple[str, Object, str]] = [
    (JOB, {RESTART: "Always"}, f'{RESTART}: Required value: valid values: "OnFailure", "Never"'),
    (JOB, {RESTART: "x"}, f'{RESTART}: Unsupported value: "x": supported values: "OnFailure", "Never"'),
    (JOB, {**exits(), RESTART: "OnFailure"}, f'{RESTART}: Invalid value: "OnFailure": {NEVER}'),
    (JOB, rule(), f"{FAILURE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
    (
        JOB,
        rule(onExitCodes={"operator": "In", "values": [1]}, onPodConditions=CONDITION),
        f"{FAILURE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
    ),
    (JOB, exits(values=[0]), f"{EXIT}.values[0]: Invalid value: 0: must not be 0 for the In operator"),
    (JOB, exits(values=[2, 1]), f"{EXIT}.values: Invalid value: [2,1]: must be ordered"),
    (JOB, exits(values=[1, 1]), f"{EXIT}.values[1]: Duplicate value: 1"),
    (JOB, exits(values=[]), f"{EXIT}.values: Invalid value: []: at least one value is required"),
    (JOB, exits(values=list(range(1, 257))), f"{EXIT}.values: Too many: 256: must have at most 255 items"),
    (JOB, exits(operator=""), f"{EXIT}.operator: Required value: valid values: {OPERATORS}"),
    (JOB, exits(operator="x"), f'{EXIT}.operator: Unsupported value: "x": supported values: "In", "NotIn"'),
    (
        JOB,
        exits(containerName="z"),
        f'{EXIT}.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod '
        "template",
    ),
    (
        JOB,
        rule(action="", onPodConditions=CONDITION),
        f"{FAILURE}.action: Required value: valid values: {ACTIONS}",
    ),
    (
        JOB,
        rule(action="FailIndex", onPodConditions=CONDITION),
        f'{FAILURE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
    ),
    (
        JOB,
        rule(onPodConditions=[{"type": "X"}]),
        f"{FAILURE}.onPodConditions[0].status: Required value: valid values: {STATUSES}",
    ),
    (
        JOB,
        {"spec.podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": CONDITION}] * 21}},
        "spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items",
    ),
    (
        JOB,
        {**exits(), "spec.podReplacementPolicy": "TerminatingOrFailed"},
        'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
    ),
    (
        JOB,
        {"spec.maxFailedIndexes": 1},
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
    ),
    (
        JOB,
        {**EACH, "spec.maxFailedIndexes": 6},
        "spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions",
    ),
    (
        JOB,
        {**INDEXED, "spec.parallelism": 100001},
        f"spec.parallelism: Invalid value: 100001: {MOST} when completion mode is Indexed",
    ),
    (
        JOB,
        {**EACH, "spec.completions": 100001},
        "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
    ),
    (
        JOB,
        {**EACH, "spec.completions": 100001, "spec.maxFailedIndexes": 1, "spec.parallelism": 10001},
        f"spec.parallelism: Invalid value: 10001: {TOO_FAR}",
    ),
    (
        JOB,
        success(),
        f"{SUCCESS}: Required value: at least one of succeededCount or succeededIndexes must be specified",
    ),
    (
        JOB,
        success(succeededCount=6),
        f"{SUCCESS}.succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified "
        "completions)",
    ),
    (
        JOB,
        success(succeededCount=3, succeededIndexes="0-1"),
        f"{SUCCESS}.succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the "
        "specified succeededIndexes field)",
    ),
    (
        JOB,
        success(succeededIndexes="0-5"),
        f'{SUCCESS}.succeededIndexes: Invalid value: "0-5": error parsing succeededIndexes: too large index: "5"',
    ),
    (
        JOB,
        {**INDEXED, "spec.successPolicy": {"rules": []}},
        "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is "
        "specified",
    ),
    (JOB, {"spec.managedBy": "x"}, f'spec.managedBy: Invalid value: "x": {NAME}'),
    (JOB, {"spec.managedBy": "a.b/" + "c" * 60}, "spec.managedBy: Too long: may not be more than 63 bytes"),
    (
        JOB,
        {**INDEXED, "metadata.name": "x" * 62},
        f'metadata.name: Invalid value: "{"x" * 62}": will not able to create pod with invalid DNS label: {"x" * 62}-4',
    ),
    (
        CRON,
        {"spec.jobTemplate.spec.manualSelector": True},
        'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
    ),
    (CRON, {"spec.timeZone": ""}, 'spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string'),
    (CRON, {"spec.timeZone": "Not/There"}, 'spec.timeZone: Invalid value: "Not/There": unknown time zone Not/There'),
    (CRON, {"spec.timeZone": "../UTC"}, 'spec.timeZone: Invalid value: "../UTC": unknown time zone ../UTC'),
    (
        CRON,
        {"spec.schedule": "TZ=UTC 1 * * * *"},
        'spec.schedule: Invalid value: "TZ=UTC 1 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field '
        "instead",
    ),
    (INGRESS, {BACKEND: {}}, f'{BACKEND}: Invalid value: "": resource or service backend is required'),
    (
        INGRESS,
        {f"{BACKEND}.resource": {"kind": "K", "name": "n"}},
        f'{BACKEND}: Invalid value: "": cannot set both resource and service backends',
    ),
    (INGRESS, {f"{BACKEND}.service.port": {}}, f"{BACKEND}: Required value: port name or number is required"),
    (
        INGRESS,
        {f"{BACKEND}.service.port": {"name": "a", "number": 1}},
        f'{BACKEND}: Invalid value: "": cannot set both port name & port number',
    ),
    (INGRESS, {f"{BACKEND}.service.name": ""}, f"{BACKEND}.service.name: Required value"),
    (INGRESS, {BACKEND: {"resource": {"name": "n"}}}, f"{BACKEND}.resource.kind: Required value"),
    (INGRESS, {PATH: "/a//b"}, f"{PATH}: Invalid value: \"/a//b\": must not contain '//'"),
    (INGRESS, {PATH: "/a%2Fb"}, f"{PATH}: Invalid value: \"/a%2Fb\": must not contain '%2F'"),
    (
        INGRESS,
        {"metadata.annotations": {MARK: "other"}},
        f'annotations.{MARK}: Invalid value: "other": must match `ingressClassName` when both are specified',
    ),
    (CLASS, {"spec.controller": "x"}, f'spec.controller: Invalid value: "x": {NAME}'),
    (CLASS, {"spec.parameters": {"kind": "K", "name": "n"}}, "spec.parameters.scope: Required value"),
    (
        POLICY,
        {"spec.ingress[0].ports[1].endPort": 9},
        "spec.ingress[0].ports[1].endPort: Invalid value: 9: may not be specified when `port` is non-numeric",
    ),
    (
        POLICY,
        {"spec.ingress[0].ports[1]": {"endPort": 9}},
        "spec.ingress[0].ports[1].endPort: Invalid value: 9: may not be specified when `port` is not specified",
    ),
    (
        POLICY,
        {"spec.ingress[0].from[0].ipBlock.except": ["10.1.0.0/16", "10.0.0.0/8"]},
        'spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
    ),
    (
        SLICE,
        {"ports[0].protocol": "x"},
        'ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
    ),
    (
        SLICE,
        {"endpoints": [{"addresses": ["10.0.0.1"]}] * 1001},
        "endpoints: Too many: 1001: must have at most 1000 items",
    ),
    (
        HOOKS,
        {RESOURCES: ["pods/*", "pods/status"]},
        f"{RESOURCES}[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
    ),
    (
        HOOKS,
        {RESOURCES: ["*/scale", "pods/scale"]},
        f"{RESOURCES}[1]: Invalid value: \"pods/scale\": if '*/scale' is present, must not specify pods/scale",
    ),
    (
        HOOKS,
        {RESOURCES: ["*", "pods"]},
        f'{RESOURCES}: Invalid value: ["*","pods"]: if \'*\' is present, must not specify other resources without '
        "subresources",
    ),
    (
        HOOKS,
        {RESOURCES: ["pods", "*/*"]},
        f'{RESOURCES}: Invalid value: ["pods","*/*"]: if \'*/*\' is present, must not specify other resources',
    ),
    (EVENT, {"type": "x"}, 'type: Invalid value: "": has invalid value: x'),
    (EVENT, {"deprecatedCount": 2}, 'count: Invalid value: "": needs to be unset'),
    (EVENT, {"regarding.namespace": ""}, 'involvedObject.namespace: Invalid value: "": does not match event.namespace'),
    (EVENT, {"series": {"count": 2}}, "series.lastObservedTime: Required value"),
    (
        OLD_EVENT,
        {"involvedObject.namespace": "z"},
        'involvedObject.namespace: Invalid value: "z": does not match event.namespace',
    ),
    (OLD_EVENT, {"involvedObject": {}}, 'involvedObject.namespace: Invalid value: "": does not match event.namespace'),
    (QUOTA, {"spec.hard": {"pods": "1.5"}}, 'spec.hard[pods]: Invalid value: "1.5": must be an integer'),
    (
        BINDING,
        {"spec.paramRef": {"parameterNotFoundAction": "Deny"}},
        "spec.paramRef: Required value: one of name or selector must be specified",
    ),
    (
        "namespaces",
        {"spec.finalizers": ["own"]},
        'spec.finalizers: Invalid value: ["own"]: name is neither a standard finalizer name nor is it fully qualified',
    ),
    (EVENT, {"note": "é" * 513}, 'message: Invalid value: "": can have at most 1024 characters'),
    (HPA, {"spec.metrics[0].type": ""}, "spec.metrics[0].type: Required value: must specify a metric source type"),
    (
        HPA,
        {"spec.metrics[0].type": "Pods"},
        "spec.metrics[0].pods: Required value: must populate information for the given metric source",
    ),
    (
        HPA,
        {"spec.metrics[0].external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}},
        "spec.metrics[0].external: Forbidden: must populate the given metric source only",
    ),
    (
        HPA,
        {"spec.metrics[0].resource.target.type": "x"},
        'spec.metrics[0].resource.target.type: Invalid value: "x": must be either Utilization, Value, or AverageValue',
    ),
    (
        CLAIM,
        {"spec.dataSource": {"kind": "Foo", "name": "n"}},
        "spec.dataSource: Invalid value: \"Foo\": must be 'PersistentVolumeClaim' when referencing the default "
        "apiGroup",
    ),
    (
        SERVICE,
        {"spec.type": "ExternalName", "spec.externalName": "a.b", "spec.externalTrafficPolicy": None},
        "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
    ),
    (
        SERVICE,
        {"spec.clusterIP": "None", "spec.clusterIPs": ["None"]},
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ),
]
ACCEPTED: list[tuple[str, Object]] = [
    (JOB, {RESTART: "OnFailure"}),
    (JOB, {**EACH, RESTART: "OnFailure"}),
    (JOB, {**EACH, "spec.maxFailedIndexes": 5}),
    (JOB, {**EACH, **rule(action="FailIndex", onExitCodes={"operator": "NotIn", "values": [0]})}),
    (JOB, exits(containerName="c")),
    (JOB, exits(containerName="i")),
    (JOB, {**exits(), "spec.podReplacementPolicy": "Failed"}),
    (JOB, rule(onPodConditions=CONDITION)),
    (JOB, {"spec.podReplacementPolicy": "TerminatingOrFailed"}),
    (JOB, success(succeededCount=2, succeededIndexes="0,2-4")),
    (JOB, {**INDEXED, "spec.parallelism": 100000}),
    (JOB, {**INDEXED, "spec.completions": 0}),
    (JOB, {**INDEXED, "metadata.name": "x" * 61}),
    (JOB, {"spec.completions": 5, "metadata.name": "x" * 63}),
    (JOB, {"spec.managedBy": "acme.io/foo"}),
    (CRON, {"spec.jobTemplate.spec.manualSelector": False}),
    (CRON, {"spec.timeZone": "Etc/UTC"}),
    (CRON, {"spec.timeZone": "Europe/Berlin"}),
    (INGRESS, {"metadata.annotations": {MARK: "nginx"}}),
    (INGRESS, {"metadata.annotations": {MARK: "other"}, "spec.ingressClassName": None}),
    (INGRESS, {BACKEND: {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}}}),
    (INGRESS, {f"{BACKEND}.service.port": {"name": "web"}}),
    (INGRESS, {f"{BACKEND}.service.port": {"number": 80, "name": ""}}),
    (INGRESS, {PATH: "/a//b%2f", "spec.rules[0].http.paths[0].pathType": "ImplementationSpecific"}),
    (INGRESS, {"spec.tls": [{"hosts": ["*.example.com", "b.example.com"], "secretName": "s"}, {}]}),
    (CLASS, {"spec.controller": "k8s.io/ingress-nginx"}),
    (CLASS, {"spec.parameters": {"apiGroup": "k8s.io", "kind": "K", "name": "n", "scope": "Cluster"}}),
    (POLICY, {"spec.ingress[0].ports[0].endPort": 80}),
    (POLICY, {"spec.policyTypes": ["Ingress", "Egress"]}),
    (POLICY, {"spec.ingress[0].from[0].ipBlock.except": ["10.0.0.0/9"]}),
    (POLICY, {"spec.ingress[0].from[0].ipBlock": {"cidr": "fd00::/8", "except": ["fd01::/16"]}}),
    (SLICE, {"ports": [{"name": "", "port": 1, "protocol": "SCTP", "appProtocol": "kubernetes.io/h2c"}]}),
    (SLICE, {"ports": [{"name": "a", "port": None}, {"name": "b", "port": 0}]}),
    (SLICE, {"addressType": "FQDN", "endpoints[0].addresses": ["a.example.com"]}),
    (
        SERVICE,
        {
            "spec.type": "ExternalName",
            "spec.externalName": "a.example.com.",
            "spec.clusterIP": None,
            "spec.externalTrafficPolicy": None,
        },
    ),
    (SERVICE, {"spec.type": "LoadBalancer", "spec.loadBalancerSourceRanges": [" 10.0.0.0/8 "]}),
    (
        SERVICE,
        {"spec.type": "LoadBalancer", "spec.loadBalancerClass": "a.io/b", "spec.allocateLoadBalancerNodePorts": False},
    ),
    (
        SERVICE,
        {"spec.type": "LoadBalancer", "spec.externalTrafficPolicy": "Local", "spec.healthCheckNodePort": 30000},
    ),
    (SERVICE, {"spec.trafficDistribution": "PreferClose"}),
    (SERVICE, {"spec.ipFamilyPolicy": "PreferDualStack"}),
    (SERVICE, {"spec.externalIPs": ["203.0.113.7", "2001:db8::7"]}),
    (HOOKS, {RESOURCES: ["pods", "*"]}),
    (HOOKS, {RESOURCES: ["*", "*/status"]}),
    (HOOKS, {RESOURCES: ["pods/status", "pods/*"]}),
    (HOOKS, {RESOURCES: ["*/*"]}),
    (HOOKS, {"webhooks[0].rules[0].operations": ["*"], "webhooks[0].rules[0].apiGroups": ["*"]}),
    (EVENT, {"type": "Warning", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}),
    (EVENT, {"metadata.namespace": "default", "regarding": {"kind": "Node", "name": "n"}}),
    (EVENT, {"metadata.namespace": "kube-system", "regarding": {"kind": "Node", "name": "n"}}),
    (EVENT, {"regarding.namespace": "other"}),
    (OLD_EVENT, {"metadata.namespace": "default", "involvedObject": {"kind": "Node", "name": "n"}}),
    (OLD_EVENT, {"type": "Strange", "reason": "", "count": 3}),
    (CLAIM, {"spec.dataSource": {"kind": "PersistentVolumeClaim", "name": "n"}}),
    (CLAIM, {"spec.dataSource": {"kind": "VolumeSnapshot", "name": "n", "apiGroup": "snapshot.storage.k8s.io"}}),
    (CLAIM, {"spec.dataSourceRef": {"kind": "Any", "name": "n", "apiGroup": "example.com"}}),
    (QUOTA, {"spec.hard": {"pods": "5", "count/jobs.batch": "1k", "cpu": "1.5"}}),
    (QUOTA, {"spec.hard": {"example.com/gpu": "2", "requests.storage": "1.5Gi"}, "spec.scopes": []}),
    (QUOTA, {"spec.hard": {"pods": "5"}, "spec.scopes": ["PriorityClass"]}),
    (
        QUOTA,
        {
            "spec.scopes": [],
            "spec.scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
    ),
    (LIMITS, {"spec.limits[0].maxLimitRequestRatio": {"cpu": "2"}}),
    (LIMITS, {"spec.limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}),
    (LIMITS, {"spec.limits": [{"type": "example.com/thing", "max": {"cpu": "1"}}]}),
    (HPA, {"spec.minReplicas": 3}),
    (HPA, {"spec.metrics[0].resource.target": {"type": "AverageValue", "averageValue": "100m"}}),
    (HPA, {"spec.behavior.scaleUp.selectPolicy": "Disabled"}),
    (STORAGE, {"allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a", "b"]}]}]}),
    (VOLUME, {"spec.hostPath": None, "spec.local": {"path": "/mnt"}}),
    (BINDING, {"spec.paramRef": {"name": "n", "namespace": "d", "parameterNotFoundAction": "Allow"}}),
    (BINDING, {"spec.paramRef": {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}}),
    ("rbac.authorization.k8s.io/rolebindings", {"subjects[0].apiGroup": "rbac.authorization.k8s.io"}),
    ("rbac.authorization.k8s.io/clusterrolebindings", {"subjects[0].apiGroup": ""}),
    ("namespaces", {"spec.finalizers": ["kubernetes", "example.com/own"]}),
    (CSR, {"spec.usages": ["digital signature", "key encipherment", "server auth"]}),
]


def _id(case: tuple[Any, ...]) -> str:
    return f"{case[0].rpartition('/')[2]}-{shown(case[1])[:60]}"


@pytest.mark.parametrize("case", REFUSED, ids=_id)
def test_a_refusal_word_by_word(case: tuple[str, Object, str]) -> None:
    kind, change, text = case
    found = told(kind, change)
    assert text in found
    assert len(found) <= 2, found  # Some mistakes are told twice, as they are upstream.


@pytest.mark.parametrize("case", ACCEPTED, ids=_id)
def test_a_neighbour_is_let_through(case: tuple[str, Object]) -> None:
    assert told(*case) == []


@pytest.mark.parametrize(
    ("kind", "old", "new", "texts"),
    [
        (JOB, {}, {"spec.podReplacementPolicy": "Failed"}, []),
        (JOB, INDEXED, {**INDEXED, "spec.completions": 3, "spec.parallelism": 3}, []),
        (
            JOB,
            INDEXED,
            {**INDEXED, "spec.completions": 3},
            ["spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"],
        ),
        (JOB, {}, {"spec.completions": 3}, ["spec.completions: Invalid value: 3: field is immutable"]),
        (CRON, {"spec.schedule": "TZ=UTC * * * * *"}, {"spec.schedule": "TZ=UTC 1 * * * *"}, []),
        (CRON, {"spec.timeZone": "Gone/Away"}, {"spec.timeZone": "Gone/Away", "spec.suspend": True}, []),
        (EVENT, {}, {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}, []),
        (EVENT, {}, {"note": "m"}, ['message: Invalid value: "m": field is immutable']),
        (OLD_EVENT, {}, {"message": "m", "count": 2}, []),
        (
            SERVICE,
            {"spec.clusterIP": "10.96.0.8"},
            {"spec.clusterIPs": ["10.96.0.9"]},
            ['spec.clusterIPs[0]: Invalid value: ["10.96.0.9"]: may not change once set'],
        ),
        (SERVICE, {"spec.clusterIP": None}, {}, []),
    ],
)
def test_what_an_update_may_change(kind: str, old: Object, new: Object, texts: list[str]) -> None:
    assert told(kind, new, old) == texts
