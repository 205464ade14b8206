"""Writes that touch a webhook and change nothing: dry runs of objects that its rules and selectors match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.hooks import Hook, exempt
from dashpot.runtime.api.admit.matching import REGISTRATION

Object = dict[str, Any]
PREFIX = "dashpot-doctor-"
HARDENED = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "automountServiceAccountToken": False,
    "containers": [
        {
            "name": "c",
            "image": "registry.k8s.io/pause:3.10",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
"""A pod that the strictest level of PodSecurity lets in."""
TEMPLATE = {"metadata": {"labels": {"app": "dashpot-doctor"}}, "spec": HARDENED}
WORKLOAD = {"selector": {"matchLabels": {"app": "dashpot-doctor"}}, "template": TEMPLATE}
ONCE = {"template": {"spec": {**HARDENED, "restartPolicy": "Never"}}}

BODIES: Mapping[tuple[str, str], Object] = {
    ("", "configmaps"): {"data": {"a": "b"}},
    ("", "secrets"): {"type": "Opaque"},
    ("", "serviceaccounts"): {},
    ("", "services"): {"spec": {"ports": [{"port": 80}], "selector": {"app": "dashpot-doctor"}}},
    ("", "pods"): {"spec": HARDENED},
    ("", "persistentvolumeclaims"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    },
    ("apps", "deployments"): {"spec": {"replicas": 0, **WORKLOAD}},
    ("apps", "statefulsets"): {"spec": {"replicas": 0, "serviceName": "", **WORKLOAD}},
    ("apps", "replicasets"): {"spec": {"replicas": 0, **WORKLOAD}},
    ("apps", "daemonsets"): {"spec": WORKLOAD},
    ("batch", "jobs"): {"spec": {**ONCE, "suspend": True}},
    ("batch", "cronjobs"): {"spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": ONCE}}},
    ("networking.k8s.io", "ingresses"): {
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}
    },
    ("networking.k8s.io", "networkpolicies"): {"spec": {"podSelector": {}}},
    ("coordination.k8s.io", "leases"): {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}},
    ("rbac.authorization.k8s.io", "roles"): {"rules": []},
    ("policy", "poddisruptionbudgets"): {"spec": {"minAvailable": 0, "selector": {}}},
    ("", "namespaces"): {},
    ("rbac.authorization.k8s.io", "clusterroles"): {"rules": []},
    (REGISTRATION, "validatingwebhookconfigurations"): {"webhooks": []},
}
"""What to create of each kind, the cheapest kinds first."""


@frozen
class Sample:
    """One dry-run write, over and over."""

    operation: str
    resource: Resource
    namespace: str
    body: Object
    name: str = ""
    """Of the object that is changed or deleted; empty for creates."""

    @property
    def text(self) -> str:
        """`CREATE configmaps in default`."""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.operation} {self.resource.qualified}{where}"

    @property
    def method(self) -> str:
        """POST, PATCH or DELETE."""
        return {"CREATE": "POST", "UPDATE": "PATCH", "DELETE": "DELETE"}[self.operation]

    @property
    def path(self) -> str:
        """The URL without its query."""
        root = f"/apis/{self.resource.api_version}" if self.resource.group else f"/api/{self.resource.version}"
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{inside}/{self.resource.plural}" + (f"/{self.name}" if self.name else "")

    @property
    def content_type(self) -> str:
        """Merge patch for updates."""
        return "application/merge-patch+json" if self.operation == "UPDATE" else "application/json"


@frozen
class Surroundings:
    """What a cluster has: resources, labels of namespaces, and some objects by resource."""

    resources: Sequence[Resource]
    namespaces: Mapping[str, Mapping[str, str]]
    existing: Mapping[tuple[str, str], Sequence[Object]]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        return self.namespaces.get(name) or {}


def concerns(hook: Hook, sample: Sample, around: Surroundings) -> bool:
    """Whether a webhook is asked about a write, as far as can be told without its conditions."""
    resource = sample.resource
    if exempt(resource) or not any(rule.matches(sample.operation, resource, "") for rule in hook.rules):
        return False
    labels = (sample.body.get("metadata") or {}).get("labels") or {}
    if hook.objects is not None and not hook.objects(labels):
        return False
    if hook.namespaces is None:
        return True
    if resource.plural == "namespaces" and not resource.group:
        return hook.namespaces(labels)
    return not resource.namespaced or hook.namespaces(around.namespace_labels(sample.namespace))


def candidates(hook: Hook, source: Object, around: Surroundings) -> Iterator[Sample]:
    """Writes that concern a webhook, creates of cheap kinds first. `source` is the webhook as it is configured."""
    labels = wanted_labels(source.get("objectSelector"))
    for operation in ("CREATE", "UPDATE", "DELETE"):
        for resource in _ordered(around.resources):
            if exempt(resource) or not any(rule.matches(operation, resource, "") for rule in hook.rules):
                continue
            for sample in _of(operation, resource, labels, around):
                if concerns(hook, sample, around):
                    yield sample


def _ordered(resources: Sequence[Resource]) -> list[Resource]:
    order = {key: place for place, key in enumerate(BODIES)}
    return sorted(resources, key=lambda r: order.get((r.group, r.plural), len(order)))


def _of(operation: str, resource: Resource, labels: Object, around: Surroundings) -> Iterator[Sample]:
    key = (resource.group, resource.plural)
    if operation == "CREATE" and "create" in resource.verbs:
        body = BODIES.get(key)
        if body is None:
            body = _like_existing(around.existing.get(key) or ())
        metadata = {"generateName": PREFIX, "labels": labels}
        made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}
        for namespace in _namespaces(around) if resource.namespaced else [""]:
            yield Sample(operation, resource, namespace, made)
        return
    verb = "patch" if operation == "UPDATE" else "delete"
    if operation == "CREATE" or verb not in resource.verbs:
        return
    for one in around.existing.get(key) or ():
        metadata = one["metadata"]
        body = {"metadata": {"labels": metadata.get("labels") or {}, "annotations": {f"{PREFIX}profile": "x"}}}
        yield Sample(operation, resource, metadata.get("namespace") or "", body, metadata["name"])


def _like_existing(existing: Sequence[Object]) -> Object:
    """The content of some object of the kind: a custom resource's schema is its own affair."""
    if not existing:
        return {}
    return {key: value for key, value in existing[0].items() if key not in ("apiVersion", "kind", "metadata", "status")}


def _namespaces(around: Surroundings) -> list[str]:
    """All namespaces, those of users first."""
    names = sorted(around.namespaces)
    return sorted(names, key=lambda name: (name.startswith("kube-"), name != "default"))


def wanted_labels(selector: Object | None) -> Object:
    """Labels that a selector asks for."""
    source = selector or {}
    labels = dict(source.get("matchLabels") or {})
    for term in source.get("matchExpressions") or ():
        if term.get("operator") == "In" and term.get("values"):
            labels[term["key"]] = term["values"][0]
        elif term.get("operator") == "Exists":
            labels[term["key"]] = "true"
    return labels


def baseline(hooks: Sequence[Hook], around: Surroundings) -> Sample | None:
    """A write that concerns no webhook at all; at worst one of a configuration, which is never shown to any."""
    for resource in _ordered(around.resources):
        if (resource.group, resource.plural) not in BODIES:
            continue
        for sample in _of("CREATE", resource, {}, around):
            if not any(concerns(hook, sample, around) for hook in hooks):
                return sample
    return None
