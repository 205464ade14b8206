"""Metadata on create and update: causes in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from dashpot.model.objects.metadata import (
    validate_manager,
    validate_metadata,
    validate_metadata_update,
    validate_selector,
)
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource

Object = dict[str, Any]


def resource(plural: str, group: str = "") -> Resource:
    found = builtin().find(group, "v1", plural)
    assert found is not None
    return found


PODS, NODES = resource("pods"), resource("nodes")
CRONTABS = Resource(
    "stable.example.com",
    "v1",
    "CronTab",
    "crontabs",
    "crontab",
    True,
    storage_group="",
    storage_version="",
    custom=True,
)


def told(meta: Object, kind: Resource = PODS) -> list[str]:
    base = {"name": "a", **({"namespace": "default"} if kind.namespaced else {})}
    return [str(cause) for cause in validate_metadata(kind, {"metadata": {**base, **meta}})]


@pytest.mark.parametrize(
    ("meta", "wanted"),
    [
        ({}, None),
        ({"labels": {"app.kubernetes.io/name": "web"}, "annotations": {"A.b/C": "any text"}}, None),
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A"}, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        ({"generateName": "A_b-"}, 'metadata.generateName: Invalid value: "A_b-": a lowercase RFC 1123 subdomain'),
        ({"generateName": "web-"}, None),
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": must not contain dots'),
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        ({"labels": {"a b": "x"}}, 'metadata.labels: Invalid value: "a b": name part must consist of'),
        ({"labels": {"a": "x y"}}, 'metadata.labels: Invalid value: "x y": a valid label must be an empty string'),
        ({"annotations": {"-a": ""}}, 'metadata.annotations: Invalid value: "-a": name part must consist of'),
        ({"annotations": {"a": "x" * 262144}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"annotations": {"a": "ä" * 131072}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"annotations": {"a": "ä" * 131071}}, None),
        ({"finalizers": ["kubernetes", "example.com/x"]}, None),
        (
            {"finalizers": ["x"]},
            'metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully',
        ),
        ({"finalizers": ["a/"]}, 'metadata.finalizers: Invalid value: "a/": name part must be non-empty'),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
            "foregroundDeletion cannot be both set",
        ),
        (
            {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
            'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]},
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"u"}: /v1, '
            "Kind=Event is disallowed from being an owner",
        ),
        ({"managedFields": [{"operation": "X"}]}, 'metadata.managedFields[0].operation: Invalid value: "X": must be'),
        (
            {"managedFields": [{"operation": "Apply", "fieldsType": "V2", "manager": "m"}]},
            'metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`',
        ),
        (
            {"managedFields": [{"operation": "Apply", "subresource": "s" * 257}]},
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
        ),
    ],
)
def test_create(meta: Object, wanted: str | None) -> None:
    found = told(meta)
    if wanted is None:
        assert found == []
    else:
        assert found and found[0].startswith(wanted), found


def test_one_controller_only() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "1", "controller": True}
    found = told({"ownerReferences": [owner, {**owner, "name": "b"}]})
    assert len(found) == 1 and found[0].endswith(
        'Only one reference can have Controller set to true. Found "true" in references for '
        "ReplicaSet/a and ReplicaSet/b"
    )


def test_objects_of_the_cluster_have_no_namespace() -> None:
    assert told({}, NODES) == []
    assert told({"namespace": "x"}, NODES) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_custom_resources_may_have_plain_finalizers() -> None:
    assert told({"finalizers": ["x"]}, CRONTABS) == []


OLD: Object = {
    "name": "a", "namespace": "default", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
    "resourceVersion": "5", "generation": 2, "finalizers": ["a/b"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ({}, {}, []),
        ({}, {"resourceVersion": ""}, ['metadata.resourceVersion: Invalid value: "": must be specified for an update']),
        ({}, {"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
        ({}, {"uid": "2"}, ['metadata.uid: Invalid value: "2": field is immutable']),
        ({}, {"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
        ({}, {"creationTimestamp": None}, ["metadata.creationTimestamp: Invalid value: null: field is immutable"]),
        ({}, {"finalizers": ["a/b", "a/c"]}, []),
        ({"deletionTimestamp": "t"}, {"finalizers": []}, []),
        (
            {"deletionTimestamp": "t"},
            {"finalizers": ["a/c", "a/b", "a/a"]},
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found "
                'new finalizers []string{"a/a", "a/c"}'
            ],
        ),
        ({"deletionTimestamp": "t"}, {"deletionTimestamp": None}, [
            "metadata.deletionTimestamp: Invalid value: null: field is immutable"
        ]),
    ],
)  # fmt: skip
def test_update(old: Object, new: Object, wanted: list[str]) -> None:
    was = {**OLD, **old}
    causes = validate_metadata_update(PODS, {"metadata": {**was, **new}}, {"metadata": was})
    assert [str(cause) for cause in causes] == wanted


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, []),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}, []),
        (
            {"matchExpressions": [{"key": "k", "operator": "In"}]},
            ["s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
        ),
        (
            {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["v"]}]},
            [
                "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
                "'DoesNotExist'"
            ],
        ),
        (
            {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]},
            ['s.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'],
        ),
    ],
)
def test_selectors(selector: Any, wanted: list[str]) -> None:
    assert [str(cause) for cause in validate_selector(selector, "s")] == wanted


def test_managers() -> None:
    assert validate_manager("kubectl", "m") == []
    assert [str(c) for c in validate_manager("a" * 129, "m")] == ["m: Too long: may not be more than 128 bytes"]
    assert [str(c) for c in validate_manager("a\n", "m")] == [
        'm: Invalid value: "a\\n": invalid character U+000A (at position 1)'
    ]
