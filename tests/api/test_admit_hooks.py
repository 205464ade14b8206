"""Which webhooks are asked about a write, and in which version they see it."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.admit_kit import (
    CONFIGMAPS,
    Authority,
    FakeView,
    Object,
    configmap,
    configuration,
    named,
    patch,
    resource,
    webhook,
    write,
)
from tests.api.hook_kit import admit, always, refused, run

from dashpot.runtime.api.admit.base import Attributes
from dashpot.runtime.api.admit.calling import Caller
from dashpot.runtime.api.admit.chain import Chain
from dashpot.runtime.api.admit.dialler import ViewDialler
from dashpot.runtime.api.admit.hooks import Hooks
from dashpot.runtime.api.admit.invoke import Invoker
from dashpot.runtime.api.admit.mutating import MutatingAdmissionWebhook
from dashpot.runtime.api.admit.scene import scene_of
from dashpot.runtime.api.admit.versions import ServedVersions
from dashpot.runtime.api.catalog import Catalog


@pytest.mark.parametrize(
    ("hook", "asked"),
    [
        ({}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "n"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}, True),
        ({"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'cm'"}]}, True),
        ({"matchConditions": [{"name": "a", "expression": "request.operation == 'UPDATE'"}]}, False),
        (
            {
                "matchConditions": [
                    {"name": "a", "expression": "object.spec.nothing == 1"},
                    {"name": "b", "expression": "false"},
                ]
            },
            False,
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "object.nothing == 1"}], "failurePolicy": "Ignore"},
            False,
        ),
        ({"rules": [{"operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}, False),
        ({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]}, True),
        (
            {
                "rules": [
                    {
                        "operations": ["*"],
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "resources": ["*"],
                        "scope": "Cluster",
                    }
                ]
            },
            False,
        ),
    ],
)
def test_who_is_asked(authority: Authority, hook: Object, asked: bool) -> None:
    count = 0

    async def answer(request: Object) -> Object:
        nonlocal count
        count += 1
        return {"allowed": True}

    run(authority, "Validating", answer, **hook)
    assert count == asked


def test_condition_that_fails_refuses(authority: Authority) -> None:
    conditions = [{"name": "a", "expression": "object.nothing == 1"}]
    error = refused(lambda: run(authority, "Validating", always({"allowed": True}), matchConditions=conditions))
    assert error.code == 403
    assert error.message.startswith(
        "configmaps \"cm\" is forbidden: expression 'object.nothing == 1' resulted in error"
    )


def test_configuration_of_admission_is_never_shown(authority: Authority) -> None:
    of = resource("admissionregistration.k8s.io", "validatingwebhookconfigurations")
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "*"}]
    answer = always({"allowed": False})
    run(authority, "Validating", answer, write(configuration("Validating", authority, 1), of), rules=rules)


@pytest.mark.parametrize(("effects", "passes"), [("None", True), ("NoneOnDryRun", True), ("Some", False)])
def test_dry_run_needs_webhooks_without_side_effects(authority: Authority, effects: str, passes: bool) -> None:
    seen: list[bool] = []

    async def answer(request: Object) -> Object:
        seen.append(request["dryRun"])
        return {"allowed": True}

    attributes = write(configmap(), CONFIGMAPS, dry_run=True)
    if passes:
        run(authority, "Validating", answer, attributes, sideEffects=effects)
        assert seen == [True]
        return
    error = refused(lambda: run(authority, "Validating", answer, attributes, sideEffects=effects))
    assert (error.code, seen) == (400, [])
    assert error.message == 'admission webhook "hook.example.com" does not support dry run'


@pytest.mark.parametrize(("version", "policy"), [("v1", "Equivalent"), ("v2", "Equivalent"), ("v2", "Exact")])
def test_objects_are_shown_in_the_version_that_the_rules_name(authority: Authority, version: str, policy: str) -> None:
    """Stored as autoscaling/v2, written as v1: rules for v2 match by equivalence, and not where policy is Exact."""
    stored = resource("autoscaling", "horizontalpodautoscalers", "v2")
    written = resource("autoscaling", "horizontalpodautoscalers", "v1")
    served = ServedVersions(Catalog())
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 7}}}
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **named("h", "n")}
    hpa["spec"] = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [cpu]}
    seen: list[Object] = []

    async def answer(request: Object) -> Object:
        seen.append(request)
        return patch({"op": "replace", "path": "/spec/maxReplicas", "value": 4})

    async def main() -> Attributes:
        async with webhook(authority, answer) as port:
            rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": [version], "resources": ["*"]}]
            view = FakeView(configuration("Mutating", authority, port, rules=rules, matchPolicy=policy))
            invoker = Invoker(Caller(ViewDialler(view)), lambda w, r: scene_of(w, r, None))
            hooks = Hooks(view, "mutatingwebhookconfigurations", served)
            attributes = write(hpa, stored)
            attributes.exchange.resource = written
            return await admit(Chain([MutatingAdmissionWebhook(hooks, invoker, served)]), attributes)

    done = asyncio.run(main())
    assert done.object is not None
    if policy == "Exact":
        assert not seen and done.object["spec"]["maxReplicas"] == 3
        return
    (request,) = seen
    assert request["kind"]["version"] == request["resource"]["version"] == version
    assert request["requestKind"]["version"] == request["requestResource"]["version"] == "v1"
    assert request["object"]["apiVersion"] == f"autoscaling/{version}"
    assert request["object"]["spec"].get("targetCPUUtilizationPercentage") == (7 if version == "v1" else None)
    assert done.object["apiVersion"] == "autoscaling/v2"
    assert done.object["spec"]["maxReplicas"] == 4 and done.object["spec"]["metrics"] == [cpu]
