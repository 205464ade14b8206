"""Server-side apply: conflicts in upstream's words, removal, order, the way from client-side apply; and its laws."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects.apply import LAST_APPLIED, apply
from dashpot.model.objects.fieldset import members
from dashpot.model.objects.ownership import reset_fields, track
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.status import StatusError
from dashpot.model.objects.structure import Structure, custom, structure

Object = dict[str, Any]
DEPLOYMENT = structure("apps", "v1", "Deployment", builtin())
CONFIGMAP = structure("", "v1", "ConfigMap", builtin())
SERVICE = structure("", "v1", "Service", builtin())


def cm(data: dict[str, str] | None = None, **meta: Any) -> Object:
    found: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"} | meta}
    return found if data is None else found | {"data": data}


def put(
    live: Object | None, config: Object, manager: str = "m", time: int = 1, *, force: bool = False, **more: Any
) -> Object:
    kept: Any = {"api_version": "v1", "structure": CONFIGMAP} | more
    before = deepcopy((live, config))
    try:
        return apply(live, config, manager=manager, time=f"2026-01-01T00:00:{time:02d}Z", force=force, **kept)
    finally:
        assert (live, config) == before


def entries(obj: Object) -> dict[str, set[str]]:
    return {
        row["manager"]: {".".join(key.removeprefix("f:") for key in path) for path in members(row["fieldsV1"])}
        for row in obj["metadata"].get("managedFields", ())
    }


def refused(*args: Any, **more: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        put(*args, **more)
    return caught.value


def test_the_first_apply_creates() -> None:
    made = put(None, cm({"a": "1"}, labels={"l": "x"}))
    row = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:01Z"}
    fields = {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}
    assert made["metadata"].pop("managedFields") == [row | {"fieldsType": "FieldsV1", "fieldsV1": fields}]
    assert made == cm({"a": "1"}, labels={"l": "x"})


def test_one_conflict() -> None:
    error = refused(put(None, cm({"a": "1"}), "m1"), cm({"a": "2"}), "m2")
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"}
    assert error.details == {"causes": [cause]}


def test_several_conflicts_by_manager() -> None:
    live = put(put(None, cm({"a": "1", "b": "1"}), "m2"), cm({"c": "1"}), "m1")
    track_live = deepcopy(live)
    track_live["data"]["d"] = "1"
    track(live, track_live, manager="k", api_version="v1", time="x", structure=CONFIGMAP, subresource="status")
    error = refused(track_live, cm({"a": "2", "b": "2", "c": "2", "d": "2"}), "m3")
    assert error.message == (
        'Apply failed with 4 conflicts: conflicts with "k" with subresource "status" using v1:\n- .data.d\n'
        'conflicts with "m1":\n- .data.c\nconflicts with "m2":\n- .data.a\n- .data.b'
    )
    assert [cause["field"] for cause in error.details["causes"]] == [".data.d", ".data.c", ".data.a", ".data.b"]


def test_force_takes_ownership() -> None:
    live = put(put(None, cm({"a": "1", "b": "1"}), "m1"), cm({"a": "2"}), "m2", 2, force=True)
    assert live["data"] == {"a": "2", "b": "1"}
    assert entries(live) == {"m1": {"data.b"}, "m2": {"data.a"}}


def test_equal_values_are_shared_and_outlive_one_owner() -> None:
    live = put(put(None, cm({"a": "1"}), "m1"), cm({"a": "1"}), "m2", 2)
    assert entries(live) == {"m1": {"data.a"}, "m2": {"data.a"}}
    live = put(live, cm({}), "m1", 3)
    assert live["data"] == {"a": "1"}
    assert put(live, cm(), "m2", 4).get("data") is None


def test_what_is_left_out_is_removed_and_what_nobody_applied_stays() -> None:
    live = put(None, cm({"a": "1", "b": "1"}))
    live["data"]["unowned"] = "1"
    assert put(live, cm({"a": "1"}), "m", 2)["data"] == {"a": "1", "unowned": "1"}


def test_an_apply_that_changes_nothing_gives_the_same_object() -> None:
    live = put(None, cm({"a": "1"}))
    assert put(live, cm({"a": "1"}), "m", 9) is live


def test_what_was_there_before_the_first_apply_has_an_owner() -> None:
    live = cm({"a": "1", "b": "1"}, uid="u")
    error = refused(live, cm({"a": "2"}))
    assert error.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    done = put(live, cm({"a": "2"}), force=True)
    assert entries(done) == {"m": {"data.a"}, "before-first-apply": {"data", "data.b"}}


def test_managed_fields_cannot_be_applied() -> None:
    error = refused(None, cm({}, managedFields=[]))
    assert (error.code, error.message) == (400, "metadata.managedFields must be nil")


def test_another_version_cannot_be_applied() -> None:
    error = refused(None, cm({}) | {"apiVersion": "v2"})
    assert error.code == 400
    assert error.message == ("Incorrect version specified in apply patch. Specified patch version: v2, expected: v1")


def test_what_has_no_place_in_the_schema_is_refused_with_its_path() -> None:
    error = refused(None, cm({}) | {"zzz": 1})
    assert error.code == 400
    told = "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .zzz: field not declared in schema"
    assert error.message == told


def deployment(containers: list[Object], **spec: Any) -> Object:
    template = {"spec": {"containers": containers}}
    selector = {"matchLabels": {"a": "b"}}
    found: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    return found | {"spec": {"selector": selector, "template": template} | spec}


APPS: dict[str, Any] = {"api_version": "apps/v1", "structure": DEPLOYMENT}


def images(obj: Object) -> list[tuple[str, str]]:
    return [(row["name"], row.get("image", "")) for row in obj["spec"]["template"]["spec"]["containers"]]


def test_items_of_lists_are_merged_by_key_and_named_in_conflicts() -> None:
    live = put(None, deployment([{"name": "c", "image": "1"}]), "m1", **APPS)
    error = refused(live, deployment([{"name": "c", "image": "2"}]), "m2", **APPS)
    path = '.spec.template.spec.containers[name="c"].image'
    assert error.message == f'Apply failed with 1 conflict: conflict with "m1": {path}'
    both = put(live, deployment([{"name": "s", "image": "9"}]), "m2", 2, **APPS)
    assert images(both) == [("c", "1"), ("s", "9")]
    assert images(put(both, deployment([]), "m2", 3, **APPS)) == [("c", "1")]


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        ("abc", "", "abc"),
        ("", "abc", "abc"),
        ("abc", "cba", "cba"),
        ("abc", "ac", "abc"),
        ("xayb", "ba", "xyba"),
        ("ab", "xb", "axb"),
        ("ab", "bx", "abx"),
        ("abcd", "xcy", "abxcdy"),
        ("ab", "xy", "abxy"),
    ],
)
def test_applied_items_keep_the_order_of_the_configuration(live: str, applied: str, result: str) -> None:
    now = put(None, deployment([{"name": name} for name in live]), "m1", **APPS)
    out = put(now, deployment([{"name": name} for name in applied]), "m2", **APPS)
    assert "".join(name for name, _ in images(out)) == result


def test_items_that_a_live_list_names_twice_stay_until_they_are_applied() -> None:
    live = deployment([{"name": "c", "image": "1"}, {"name": "d"}, {"name": "c", "image": "2"}])
    assert images(put(live, deployment([{"name": "e"}]), force=True, **APPS))[:3] == [("c", "1"), ("d", ""), ("c", "2")]
    assert images(put(live, deployment([{"name": "c"}]), force=True, **APPS)) == [("c", "1"), ("d", "")]


def test_defaulted_keys_name_the_same_item() -> None:
    def service(*ports: Object) -> Object:
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": list(ports)}}

    live = put(None, service({"port": 80, "name": "a"}), structure=SERVICE)
    live["spec"]["ports"][0]["protocol"] = "TCP"  # the default, filled in after the apply
    error = refused(live, service({"port": 80, "name": "b"}), "m2", structure=SERVICE)
    assert error.details["causes"][0]["field"] == '.spec.ports[port=80,protocol="TCP"].name'
    udp = put(live, service({"port": 80, "protocol": "UDP"}), "m2", structure=SERVICE)
    assert len(udp["spec"]["ports"]) == 2


def test_sets_are_merged_and_members_removed() -> None:
    live = put(put(None, cm(finalizers=["a", "b"]), "m1"), cm(finalizers=["c"]), "m2")
    assert live["metadata"]["finalizers"] == ["a", "b", "c"]
    assert put(live, cm(finalizers=["b"]), "m1", 2)["metadata"]["finalizers"] == ["b", "c"]


def test_atomic_values_are_one_leaf() -> None:
    live = put(None, deployment([{"name": "c"}]), "m1", **APPS)
    other = deployment([{"name": "c"}])
    other["spec"]["selector"] = {"matchLabels": {"a": "b", "c": "d"}}
    error = refused(live, other, "m2", **APPS)
    assert error.details["causes"][0]["field"] == ".spec.selector"
    assert put(live, other, "m2", force=True, **APPS)["spec"]["selector"] == other["spec"]["selector"]


def test_what_an_endpoint_never_writes_is_ignored() -> None:
    config = deployment([{"name": "c"}]) | {"status": {"replicas": 9}}
    main: Any = APPS | {"reset": reset_fields("", True)}
    live = put(None, config, **main)
    assert "status" not in live and "status.replicas" not in entries(live)["m"]
    live["status"] = {"replicas": 1}
    assert put(live, config, "m", 2, **main) is live
    status: Any = APPS | {"reset": reset_fields("status", True), "subresource": "status"}
    done = put(live, config, "k", 2, **status)
    assert done["status"] == {"replicas": 9}
    assert entries(done)["k"] == {"status.replicas"}


def client_side(data: dict[str, str], last: dict[str, str] | None = None) -> Object:
    """A config map as client-side apply leaves it."""
    annotation = msgspec.json.encode(cm(data if last is None else last)).decode()
    out = cm(dict(data), annotations={LAST_APPLIED: annotation})
    kept: Any = {"api_version": "v1", "structure": CONFIGMAP, "time": "2026-01-01T00:00:00Z"}
    track(None, out, manager="kubectl-client-side-apply", **kept)
    return out


def test_kubectl_takes_over_what_its_client_side_apply_owns() -> None:
    live = client_side({"a": "1", "b": "1"})
    done = put(live, cm({"a": "2", "b": "1"}), "kubectl", 2)
    assert done["data"] == {"a": "2", "b": "1"}
    assert entries(done)["kubectl"] == {"data.a", "data.b"}
    assert "data.a" not in entries(done)["kubectl-client-side-apply"]
    last = msgspec.json.decode(done["metadata"]["annotations"][LAST_APPLIED])
    assert last["data"] == {"a": "2", "b": "1"}
    using = 'conflict with "kubectl-client-side-apply" using v1: .data.a'
    assert refused(live, cm({"a": "2"}), "other").message == f"Apply failed with 1 conflict: {using}"


def test_kubectl_does_not_take_what_was_changed_since() -> None:
    live = client_side({"a": "changed", "b": "1"}, last={"a": "1", "b": "1"})
    error = refused(live, cm({"a": "2", "b": "2"}), "kubectl")
    assert error.message.endswith('conflict with "kubectl-client-side-apply" using v1: .data.a')


FOO = custom(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                    "null": {"type": "string", "nullable": True},
                    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "mode": {"type": "string"},
                },
            }
        },
    }
)


def foo(**spec: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": spec}


CUSTOM: dict[str, Any] = {"api_version": "example.com/v1", "structure": FOO}


def test_custom_resources_follow_their_schema() -> None:
    one = put(None, foo(tags=["a"], any={"k": {"l": 1}}, list=[{"x": 1}], map={"p": 1}), "m1", **CUSTOM)
    two = put(one, foo(tags=["b"], any={"k": {"m": 2}}, map={"q": 2}, null=None, mode=None), "m2", **CUSTOM)
    merged = foo(tags=["a", "b"], any={"k": {"l": 1, "m": 2}}, list=[{"x": 1}], map={"p": 1, "q": 2}, null=None)
    assert two["spec"] == merged["spec"]
    assert refused(two, foo(list=[]), "m2", **CUSTOM).details["causes"][0]["field"] == ".spec.list"
    three = put(two, foo(), "m1", **CUSTOM)
    assert three["spec"] == {"tags": ["b"], "any": {"k": {"m": 2}}, "map": {"q": 2}, "null": None}


values = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1, max_size=3)
items = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("xyz")}, optional={"image": st.sampled_from("12")}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
configurations = st.fixed_dictionaries(
    {}, optional={"labels": values, "replicas": st.sampled_from([1, 2]), "containers": items, "selector": values}
)
steps = st.tuples(st.sampled_from(["m", "n", "o"]), configurations, st.booleans())


def configured(parts: Any) -> Object:
    found: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    spec: Object = {}
    if "labels" in parts:
        found["metadata"]["labels"] = parts["labels"]
    if "replicas" in parts:
        spec["replicas"] = parts["replicas"]
    if "selector" in parts:
        spec["selector"] = {"matchLabels": parts["selector"]}
    if parts.get("containers"):
        spec["template"] = {"spec": {"containers": parts["containers"]}}
    return found | {"spec": spec} if spec else found


def value_at(obj: Any, path: tuple[str, ...], at: Structure | None) -> Any:
    """The value at a path of a field set."""
    for key in path:
        if key.startswith("f:"):
            obj, at = obj[key[2:]], at.child(key[2:]) if at else None
        else:
            wanted = msgspec.json.decode(key[2:])
            obj = next(item for item in obj if wanted.items() <= item.items())
            at = at.element if at else None
    return obj


def plain(obj: Any) -> Any:
    """An object without managers, empty maps and the order of items."""
    if isinstance(obj, dict):
        found = {key: plain(value) for key, value in obj.items() if key != "managedFields"}
        return {key: value for key, value in found.items() if value not in ({}, [])}
    if isinstance(obj, list):
        return sorted(map(plain, obj), key=lambda item: msgspec.json.encode(item, order="sorted"))
    return obj


@given(st.lists(steps, min_size=1, max_size=6))
def test_what_a_manager_owns_has_the_value_that_it_applied(script: list[tuple[str, Any, bool]]) -> None:
    live: Object | None = None
    last: dict[str, Object] = {}
    for time, (manager, parts, force) in enumerate(script):
        config = configured(parts)
        try:
            live = put(live, config, manager, time, force=force, **APPS)
        except StatusError as error:
            assert error.code == 409 and not force
            continue
        last[manager] = config
        assert put(live, config, manager, time + 9, **APPS) is live
        for row in live["metadata"].get("managedFields", ()):
            for path in members(row["fieldsV1"]):
                mine, found = (value_at(obj, path, DEPLOYMENT) for obj in (last[row["manager"]], live))
                assert isinstance(found, dict | list) or mine == found
        held = {row["manager"] for row in live["metadata"].get("managedFields", ())}
        assert held <= set(last)


@given(configurations, configurations)
def test_applied_and_taken_back_is_never_applied(first: Any, second: Any) -> None:
    base = put(None, configured(first), "m", 1, **APPS)
    try:
        both = put(base, configured(second), "n", 2, **APPS)
    except StatusError:
        return
    back = put(both, configured({}), "n", 3, **APPS)
    assert plain(back) == plain(base)
    assert entries(back) == entries(base)


@given(configurations, configurations)
def test_managers_that_agree_may_come_in_any_order(first: Any, second: Any) -> None:
    a, b = configured(first), configured(second)
    try:
        one = put(put(None, a, "m", 1, **APPS), b, "n", 1, **APPS)
    except StatusError:
        with pytest.raises(StatusError):
            put(put(None, b, "n", 1, **APPS), a, "m", 1, **APPS)
        return
    two = put(put(None, b, "n", 1, **APPS), a, "m", 1, **APPS)
    assert plain(one) == plain(two)
    assert entries(one) == entries(two)
