"""ValidatingAdmissionPolicy: bindings, parameters, variables, messages, actions and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.admit_kit import CONFIGMAPS, FakeView, Object, configmap, named, resource, write
from tests.api.hook_kit import Metrics

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import Attributes
from dashpot.runtime.api.admit.policies import Policies
from dashpot.runtime.api.admit.policy import Body, ValidatingAdmissionPolicy
from dashpot.runtime.api.auth.attributes import AuthzAttributes, Decision

API = "admissionregistration.k8s.io/v1"
RULES = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


def policy(*validations: Object, **spec: Any) -> Object:
    body = {"matchConstraints": {"resourceRules": RULES}, "validations": list(validations), "failurePolicy": "Fail"}
    return {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", **named("p", uid="1"), "spec": {**body, **spec}}


def binding(**spec: Any) -> Object:
    body = {"policyName": "p", "validationActions": ["Deny"], **spec}
    return {"apiVersion": API, "kind": "ValidatingAdmissionPolicyBinding", **named("b"), "spec": body}


def kinds(api_version: str, kind: str) -> Resource | None:
    group, _, version = api_version.rpartition("/")
    return builtin().by_kind(group, version, kind)


def decide(asked: AuthzAttributes) -> Decision:
    return Decision(asked.verb == "get" and asked.resource == "pods" and asked.namespace == "n", "by test")


def run(attributes: Attributes, *objects: Object, metrics: Metrics | None = None) -> Attributes:
    view = FakeView(*objects)
    plurals = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    plugin = ValidatingAdmissionPolicy(view, Policies(view, plurals, Body.of, None, kinds), decide, None, metrics)
    asyncio.run(plugin.validate(attributes))
    return attributes


def new(**data: str) -> Attributes:
    return write(configmap(**data), CONFIGMAPS)


def refusal(attributes: Attributes, *objects: Object) -> StatusError:
    with pytest.raises(StatusError) as caught:
        run(attributes, *objects)
    return caught.value


def test_denied_in_upstream_words() -> None:
    rule = {"expression": "has(object.data) && 'secret' in object.data", "message": "no key named secret"}
    error = refusal(new(a="b"), policy(rule), binding())
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == (
        "configmaps \"cm\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no key named "
        "secret"
    )
    run(new(secret="s"), policy(rule), binding())


def test_policy_without_binding_does_nothing() -> None:
    run(new(), policy({"expression": "false"}))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"expression": " 1 == 2 "}, "failed expression: 1 == 2"),
        ({"expression": "false", "message": " m "}, "m"),
        ({"expression": "false", "messageExpression": "'is ' + object.metadata.name"}, "is cm"),
        ({"expression": "false", "message": "m", "messageExpression": "object.nothing"}, "m"),
        ({"expression": "false", "message": "m", "messageExpression": "'a\\nb'"}, "m"),
        ({"expression": "false", "message": "m", "messageExpression": "' '"}, "m"),
    ],
)
def test_messages(rule: Object, message: str) -> None:
    assert refusal(new(), policy(rule), binding()).message.endswith(f"denied request: {message}")


@pytest.mark.parametrize(
    ("reason", "code"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413), ("Unauthorized", 401)]
)
def test_reasons(reason: str, code: int) -> None:
    error = refusal(new(), policy({"expression": "false", "reason": reason}), binding())
    assert (error.code, error.reason) == (code, reason)


def test_warn_and_audit_let_it_pass() -> None:
    done = run(new(), policy({"expression": "false", "message": "m"}), binding(validationActions=["Warn", "Audit"]))
    assert done.exchange.warnings == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m"]
    assert done.exchange.annotations == {
        "validation.policy.admission.k8s.io/validation_failure": '[{"message":"m","policy":"p","binding":"b",'
        '"expressionIndex":0,"validationActions":["Warn","Audit"]}]'
    }


@pytest.mark.parametrize(
    ("spec", "denies"),
    [
        ({"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'other'"}]}, False),
        ({"matchConditions": [{"name": "a", "expression": "request.userInfo.username == 'u'"}]}, True),
        ({"matchConditions": [{"name": "a", "expression": "object.nothing"}], "failurePolicy": "Ignore"}, False),
        ({"matchConstraints": {"resourceRules": []}}, False),
        ({"matchConstraints": {"resourceRules": RULES, "excludeResourceRules": RULES}}, False),
        ({"matchConstraints": {"resourceRules": [RULES[0] | {"resourceNames": ["cm"]}]}}, True),
        ({"matchConstraints": {"resourceRules": [RULES[0] | {"resourceNames": ["x"]}]}}, False),
        (
            {
                "matchConstraints": {
                    "resourceRules": RULES,
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}},
                }
            },
            False,
        ),
    ],
)
def test_what_a_policy_matches(spec: Object, denies: bool) -> None:
    objects = (policy({"expression": "false"}, **spec), binding())
    if denies:
        refusal(new(), *objects)
    else:
        run(new(), *objects)


def test_binding_narrows_the_policy() -> None:
    elsewhere = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}
    run(new(), policy({"expression": "false"}), binding(matchResources=elsewhere))
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "n"}}}
    refusal(new(), policy({"expression": "false"}), binding(matchResources=here))


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("variables.size == 2", True),
        ("variables.big", False),
        ("namespaceObject.metadata.name == 'n'", True),
        ("namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'n'", True),
        ("oldObject == null", True),
        ("request.operation == 'CREATE' && request.kind.kind == 'ConfigMap'", True),
        ("authorizer.group('').resource('pods').namespace('n').check('get').allowed()", True),
        ("authorizer.group('').resource('pods').namespace('n').check('delete').allowed()", False),
        ("authorizer.requestResource.check('get').allowed()", False),
        ("authorizer.serviceAccount('n', 'x').path('/healthz').check('get').reason() == 'by test'", True),
    ],
)
def test_what_expressions_see(expression: str, holds: bool) -> None:
    variables = [
        {"name": "size", "expression": "size(object.data)"},
        {"name": "big", "expression": "variables.size > 5"},
        {"name": "never", "expression": "object.nothing"},
    ]
    objects = (policy({"expression": expression}, variables=variables), binding())
    if holds:
        run(new(a="1", b="2"), *objects)
    else:
        refusal(new(a="1", b="2"), *objects)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("object.nothing == 1", "expression 'object.nothing == 1' resulted in error: no such key: nothing"),
        ("variables.bad", "composited variable 'bad' fails to evaluate: "),
        ("(", "compilation error: "),
    ],
)
def test_rule_that_fails(expression: str, text: str) -> None:
    variables = [{"name": "bad", "expression": "object.nothing"}]
    error = refusal(new(), policy({"expression": expression}, variables=variables), binding())
    assert text in error.message
    run(new(), policy({"expression": expression}, variables=variables, failurePolicy="Ignore"), binding())


PARAMS: Any = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}


def param(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", **named(name, "n", labels={"for": "p"}), "data": data}


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ({"name": "max", "parameterNotFoundAction": "Deny"}, "denied request: too many"),
        ({"selector": {"matchLabels": {"for": "p"}}, "parameterNotFoundAction": "Deny"}, "denied request: too many"),
        (
            {"name": "gone", "parameterNotFoundAction": "Deny"},
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        ({"name": "gone", "parameterNotFoundAction": "Allow"}, None),
    ],
)
def test_params(ref: Object, text: str | None) -> None:
    rule = {"expression": "size(object.data) <= int(params.data.max)", "message": "too many"}
    objects = (policy(rule, **PARAMS), binding(paramRef=ref), param("max", max="1"), param("wide", max="9"))
    if text is None:
        run(new(a="1", b="2"), *objects)
        return
    assert text in refusal(new(a="1", b="2"), *objects).message


def test_param_kind_that_is_not_served() -> None:
    objects = (
        policy({"expression": "true"}, paramKind={"apiVersion": "a/v1", "kind": "X"}),
        binding(paramRef={"name": "x"}),
    )
    text = "failed to find resource referenced by paramKind: 'a/v1, Kind=X'"
    assert text in refusal(new(), *objects).message


def test_audit_annotations() -> None:
    annotations = [
        {"key": "name", "valueExpression": "object.metadata.name"},
        {"key": "none", "valueExpression": "null"},
    ]
    done = run(new(), policy(auditAnnotations=annotations), binding())
    assert done.exchange.annotations == {"p/name": "cm"}


def test_policies_do_not_look_at_themselves() -> None:
    everything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]
    objects = (policy({"expression": "false"}, matchConstraints={"resourceRules": everything}), binding())
    run(write(policy(), resource("admissionregistration.k8s.io", "validatingadmissionpolicies")), *objects)
    refusal(new(), *objects)


@pytest.mark.parametrize(
    ("rule", "spec", "seen"),
    [
        ("false", {}, [("policy", "p", "b", "no_error", "warn"), ("policy", "p", "b", "no_error", "audit")]),
        ("object.nothing", {"failurePolicy": "Ignore"}, [("policy", "p", "b", "invalid_error", "allow")]),
        ("(", {"failurePolicy": "Ignore"}, [("policy", "p", "b", "compile_error", "allow")]),
        ("true", {}, []),
    ],
)
def test_figures(rule: str, spec: Object, seen: list[tuple[str, ...]]) -> None:
    metrics = Metrics()
    run(new(), policy({"expression": rule}, **spec), binding(validationActions=["Warn", "Audit"]), metrics=metrics)
    assert metrics.seen == seen
