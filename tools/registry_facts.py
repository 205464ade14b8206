"""What no package says about Kubernetes' resources, written down by hand.

Sources, release 1.37: pkg/registry/*/storage (short names, categories), pkg/controlplane/instance.go and
cmd/kube-apiserver/app/aggregator.go (order of groups), metrics.k8s.io from k8s.io/metrics.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

BETA = {("metrics.k8s.io", "v1beta1")}

# Groups and resources that are not served: nothing here would act on them. componentstatuses is deprecated since 1.19.
LEFT_OUT = {"storagemigration.k8s.io", "componentstatuses"}

# Group priority, highest first.
GROUP_ORDER = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
    "metrics.k8s.io",
]

SHORT_NAMES: dict[tuple[str, str], list[str]] = {
    ("", "configmaps"): ["cm"],
    ("", "endpoints"): ["ep"],
    ("", "events"): ["ev"],
    ("", "limitranges"): ["limits"],
    ("", "namespaces"): ["ns"],
    ("", "nodes"): ["no"],
    ("", "persistentvolumeclaims"): ["pvc"],
    ("", "persistentvolumes"): ["pv"],
    ("", "pods"): ["po"],
    ("", "replicationcontrollers"): ["rc"],
    ("", "resourcequotas"): ["quota"],
    ("", "serviceaccounts"): ["sa"],
    ("", "services"): ["svc"],
    ("apiextensions.k8s.io", "customresourcedefinitions"): ["crd", "crds"],
    ("apps", "daemonsets"): ["ds"],
    ("apps", "deployments"): ["deploy"],
    ("apps", "replicasets"): ["rs"],
    ("apps", "statefulsets"): ["sts"],
    ("autoscaling", "horizontalpodautoscalers"): ["hpa"],
    ("batch", "cronjobs"): ["cj"],
    ("certificates.k8s.io", "certificatesigningrequests"): ["csr"],
    ("events.k8s.io", "events"): ["ev"],
    ("networking.k8s.io", "ingresses"): ["ing"],
    ("networking.k8s.io", "ipaddresses"): ["ip"],
    ("networking.k8s.io", "networkpolicies"): ["netpol"],
    ("policy", "poddisruptionbudgets"): ["pdb"],
    ("scheduling.k8s.io", "priorityclasses"): ["pc"],
    ("storage.k8s.io", "storageclasses"): ["sc"],
    ("storage.k8s.io", "volumeattributesclasses"): ["vac"],
}

ALL_CATEGORY = {
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "services"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
}

API_EXTENSIONS_CATEGORY = {
    "apiservices",
    "customresourcedefinitions",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
}

# Two resources that show the same objects: (group, version, plural) -> group and version in which they are stored.
STORED_AS = {
    ("autoscaling", "v1", "horizontalpodautoscalers"): ("autoscaling", "v2"),
    ("events.k8s.io", "v1", "events"): ("", "v1"),
}

PROXY_VERBS = ["create", "delete", "get", "patch", "update"]
# Connections: (plural, subresource, kind, verbs).
STREAMS = [
    ("nodes", "proxy", "NodeProxyOptions", PROXY_VERBS),
    ("pods", "attach", "PodAttachOptions", ["create", "get"]),
    ("pods", "exec", "PodExecOptions", ["create", "get"]),
    ("pods", "portforward", "PodPortForwardOptions", ["create", "get"]),
    ("pods", "proxy", "PodProxyOptions", PROXY_VERBS),
    ("services", "proxy", "ServiceProxyOptions", PROXY_VERBS),
]

_METRICS = "io.k8s.metrics.pkg.apis.metrics.v1beta1."
_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1."
_USAGE = {
    "description": "The resources in use, by name: cpu, memory.",
    "type": "object",
    "additionalProperties": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
}
_TYPE_META = {
    "apiVersion": {"description": "The version of the schema of this object.", "type": "string"},
    "kind": {"description": "The REST resource that this object represents.", "type": "string"},
}


def _sample(kind: str, what: str, fields: Object) -> Object:
    """The schema of NodeMetrics or PodMetrics."""
    common: Object = {
        **_TYPE_META,
        "metadata": {"$ref": f"{_META}ObjectMeta", "description": "Standard metadata."},
        "timestamp": {"$ref": f"{_META}Time", "description": "When the interval ended."},
        "window": {"description": "How long the interval was: a duration such as 15s.", "type": "string"},
    }
    return {
        "description": f"How much of each resource {what} used in one interval of time.",
        "properties": dict(sorted({**common, **fields}.items())),
        "required": sorted({"timestamp", "window", *fields}),
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "metrics.k8s.io", "kind": kind, "version": "v1beta1"}],
    }


def _samples(kind: str) -> Object:
    """The schema of a list of them."""
    items = {
        "description": "The samples.",
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{_METRICS}{kind}"},
    }
    return {
        "description": f"A list of {kind}.",
        "properties": {**_TYPE_META, "items": items, "metadata": {"$ref": f"{_META}ListMeta"}},
        "required": ["items"],
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "metrics.k8s.io", "kind": f"{kind}List", "version": "v1beta1"}],
    }


METRICS: Object = {
    f"{_METRICS}ContainerMetrics": {
        "description": "How much of each resource one container used.",
        "properties": {"name": {"description": "The container.", "type": "string"}, "usage": _USAGE},
        "required": ["name", "usage"],
        "type": "object",
    },
    f"{_METRICS}NodeMetrics": _sample("NodeMetrics", "one node", {"usage": _USAGE}),
    f"{_METRICS}NodeMetricsList": _samples("NodeMetrics"),
    f"{_METRICS}PodMetrics": _sample(
        "PodMetrics",
        "the containers of one pod",
        {
            "containers": {
                "description": "One entry a container.",
                "type": "array",
                "items": {"$ref": f"#/components/schemas/{_METRICS}ContainerMetrics"},
                "x-kubernetes-list-type": "atomic",
            }
        },
    ),
    f"{_METRICS}PodMetricsList": _samples("PodMetrics"),
}

METRICS_RESOURCES: list[Object] = [
    {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "kind": kind,
        "plural": plural,
        "singular": "",
        "namespaced": namespaced,
        "verbs": ["get", "list"],
        "short_names": [],
        "categories": [],
        "subresources": [],
        "storage_group": "metrics.k8s.io",
        "storage_version": "v1beta1",
    }
    for kind, plural, namespaced in [("NodeMetrics", "nodes", False), ("PodMetrics", "pods", True)]
]
