"""JSON patches: the examples of RFC 6902, Kubernetes' answers, and that neither side is changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objects.test_mergepatch import containers, json_values, objects

from dashpot.model.objects.jsonpatch import MAX_OPERATIONS, apply
from dashpot.model.objects.status import StatusError


def op(name: str, path: str, value: Any = ..., source: str = "") -> dict[str, Any]:
    found = {"op": name, "path": path}
    if value is not ...:
        found["value"] = value
    if source:
        found["from"] = source
    return found


@pytest.mark.parametrize(
    ("obj", "patch", "result"),
    [
        ({"foo": "bar"}, [op("add", "/baz", "qux")], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [op("add", "/foo/1", "qux")], {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, [op("add", "/foo/-", ["a"])], {"foo": ["bar", ["a"]]}),
        ({"foo": ["bar"]}, [op("add", "/foo/1", 1)], {"foo": ["bar", 1]}),
        ({"a": 1, "b": 2}, [op("remove", "/a")], {"b": 2}),
        ({"a": [1, 2, 3]}, [op("remove", "/a/1")], {"a": [1, 3]}),
        ({"a": 1}, [op("replace", "/a", None)], {"a": None}),
        ({"a": [1]}, [op("replace", "/a/0", 2)], {"a": [2]}),
        # not RFC 6902, but what the library that Kubernetes uses does (evanphx/json-patch v4): `rollout undo` needs it
        ({"a": 1}, [op("replace", "/b", 2)], {"a": 1, "b": 2}),
        ({"a": {"b": 1}, "c": {}}, [op("move", "/c/d", source="/a/b")], {"a": {}, "c": {"d": 1}}),
        ({"a": [1, 2, 3]}, [op("move", "/a/2", source="/a/0")], {"a": [2, 3, 1]}),
        ({"a": [1]}, [op("copy", "/b", source="/a"), op("add", "/b/-", 2)], {"a": [1], "b": [1, 2]}),
        ({"a": 10}, [op("test", "/a", 10.0)], {"a": 10}),
        ({"~/x": 1}, [op("test", "/~0~1x", 1), op("remove", "/~0~1x")], {}),
        ({"": 1}, [op("replace", "/", 2)], {"": 2}),
        ({"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}),
        ({"a": 1}, [op("test", "/zzz", None)], {"a": 1}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_operations(obj: Any, patch: Any, result: Any) -> None:
    before = deepcopy((obj, patch))
    assert apply(obj, patch) == result
    assert (obj, patch) == before


@pytest.mark.parametrize(
    "patch",
    [
        [op("test", "/a/0", 2)],
        [op("test", "/a/0", True)],
        [op("test", "/zzz", 1)],
        [op("test", "/a")],
        [op("add", "/zzz/b", 1)],
        [op("add", "/a/5", 1)],
        [op("add", "/a/01", 1)],
        [op("add", "/a/-1", 1)],
        [op("add", "/a/x", 1)],
        [op("add", "/s/x", 1)],
        [op("add", "a", 1)],
        [op("add", "/b")],
        [op("remove", "/zzz")],
        [op("remove", "/a/-")],
        [op("remove", "")],
        [op("replace", "", [1])],
        [op("move", "/a/b", source="/a")],
        [op("copy", "/b", source="/zzz")],
        [op("copy", "/b")],
        [op("frob", "/b", 1)],
        [{"path": "/a", "op": 1}],
        [{"op": "remove"}],
        ["remove"],
    ],
)
def test_what_does_not_fit_is_422(patch: Any) -> None:
    obj = {"a": [1], "s": "text"}
    with pytest.raises(StatusError) as caught:
        apply(obj, patch)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert obj == {"a": [1], "s": "text"}


@pytest.mark.parametrize("patch", [{}, None, "x", 3])
def test_a_patch_is_a_list(patch: Any) -> None:
    with pytest.raises(StatusError) as caught:
        apply({}, patch)
    assert caught.value.code == 400


def test_operations_are_limited() -> None:
    with pytest.raises(StatusError) as caught:
        apply({}, [op("add", "/a", 1)] * (MAX_OPERATIONS + 1))
    assert caught.value.code == 413
    assert "10000, got 10001" in caught.value.message


def test_copies_are_limited() -> None:
    patch = [op("add", "/a", ["x" * 1000])] + [op("copy", "/a/-", source="/a")] * 40
    with pytest.raises(StatusError) as caught:
        apply({}, patch)
    assert caught.value.code == 422


def test_depth_is_limited() -> None:
    deep = [op("add", "/a" * (n + 1), {}) for n in range(600)]
    with pytest.raises(StatusError) as caught:
        apply({}, deep)
    assert caught.value.code == 422


pointers = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.builds(
    op, st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), pointers, json_values, pointers
)


@given(objects, st.lists(operations, max_size=5))
def test_nothing_is_shared_that_is_changed(obj: Any, patch: Any) -> None:
    before = deepcopy((obj, patch))
    try:
        result = apply(obj, patch)
    except StatusError as error:
        assert error.code == 422
    else:
        assert not containers(patch) & containers(result)
        again = deepcopy(result)
        apply(result, [op("add", "/zzz", 1)])
        assert result == again
    assert (obj, patch) == before
