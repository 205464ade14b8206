"""Sets of fields: the algebra against sets of paths, the JSON form, and how paths are printed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects import fieldset as f
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.structure import structure

POD = structure("", "v1", "Pod", builtin())
SERVICE = structure("", "v1", "Service", builtin())

keys = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"x"', "i:0"])
paths = st.lists(st.lists(keys, min_size=1, max_size=4).map(tuple), max_size=12)
sets = paths.map(f.of_paths)


def plain(fields: f.Fields) -> set[tuple[str, ...]]:
    return set(f.members(fields))


@given(paths)
def test_a_set_has_the_paths_that_it_was_made_of(rows: list[tuple[str, ...]]) -> None:
    made = f.of_paths(rows)
    assert plain(made) == set(rows)
    assert all(f.has(made, row) for row in rows)
    assert f.valid(made)


@given(sets, sets)
def test_algebra_is_that_of_sets_of_paths(a: f.Fields, b: f.Fields) -> None:
    assert plain(f.union(a, b)) == plain(a) | plain(b)
    assert plain(f.intersection(a, b)) == plain(a) & plain(b)
    assert plain(f.difference(a, b)) == plain(a) - plain(b)
    below = {path for path in plain(a) if any(path[: len(other)] == other for other in plain(b))}
    assert plain(f.recursive_difference(a, b)) == plain(a) - below


@given(sets, sets)
def test_equal_sets_have_equal_trees(a: f.Fields, b: f.Fields) -> None:
    assert f.union(a, b) == f.union(b, a)
    assert f.union(a, a) == a
    assert f.difference(a, a) == {}
    assert f.difference(f.union(a, b), b) == f.difference(a, b)
    assert f.EMPTY == {}


@given(sets)
def test_leaves_have_nothing_below(a: f.Fields) -> None:
    rows = plain(a)
    assert plain(f.leaves(a)) == {p for p in rows if not any(q[: len(p)] == p and q != p for q in rows)}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:spec", "f:containers", 'k:{"name":"c"}', "f:image"), '.spec.containers[name="c"].image'),
        (("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}'), '.ports[containerPort=80,protocol="TCP"]'),
        (("f:metadata", "f:finalizers", 'v:"a/b"'), '.metadata.finalizers[="a/b"]'),
        (("f:a", "i:3"), ".a[3]"),
        (("f:metadata", "f:annotations", "f:a.b/c"), ".metadata.annotations.a.b/c"),
    ],
)
def test_paths_are_printed_as_upstream_does(path: tuple[str, ...], text: str) -> None:
    assert f.printed(path) == text


@pytest.mark.parametrize(
    "bad",
    [
        [],
        "x",
        None,
        {"f:a": None},
        {"f:a": []},
        {"f:a": True},
        {"x:a": {}},
        {"fa": {}},
        {"": {}},
        {".": {"f:a": {}}},
        {"k:[]": {}},
        {"k:{": {}},
        {"v:": {}},
        {"i:x": {}},
    ],
)
def test_what_is_no_set_is_told(bad: Any) -> None:
    assert not f.valid(bad)


def test_a_set_that_is_nested_too_deeply_is_none() -> None:
    deep: f.Fields = {}
    for _ in range(300):
        deep = {"f:a": deep}
    assert not f.valid(deep)


def test_keys_of_items_take_defaults() -> None:
    ports = POD.fields["spec"].fields["containers"].element
    assert ports is not None
    node = ports.fields["ports"]
    assert f.item_key({"containerPort": 80}, node) == 'k:{"containerPort":80,"protocol":"TCP"}'
    assert f.item_key({"protocol": "UDP", "containerPort": 53}, node) == 'k:{"containerPort":53,"protocol":"UDP"}'
    with pytest.raises(f.FieldsError, match='omits key field "containerPort"'):
        f.item_key({}, node)


def test_html_characters_in_keys_are_escaped_as_go_does() -> None:
    node = POD.fields["metadata"].fields["finalizers"]
    assert f.item_key("a<b>&c", node) == 'v:"a\\u003cb\\u003e\\u0026c"'


def test_created_leaves_out_what_an_empty_object_has() -> None:
    obj = {
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
            "securityContext": {},
            "nodeSelector": {"a": "b"},
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
        "status": {},
    }
    container: f.Fields = {
        ".": {},
        "f:name": {},
        "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}},
    }
    assert f.created(POD)(obj) == {
        "f:spec": {
            "f:containers": {'k:{"name":"c"}': container},
            "f:securityContext": {},
            "f:nodeSelector": {},
            "f:volumes": {".": {}, 'k:{"name":"v"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
        }
    }


def test_applied_names_leaves_and_items_only() -> None:
    obj = {"spec": {"ports": [{"port": 80, "name": "h"}], "selector": {"a": "b"}}, "metadata": {"labels": {"a": "b"}}}
    assert f.from_object(obj, SERVICE) == {
        "f:spec": {
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}},
            "f:selector": {},
        },
        "f:metadata": {"f:labels": {"f:a": {}}},
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"zzz": 1}, ".spec.zzz: field not declared in schema"),
        ({"ports": [{"port": 1, "zzz": 1}]}, r'.spec.ports[port=1,protocol="TCP"].zzz: field not declared in schema'),
        ({"ports": [{"name": "x"}]}, ".spec.ports: element 0: associative list with keys has an element that omits"),
        ({"ports": [{"port": 1}, {"port": 1}]}, 'duplicate entries for key [port=1,protocol="TCP"]'),
        ({"ports": [3]}, "element 0: associative list with keys may not have non-map elements"),
    ],
)
def test_what_has_no_place_is_told_with_its_path(spec: Any, message: str) -> None:
    with pytest.raises(f.FieldsError) as caught:
        f.from_object({"spec": spec}, SERVICE)
    assert message in str(caught.value)
