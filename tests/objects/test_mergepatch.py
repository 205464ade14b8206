"""JSON merge patches: the examples of RFC 7396, and that neither side is changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects.mergepatch import merge
from dashpot.model.objects.status import StatusError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), json_values, max_size=3)


@pytest.mark.parametrize(
    ("obj", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_examples_of_the_rfc(obj: Any, patch: Any, result: Any) -> None:
    assert merge(obj, patch) == result


@given(objects, objects)
def test_neither_side_is_changed_and_twice_is_once(obj: Any, patch: Any) -> None:
    before = deepcopy((obj, patch))
    once = merge(obj, patch)
    assert (obj, patch) == before
    assert merge(once, patch) == once
    assert not containers(patch) & containers(once)


def containers(value: Any) -> set[int]:
    """The identities of all maps and lists in a value."""
    if not isinstance(value, dict | list):
        return set()
    below = value.values() if isinstance(value, dict) else value
    return {id(value)}.union(*map(containers, below))


@pytest.mark.parametrize("patch", [[], "x", 1, None, True])
def test_a_patch_is_an_object(patch: Any) -> None:
    with pytest.raises(StatusError) as caught:
        merge({}, patch)
    assert caught.value.code == 400


def test_depth_is_bounded() -> None:
    patch: Any = {}
    for _ in range(100_000):
        patch = {"a": patch}
    with pytest.raises(StatusError) as caught:
        merge({}, patch)
    assert caught.value.code == 400
    while patch:  # taken apart by hand: freeing it in one go would recurse
        patch = patch.popitem()[1]
