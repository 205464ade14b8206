"""What Kubernetes fills in where a client says nothing, a function a kind, in place.

Defaults are stored: clients read them back. Source: pkg/apis/*/v1/defaults.go, release 1.34, and the `+default` markers
of k8s.io/api. Objects are as `schema.Shape.decode` leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.objects import defaults_pod as pods
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Object

Fill = Callable[[Object], None]
RBAC = "rbac.authorization.k8s.io"


def fill(resource: Resource, obj: Object, old: Object | None = None) -> None:
    """Fills in the defaults of a built-in kind; idempotent. `old` is what an update replaces."""
    found = _KINDS.get((resource.group, resource.version, resource.kind))
    if found is not None:
        found(obj)


def _set(obj: Object, **values: Any) -> None:
    """Sets what is absent. Values must not be containers: they would be shared."""
    for key, value in values.items():
        if obj.get(key) is None:
            obj[key] = value


def _part(obj: Object, key: str) -> Object:
    """A struct that Go always has: made if it is absent."""
    found: Object | None = obj.get(key)
    if found is None:
        found = obj[key] = {}
    return found


def _namespace(obj: Object) -> None:
    meta = _part(obj, "metadata")
    if meta.get("name"):
        _part(meta, "labels")["kubernetes.io/metadata.name"] = meta["name"]
    _set(_part(obj, "status"), phase="Active")


def _secret(obj: Object) -> None:
    if not obj.get("type"):
        obj["type"] = "Opaque"


def _service(obj: Object) -> None:
    spec = _part(obj, "spec")
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    kind = spec.get("type")
    if not kind:
        kind = spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort") and "port" in port:
            port["targetPort"] = port["port"]
    exposed = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if exposed and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec["internalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        _set(spec, allocateLoadBalancerNodePorts=True)
        for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                _set(ingress, ipMode="VIP")


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def _event(obj: Object) -> None:
    # Go writes these two whether they say anything or not
    _set(obj, reportingComponent="", reportingInstance="")


def _endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        _set(port, name="", protocol="TCP")


def _persistent_volume(obj: Object) -> None:
    spec = _part(obj, "spec")
    _set(_part(obj, "status"), phase="Pending")
    _set(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    pods.volume_source(spec)


def _claim(obj: Object) -> None:
    _set(_part(obj, "spec"), volumeMode="Filesystem")
    _set(_part(obj, "status"), phase="Pending")


def _node(obj: Object) -> None:
    status = obj.get("status") or {}
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])
    spec = obj.get("spec") or {}
    if spec.get("podCIDR"):
        if not spec.get("podCIDRs") or spec["podCIDRs"][0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]


def _limit_range(obj: Object) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        for key, found in (("default", default), ("defaultRequest", request)):
            if found:
                item[key] = found


def _replication_controller(obj: Object) -> None:
    spec = _part(obj, "spec")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        meta = _part(obj, "metadata")
        if not meta.get("labels"):
            meta["labels"] = dict(labels)
    _set(spec, replicas=1)
    pods.template(spec)


def _pod_template(obj: Object) -> None:
    pods.template(obj)


def _deployment(obj: Object) -> None:
    spec = _part(obj, "spec")
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _part(spec, "strategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(_part(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    pods.template(spec)


def _daemon_set(obj: Object) -> None:
    spec = _part(obj, "spec")
    _set(spec, revisionHistoryLimit=10)
    strategy = _part(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(_part(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    pods.template(spec)


def _stateful_set(obj: Object) -> None:
    spec = _part(obj, "spec")
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = _part(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        _part(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        _set(strategy["rollingUpdate"], partition=0)
    _set(_part(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    _set(spec, replicas=1, revisionHistoryLimit=10)
    for claim in spec.get("volumeClaimTemplates") or ():
        _set(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        _claim(claim)
    pods.template(spec)


def _replica_set(obj: Object) -> None:
    spec = _part(obj, "spec")
    _set(spec, replicas=1)
    pods.template(spec)


def _job(obj: Object) -> None:
    spec = _part(obj, "spec")
    if spec.get("parallelism") is None:
        if spec.get("completions") is None:
            spec["completions"] = 1
        spec["parallelism"] = 1
    _set(
        spec,
        backoffLimit=2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed",
    )
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    meta = _part(obj, "metadata")
    if labels and not meta.get("labels"):
        meta["labels"] = dict(labels)
    _failure_policy(spec)
    pods.template(spec)


def _failure_policy(spec: Object) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def _cron_job(obj: Object) -> None:
    spec = _part(obj, "spec")
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    _set(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = (spec.get("jobTemplate") or {}).get("spec")
    if job is not None:
        _failure_policy(job)
        pods.template(job)


def _autoscaler_v1(obj: Object) -> None:
    _set(_part(obj, "spec"), minReplicas=1)


def _autoscaler(obj: Object) -> None:
    spec = _part(obj, "spec")
    _set(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        up = _part(behavior, "scaleUp")
        _set(up, stabilizationWindowSeconds=0, selectPolicy="Max")
        if up.get("policies") is None:
            up["policies"] = [_policy("Pods", 4), _policy("Percent", 100)]
        down = _part(behavior, "scaleDown")
        _set(down, selectPolicy="Max")
        if down.get("policies") is None:
            down["policies"] = [_policy("Percent", 100)]


def _policy(kind: str, value: int) -> Object:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _network_policy(obj: Object) -> None:
    spec = obj.get("spec")
    if spec is None:
        return
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    _part(spec, "podSelector")
    for way in ("ingress", "egress"):
        for rule in spec.get(way) or ():
            for port in rule.get("ports") or ():
                _set(port, protocol="TCP")


def _ingress_class(obj: Object) -> None:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        _set(parameters, scope="Cluster")


def _storage_class(obj: Object) -> None:
    _set(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _csi_driver(obj: Object) -> None:
    spec = _part(obj, "spec")
    _set(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False)
    _set(spec, fsGroupPolicy="ReadWriteOnceWithFSType", seLinuxMount=False)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _webhooks(obj: Object) -> None:
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for hook in obj.get("webhooks") or ():
        _set(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        if mutating:
            _set(hook, reinvocationPolicy="Never")
        _part(hook, "namespaceSelector")
        _part(hook, "objectSelector")
        for rule in hook.get("rules") or ():
            _set(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            _set(service, port=443)


def _admission_policy(obj: Object) -> None:
    spec = _part(obj, "spec")
    _set(spec, failurePolicy="Fail")
    _match(spec.get("matchConstraints"))


def _admission_binding(obj: Object) -> None:
    _match((obj.get("spec") or {}).get("matchResources"))


def _match(constraints: Object | None) -> None:
    if constraints is None:
        return
    _set(constraints, matchPolicy="Equivalent")
    _part(constraints, "namespaceSelector")
    _part(constraints, "objectSelector")
    for key in ("resourceRules", "excludeResourceRules"):
        for rule in constraints.get(key) or ():
            _set(rule, scope="*")


def _binding(obj: Object) -> None:
    reference = obj.get("roleRef")
    if reference is not None and not reference.get("apiGroup"):
        reference["apiGroup"] = RBAC
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC


def _priority_class(obj: Object) -> None:
    _set(obj, preemptionPolicy="PreemptLowerPriority")


def _flow_schema(obj: Object) -> None:
    spec = _part(obj, "spec")
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _priority_level(obj: Object) -> None:
    spec = _part(obj, "spec")
    exempt, limited = spec.get("exempt"), spec.get("limited")
    if spec.get("type") == "Exempt":
        exempt = _part(spec, "exempt")
    if exempt is not None:
        _set(exempt, nominalConcurrencyShares=0, lendablePercent=0)
    if limited is not None:
        _set(limited, nominalConcurrencyShares=30, lendablePercent=0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for key, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                if not queuing.get(key):
                    queuing[key] = value


def _api_service(obj: Object) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        _set(service, port=443)


def definition(obj: Object) -> None:
    """A CustomResourceDefinition: singular, listKind, the conversion. Whatever else it is, it must not stop this.

    Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go.
    """
    spec = obj.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return
    names = spec["names"]
    kind = names.get("kind")
    if isinstance(kind, str) and kind:
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind"):
            names["listKind"] = f"{kind}List"
    conversion = spec.get("conversion")
    if conversion is None:
        spec["conversion"] = {"strategy": "None"}
        return
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if isinstance(service, dict):
        _set(service, port=443)


def _token_request(obj: Object) -> None:
    _set(_part(obj, "spec"), expirationSeconds=3600)


def _resource_claim(obj: Object) -> None:
    _requests(obj.get("spec"))


def _resource_claim_template(obj: Object) -> None:
    _requests((obj.get("spec") or {}).get("spec"))


def _requests(spec: Object | None) -> None:
    for request in ((spec or {}).get("devices") or {}).get("requests") or ():
        exact = request.get("exactly")
        for found in [*([exact] if exact is not None else []), *(request.get("firstAvailable") or ())]:
            _set(found, allocationMode="ExactCount")
            if found["allocationMode"] == "ExactCount" and not found.get("count"):
                found["count"] = 1


_ADMISSION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_KINDS: dict[tuple[str, str, str], Fill] = {
    ("", "v1", "Pod"): pods.pod,
    ("", "v1", "PodTemplate"): _pod_template,
    ("", "v1", "ReplicationController"): _replication_controller,
    ("", "v1", "Namespace"): _namespace,
    ("", "v1", "Event"): _event,
    ("", "v1", "Secret"): _secret,
    ("", "v1", "Service"): _service,
    ("", "v1", "Endpoints"): _endpoints,
    ("", "v1", "PersistentVolume"): _persistent_volume,
    ("", "v1", "PersistentVolumeClaim"): _claim,
    ("", "v1", "Node"): _node,
    ("", "v1", "LimitRange"): _limit_range,
    ("apps", "v1", "Deployment"): _deployment,
    ("apps", "v1", "DaemonSet"): _daemon_set,
    ("apps", "v1", "StatefulSet"): _stateful_set,
    ("apps", "v1", "ReplicaSet"): _replica_set,
    ("batch", "v1", "Job"): _job,
    ("batch", "v1", "CronJob"): _cron_job,
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): _autoscaler_v1,
    ("autoscaling", "v2", "HorizontalPodAutoscaler"): _autoscaler,
    ("discovery.k8s.io", "v1", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "v1", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io", "v1", "IngressClass"): _ingress_class,
    ("storage.k8s.io", "v1", "StorageClass"): _storage_class,
    ("storage.k8s.io", "v1", "CSIDriver"): _csi_driver,
    (_ADMISSION, "v1", "MutatingWebhookConfiguration"): _webhooks,
    (_ADMISSION, "v1", "ValidatingWebhookConfiguration"): _webhooks,
    (_ADMISSION, "v1", "ValidatingAdmissionPolicy"): _admission_policy,
    (_ADMISSION, "v1", "ValidatingAdmissionPolicyBinding"): _admission_binding,
    (_ADMISSION, "v1", "MutatingAdmissionPolicy"): _admission_policy,
    (_ADMISSION, "v1", "MutatingAdmissionPolicyBinding"): _admission_binding,
    (RBAC, "v1", "RoleBinding"): _binding,
    (RBAC, "v1", "ClusterRoleBinding"): _binding,
    ("scheduling.k8s.io", "v1", "PriorityClass"): _priority_class,
    (_FLOW, "v1", "FlowSchema"): _flow_schema,
    (_FLOW, "v1", "PriorityLevelConfiguration"): _priority_level,
    ("apiregistration.k8s.io", "v1", "APIService"): _api_service,
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): definition,
    ("authentication.k8s.io", "v1", "TokenRequest"): _token_request,
    ("resource.k8s.io", "v1", "ResourceClaim"): _resource_claim,
    ("resource.k8s.io", "v1", "ResourceClaimTemplate"): _resource_claim_template,
}
