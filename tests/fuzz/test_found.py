"""What the fuzzers found, each as the smallest request that shows it, with the right answer."""

from __future__ import annotations

import time

import pytest

from dashpot.model.objects import jsonpatch, strategic
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.schema import decode_json, shape
from dashpot.model.objects.status import Cause, StatusError, invalid
from dashpot.model.objects.structure import structure
from dashpot.runtime.api import body
from dashpot.runtime.api.keys import Keys


def test_no_two_kinds_share_a_place_in_the_store() -> None:
    """metrics.k8s.io has nodes and pods, too: reading them gave the core ones, and 500."""
    groups: dict[str, set[str]] = {}
    for resource in builtin().resources:
        groups.setdefault(Keys(resource).prefix, set()).add(resource.storage_group)
    assert not {prefix: found for prefix, found in groups.items() if len(found) > 1}


@pytest.mark.parametrize(
    ("kind", "obj", "text"),
    [
        (
            ("autoscaling", "v1", "Scale"),
            {"metadata": [1]},
            "cannot unmarshal array into Go struct field Scale.metadata",
        ),
        (("autoscaling", "v1", "Scale"), {"metadata": {"resourceVersion": 5}}, "resourceVersion of type string"),
        (("", "v1", "Binding"), {"metadata": "x"}, "Binding.metadata"),
        (("policy", "v1", "Eviction"), {"metadata": {"name": 1}}, "of type string"),
    ],
)
def test_bodies_of_subresources_are_typed(kind: tuple[str, str, str], obj: body.Object, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        body.aside(obj, *kind)
    assert caught.value.code == 400 and text in caught.value.message


def test_a_body_without_metadata_gets_one() -> None:
    assert body.aside({"spec": {"replicas": 1}}, "autoscaling", "v1", "Scale")["metadata"] == {}


def test_a_hundred_doubles_and_unknown_fields_are_told() -> None:
    """A key of a megabyte before each of a million paths was a terabyte."""
    doubles: list[str] = []
    long = "k" * 100_000
    inner = ",".join(f'"a{at}":1,"a{at}":1' for at in range(5000))
    decode_json(f'{{"{long}":{{{inner}}}}}'.encode(), doubles)
    assert len(doubles) == 100 and doubles[0] == f"{long}.a0"
    unknown = shape("", "v1", "ConfigMap", builtin()).decode({f"x{at}": 1 for at in range(5000)})
    assert len(unknown) == 100 and unknown[0] == 'unknown field "x0"'


def test_doubles_are_told_once_each() -> None:
    doubles: list[str] = []
    decode_json(b'{"a":1,"a":2,"a":3,"b":{"a":1,"a":1}}', doubles)
    assert doubles == ["a", "b.a"]


def test_a_hundred_causes_are_told() -> None:
    error = invalid("", "ConfigMap", "a", [Cause(f"f{at}", "wrong") for at in range(5000)])
    assert len(error.details["causes"]) == 100


@pytest.mark.parametrize("text", [b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}'])
def test_bytes_that_are_no_text(text: bytes) -> None:
    with pytest.raises(StatusError, match="invalid UTF-8"):
        decode_json(text)


def test_brackets_in_strings_are_no_objects() -> None:
    assert decode_json(b'{"a":"' + b"[{" * 100_000 + b'"}') == {"a": "[{" * 100_000}


def test_sexagesimal_numbers_are_text() -> None:
    assert body.load_yaml(b"a: 1:30\nb: 0x1F\nc: 1.5\nd: 12\ne: .inf\n") == {
        "a": "1:30", "b": 31, "c": 1.5, "d": 12, "e": float("inf")
    }  # fmt: skip


def test_patches_that_move_too_much() -> None:
    patch = [{"op": "add", "path": "/l", "value": [0] * 200_000}, *[{"op": "add", "path": "/l/0", "value": 1}] * 9_000]
    with pytest.raises(StatusError) as caught:
        jsonpatch.apply({}, patch)
    assert caught.value.code == 413


def test_deletions_of_a_long_list_are_fast() -> None:
    """They were quadratic: 50,000 of them took a minute."""
    before = {"metadata": {"finalizers": [f"a/{at}" for at in range(50_000)]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"a/{at}" for at in range(1, 50_000)]}}
    begun = time.perf_counter()
    found = strategic.merge(before, patch, structure("", "v1", "ConfigMap", builtin()))
    assert found["metadata"]["finalizers"] == ["a/0"]
    assert time.perf_counter() - begun < 5
