"""OpenAPI documents: what kubectl looks up in them, and how long they are kept."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.api.recording import asked, cron_tab

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.exchange import Response
from dashpot.runtime.api.openapi import OpenAPI
from dashpot.runtime.api.openapi_v2 import PROTOBUF, document_v2, encode_v2

Object = dict[str, Any]

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["cron"],
            "properties": {
                "cron": {"type": "string", "pattern": "^x", "maxLength": 9, "default": "x"},
                "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "share": {"type": "number", "minimum": 0.5, "nullable": True, "enum": [0.5, 1.5]},
                "named": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
            },
        }
    },
}


def custom() -> tuple[Catalog, OpenAPI]:
    catalog = Catalog()
    catalog.add("stable.example.com", [cron_tab("v1", "stable.example.com")], {"v1": SCHEMA})
    return catalog, OpenAPI(catalog)


def got(openapi: OpenAPI, path: str, accept: str = "application/json", query: str = "", **headers: str) -> Response:
    found = openapi.answer(asked(path, accept=accept, query=query, **headers))
    assert found is not None
    return found


def index(openapi: OpenAPI) -> dict[str, str]:
    paths = msgspec.json.decode(got(openapi, "/openapi/v3").body)["paths"]
    return {name: entry["serverRelativeURL"] for name, entry in paths.items()}


def document(openapi: OpenAPI, place: str) -> Any:
    return msgspec.json.decode(got(openapi, f"/openapi/v3/{place}").body)


def test_every_group_version_is_in_the_index_and_can_be_had() -> None:
    catalog, openapi = custom()
    places = index(openapi)
    served = {(r.group, r.version) for r in catalog.resources()}
    assert set(places) == {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in served}
    for place, url in places.items():
        path, query = url.split("?")
        response = got(openapi, path, query=query)
        assert path == f"/openapi/v3/{place}" and response.code == 200
        assert response.headers["ETag"] == f'"{query.removeprefix("hash=")}"'
        assert "immutable" in response.headers["Cache-Control"]
        assert got(openapi, path, query=query, if_none_match=response.headers["ETag"]).code == 304


def test_an_old_hash_is_sent_on_to_the_new_one() -> None:
    _, openapi = custom()
    response = got(openapi, "/openapi/v3/api/v1", query="hash=OLD")
    assert response.code == 301 and response.headers["Location"] == index(openapi)["api/v1"]
    assert "immutable" not in got(openapi, "/openapi/v3/api/v1").headers["Cache-Control"]


def test_gzip_is_the_same_document() -> None:
    _, openapi = custom()
    plain = got(openapi, "/openapi/v3/apis/apps/v1")
    packed = got(openapi, "/openapi/v3/apis/apps/v1", accept_encoding="deflate, gzip;q=0.5")
    assert packed.headers["Content-Encoding"] == "gzip" and gzip.decompress(packed.body) == plain.body
    assert "Content-Encoding" not in got(openapi, "/openapi/v3/api/v1", accept_encoding="gzip;q=0").headers


def test_a_custom_resource_changes_its_own_document_alone() -> None:
    catalog, openapi = custom()
    before = index(openapi)
    catalog.add("stable.example.com", [cron_tab("v1", "stable.example.com")], {"v1": {**SCHEMA, "description": "new"}})
    after = index(openapi)
    assert {place for place in before if before[place] != after[place]} == {"apis/stable.example.com/v1"}
    catalog.remove("stable.example.com", "crontabs")
    assert "apis/stable.example.com/v1" not in index(openapi)
    assert openapi.answer(asked("/openapi/v3/apis/stable.example.com/v1")) is None


@pytest.mark.parametrize("place", ["api/v1", "apis/apps/v1", "apis/autoscaling/v2", "apis/stable.example.com/v1"])
def test_patch_of_each_kind_takes_field_validation(place: str) -> None:
    catalog, openapi = custom()
    paths = document(openapi, place)["paths"]
    found: dict[str, set[str]] = {}
    for item in paths.values():
        for method in ("patch", "post", "put"):
            if method in item:
                kind = item[method]["x-kubernetes-group-version-kind"]["kind"]
                names = {parameter["name"] for parameter in item[method]["parameters"]}
                found.setdefault(kind, set()).update(names)
                assert {"fieldValidation", "dryRun", "fieldManager"} <= names
    group, version = ("", "v1") if place == "api/v1" else place.split("/")[1:]
    kinds = {r.kind for r in catalog.of(group, version) if "patch" in r.verbs}
    assert kinds and kinds <= set(found)


def schemas_in(node: Any) -> Iterator[Object]:
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part
            todo += part.values()
        elif isinstance(part, list):
            todo += part


def test_documents_are_whole_and_references_stand_alone() -> None:
    _, openapi = custom()
    for place in index(openapi):
        whole = document(openapi, place)
        assert whole["openapi"] == "3.0.0"
        components = whole["components"]["schemas"]
        for part in schemas_in(whole):
            assert part["$ref"].removeprefix("#/components/schemas/") in components, f"{place}: {part}"
            assert list(part) == ["$ref"], f"{place}: {part}"


def test_operation_names_are_unique_and_path_parameters_declared() -> None:
    _, openapi = custom()
    seen: set[str] = set()
    for place in index(openapi):
        for path, item in document(openapi, place)["paths"].items():
            declared = {parameter["name"] for parameter in item["parameters"] if parameter["in"] == "path"}
            assert declared == {word[1:-1] for word in path.split("/") if word.startswith("{")}
            for method, operation in item.items():
                if method != "parameters":
                    assert operation["operationId"] not in seen, operation["operationId"]
                    seen.add(operation["operationId"])
                    names = [parameter["name"] for parameter in operation["parameters"]]
                    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("place", "path", "methods"),
    [
        ("api/v1", "/api/v1/namespaces/{namespace}/pods", "delete get post"),
        ("api/v1", "/api/v1/pods", "get"),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", "delete get patch put"),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post"),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}/log", "get"),
        ("api/v1", "/api/v1/namespaces", "get post"),
        ("api/v1", "/api/v1/namespaces/{name}/finalize", "put"),
        ("api/v1", "/api/v1/nodes", "delete get post"),
        ("apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", "get patch put"),
        ("apis/authorization.k8s.io/v1", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "post"),
        (
            "apis/stable.example.com/v1",
            "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}/status",
            "get patch put",
        ),
    ],
)
def test_operations(place: str, path: str, methods: str) -> None:
    _, openapi = custom()
    item = document(openapi, place)["paths"][path]
    assert " ".join(sorted(set(item) - {"parameters"})) == methods


def test_custom_resource_has_its_component_and_that_of_its_list() -> None:
    _, openapi = custom()
    schemas = document(openapi, "apis/stable.example.com/v1")["components"]["schemas"]
    one, many = schemas["com.example.stable.v1.CronTab"], schemas["com.example.stable.v1.CronTabList"]
    kinds = "x-kubernetes-group-version-kind"
    assert one[kinds] == [{"group": "stable.example.com", "version": "v1", "kind": "CronTab"}]
    assert many[kinds] == [{"group": "stable.example.com", "version": "v1", "kind": "CronTabList"}]
    assert one["properties"]["spec"] == SCHEMA["properties"]["spec"]  # type: ignore[index]
    meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert one["properties"]["metadata"]["allOf"] == [{"$ref": meta}]
    assert many["properties"]["items"]["items"] == {"$ref": "#/components/schemas/com.example.stable.v1.CronTab"}


def test_a_schema_that_is_too_deep_is_published_as_any_object() -> None:
    deep: Object = {"type": "string"}
    for _ in range(150):
        deep = {"type": "object", "properties": {"x": deep}}
    catalog = Catalog()
    catalog.add("stable.example.com", [cron_tab("v1", "stable.example.com")], {"v1": deep})
    openapi = OpenAPI(catalog)
    schemas = document(openapi, "apis/stable.example.com/v1")["components"]["schemas"]
    assert schemas["com.example.stable.v1.CronTab"]["x-kubernetes-preserve-unknown-fields"]
    assert got(openapi, "/openapi/v2", PROTOBUF).code == 200


@pytest.mark.parametrize(
    "path", ["/openapi", "/openapi/v3/api/v2", "/openapi/v3/apis/apps", "/openapi/v3/x", "/openapi/v1"]
)
def test_other_paths_are_left_to_others(path: str) -> None:
    assert OpenAPI(Catalog()).answer(asked(path)) is None


@pytest.mark.parametrize("path", ["/openapi/v3", "/openapi/v3/api/v1", "/openapi/v2"])
def test_methods_and_media_types_that_are_refused(path: str) -> None:
    openapi = OpenAPI(Catalog())
    with pytest.raises(StatusError) as caught:
        openapi.answer(asked(path, method="POST"))
    assert caught.value.code == 405
    with pytest.raises(StatusError) as caught:
        openapi.answer(asked(path, accept="text/html"))
    assert caught.value.code == 406


ASKS = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (ASKS, PROTOBUF),
        (PROTOBUF, PROTOBUF),
        (f"{ASKS},application/json", PROTOBUF),
        ("application/json", "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
    ],
)
def test_v2_speaks_both_forms(accept: str, content_type: str) -> None:
    response = got(OpenAPI(Catalog()), "/openapi/v2", accept)
    assert response.content_type == content_type and response.headers["ETag"]


def wire(data: bytes) -> dict[int, list[bytes]]:
    """The length-delimited fields of a protobuf message; numbers are skipped."""
    found: dict[int, list[bytes]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 2:
            size = varint()
            found.setdefault(number, []).append(data[at : at + size])
            at += size
        elif kind == 0:
            found.setdefault(number, []).append(str(varint()).encode())
        else:
            assert kind == 1
            at += 8
    return found


def named(entries: list[bytes]) -> dict[str, bytes]:
    """Repeated (name = 1, value = 2) messages."""
    return {wire(entry)[1][0].decode(): wire(entry)[2][0] for entry in entries}


def test_v2_in_protobuf_says_what_it_says_in_json() -> None:
    catalog, _ = custom()
    whole = document_v2(catalog)
    fields = wire(encode_v2(whole))
    assert fields[1] == [b"2.0"]
    definitions = named(wire(fields[9][0])[1])
    assert set(definitions) == set(whole["definitions"])
    for name, schema in whole["definitions"].items():
        told = wire(definitions[name])
        properties = named(wire(told[25][0]).get(1, [])) if 25 in told else {}
        assert set(properties) == set(schema.get("properties", {})), name
        assert [text.decode() for text in told.get(19, [])] == schema.get("required", []), name
        extensions = named(told.get(31, []))
        assert {key: msgspec.json.decode(wire(value)[2][0]) for key, value in extensions.items()} == {
            key: value for key, value in schema.items() if key.startswith("x-")
        }
    paths = named(wire(fields[8][0])[2])
    assert set(paths) == set(whole["paths"]) and "/api/v1/namespaces/{name}" in paths
    spec = wire(named(wire(wire(definitions["com.example.stable.v1.CronTab"])[25][0])[1])["spec"])
    cron = wire(named(wire(spec[25][0])[1])["cron"])
    assert (cron[13], cron[11], wire(cron[22][0])[1]) == ([b"^x"], [b"9"], [b"string"])
    assert wire(cron[5][0])[2] == [b'"x"']


def test_v2_references_lead_somewhere() -> None:
    catalog, _ = custom()
    whole = document_v2(catalog)
    for part in schemas_in(whole["definitions"]):
        assert part["$ref"].removeprefix("#/definitions/") in whole["definitions"]
    for schema in whole["definitions"].values():
        assert not {"oneOf", "anyOf", "nullable"} & set(schema)
