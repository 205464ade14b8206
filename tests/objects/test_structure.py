"""The compiled view of schemas: what is one value, a map, a list of items."""

from __future__ import annotations

from typing import Any

import pytest

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.structure import ANY, LIST, MAP, META, SCALAR, Structure, custom, deduce, structure

R = builtin()


def at(kind: str, path: str) -> Structure:
    """`apps/v1/Deployment`, `spec.template.spec.containers[].ports`."""
    group, _, rest = kind.rpartition("/")[0].rpartition("/")
    node: Structure | None = structure(group, rest, kind.rpartition("/")[2], R)
    for part in path.split("."):
        assert node is not None
        node = node.child(part.removesuffix("[]"))
        if part.endswith("[]"):
            assert node is not None
            node = node.element
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("kind", "path", "form", "atomic", "keys"),
    [
        ("apps/v1/Deployment", "spec.replicas", SCALAR, False, ()),
        ("apps/v1/Deployment", "spec.selector", MAP, True, ()),
        ("apps/v1/Deployment", "spec.strategy", MAP, False, ()),
        ("apps/v1/Deployment", "spec.strategy.rollingUpdate.maxSurge", SCALAR, False, ()),
        ("v1/Pod", "spec.containers", LIST, False, ("name",)),
        ("v1/Pod", "spec.containers[].ports", LIST, False, ("containerPort", "protocol")),
        ("v1/Pod", "spec.containers[].command", LIST, True, ()),
        ("v1/Pod", "spec.containers[].resources.limits", MAP, False, ()),
        ("v1/Pod", "spec.containers[].resources.limits.cpu", SCALAR, False, ()),
        ("v1/Pod", "spec.tolerations", LIST, True, ()),
        ("v1/Pod", "spec.topologySpreadConstraints", LIST, False, ("topologyKey", "whenUnsatisfiable")),
        ("v1/Pod", "spec.nodeSelector", MAP, True, ()),
        ("v1/Pod", "status.conditions", LIST, False, ("type",)),
        ("v1/Pod", "status.startTime", SCALAR, False, ()),
        ("v1/Service", "spec.ports", LIST, False, ("port", "protocol")),
        ("v1/Service", "spec.ports[].targetPort", SCALAR, False, ()),
        ("v1/ConfigMap", "data", MAP, False, ()),
        ("v1/Node", "spec.podCIDRs", LIST, False, ()),
        ("rbac.authorization.k8s.io/v1/Role", "rules", LIST, True, ()),
        ("rbac.authorization.k8s.io/v1/RoleBinding", "roleRef", MAP, True, ()),
        ("apps/v1/ControllerRevision", "data", MAP, False, ()),
        ("v1/Pod", "metadata.ownerReferences", LIST, False, ("uid",)),
        ("v1/Pod", "metadata.ownerReferences[]", MAP, True, ()),
        ("v1/Pod", "metadata.finalizers", LIST, False, ()),
        ("apps/v1/Deployment", "spec.template.metadata.labels", MAP, False, ()),
    ],
)
def test_builtin_kinds(kind: str, path: str, form: str, atomic: bool, keys: tuple[str, ...]) -> None:
    node = at(kind, path)
    assert (node.form, node.atomic, node.keys) == (form, atomic, keys)
    assert node.is_set == (form == LIST and not atomic and not keys)


@pytest.mark.parametrize(
    ("kind", "path", "merge_key", "strategies"),
    [
        ("v1/Pod", "spec.containers", "name", {"merge"}),
        ("v1/Pod", "spec.containers[].ports", "containerPort", {"merge"}),
        ("v1/Pod", "spec.volumes", "name", {"merge", "retainKeys"}),
        ("v1/Pod", "spec.tolerations", "", set()),
        ("apps/v1/Deployment", "spec.strategy", "", {"retainKeys"}),
        ("policy/v1/PodDisruptionBudget", "spec.selector", "", {"replace"}),
        ("v1/Service", "spec.ports", "port", {"merge"}),
        ("v1/Pod", "metadata.finalizers", "", {"merge"}),
    ],
)
def test_merge_keys_and_strategies(kind: str, path: str, merge_key: str, strategies: set[str]) -> None:
    node = at(kind, path)
    assert (node.merge_key, set(node.strategies)) == (merge_key, strategies)


def test_ports_default_their_protocol() -> None:
    assert at("v1/Pod", "spec.containers[].ports[]").defaults["protocol"] == "TCP"
    assert at("v1/Service", "spec.ports[]").defaults["protocol"] == "TCP"


def test_every_kind_compiles_and_is_kept() -> None:
    for group, version, kind in R.kinds():
        made = structure(group, version, kind, R)
        assert made.form == MAP and made.fields["metadata"] is META
        assert structure(group, version, kind, R) is made


def test_schemas_may_refer_to_themselves() -> None:
    node = at("apiextensions.k8s.io/v1/CustomResourceDefinition", "spec.versions[].schema.openAPIV3Schema")
    inner = node.fields["properties"].element
    assert inner is not None and inner.fields is node.fields


def test_kinds_without_a_schema_are_what_their_values_are() -> None:
    made = structure("example.com", "v1", "Nothing", R)
    assert made.fields["metadata"] is META
    spec = made.child("spec")
    assert spec is not None and spec.form == ANY
    values: list[Any] = [{}, [], "x", None]
    assert [deduce(value).form for value in values] == [MAP, LIST, SCALAR, SCALAR]
    assert deduce([]).atomic and not deduce({}).atomic


PROPERTIES: dict[str, Any] = {
    "list": {"type": "array", "items": {"type": "string"}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["b", "a"],
        "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}},
    },
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"k": {"type": "string"}}},
    "closed": {"type": "object", "properties": {"k": {"type": "string"}}},
    "empty": {"type": "object"},
    "numbers": {"type": "object", "additionalProperties": {"type": "integer"}},
    "anything": {"x-kubernetes-preserve-unknown-fields": True},
    "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"k": {"type": "string"}}},
    "null": {"type": "string", "nullable": True},
    "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
}


def test_custom_resources() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": PROPERTIES}}}
    spec = custom(schema).fields["spec"]
    assert not spec.present
    found = {name: (node.form, node.atomic, node.keys) for name, node in spec.fields.items()}
    assert found == {
        "list": (LIST, True, ()),
        "set": (LIST, False, ()),
        "map": (LIST, False, ("a", "b")),
        "free": (MAP, False, ()),
        "closed": (MAP, False, ()),
        "empty": (MAP, False, ()),
        "numbers": (MAP, False, ()),
        "anything": (ANY, False, ()),
        "port": (SCALAR, False, ()),
        "whole": (MAP, True, ()),
        "null": (SCALAR, False, ()),
        "pod": (MAP, False, ()),
    }
    assert spec.child("zzz") is None and spec.fields["closed"].child("zzz") is None
    assert spec.fields["free"].child("zzz") is not None and spec.fields["empty"].child("zzz") is not None
    assert spec.fields["null"].nullable and not spec.fields["port"].nullable
    items = spec.fields["map"].element
    assert items is not None and items.defaults["a"] == "x"
    assert "metadata" in spec.fields["pod"].fields


@pytest.mark.parametrize("schema", [None, {}, {"type": "string"}, {"x-kubernetes-preserve-unknown-fields": True}])
def test_custom_resources_always_have_metadata(schema: Any) -> None:
    made = custom(schema)
    assert made.form == MAP and made.fields["metadata"] is META
