"""PodSecurity: pods that may not run in a namespace are refused; those that its owner should look at are named.

Source: k8s.io/pod-security-admission admission/admission.go, release 1.34.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import invalid
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.podsecurity_policy import PREFIX, Level, findings, policy_of, told
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.view import View

NAMESPACE_PODS_MAX = 3000
"""Pods of a namespace that are looked at when its level rises."""
TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
"""Where a workload has its pod."""
SECURITY_ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/",
)

_EVALUATIONS = tally("pod_security_evaluations_total")
_ERRORS = tally("pod_security_errors_total")


class PodSecurity(Plugin):
    """Holds pods against the level that the labels of their namespace name."""

    name = "PodSecurity"

    def __init__(self, view: View) -> None:
        self._view = view

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Namespaces, workloads and pods that are made or changed."""
        if operation not in (CREATE, UPDATE):
            return False
        key = (resource.group, resource.plural)
        if key == ("", "pods"):
            return subresource in ("", "ephemeralcontainers")
        return not subresource and (key == ("", "namespaces") or key in TEMPLATES)

    async def validate(self, attributes: Attributes) -> None:
        """Refuses, warns and writes audit annotations."""
        resource = attributes.resource
        if resource.plural == "namespaces":
            self._validate_namespace(attributes)
            return
        namespace = self._view.get("", "namespaces", "", attributes.namespace)
        if namespace is None:
            namespace = await self._view.fresh("", "namespaces", "", attributes.namespace)
        labels = ((namespace or {}).get("metadata") or {}).get("labels")
        enforced = resource.plural == "pods"
        pod = attributes.object or {}
        if enforced and attributes.operation == UPDATE and not _significant(pod, attributes.old or {}):
            return
        if not enforced:
            for step in TEMPLATES[resource.group, resource.plural]:
                pod = pod.get(step) or {}
        self._evaluate(attributes, labels, pod, enforced=enforced)

    def _evaluate(
        self, attributes: Attributes, labels: Mapping[str, str] | None, pod: Object, *, enforced: bool
    ) -> None:
        policy = policy_of(labels)
        annotations = attributes.exchange.annotations
        if enforced:
            annotations[f"{PREFIX}enforce-policy"] = str(policy.enforce)
        kind = "pod" if enforced else "controller"
        about = (attributes.operation.lower(), kind, attributes.subresource)
        if policy.errors:
            _ERRORS.cell("false", *about).value += 1
            annotations[f"{PREFIX}error"] = f"Failed to parse policy: {', '.join(map(str, policy.errors))}"
        if policy.full:
            if enforced:
                _count(policy.enforce, "enforce", "allow", about)
            return
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        broken = {level: findings(level, metadata, spec) for level in {policy.enforce, policy.audit, policy.warn}}
        if enforced:
            _count(policy.enforce, "enforce", "deny" if broken[policy.enforce] else "allow", about)
        if broken[policy.audit]:
            _count(policy.audit, "audit", "deny", about)
            annotations[f"{PREFIX}audit-violations"] = f"would violate {told(policy.audit, broken[policy.audit])}"
        if enforced and broken[policy.enforce]:
            raise refuse(attributes, f"violates {told(policy.enforce, broken[policy.enforce])}")
        if broken[policy.warn]:
            _count(policy.warn, "warn", "deny", about)
            attributes.exchange.warn(f"would violate {told(policy.warn, broken[policy.warn])}")

    def _validate_namespace(self, attributes: Attributes) -> None:
        new = policy_of((attributes.object or {})["metadata"].get("labels"))
        if attributes.operation == CREATE:
            if new.errors:
                raise invalid("", "Namespace", attributes.name, list(new.errors))
            return
        old = policy_of(((attributes.old or {}).get("metadata") or {}).get("labels"))
        fresh = [error for error in new.errors if error not in old.errors]
        if fresh:
            raise invalid("", "Namespace", attributes.name, fresh)
        if new.enforce != old.enforce and not new.enforce.full:
            self._warn_of_pods(attributes, new.enforce)

    def _warn_of_pods(self, attributes: Attributes, level: Level) -> None:
        """Names the pods that run already and could not be made any more."""
        seen: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for number, pod in enumerate(self._view.list("", "pods", attributes.name)):
            if number >= NAMESPACE_PODS_MAX:
                text = f"checked only the first {NAMESPACE_PODS_MAX} pods of the namespace against the new level"
                attributes.exchange.warn(text)
                break
            found = findings(level, pod.get("metadata") or {}, pod.get("spec") or {})
            if found:
                reasons = ", ".join(finding.reason for finding in found)
                name = pod["metadata"]["name"]
                counts[reasons] += 1
                seen[reasons] = min(seen.get(reasons, name), name)
        if not seen:
            return
        attributes.exchange.warn(
            f'existing pods in namespace "{attributes.name}" violate the new PodSecurity enforce level "{level}"'
        )
        for reasons, name in sorted(seen.items(), key=lambda item: item[1]):
            others = counts[reasons] - 1
            more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
            attributes.exchange.warn(f"{name}{more}: {reasons}")


def _count(level: Level, mode: str, decision: str, about: tuple[str, str, str]) -> None:
    """Source: k8s.io/pod-security-admission metrics: what is let through is counted for `enforce` alone."""
    version = str(level).partition(":")[2]
    _EVALUATIONS.cell(decision, mode, level.name, version, *about).value += 1


def _significant(pod: Object, old: Object) -> bool:
    """Whether an update can change what the checks see: images, containers, and annotations that they read."""
    before, after = _annotations(old), _annotations(pod)
    if before != after:
        return True
    old_spec, spec = old.get("spec") or {}, pod.get("spec") or {}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        left, right = old_spec.get(kind) or [], spec.get(kind) or []
        if len(left) != len(right):
            return True
        if any(a.get("image") != b.get("image") for a, b in zip(left, right, strict=True)):
            return True
    return False


def _annotations(pod: Object) -> dict[str, str]:
    found = (pod.get("metadata") or {}).get("annotations") or {}
    return {key: value for key, value in found.items() if key.startswith(SECURITY_ANNOTATIONS)}
