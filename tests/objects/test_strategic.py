"""Strategic merge patches: directives, orders and failures as upstream has them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objects.test_mergepatch import containers

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.status import StatusError
from dashpot.model.objects.strategic import go_text, merge
from dashpot.model.objects.structure import structure

POD = structure("", "v1", "Pod", builtin())
DEPLOYMENT = structure("apps", "v1", "Deployment", builtin())
SERVICE = structure("", "v1", "Service", builtin())


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def named(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in names]


CASES: list[tuple[str, Any, Any, Any]] = [
    ("maps are merged", {"metadata": {"labels": {"a": "1", "b": "2"}}}, {"metadata": {"labels": {"a": None, "c": "3"}}},
     {"metadata": {"labels": {"b": "2", "c": "3"}}}),
    ("items are merged by key", pod(containers=[{"name": "c", "image": "1", "tty": True}]),
     pod(containers=[{"name": "c", "image": "2"}]), pod(containers=[{"name": "c", "image": "2", "tty": True}])),
    ("new items come where upstream puts them", pod(containers=named("a", "b")), pod(containers=named("c")),
     pod(containers=named("c", "a", "b"))),
    ("patched items keep their places among the others", pod(containers=named("a", "b", "c")),
     pod(containers=[{"name": "b", "image": "x"}]),
     pod(containers=[{"name": "a"}, {"name": "b", "image": "x"}, {"name": "c"}])),
    ("delete an item", pod(containers=named("a", "b")), pod(containers=[{"name": "a", "$patch": "delete"}]),
     pod(containers=named("b"))),
    ("replace a list", pod(containers=named("a", "b")), pod(containers=[{"$patch": "replace"}, {"name": "c"}]),
     pod(containers=named("c"))),
    ("replace a map", pod(nodeSelector={"a": "1"}), pod(nodeSelector={"$patch": "replace", "b": "2"}),
     pod(nodeSelector={"b": "2"})),
    ("delete a map", pod(securityContext={"runAsUser": 1}), pod(securityContext={"$patch": "delete"}),
     pod(securityContext={})),
    ("merge is what happens anyway", pod(nodeSelector={"a": "1"}), pod(nodeSelector={"$patch": "merge", "b": "2"}),
     pod(nodeSelector={"a": "1", "b": "2"})),
    ("lists without a key are replaced", pod(tolerations=[{"key": "a"}]), pod(tolerations=[{"key": "b"}]),
     pod(tolerations=[{"key": "b"}])),
    ("primitive lists are merged", {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["c", "a"]}},
     {"metadata": {"finalizers": ["c", "a", "b"]}}),
    ("delete from a primitive list", {"metadata": {"finalizers": ["a", "b"]}},
     {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, {"metadata": {"finalizers": ["b"]}}),
    ("delete and order a primitive list", {"metadata": {"finalizers": ["a", "b", "c"]}},
     {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["c", "b"]}},
     {"metadata": {"finalizers": ["c", "b"]}}),
    ("order without a change", pod(containers=named("a", "b", "c")),
     pod(**{"$setElementOrder/containers": named("c", "a", "b")}), pod(containers=named("c", "a", "b"))),
    ("order leaves the others in their places", pod(containers=named("x", "a", "y", "b")),
     pod(**{"$setElementOrder/containers": named("b", "a")}), pod(containers=named("x", "y", "b", "a"))),
    ("order with a change", pod(containers=named("a", "b")),
     pod(**{"$setElementOrder/containers": named("n", "b", "a"), "containers": [{"name": "n"}]}),
     pod(containers=named("n", "b", "a"))),
    ("order with a deletion", pod(containers=named("a", "b", "c")),
     pod(**{"$setElementOrder/containers": named("c", "a"), "containers": [{"name": "b", "$patch": "delete"}]}),
     pod(containers=named("c", "a"))),
    ("retainKeys clears the rest", {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
     {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
     {"spec": {"strategy": {"type": "Recreate"}}}),
    ("retainKeys in an item", pod(volumes=[{"name": "v", "emptyDir": {}}]),
     pod(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/a"}}]),
     pod(volumes=[{"name": "v", "hostPath": {"path": "/a"}}])),
    ("what is new comes without nulls and directives", {},
     {"spec": {"a": None, "nodeSelector": {"$patch": "replace", "b": "1"}}},
     {"spec": {"nodeSelector": {"b": "1"}}}),
    ("null removes", {"spec": {"nodeName": "n", "x": 1}}, {"spec": {"nodeName": None, "y": None}}, {"spec": {"x": 1}}),
    ("a list gives way to what is no list", pod(containers=named("a")), pod(containers=None), pod()),
]  # fmt: skip


@pytest.mark.parametrize(("what", "obj", "patch", "result"), CASES, ids=[case[0] for case in CASES])
def test_patches(what: str, obj: Any, patch: Any, result: Any) -> None:
    before = deepcopy((obj, patch))
    found = merge(obj, patch, DEPLOYMENT if "strategy" in str(obj) else POD)
    assert found == result
    assert (obj, patch) == before
    assert not containers(patch) & containers(found)


def test_ports_of_services_are_merged_by_port() -> None:
    obj = {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}
    patch = {"spec": {"ports": [{"port": 81, "name": "c"}]}}
    assert merge(obj, patch, SERVICE)["spec"]["ports"] == [{"port": 80, "name": "a"}, {"port": 81, "name": "c"}]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (pod(containers=[{"image": "x"}]), "map: map[image:x] does not contain declared merge key: name"),
        (pod(containers=[{"$patch": "delete"}]), "map: map[$patch:delete] does not contain declared merge key: name"),
        (pod(containers=[{"$patch": "x", "name": "c"}]), "unknown patch type: x in map: map[$patch:x name:c]"),
        ({"spec": {"$patch": "x"}}, "unknown patch type: x in map: map[$patch:x]"),
        (pod(containers=["x"]), "list element types are not identical: [[map[name:c]] [x]]"),
        (pod(**{"$retainKeys": ["a"], "b": 1}), "invalid patch format of retainKeys"),
        (pod(**{"$retainKeys": "a"}), "invalid patch format of retainKeys"),
        (pod(**{"$setElementOrder/containers": "a"}), "invalid patch format of setElementOrder list"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, "invalid patch format of primitive list"),
        (pod(**{"$setElementOrder/containers": named("a"), "containers": named("b")}),
         "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n"),
        (pod(**{"$setElementOrder/containers": named("a"), "containers": "x"}),
         "expected a []interface {}, but received a string"),
        ([], "error decoding patch: a strategic merge patch must be a JSON object"),
    ],
)  # fmt: skip
def test_failures(patch: Any, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        merge({"metadata": {}, "spec": {"containers": [{"name": "c"}]}}, patch, POD)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, "x"], "a": None}, "map[a:<nil> b:[1 x]]"),
        (True, "true"),
        (1.5, "1.5"),
    ],
)
def test_values_are_printed_as_go_does(value: Any, text: str) -> None:
    assert go_text(value) == text


names = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)


@given(names, names, st.sampled_from(["1", "2"]))
def test_all_items_survive_and_the_patch_sets_the_order(live: list[str], change: list[str], image: str) -> None:
    order = {"$setElementOrder/containers": named(*change)}
    patch = pod(containers=named(*change, image=image), **order) | {"$patch": "merge"}
    result = merge(pod(containers=named(*live)), patch, POD)["spec"]["containers"]
    found = [item["name"] for item in result]
    assert sorted(found) == sorted(set(live) | set(change))
    assert [name for name in found if name in change] == change
    assert [name for name in found if name not in change] == [name for name in live if name not in change]
    assert all(("image" in item) == (item["name"] in change) for item in result)
