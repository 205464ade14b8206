"""managedFields on creates, updates and patches: who owns what, and when nothing changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects.apply import from_live
from dashpot.model.objects.fieldset import Fields, difference, leaves, members, of_paths, union
from dashpot.model.objects.ownership import decode, default_manager, encode, reset_fields, strip, track
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.structure import custom, structure

Object = dict[str, Any]
CONFIGMAP = structure("", "v1", "ConfigMap", builtin())
DEPLOYMENT = structure("apps", "v1", "Deployment", builtin())


def written(old: Object | None, new: Object, manager: str, time: int = 1, **more: Any) -> Object:
    """The object after a write."""
    out = deepcopy(new)
    kept: Any = {"api_version": "v1", "structure": CONFIGMAP} | more
    track(old, out, manager=manager, time=f"2026-01-01T00:00:{time:02d}Z", **kept)
    return out


def configmap(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}, "data": data}


def owned(obj: Object) -> dict[str, set[str]]:
    """The paths of each entry, as text."""
    return {
        row["manager"] + ("/" + row["subresource"] if "subresource" in row else ""): {
            ".".join(key.removeprefix("f:") for key in path) for path in members(row["fieldsV1"])
        }
        for row in obj["metadata"].get("managedFields", ())
    }


def test_a_create_owns_all_but_what_nobody_owns() -> None:
    new = configmap(a="1")
    new["metadata"] |= {
        "namespace": "n",
        "generation": 1,
        "resourceVersion": "5",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"l": "x"},
    }
    made = written(None, new, "m")
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:data": {".": {}, "f:a": {}}},
        }
    ]


def test_an_update_takes_what_it_changes_and_removes_what_is_gone() -> None:
    one = written(None, configmap(a="1", b="1", c="1"), "m")
    new = configmap(a="2", b="1", d="1")
    new["metadata"]["managedFields"] = one["metadata"]["managedFields"]
    two = written(one, new, "n", 2)
    assert owned(two) == {"m": {"data", "data.b"}, "n": {"data.a", "data.d"}}
    assert [row["time"][-3:-1] for row in two["metadata"]["managedFields"]] == ["01", "02"]


def test_an_update_without_managed_fields_keeps_them() -> None:
    one = written(None, configmap(a="1"), "m")
    assert owned(written(one, configmap(a="1", b="2"), "n", 2)) == {"m": {"data", "data.a"}, "n": {"data.b"}}


def test_a_write_that_changes_nothing_keeps_the_time() -> None:
    one = written(None, configmap(a="1"), "m")
    for manager in ("m", "n"):
        assert written(one, configmap(a="1"), manager, 9) == one


def test_server_fields_belong_to_nobody() -> None:
    one = written(None, configmap(a="1"), "m")
    new = deepcopy(one)
    new["metadata"] |= {"resourceVersion": "7", "generation": 3}
    assert written(one, new, "n", 2)["metadata"]["managedFields"] == one["metadata"]["managedFields"]


def test_one_manager_has_an_entry_for_each_subresource() -> None:
    one = written(None, configmap(a="1"), "m")
    new = configmap(a="1", b="2")
    assert owned(written(one, new, "m", 2, subresource="status")) == {
        "m": {"data", "data.a"},
        "m/status": {"data.b"},
    }


@pytest.mark.parametrize("rows", [[], [{}]])
def test_managers_can_be_reset_and_then_none_are_tracked(rows: list[Any]) -> None:
    one = written(None, configmap(a="1"), "m")
    new = configmap(a="2")
    new["metadata"]["managedFields"] = rows
    two = written(one, new, "n", 2)
    assert "managedFields" not in two["metadata"]
    assert "managedFields" not in written(two, configmap(a="3"), "n", 3)["metadata"]


def test_managers_cannot_be_reset_by_a_subresource() -> None:
    one = written(None, configmap(a="1"), "m")
    new = configmap(a="1")
    new["metadata"]["managedFields"] = []
    assert written(one, new, "n", 2, subresource="status") == one


def test_managers_can_be_edited_by_hand() -> None:
    one = written(None, configmap(a="1"), "kubectl-client-side-apply")
    new = deepcopy(one)
    row = new["metadata"]["managedFields"][0]
    row["manager"], row["operation"] = "kubectl", "Apply"
    two = written(one, new, "kubectl", 2)
    assert [(row["manager"], row["operation"]) for row in two["metadata"]["managedFields"]] == [("kubectl", "Apply")]


@pytest.mark.parametrize(
    "rows",
    [
        "x",
        [3],
        [{"manager": "m", "operation": "Frob", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        [{"manager": "m", "operation": "Update", "apiVersion": "", "fieldsType": "FieldsV1"}],
        [{"manager": "m", "operation": "Update", "apiVersion": "v1"}],
        [{"manager": 3, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"q": 1}}],
    ],
)
def test_what_is_no_list_of_managers_is_ignored(rows: Any) -> None:
    assert decode(rows) is None
    one = written(None, configmap(a="1"), "m")
    new = configmap(a="1")
    new["metadata"]["managedFields"] = rows
    assert written(one, new, "n", 2) == one


def test_the_oldest_updates_are_merged_beyond_ten() -> None:
    obj = written(None, configmap(a="0"), "m00")
    for n in range(1, 14):
        data = obj["data"] | {f"k{n}": "1"}
        obj = written(obj, configmap(**data), f"m{n:02d}", n)
    rows = obj["metadata"]["managedFields"]
    assert len(rows) == 10
    assert rows[0]["manager"] == "ancient-changes"
    assert owned(obj)["ancient-changes"] == {"data", "data.a", "data.k1", "data.k2", "data.k3", "data.k4"}


def test_status_is_left_alone_by_the_main_resource() -> None:
    new = {"metadata": {}, "spec": {"replicas": 1}, "status": {"replicas": 3}}
    made = written(None, new, "m", structure=DEPLOYMENT, reset=reset_fields("", True))
    assert owned(made) == {"m": {"spec.replicas"}}
    later = deepcopy(made)
    later["status"]["replicas"] = 4
    other = written(made, later, "k", 2, structure=DEPLOYMENT, reset=reset_fields("", True))
    assert other["metadata"] == made["metadata"]
    other = written(made, later, "k", 2, structure=DEPLOYMENT, subresource="status", reset=reset_fields("status", True))
    assert owned(other) == {"m": {"spec.replicas"}, "k/status": {"status.replicas"}}


def test_items_are_owned_by_their_keys() -> None:
    def deployment(image: str, *ports: int) -> Object:
        container = {"name": "c", "image": image, "ports": [{"containerPort": port} for port in ports]}
        return {"metadata": {"uid": "u"}, "spec": {"template": {"spec": {"containers": [container]}}}}

    one = written(None, deployment("1", 80, 81), "m", structure=DEPLOYMENT)
    two = written(one, deployment("2", 81, 82), "n", 2, structure=DEPLOYMENT)
    base = 'spec.template.spec.containers.k:{"name":"c"}'
    port = base + '.ports.k:{"containerPort":%d,"protocol":"TCP"}'
    at_81, at_82 = port % 81, port % 82
    assert owned(two) == {
        "m": {base, f"{base}.name", f"{base}.ports", at_81, f"{at_81}.containerPort"},
        "n": {f"{base}.image", at_82, f"{at_82}.containerPort"},
    }


def test_an_item_that_is_named_twice_is_owned_as_a_whole() -> None:
    def deployment(*images: str) -> Object:
        rows = [{"name": "c", "image": image} for image in images]
        return {"metadata": {"uid": "u"}, "spec": {"template": {"spec": {"containers": rows}}}}

    one = written(None, deployment("1", "2"), "m", structure=DEPLOYMENT)
    two = written(one, deployment("1", "3"), "n", 2, structure=DEPLOYMENT)
    assert owned(two)["n"] == {'spec.template.spec.containers.k:{"name":"c"}'}


def test_custom_objects_without_a_schema_are_owned_key_by_key_and_lists_whole() -> None:
    new = {"metadata": {}, "spec": {"a": {"b": 1}, "l": [{"x": 1}], "e": {}, "n": []}}
    made = written(None, new, "m", structure=custom(None))
    assert owned(made) == {"m": {"spec", "spec.a", "spec.a.b", "spec.l", "spec.e", "spec.n"}}


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.37.1 (linux/amd64) kubernetes/abc", "kubectl"),
        ("", ""),
        ("a\nb/1", "ab"),
        ("ü" * 100, "ü" * 64),
    ],
)
def test_the_default_manager_comes_from_the_user_agent(agent: str, manager: str) -> None:
    assert default_manager(agent) == manager


def test_entries_are_in_order_and_survive_a_round() -> None:
    def row(manager: str, operation: str, time: str) -> Object:
        fields: Fields = {"f:data": {f"f:{manager}": {}}}
        found: Object = {"manager": manager, "operation": operation, "apiVersion": "v1", "time": time}
        return found | {"fieldsType": "FieldsV1", "fieldsV1": fields}

    rows = [row("z", "Apply", "2026-01-01T00:00:09Z"), row("b", "Update", "1"), row("a", "Update", "2")]
    entries = decode(list(reversed(rows)))
    assert entries is not None
    assert encode(entries.values()) == rows


data = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("xyz"), "image": st.sampled_from("12")},
        optional={"ports": st.just([{"containerPort": 80, "protocol": "TCP"}]), "env": st.just([])},
    ),
    max_size=3,
    unique_by=lambda item: str(item["name"]),
)
specs = st.fixed_dictionaries({"labels": data, "containers": containers})


def deployed(spec: Any) -> Object:
    template = {"metadata": {"labels": spec["labels"]}, "spec": {"containers": spec["containers"]}}
    return {"metadata": {"uid": "u", "annotations": spec["labels"]}, "spec": {"template": template}}


@given(st.lists(st.tuples(st.sampled_from(["m", "n"]), specs), min_size=1, max_size=5))
def test_every_leaf_has_an_owner_and_nothing_else_is_owned(writes: list[tuple[str, Any]]) -> None:
    obj: Object | None = None
    for time, (manager, spec) in enumerate(writes):
        before = deepcopy(obj)
        after = written(obj, deployed(spec), manager, time, structure=DEPLOYMENT)
        assert obj == before
        obj = after
        held: Fields = {}
        for row in obj["metadata"].get("managedFields", ()):
            assert strip(row["fieldsV1"]) == row["fieldsV1"]
            held = union(held, row["fieldsV1"])
        bare = {key: value for key, value in obj["metadata"].items() if key not in ("managedFields", "uid")}
        live = from_live(obj | {"metadata": bare}, DEPLOYMENT)
        filled = {path for path in members(leaves(live)) if path[-1] not in ("f:labels", "f:annotations", "f:env")}
        unowned = difference(of_paths(filled), held)
        if obj is not None and before is not None and not before["metadata"].get("managedFields"):
            continue  # an object that lost its last owner is not tracked again
        assert not [path for path in members(unowned) if path[-1] != "f:containers"]
