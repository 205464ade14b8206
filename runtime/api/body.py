"""Request bodies to objects: JSON, YAML and protobuf; unknown fields told, warned of or ignored as the client asked."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import yaml

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema import decode_json, shape
from dashpot.model.objects.schema_json import LARGE, TOLD, check_bulk
from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api import protobuf
from dashpot.runtime.api.exchange import Exchange
from dashpot.runtime.api.kind import Kind

Object = dict[str, Any]

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
YAML_DEPTH = 100
YAML_NODES = 200_000
_WRONG_TYPE = (
    f"the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}, {PROTOBUF}"
)


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """YAML as Kubernetes reads it: times stay strings, keys are strings, no aliases that multiply."""


_NUMBERS = {
    # without YAML 1.1's sexagesimal numbers (1:59:59): Kubernetes' reader has none, and PyYAML's take quadratic time
    "int": r"[-+]?(?:0b[0-1_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)",
    "float": r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
_PATTERNS = {f"tag:yaml.org,2002:{name}": re.compile(f"^(?:{text})$") for name, text in _NUMBERS.items()}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, _PATTERNS.get(tag, pattern)) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_yaml(body: bytes) -> Any:
    """One YAML document as JSON values; 400 for what is none, or has aliases (a page of them unfolds to gigabytes)."""
    try:
        depth = nodes = 0
        for event in yaml.parse(body, Loader=_Loader):
            nodes += 1
            if isinstance(event, yaml.AliasEvent):
                raise bad_request("error converting YAML to JSON: aliases are not accepted")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > YAML_DEPTH or nodes > YAML_NODES:
                raise bad_request("error converting YAML to JSON: the document is too deep or too long")
        return _jsonable(yaml.load(body, Loader=_Loader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())[:300]
        raise bad_request(f"error converting YAML to JSON: yaml: {told}") from None


async def read_yaml(body: bytes) -> Any:
    """`load_yaml`; a large document, which takes seconds, is read beside the other requests."""
    return load_yaml(body) if len(body) < LARGE else await asyncio.to_thread(load_yaml, body)


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else msgspec.json.encode(key).decode(): _jsonable(v) for key, v in value.items()
        }
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value


def media_type(exchange: Exchange) -> str:
    """The body's type without parameters; JSON where none is named."""
    named = exchange.request.headers.get("content-type", "")
    return named.partition(";")[0].strip().lower() or JSON


async def read(exchange: Exchange, kind: Kind, *, empty: Object | None = None) -> Object:
    """The body as an object of the kind, its unknown fields dealt with; defaults are not filled in yet."""
    obj = await raw_object(exchange, empty=empty)
    return check(exchange, kind, *obj)


async def raw_object(exchange: Exchange, *, empty: Object | None = None) -> tuple[Object, list[str]]:
    """The body as an object of any kind, and the fields that it names twice."""
    body = await exchange.request.read()
    media = media_type(exchange)
    if not body:
        if empty is not None:
            return empty, []
        raise bad_request("unable to decode an empty body")
    doubles: list[str] = []
    found: Any
    if media == JSON:
        found = decode_json(body, doubles)
    elif media in (YAML, "application/x-yaml", "text/yaml"):
        found = await read_yaml(body)
    elif media == PROTOBUF:
        found = protobuf.decode(body)
    else:
        raise StatusError("UnsupportedMediaType", _WRONG_TYPE)
    if media != JSON and len(body) > LARGE:
        check_bulk(found)
    if not isinstance(found, dict):
        raise bad_request("the body is no object")
    return found, doubles


async def read_aside(exchange: Exchange, group: str, version: str, kind: str) -> Object:
    """The body of a subresource that has a kind of its own (Scale, Binding, Eviction), its types checked."""
    return aside((await raw_object(exchange))[0], group, version, kind)


def aside(obj: Object, group: str, version: str, kind: str) -> Object:
    """`obj` with its types checked and with metadata, in place; unknown fields are dropped as upstream drops them."""
    shape(group, version, kind, builtin()).decode(obj)
    obj.setdefault("metadata", {})
    return obj


def validation(exchange: Exchange) -> str:
    """`fieldValidation`: Strict, Warn or Ignore."""
    asked = exchange.request.get("fieldValidation")
    if asked not in ("", "Strict", "Warn", "Ignore"):
        raise StatusError(
            "Invalid",
            f' "" is invalid: fieldValidation: Unsupported value: "{asked}": '
            'supported values: "Ignore", "Strict", "Warn"',
        )
    return asked or "Warn"


def check(exchange: Exchange, kind: Kind, obj: Object, doubles: list[str]) -> Object:
    """Sees that the object is of the kind, and drops or refuses the fields that it does not have."""
    mode = validation(exchange)
    identify(kind.resource, obj)
    unknown = kind.decode(obj)
    if (doubles or unknown) and mode != "Ignore":
        told = [*(f'duplicate field "{path}"' for path in doubles), *unknown][:TOLD]
        if mode == "Strict":
            raise bad_request(
                f'{kind.resource.kind} in version "{kind.resource.version}" cannot be handled as a '
                f"{kind.resource.kind}: strict decoding error: {', '.join(told)}"
            )
        for text in told:
            exchange.warn(text)
    return obj


def identify(resource: Resource, obj: Object) -> None:
    """Fills in apiVersion and kind, or refuses others."""
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{str(version or "").rpartition("/")[2]}" cannot be handled as a {resource.kind}: '
            f"converting ({kind}) to ({resource.kind}): unknown conversion"
        )
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    obj["kind"] = resource.kind
    obj["apiVersion"] = resource.api_version
