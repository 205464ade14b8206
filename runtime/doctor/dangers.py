"""Settings of webhooks that take a cluster down with them.

Sources: Kubernetes' "Admission Webhook Good Practices"; incidents in issue trackers are where each of them was learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.hooks import Hook
from dashpot.runtime.doctor.samples import Surroundings

Object = dict[str, Any]
TIMEOUT_MAX_S = 10.0
HEARTBEATS = (
    ("coordination.k8s.io", "leases", "", "leader election and node heartbeats"),
    ("", "nodes", "status", "node status"),
    ("", "pods", "status", "pod status"),
    ("", "events", "", "events"),
    ("events.k8s.io", "events", "", "events"),
    ("authorization.k8s.io", "subjectaccessreviews", "", "access reviews"),
    ("authentication.k8s.io", "tokenreviews", "", "token reviews"),
)
"""What the machinery writes all the time, or others wait for."""
PARTS = ("pods", "replicasets", "deployments")
"""What has to be created for a webhook to come back."""


@frozen
class Finding:
    """Something to change. `severity` is `danger` (can stop a cluster), `warning` or `note`."""

    severity: str
    code: str
    configuration: str
    webhook: str
    text: str
    fix: str


@frozen
class Setting:
    """One webhook as it is configured, and compiled."""

    kind: str
    """Mutating or Validating."""
    hook: Hook
    source: Object


def examine(settings: Sequence[Setting], around: Surroundings, services: Mapping[str, bool]) -> list[Finding]:
    """All findings, in order of configuration. `services`: whether `NAMESPACE/NAME` has somebody who answers; services
    that do not exist are absent."""
    found = []
    for setting in settings:
        for severity, code, text, fix in _of(setting, around, services):
            found.append(Finding(severity, code, setting.hook.configuration, setting.hook.name, text, fix))
    return found


Row = tuple[str, str, str, str]


def _of(setting: Setting, around: Surroundings, services: Mapping[str, bool]) -> Iterator[Row]:
    hook = setting.hook
    closed = not hook.fail_open
    severity = "danger" if closed else "warning"
    if closed and _reaches(hook, around, "kube-system"):
        yield (
            "danger",
            "kube-system",
            "failurePolicy Fail, and kube-system is not exempt: while it is down, nothing there can be repaired",
            'add to namespaceSelector: {key: kubernetes.io/metadata.name, operator: NotIn, values: ["kube-system"]}',
        )
    if hook.timeout_s > TIMEOUT_MAX_S:
        yield (
            "warning",
            "timeout",
            f"timeoutSeconds {hook.timeout_s:g}: each write waits that long when it hangs, and holds a place in line",
            "set timeoutSeconds to 10 or less",
        )
    if hook.side_effects not in ("None", "NoneOnDryRun"):
        yield (
            "warning",
            "side-effects",
            f"sideEffects {hook.side_effects}: every dry run that it matches is refused",
            "make it free of side effects on dry runs, and say sideEffects: NoneOnDryRun",
        )
    yield from _wide(hook, severity)
    if closed and _blocks_itself(hook, setting.source, around):
        namespace = setting.source["clientConfig"]["service"]["namespace"]
        yield (
            "danger",
            "self-blocking",
            f"it judges pods in {namespace}, where it runs itself: once down, it cannot start again",
            f"exempt {namespace} by namespaceSelector",
        )
    yield from _nobody_there(setting.source, services, severity)


def _rule_matches(hook: Hook, group: str, plural: str, subresource: str, namespaced: bool = True) -> bool:
    resource = Resource(group, "v1", "", plural, "", namespaced, storage_group=group, storage_version="v1")
    return any(
        rule.matches(operation, resource, subresource) for rule in hook.rules for operation in ("CREATE", "UPDATE")
    )


def _wide(hook: Hook, severity: str) -> Iterator[Row]:
    if any(("*" in rule.groups) and any(r == "*" for r, _ in rule.resources) for rule in hook.rules):
        yield (
            severity,
            "everything",
            "its rules match all kinds of all groups, those of other people's controllers, too",
            "name the groups and resources that it judges",
        )
        return
    for group, plural, sub, what in HEARTBEATS:
        namespaced = plural in ("leases", "pods", "events")
        if _rule_matches(hook, group, plural, sub, namespaced):
            name = f"{plural}/{sub}" if sub else plural
            yield (
                severity,
                "heartbeats",
                f"it is asked about {name} ({what}), which are written all the time and must not wait",
                f"leave {name} out of its rules",
            )


def _reaches(hook: Hook, around: Surroundings, namespace: str) -> bool:
    if not any(rule.scope != "Cluster" and "CONNECT" not in rule.operations for rule in hook.rules):
        return False
    labels = around.namespaces.get(namespace)
    if labels is None:
        labels = {"kubernetes.io/metadata.name": namespace}
    # A selector of objects narrows what is stopped to what carries the label: not everything is at stake.
    return hook.objects is None and (hook.namespaces is None or hook.namespaces(labels))


def _blocks_itself(hook: Hook, source: Object, around: Surroundings) -> bool:
    service = (source.get("clientConfig") or {}).get("service")
    if not service:
        return False
    namespace = str(service.get("namespace") or "")
    if not _reaches(hook, around, namespace):
        return False
    return _rule_matches(hook, "", "pods", "") or any(_rule_matches(hook, "apps", part, "") for part in PARTS[1:])


def _nobody_there(source: Object, services: Mapping[str, bool], severity: str) -> Iterator[Row]:
    service = (source.get("clientConfig") or {}).get("service")
    if not service:
        return
    key = f"{service.get('namespace')}/{service.get('name')}"
    if key not in services:
        yield severity, "no-service", f"its service {key} does not exist", "create the service, or delete the webhook"
    elif not services[key]:
        yield severity, "no-endpoints", f"its service {key} has nobody who answers", "look at the pods behind it"
