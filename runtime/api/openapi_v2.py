"""OpenAPI v2: all definitions in one document, as JSON and as the protobuf message that kubectl reads.

kubectl asks for it when it is given a List, on every client-side apply, and for `explain --output=plaintext-openapiv2`.
It reads the definitions and, of the paths, only whether `patch` takes `fieldValidation`: no other path is written.
The protobuf message is openapi.v2.Document of gnostic (openapiv2/OpenAPIv2.proto); its field numbers stand below.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from dashpot.model.objects.registry import COMPONENTS
from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.openapi_paths import DRY_RUN, FORCE, MANAGER, NAME, NAMESPACE, PATCHES, VALIDATION
from dashpot.runtime.api.openapi_v3 import custom_components

Object = dict[str, Any]

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""How the answer is labelled; clients ask for `spec.v2@v1.0+protobuf`, which Go's mime parser refuses in an answer."""
DEFINITIONS = "#/definitions/"
KINDS = "x-kubernetes-group-version-kind"
# What a schema of v2 cannot say.
V3_ONLY = ("oneOf", "anyOf", "not", "nullable", "deprecated", "writeOnly")


def document_v2(catalog: Catalog) -> Object:
    """The swagger document of everything that is served."""
    registry = catalog.registry
    definitions: Object = {name: downgraded(registry.definition(name)) for name in registry.names()}
    for resource in catalog.custom():
        for name, schema in custom_components(catalog, resource).items():
            definitions[name] = downgraded(schema)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": f"v{registry.release}.0"},
        "paths": dict(_path(resource) for resource in catalog.resources() if "patch" in resource.verbs),
        "definitions": definitions,
    }


def downgraded(schema: Any) -> Any:
    """A v3 schema as v2 can say it: a choice of types becomes a string (quantities, ports) or anything."""
    if isinstance(schema, list):
        return [downgraded(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        rest = {"description": schema["description"]} if "description" in schema else {}
        return {"$ref": schema["$ref"].replace(COMPONENTS, DEFINITIONS), **rest}
    if "oneOf" in schema and schema.get("format") in ("quantity", "int-or-string"):
        kept = {"type": "string"} if schema["format"] == "quantity" else {"type": "string", "format": schema["format"]}
        return {**kept, **({"description": schema["description"]} if "description" in schema else {})}
    whole = schema.get("allOf")
    if isinstance(whole, list) and len(whole) == 1 and isinstance(whole[0], dict) and "$ref" in whole[0]:
        return downgraded({**whole[0], **{key: value for key, value in schema.items() if key != "allOf"}})
    return {key: _field(key, value) for key, value in schema.items() if key not in V3_ONLY}


def _field(key: str, value: Any) -> Any:
    """One keyword; names of properties are no keywords."""
    if key == "properties" and isinstance(value, dict):
        return {name: downgraded(part) for name, part in value.items()}
    if key in ("default", "enum", "example") or key.startswith("x-"):
        return value
    return downgraded(value)


def _path(resource: Resource) -> tuple[str, Object]:
    base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    place = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    names = [NAME, NAMESPACE] if resource.namespaced else [NAME]
    asked = [_old(parameter) for parameter in (DRY_RUN, MANAGER, VALIDATION, FORCE)]
    operation = {
        "description": f"change parts of one {resource.kind}",
        "consumes": list(PATCHES[:3] if resource.custom else PATCHES),
        "produces": ["application/json"],
        "parameters": asked,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        KINDS: {"group": resource.group, "kind": resource.kind, "version": resource.version},
    }
    item = {"patch": operation, "parameters": [_old(parameter) for parameter in names]}
    return f"{place}/{resource.plural}/{{name}}", item


def _old(parameter: Object) -> Object:
    """A parameter of v3 as v2 has it: the type beside the name."""
    rest = {key: value for key, value in parameter.items() if key != "schema"}
    return {**rest, "type": parameter["schema"]["type"], "uniqueItems": True}


# --- the wire format -------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(number: int, data: bytes) -> bytes:
    """A field that is bytes, a string or a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _block(number, value.encode())


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _flag(number: int, value: Any) -> bytes:
    return _varint(number << 3) + (b"\x01" if value else b"\x00")


def _count(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    """openapi.v2.Any: the value as YAML, of which JSON is a part."""
    return _block(number, _block(2, msgspec.json.encode(value)))


def _extensions(number: int, whole: Object) -> bytes:
    found = [_text(1, key) + _any(2, value) for key, value in whole.items() if key.startswith("x-")]
    return b"".join(_block(number, entry) for entry in found)


TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
COUNTS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}
FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16, "readOnly": 27}
DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}


def _schema(schema: Object) -> bytes:
    """openapi.v2.Schema."""
    parts: list[bytes] = []
    for key, value in schema.items():
        if key in TEXTS:
            parts.append(_text(TEXTS[key], str(value)))
        elif key in COUNTS:
            parts.append(_count(COUNTS[key], int(value)))
        elif key in FLAGS:
            parts.append(_flag(FLAGS[key], value))
        elif key in DOUBLES:
            parts.append(_double(DOUBLES[key], value))
        elif key == "type":
            parts.append(_block(22, _text(1, value)))
        elif key == "properties":
            parts.append(_block(25, _named_schemas(value)))
        elif key == "additionalProperties":
            inner = _block(1, _schema(value)) if isinstance(value, dict) else _flag(2, value)
            parts.append(_block(21, inner))
        elif key == "items":
            parts.append(_block(23, _block(1, _schema(value))))
        elif key == "required":
            parts.append(_texts(19, value))
        elif key == "default":
            parts.append(_any(5, value))
        elif key == "enum":
            parts += [_any(20, choice) for choice in value]
        elif key == "allOf":
            parts += [_block(24, _schema(part)) for part in value]
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _named_schemas(schemas: Object) -> bytes:
    """Definitions and Properties: repeated NamedSchema."""
    return b"".join(_block(1, _text(1, name) + _block(2, _schema(schema))) for name, schema in schemas.items())


def _parameter(parameter: Object) -> bytes:
    """ParametersItem of a query or path parameter."""
    if parameter["in"] == "path":
        inner = _flag(1, True) + _text(2, "path") + _text(3, parameter["description"]) + _text(4, parameter["name"])
        inner = _block(4, inner + _text(5, parameter["type"]) + _flag(19, True))
    else:
        inner = _text(2, "query") + _text(3, parameter["description"]) + _text(4, parameter["name"])
        inner = _block(3, inner + _text(6, parameter["type"]) + _flag(20, True))
    return _block(1, _block(2, inner))


def _operation(operation: Object) -> bytes:
    responses = b"".join(
        _block(1, _text(1, code) + _block(2, _block(1, _text(1, answer["description"]))))
        for code, answer in operation["responses"].items()
    )
    parts = [_text(3, operation["description"]), _texts(6, operation["produces"]), _texts(7, operation["consumes"])]
    parts += [_block(8, _parameter(parameter)) for parameter in operation["parameters"]]
    return b"".join([*parts, _block(9, responses), _extensions(13, operation)])


def _path_item(item: Object) -> bytes:
    parameters = b"".join(_block(9, _parameter(parameter)) for parameter in item["parameters"])
    return _block(8, _operation(item["patch"])) + parameters


def encode_v2(document: Object) -> bytes:
    """openapi.v2.Document of a document that `document_v2` made."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(
        _block(2, _text(1, name) + _block(2, _path_item(item))) for name, item in document["paths"].items()
    )
    definitions = _named_schemas(document["definitions"])
    return _text(1, document["swagger"]) + _block(2, info) + _block(8, paths) + _block(9, definitions)
