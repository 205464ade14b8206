"""MutatingAdmissionPolicy: configurations that are merged, patches, conditions, order, and what may not be changed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.admit_kit import FakeView, Object, configmap, named, resource, write

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.model.objects.structure import Structure, structure
from dashpot.runtime.api.admit.base import Attributes, Plugin
from dashpot.runtime.api.admit.chain import Chain
from dashpot.runtime.api.admit.messages import MessageError, as_maps
from dashpot.runtime.api.admit.policies import Policies
from dashpot.runtime.api.admit.policy_mutating import MutatingAdmissionPolicy, MutatingBody

API = "admissionregistration.k8s.io/v1"
DEPLOYMENTS = resource("apps", "deployments")
RULES = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]


def applied(expression: str) -> Object:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Object:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(*mutations: Object, name: str = "p", **spec: Any) -> Object:
    body = {"matchConstraints": {"resourceRules": RULES}, "mutations": list(mutations), "failurePolicy": "Fail", **spec}
    body.setdefault("reinvocationPolicy", "Never")
    return {"apiVersion": API, "kind": "MutatingAdmissionPolicy", **named(name, uid=name), "spec": body}


def binding(name: str = "p", **spec: Any) -> Object:
    body = {"policyName": name, **spec}
    return {"apiVersion": API, "kind": "MutatingAdmissionPolicyBinding", **named(f"b-{name}"), "spec": body}


def structures(of: Resource) -> Structure:
    return structure(of.group, of.version, of.kind, builtin())


def kinds(api_version: str, kind: str) -> Resource | None:
    group, _, version = api_version.rpartition("/")
    return builtin().by_kind(group, version, kind)


def run(one: Object, *objects: Object, of: Resource = DEPLOYMENTS, before: Plugin | None = None) -> Object:
    view = FakeView(*objects)
    plurals = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    policies = Policies(view, plurals, MutatingBody.of, None, kinds)
    plugin = MutatingAdmissionPolicy(view, policies, None, structures)
    attributes = write(one, of)
    asyncio.run(Chain([*([before] if before else []), plugin]).mutate(attributes))
    return attributes.object or {}


def deployment() -> Object:
    containers = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    spec = {"replicas": 1, "template": {"spec": {"containers": containers, "nodeSelector": {"k": "v"}}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", **named("d", "n"), "spec": spec}


def test_configuration_is_merged_by_keys() -> None:
    expression = """
    Object{
      metadata: Object.metadata{labels: Object.metadata.labels{team__dash__x: "t"}},
      spec: Object.spec{ // only this
        replicas: object.spec.replicas + 1,
        template: Object.spec.template{spec: Object.spec.template.spec{containers: [
          Object.spec.template.spec.containers{name: "b", imagePullPolicy: "Always"}
        ]}}
      }
    }"""
    made = run(deployment(), policy(applied(expression)), binding())
    assert made["metadata"]["labels"] == {"team-x": "t"}
    assert made["spec"]["replicas"] == 2
    assert made["spec"]["template"]["spec"]["containers"] == [
        {"name": "a", "image": "x"},
        {"name": "b", "image": "y", "imagePullPolicy": "Always"},
    ]


def test_json_patch() -> None:
    expression = """[
      JSONPatch{op: "test", path: "/spec/replicas", value: 1},
      JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}},
      JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("x/y"), value: "z"}
    ]"""
    made = run(deployment(), policy(patched(expression)), binding())
    assert made["metadata"]["labels"] == {"a": "b", "x/y": "z"}


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (applied('Object{metadata: Object.metadata{name: "other"}}'), "metadata.name may not be changed"),
        (patched('[JSONPatch{op: "remove", path: "/metadata"}]'), "may not be taken away or changed"),
        (
            applied(
                "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{"
                'nodeSelector: Object.spec.template.spec.nodeSelector{k: "w"}}}}}'
            ),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            ".spec.template.spec.nodeSelector",
        ),
        (patched('[JSONPatch{op: "remove", path: "/nothing"}]'), "JSON Patch: "),
        (patched("object.nothing"), "resulted in error: no such key: nothing"),
        (patched("Object{a: 1}"), "must be a list"),
        (applied("[1]"), "unsupported return type"),
        (applied("Object{a 1}"), "compilation error: compilation failed: expected ':' instead of '1'"),
    ],
)
def test_failures_refuse_or_are_ignored(mutation: Object, why: str) -> None:
    with pytest.raises(StatusError) as caught:
        run(deployment(), policy(mutation), binding())
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message.startswith(
        "deployments.apps \"d\" is forbidden: policy 'p' with binding 'b-p' denied request: "
    )
    assert why in caught.value.message
    assert run(deployment(), policy(mutation, failurePolicy="Ignore"), binding()) == deployment()


def test_conditions_and_variables() -> None:
    conditions = [{"name": "none", "expression": "!has(object.metadata.labels)"}]
    variables = [{"name": "n", "expression": "object.spec.replicas * 10"}]
    mutation = applied("Object{spec: Object.spec{replicas: variables.n}}")
    objects = (policy(mutation, matchConditions=conditions, variables=variables), binding())
    assert run(deployment(), *objects)["spec"]["replicas"] == 10
    labelled = deployment()
    labelled["metadata"]["labels"] = {}
    assert run(labelled, *objects)["spec"]["replicas"] == 1


def test_parameters_are_not_shared_with_the_object() -> None:
    param = {"apiVersion": "v1", "kind": "ConfigMap", **named("params", "n"), "data": {"a": "b"}}
    spec: Any = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    objects = (
        policy(patched('[JSONPatch{op: "add", path: "/data", value: params.data}]'), **spec),
        binding(paramRef={"name": "params", "parameterNotFoundAction": "Deny"}),
    )
    made = run(configmap(), *objects, param, of=resource("", "configmaps"))
    assert made["data"] == {"a": "b"} and made["data"] is not param["data"]


def test_order_and_reinvocation() -> None:
    """`a` sees what `b` did only when it runs again; `b` does not run again."""
    seen: list[int] = []

    class Plain(Plugin):
        name = "Plain"

        async def mutate(self, attributes: Attributes) -> None:
            seen.append(attributes.round)

    double = applied("Object{spec: Object.spec{replicas: object.spec.replicas * 2}}")
    more = applied("Object{spec: Object.spec{replicas: object.spec.replicas + 5}}")
    objects = (
        policy(double, name="a", reinvocationPolicy="IfNeeded"),
        policy(more, name="b"),
        binding("a"),
        binding("b"),
    )
    assert run(deployment(), *objects, before=Plain())["spec"]["replicas"] == 14
    assert seen == [0, 1]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1.5 >= 1.0 && !false", "1.5 >= 1.0 && !false"),
        ("Object{}", "{}"),
        ("Object{a: \"}\", b: '{',}", '{"a": dyn("}"), "b": dyn(\'{\')}'),
        ("Object{?a: object.?b}", '{?"a": object.?b}'),
        ("[1].map(x, Object.a{b: x})", '[1].map(x, {"b": dyn(x)})'),
        ("Object{__if__: 1, a__slash__b: 2}", '{"if": dyn(1), "a/b": dyn(2)}'),
        ('r"Object{a: 1}"', 'r"Object{a: 1}"'),
        ("Objects{a: 1}", "Objects{a: 1}"),
    ],
)
def test_messages_as_maps(expression: str, expected: str) -> None:
    assert as_maps(expression) == expected


@pytest.mark.parametrize(
    "expression", ["Object{", "Object{a}", "Object{a:}", "Object{a: 1", ")", "Object{a.b: 1}", "(" * 1000 + ")" * 1000]
)
def test_messages_that_are_none(expression: str) -> None:
    with pytest.raises(MessageError):
        as_maps(expression)
