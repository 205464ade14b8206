"""Answers in the form that the client asked for: JSON, YAML, Table rows or metadata alone; long ones zipped.

Source: k8s.io/apiserver pkg/endpoints/handlers/response.go and responsewriters/writers.go, release 1.34.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dashpot.model.objects import table
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import bad_request
from dashpot.model.objects.table import SCALE, Printer
from dashpot.runtime.api import body as bodies
from dashpot.runtime.api import yaml_text
from dashpot.runtime.api.accept import JSON, ONE, PARTIAL, TABLE, YAML, Form, negotiate
from dashpot.runtime.api.conversion import Conversion
from dashpot.runtime.api.exchange import Exchange, Request, Response
from dashpot.runtime.api.stored import Stored

if TYPE_CHECKING:
    from dashpot.runtime.api.storage import Storage

Object = dict[str, Any]

GZIP_FROM = 128 * 1024
"""Bytes from which an answer is zipped for a client that accepts it (upstream's limit)."""
_GZIP_LEVEL = 1
"""Upstream's level: four times faster than the usual one, and nearly as small for JSON."""


class Packer(Protocol):
    """A stream that is being zipped."""

    def compress(self, data: bytes, /) -> bytes:
        """Takes a part; gives what is ready."""
        ...

    def flush(self) -> bytes:
        """The rest."""
        ...


_ENCODER = msgspec.json.Encoder()


def encode(obj: Any) -> bytes:
    """JSON."""
    return _ENCODER.encode(obj)


def include_object(request: Request) -> str:
    """What a Table's rows carry beside their cells: Metadata, Object or None; StatusError 400 for anything else."""
    asked = request.get("includeObject") or "Metadata"
    if asked not in ("Metadata", "Object", "None"):
        raise bad_request(f'unrecognized includeObject value: "{asked}"')
    return asked


def partial(obj: Object, form: Form) -> Object:
    """The metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": obj["metadata"]}


def partial_raw(stored: Stored, form: Form) -> bytes:
    """The metadata alone, as JSON."""
    start = b'{"kind":"PartialObjectMetadata","apiVersion":"%s","metadata":' % form.api_version.encode()
    return b"".join((start, stored.metadata, b"}"))


@lru_cache(maxsize=1024)
def printer(resource: Resource) -> Printer:
    """How a resource is shown in a Table; compiled once."""
    return table.printer(resource, resource.printer_columns)


def table_of(form: Form, metadata: Object, columns: list[Object] | None, rows: list[Object]) -> Object:
    """A Table; without columns where they were told before."""
    return {
        "kind": "Table",
        "apiVersion": form.api_version,
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    }


def shaped(form: Form, resource: Resource, obj: Object, now: float, include: str, *, columns: bool = True) -> Object:
    """One object in a form's shape."""
    if form.shape == PARTIAL:
        return partial(obj, form)
    if form.shape == TABLE:
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        shown = printer(resource)
        told = shown.definitions if columns else None
        return table_of(form, metadata, told, [shown.line(obj, now, include)])
    return obj


def render(exchange: Exchange, resource: Resource, found: Stored | Object, code: int) -> Response:
    """The answer of a get, create or update in the form that the client accepts."""
    request = exchange.request
    form = negotiate(request.headers.get("accept", ""), ONE)
    if isinstance(found, Stored):
        found = Conversion(resource).one(found)
        exchange.response_object = found.raw
        if form.plain and form.media == JSON and not request.get("pretty"):
            return body(request, found.raw, code)
        obj = found.object
    else:
        exchange.response_object = obj = found
    shown = shaped(form, resource, obj, exchange.arrived, include_object(request))
    return body(request, text(form, request, shown), code, form.media)


async def answer(exchange: Exchange, resource: Resource, storage: Storage, found: Stored, code: int) -> Response:
    """`render`, for objects that a webhook may have to convert to the version that was asked for."""
    if storage.webhook is not None:
        await Conversion(resource, storage.webhook).prepare([found])
    return render(exchange, resource, found, code)


def render_plain(exchange: Exchange, obj: Object, code: int) -> Response:
    """An answer that has one form only (a review, a Scale, a Status), as JSON or YAML."""
    request = exchange.request
    form = negotiate(request.headers.get("accept", ""), ONE)
    exchange.response_object = obj
    shown = (
        SCALE.row(obj, exchange.arrived, include_object(request))
        if form.shape == TABLE and obj.get("kind") == "Scale"
        else obj
    )
    return body(request, text(form, request, shown), code, form.media)


async def read_review(exchange: Exchange, resource: Resource) -> Object:
    """The body of a request that is answered and not stored: of the resource's kind, or of its subresource's."""
    obj, _ = await bodies.raw_object(exchange)
    sub = resource.subresource(exchange.info.subresource) if exchange.info.subresource else None
    kind = sub.kind if sub is not None else resource.kind
    found = obj.get("kind") or kind
    if found != kind:
        raise bad_request(f"{found} cannot be handled as a {kind}")
    obj["kind"] = kind
    if not obj.get("apiVersion"):
        group, version = (sub.group, sub.version) if sub is not None else (resource.group, resource.version)
        obj["apiVersion"] = f"{group}/{version}" if group else version
    return obj


def text(form: Form, request: Request, obj: Any) -> bytes:
    """A value as the media type of a form says it."""
    if form.media == YAML:
        return yaml_text.dump(obj)
    raw = encode(obj)
    return msgspec.json.format(raw, indent=2) + b"\n" if request.flag("pretty") else raw


def body(request: Request, raw: bytes, code: int, media: str = JSON) -> Response:
    """A whole body, zipped where that is worth it."""
    if len(raw) >= GZIP_FROM and accepts_gzip(request):
        stream = packer()
        return Response(code, stream.compress(raw) + stream.flush(), media, dict(GZIPPED))
    return Response(code, raw, media)


GZIPPED = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}


def accepts_gzip(request: Request) -> bool:
    """Whether the client can read gzip."""
    header = request.headers.get("accept-encoding", "")
    return "gzip" in header and "gzip;q=0" not in header.replace(" ", "")


def packer() -> Packer:
    """A new gzip stream."""
    return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
