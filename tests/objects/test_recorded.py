"""Objects and creations that a kube-apiserver 1.20 recorded, where they are at hand: decoding and defaulting them again
changes nothing but what newer releases added."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tree import ROOT

from dashpot.model.objects import defaults, prepare
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema import shape

Object = dict[str, Any]

RECORDED = ROOT.parent / "shared" / "cases" / "traces" / "kubernetes-1.20-recorded"
pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason="the recorded objects are not here")

NEWER = {
    ("jobs", "spec.completionMode"),
    ("jobs", "spec.suspend"),
    ("jobs", "spec.podReplacementPolicy"),
    ("services", "spec.internalTrafficPolicy"),
    ("namespaces", "metadata.labels"),
    ("daemonsets", "spec.updateStrategy.rollingUpdate.maxSurge"),
    ("statefulsets", "spec.persistentVolumeClaimRetentionPolicy"),
}
"""Defaults that came after 1.20."""


def lines(path: Path, most: int) -> Iterator[Object]:
    with gzip.open(path) as file:
        for line in islice(file, most):
            yield msgspec.json.decode(line)


def resource_of(obj: Object) -> Resource | None:
    group, _, version = obj.get("apiVersion", "").rpartition("/")
    return builtin().by_kind(group, version, obj.get("kind", ""))


def changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """The paths at which two values differ; a null is the same as none."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {*old, *new}:
            if old.get(key) is not None or new.get(key) is not None:
                yield from changes(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from changes(one, other, f"{path}[{at}]")
    elif old != new:
        yield path


@pytest.mark.parametrize("name", ["pods", "deployments", "replicasets", "endpoints", "endpointslices", "configmaps"])
def test_stored_objects_stay_as_they_are(name: str) -> None:
    seen = 0
    for event in lines(RECORDED / f"H.{name}.watch.jsonl.gz", 300):
        obj = event["object"]
        resource = resource_of(obj)
        if resource is None or event["type"] == "BOOKMARK":
            continue
        seen += 1
        before = copy.deepcopy(obj)
        found = shape(resource.group, resource.version, resource.kind, builtin())
        assert found.decode(obj) == []
        defaults.fill(resource, obj, None)
        assert set(changes(before, obj)) == set()
        assert found.validate(obj) == []
    assert seen or name == "endpointslices"  # served as v1beta1 then


BY_OTHERS = {
    "pods": {"spec.preemptionPolicy", "spec.serviceAccountName", "spec.serviceAccount", "spec.priority", "spec.volumes"}
    | {"spec.tolerations", "metadata.generation"}
    | {f"spec.containers[{at}].volumeMounts" for at in range(3)},
    "services": {"spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"},
    "jobs": {"metadata.generation", "spec.ttlSecondsAfterFinished", "spec.selector.matchLabels.controller-uid"}
    | {"spec.selector.matchLabels.batch.kubernetes.io/controller-uid"}
    | {
        f"{path}.labels.batch.kubernetes.io/{key}"
        for path in ("metadata", "spec.template.metadata")
        for key in ("job-name", "controller-uid")
    },
    "apiservices": {"status.conditions"},
    "nodes": {"spec.taints"},
}
"""What admission, allocators and newer releases set in a new object."""


def created(entry: Object) -> tuple[Resource, Object, Object] | None:
    """The resource, request and answer of a creation."""
    given, answer = entry.get("requestObject"), entry.get("responseObject")
    if entry.get("verb") != "create" or entry.get("stage") != "ResponseComplete" or not given or not answer:
        return None
    resource = resource_of(answer)
    if resource is None or given.get("kind") != answer["kind"] or entry["objectRef"].get("subresource"):
        return None
    return resource, given, answer


def test_creations_come_out_as_they_did() -> None:
    seen: set[str] = set()
    for entry in lines(RECORDED / "H.audit.jsonl.gz", 4000):
        found = created(entry)
        if found is None:
            continue
        resource, obj, answer = found
        seen.add(resource.plural)
        assert shape(resource.group, resource.version, resource.kind, builtin()).decode(obj) == []
        defaults.fill(resource, obj, None)
        for key in ("uid", "creationTimestamp", "resourceVersion", "managedFields", "name", "namespace", "selfLink"):
            obj["metadata"].pop(key, None)
            if key in answer["metadata"]:
                obj["metadata"][key] = answer["metadata"][key]
        prepare.on_create(resource, obj)
        defaults.fill(resource, obj, None)
        others = BY_OTHERS.get(resource.plural, set())
        assert {
            path for path in changes(answer, obj) if path not in others and (resource.plural, path) not in NEWER
        } <= {"metadata.labels.kubernetes.io/metadata.name"}, answer["metadata"]
    assert {"pods", "configmaps", "serviceaccounts"} <= seen
