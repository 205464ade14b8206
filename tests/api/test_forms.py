"""Which form an answer has, and what it looks like there."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.api.shelf import CONFIGMAPS, PODS, content, exchange, listed, names, shelf, thing, watched

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import forms, lists, watching, yaml_text
from dashpot.runtime.api.accept import JSON, MANY, ONE, PARTIAL, TABLE, YAML, Form, negotiate
from dashpot.runtime.api.conversion import Conversion
from dashpot.runtime.api.stored import Stored

KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/*", Form()),
        ("application/json, */*", Form()),
        ("application/yaml", Form(YAML)),
        ("application/json;q=0.5, application/yaml", Form(YAML)),
        ("application/yaml;q=0.5, application/json;q=0.9", Form(JSON)),
        ("application/vnd.kubernetes.protobuf,application/json", Form(JSON)),
        ("application/vnd.kubernetes.protobuf, */*", Form(JSON)),
        ("application/cbor, application/json;q=0.9", Form(JSON)),
        (KUBECTL, Form(JSON, TABLE, "v1")),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", Form(JSON)),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form(JSON, TABLE, "v1beta1")),
        ("application/json; as=PartialObjectMetadata; v=v1; g=meta.k8s.io", Form(JSON, PARTIAL, "v1")),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Form(YAML, TABLE, "v1")),
        ("APPLICATION/JSON;charset=utf-8", Form(JSON)),
        ("application/json;stream=watch", Form(JSON)),
    ],
)
def test_the_accept_header_chooses(header: str, form: Form) -> None:
    assert negotiate(header, ONE) == form


@pytest.mark.parametrize(
    "header",
    [
        "text/html",
        "application/vnd.kubernetes.protobuf",
        "application/json;q=0",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=apps",
        "x" * 9000,
    ],
)
def test_what_cannot_be_made_is_406(header: str) -> None:
    with pytest.raises(StatusError) as refused:
        negotiate(header, ONE)
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")
    assert "only the following media types are accepted: application/json" in refused.value.message


def test_a_list_may_be_asked_for_as_metadata_under_both_names() -> None:
    for name in ("PartialObjectMetadataList", "PartialObjectMetadata"):
        assert negotiate(f"application/json;as={name};v=v1;g=meta.k8s.io", MANY).shape == PARTIAL


def stored(obj: dict[str, Any], revision: int = 7) -> Stored:
    """An object as it comes out of the store."""
    keyed = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **obj}
    keyed["metadata"] = {"resourceVersion": str(revision), **obj["metadata"]}
    return Stored("/registry/x/n/a", "n", "a", revision, revision, msgspec.json.encode(keyed))


def test_one_object_in_each_form() -> None:
    obj = stored(thing("a", kind="Pod"))
    plain = exchange()
    response = forms.render(plain, PODS, obj, 201)
    assert (response.code, response.body, response.content_type) == (201, obj.raw, JSON)
    assert plain.response_object is obj.raw
    text = forms.render(exchange(accept=YAML), PODS, obj, 200)
    assert text.content_type == YAML and yaml.safe_load(text.body) == obj.object
    table = msgspec.json.decode(forms.render(exchange(accept=KUBECTL), PODS, obj, 200).body)
    assert table["kind"] == "Table" and table["metadata"] == {"resourceVersion": "7"}
    assert [row["cells"][0] for row in table["rows"]] == ["a"]
    part = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    metadata = msgspec.json.decode(forms.render(exchange(accept=part), PODS, obj, 200).body)
    assert metadata == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.object["metadata"],
    }
    pretty = forms.render(exchange("pretty=true"), PODS, obj, 200).body
    assert pretty.startswith(b"{\n  ") and msgspec.json.decode(pretty) == obj.object
    dry = forms.render(exchange(), PODS, thing("a", kind="Pod"), 200)
    assert msgspec.json.decode(dry.body) == thing("a", kind="Pod")


def test_long_objects_are_zipped_for_those_who_ask() -> None:
    obj = stored({**thing("a"), "data": {"x": "y" * 200_000}})
    zipped = forms.render(exchange(headers={"accept-encoding": "gzip, deflate"}), CONFIGMAPS, obj, 200)
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == obj.raw
    assert forms.render(exchange(), CONFIGMAPS, obj, 200).body is obj.raw


TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["1e3", "1_000", "0o14", "0x1f", "yes", "on", "~", "null", "2020-01-01", "1:30", ".5", "-", "+1"]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=3))
def test_yaml_reads_back_as_what_was_written(obj: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text.dump(obj)) == obj
    assert yaml.safe_load(b"items:\n" + yaml_text.item(obj))["items"] == [obj]


@pytest.mark.parametrize("text", ["1e3", "12e5", "0o14", "1_000", "-1E+3", "0x1f", "123", "1.5"])
def test_texts_that_other_readers_take_for_numbers_are_quoted(text: str) -> None:
    assert yaml_text.dump({"a": text}) == f"a: '{text}'\n".encode()


def resource(group: str, version: str, kind: str, plural: str, **more: Any) -> Resource:
    """A namespaced resource."""
    return Resource(group, version, kind, plural, kind.lower(), True, **more)


SCALER_V1 = resource(
    "autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
    storage_group="autoscaling", storage_version="v2",
)  # fmt: skip
SCALER_V2 = resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
    storage_group="autoscaling", storage_version="v2",
)  # fmt: skip


def test_objects_are_shown_in_the_version_that_was_asked_for() -> None:
    async def main() -> None:
        storage = shelf(SCALER_V2)
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
        spec = {
            "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": cpu}],
        }
        made = await storage.create("n", "a", {"metadata": {"name": "a"}, "spec": spec})
        shown = msgspec.json.decode(forms.render(exchange(), SCALER_V1, made, 200).body)
        assert shown["apiVersion"] == "autoscaling/v1"
        assert shown["spec"]["targetCPUUtilizationPercentage"] == 80
        assert shown["metadata"]["resourceVersion"] == str(made.revision)
        answer = await lists.list_response(exchange(), SCALER_V1, storage)
        items = msgspec.json.decode(content(answer))["items"]
        assert items == [shown]
        await storage.cache.close()

    asyncio.run(main())


def custom(version: str) -> Resource:
    """A custom resource, stored as v1."""
    return resource("e.io", version, "Widget", "widgets", storage_group="e.io", storage_version="v1", custom=True)


def test_custom_versions_differ_by_name_or_by_webhook() -> None:
    async def main() -> None:
        storage = shelf(custom("v1"))
        obj = {"apiVersion": "e.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"x": 1}}
        made = await storage.create("n", "a", obj)
        shown = Conversion(custom("v2")).one(made)
        assert shown.object == {**made.object, "apiVersion": "e.io/v2"}
        assert Conversion(custom("v1")).one(made) is made
        calls = []

        async def webhook(objects: Any, version: str) -> list[Any]:
            calls.append(len(objects))
            return [{**o, "apiVersion": version, "spec": {"y": o["spec"]["x"]}} for o in objects]

        conversion = Conversion(custom("v3"), webhook)
        with pytest.raises(StatusError):
            conversion.one(made)
        await conversion.prepare([made, made])
        assert conversion.one(made).object["spec"] == {"y": 1}
        gone = made.deleted_at(99)
        assert conversion.one(gone).object["metadata"]["resourceVersion"] == "99"
        storage.webhook = webhook
        response = await forms.answer(exchange(), custom("v3"), storage, made, 200)
        assert msgspec.json.decode(response.body)["spec"] == {"y": 1}
        assert forms.render(exchange(), custom("v1"), made, 200).body is made.raw
        response = await watching.watch_response(exchange("resourceVersion=0"), custom("v3"), storage)
        assert response.chunks is not None
        event = msgspec.json.decode(await anext(response.chunks))
        assert event["object"]["spec"] == {"y": 1} and event["object"]["apiVersion"] == "e.io/v3"
        await storage.cache.close()

    asyncio.run(main())


def test_custom_columns_are_shown() -> None:
    async def main() -> None:
        columns = ({"name": "X", "type": "integer", "jsonPath": ".spec.x"},)
        widgets = resource(
            "e.io", "v1", "Widget", "widgets", storage_group="e.io", storage_version="v1", custom=True,
            printer_columns=columns, selectable_fields=(".spec.x",),
        )  # fmt: skip
        storage = shelf(widgets)
        for name, x in (("a", 1), ("b", 2)):
            await storage.create("n", name, {"metadata": {"name": name}, "spec": {"x": x}})
        table = await listed(storage, {"fieldSelector": "spec.x=2"}, accept=KUBECTL)
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "X"]
        assert [row["cells"] for row in table["rows"]] == [["b", 2]]
        watch = await watched(storage, {"fieldSelector": "spec.x=1", "resourceVersion": "0"})
        assert [name for _, name, _ in await watch.take(1)] == ["a"]
        await storage.cache.close()

    asyncio.run(main())


def test_fields_are_those_of_the_version_that_was_asked_for() -> None:
    async def main() -> None:
        storage = shelf(resource("", "v1", "Event", "events", storage_group="", storage_version="v1"))
        newer = resource("events.k8s.io", "v1", "Event", "events", storage_group="", storage_version="v1")
        for name in ("a", "b"):
            await storage.create(
                "n", name, {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": name}}
            )
        old = await listed(storage, {"fieldSelector": "involvedObject.name=b,involvedObject.kind=Pod"})
        assert names(old) == ["b"] and "involvedObject" in old["items"][0]
        response = await lists.list_response(exchange({"fieldSelector": "regarding.name=b"}), newer, storage)
        items = msgspec.json.decode(content(response))["items"]
        assert [item["regarding"]["name"] for item in items] == ["b"]
        with pytest.raises(StatusError):
            await lists.list_response(exchange({"fieldSelector": "involvedObject.name=b"}), newer, storage)
        await storage.cache.close()

    asyncio.run(main())
