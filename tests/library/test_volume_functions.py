"""What the specs of volumes compute."""

from __future__ import annotations

import pytest
from attrs import frozen

from dashpot.model.extern import volumes as rules
from tests.library.volume_kit import claim, pod, storage_class, volume
from tests.library.workload_kit import Object


@frozen
class Kept:
    json: Object


def test_which_claims_a_pod_mounts() -> None:
    both = Kept(pod())
    both.json["spec"]["volumes"] += [
        {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "x", "emptyDir": {}},
    ]
    both.json["metadata"]["uid"] = "1"
    assert rules.claims_of(both) == ["data", "web-0-tmp"] and rules.scratch(both) == ["web-0-tmp"]
    assert rules.mentions(both, Kept(claim())) and not rules.mentions(both, Kept(claim("other")))
    stray, own = claim("web-0-tmp"), claim("web-0-tmp")
    own["metadata"]["ownerReferences"] = [{"uid": "1", "controller": True}]
    assert not rules.mentions(both, Kept(stray)) and rules.mentions(both, Kept(own))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"capacity": {"storage": "1023Mi"}}, "requested PV is too small"),
        ({"storageClassName": "fast"}, "storageClassName does not match"),
        ({"volumeAttributesClassName": "gold"}, "VolumeAttributesClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadOnlyMany"]}, "incompatible accessMode"),
    ],
)
def test_why_a_volume_does_not_do(change: Object, why: str) -> None:
    assert rules.mismatch(Kept(volume("v1", **change)), Kept(claim())) == why


def test_the_default_class_is_the_newest() -> None:
    classes = [storage_class(name, default=True) for name in ("b", "a", "old")] + [storage_class("none")]
    for one, stamp in zip(classes, ("02", "02", "01", "03"), strict=True):
        one["metadata"]["creationTimestamp"] = f"2026-01-{stamp}T00:00:00Z"
    assert rules.default_class([Kept(c) for c in classes]) == "a"
    assert rules.default_class([Kept(classes[-1])]) is None
