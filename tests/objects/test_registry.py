"""The generated registry: what every other module takes for granted about it."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

import pytest
from tests.tree import ROOT

from dashpot.model.objects.registry import COMPONENTS, builtin
from dashpot.model.objects.resource import ALL_VERBS

R = builtin()


def references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(references, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*(references(part) for part in schema.values()))


@pytest.mark.parametrize(
    ("group", "version", "plural", "kind", "namespaced", "short", "storage"),
    [
        ("", "v1", "pods", "Pod", True, ("po",), ("", "v1")),
        ("", "v1", "nodes", "Node", False, ("no",), ("", "v1")),
        ("", "v1", "endpoints", "Endpoints", True, ("ep",), ("", "v1")),
        ("apps", "v1", "deployments", "Deployment", True, ("deploy",), ("apps", "v1")),
        ("apps", "v1", "controllerrevisions", "ControllerRevision", True, (), ("apps", "v1")),
        (
            "autoscaling",
            "v1",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            True,
            ("hpa",),
            ("autoscaling", "v2"),
        ),
        (
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            True,
            ("hpa",),
            ("autoscaling", "v2"),
        ),
        ("events.k8s.io", "v1", "events", "Event", True, ("ev",), ("", "v1")),
        ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), ("policy", "v1")),
        ("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, (), ("metrics.k8s.io", "v1beta1")),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            False,
            ("crd", "crds"),
            ("apiextensions.k8s.io", "v1"),
        ),
        ("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, (), ("resource.k8s.io", "v1")),
    ],
)
def test_resource(
    group: str, version: str, plural: str, kind: str, namespaced: bool, short: tuple[str, ...], storage: tuple[str, str]
) -> None:
    found = R.find(group, version, plural)
    assert found is not None and found is R.by_kind(group, version, kind)
    assert (found.kind, found.namespaced, found.short_names) == (kind, namespaced, short)
    assert (found.storage_group, found.storage_version) == storage and not found.custom


@pytest.mark.parametrize(
    ("plural", "expected"),
    [
        (
            "pods",
            "attach binding ephemeralcontainers eviction exec log portforward proxy resize status",
        ),
        ("namespaces", "finalize status"),
        ("nodes", "proxy status"),
        ("services", "proxy status"),
        ("serviceaccounts", "token"),
        ("replicationcontrollers", "scale status"),
        ("configmaps", ""),
    ],
)
def test_subresources_of_core(plural: str, expected: str) -> None:
    found = R.find("", "v1", plural)
    assert found is not None and [sub.name for sub in found.subresources] == expected.split()


def test_subresources_of_other_groups_name_their_kind() -> None:
    pods, deployments = R.find("", "v1", "pods"), R.find("apps", "v1", "deployments")
    assert pods is not None and deployments is not None
    eviction, scale = pods.subresource("eviction"), deployments.subresource("scale")
    assert eviction is not None and (eviction.group, eviction.kind, eviction.verbs) == (
        "policy",
        "Eviction",
        ("create",),
    )
    assert scale is not None and (scale.group, scale.version, scale.kind) == ("autoscaling", "v1", "Scale")


def test_verbs_are_the_known_ones_and_namespaces_have_no_deletecollection() -> None:
    assert all(set(resource.verbs) <= set(ALL_VERBS) for resource in R.resources)
    namespaces = R.find("", "v1", "namespaces")
    assert namespaces is not None and "deletecollection" not in namespaces.verbs


def test_category_all_is_that_of_kubernetes() -> None:
    assert {resource.plural for resource in R.resources if "all" in resource.categories} == {
        "pods",
        "services",
        "replicationcontrollers",
        "deployments",
        "replicasets",
        "statefulsets",
        "daemonsets",
        "jobs",
        "cronjobs",
        "horizontalpodautoscalers",
    }


def test_only_stable_versions_and_metrics() -> None:
    versions = {(resource.group, resource.version) for resource in R.resources}
    assert {pair for pair in versions if not pair[1].removeprefix("v").isdigit()} == {("metrics.k8s.io", "v1beta1")}


@pytest.mark.parametrize(
    ("group", "kind", "name"),
    [
        ("", "Status", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        ("", "DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        ("", "PodList", "io.k8s.api.core.v1.PodList"),
        ("", "Binding", "io.k8s.api.core.v1.Binding"),
        ("autoscaling", "Scale", "io.k8s.api.autoscaling.v1.Scale"),
        ("policy", "Eviction", "io.k8s.api.policy.v1.Eviction"),
        ("authentication.k8s.io", "TokenRequest", "io.k8s.api.authentication.v1.TokenRequest"),
        ("authorization.k8s.io", "SelfSubjectAccessReview", "io.k8s.api.authorization.v1.SelfSubjectAccessReview"),
    ],
)
def test_kinds_that_are_no_resources_have_schemas(group: str, kind: str, name: str) -> None:
    assert R.has(group, "v1", kind) and R.type_name(group, "v1", kind) == name
    assert R.schema(group, "v1", kind) is R.definition(name) is R.definition(COMPONENTS + name)


def test_merge_keys_and_list_types() -> None:
    containers = R.definition("io.k8s.api.core.v1.PodSpec")["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-list-type"] == "map" and containers["x-kubernetes-list-map-keys"] == ["name"]
    ports = R.definition("io.k8s.api.core.v1.Container")["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert R.definition("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")["x-kubernetes-map-type"] == "atomic"


def test_every_reference_leads_somewhere_and_no_type_is_a_list() -> None:
    for name in R.names():
        schema = R.definition(name)
        for reference in references(schema):
            assert R.definition(reference), f"{name} refers to {reference}"
        assert schema.get("type") is None or isinstance(schema["type"], str), name


def test_leaves_say_their_format() -> None:
    formats = {name.rsplit(".", 1)[1]: R.definition(name).get("format") for name in R.names()}
    assert formats["Quantity"] == "quantity" and formats["IntOrString"] == "int-or-string"
    assert formats["Time"] == formats["MicroTime"] == "date-time"


def test_unknown_names_are_none_or_key_errors() -> None:
    assert R.find("apps", "v1beta1", "deployments") is None and R.by_kind("", "v1", "Nothing") is None
    with pytest.raises(KeyError):
        R.schema("", "v1", "Nothing")


def test_reading_is_quick() -> None:
    """Measured 8 ms; schemas are decoded when asked for."""
    builtin.cache_clear()
    began = time.process_time()
    builtin()
    assert time.process_time() - began < 0.15


@pytest.mark.skipif(
    find_spec("kubernetes_validate") is None or find_spec("lightkube") is None, reason="the sources are not installed"
)
def test_file_is_what_the_script_makes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "registry.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
