"""Scale: replicas seen and set through one small object, whatever holds them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.subresources.scale import ScalePaths, scale_of, scaled

Object = dict[str, Any]

PATHS = ScalePaths.of(
    {
        "specReplicasPath": ".spec.size.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
)


def gauge() -> Object:
    return {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"size": {"replicas": 2}},
        "status": {"replicas": 1, "selector": "a=b"},
    }


def test_a_scale_shows_what_the_paths_lead_to() -> None:
    assert scale_of(gauge(), PATHS) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "a=b"},
    }
    assert scale_of({"metadata": {"name": "n"}}, PATHS)["spec"] == {"replicas": 0}


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["y", "x"]}]}, "k in (x,y)"),
        ({"app": "web"}, "app=web"),
    ],
)
def test_a_selector_is_told_as_text(chosen: Object, text: str) -> None:
    obj = {"metadata": {"name": "n"}, "spec": {"replicas": 1, "selector": chosen}}
    assert scale_of(obj, ScalePaths())["status"]["selector"] == text


def test_a_scale_sets_the_replicas() -> None:
    assert scaled(gauge(), {"spec": {"replicas": 5}}, PATHS)["spec"] == {"size": {"replicas": 5}}
    bare: Object = {"metadata": {"name": "n"}}
    assert scaled(bare, {"spec": {"replicas": 1}}, PATHS)["spec"] == {"size": {"replicas": 1}}
    assert scaled(gauge(), {"spec": {}}, PATHS)["spec"] == {"size": {"replicas": 0}}


@pytest.mark.parametrize(
    ("scale", "code"),
    [
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": 2**31}}, 422),
        ({"spec": {"replicas": "many"}}, 400),
        ({"spec": {"replicas": True}}, 400),
        ({"metadata": {"name": "m"}, "spec": {"replicas": 1}}, 400),
    ],
)
def test_a_scale_that_cannot_be_is_refused(scale: Object, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        scaled(gauge(), scale, PATHS)
    assert refused.value.code == code


def test_a_whole_number_may_be_written_with_a_point() -> None:
    obj = {"metadata": {"name": "n"}, "spec": {"size": {"replicas": 2.0}}}
    assert msgspec.json.encode(scale_of(obj, PATHS)["spec"]) == b'{"replicas":2}'


def test_an_object_that_holds_no_number_cannot_be_scaled() -> None:
    with pytest.raises(StatusError) as refused:
        scale_of({"metadata": {"name": "n"}, "spec": {"size": {"replicas": "two"}}}, PATHS)
    assert refused.value.code == 500
