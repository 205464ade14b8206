"""OpenAPI: /openapi/v3 with one document a group version, and /openapi/v2 with all of them in one.

A document is made when it is first asked for, serialised once and kept, also gzipped, until its group version changes;
its hash is part of its URL, so that clients may keep it for ever. Custom resources are in their group's document as
soon as the catalog has them. Source: kube-openapi pkg/handler3, KEP-2896; apiextensions-apiserver
pkg/controller/openapi/builder, release 1.34.
"""

from __future__ import annotations

import gzip
import hashlib
from typing import Any

import msgspec
from attrs import define

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.discovery import JSON_RANGES, media_ranges
from dashpot.runtime.api.exchange import Request, Response
from dashpot.runtime.api.openapi_v2 import PROTOBUF, document_v2, encode_v2
from dashpot.runtime.api.openapi_v3 import document_v3

Object = dict[str, Any]

IMMUTABLE = "public, immutable, max-age=31536000"
V2_RANGES = ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", PROTOBUF)


@define(eq=False)
class Document:
    """One serialised document; `hash` is that of its bytes."""

    body: bytes
    hash: str
    _packed: bytes = b""

    @property
    def etag(self) -> str:
        """The hash, quoted."""
        return f'"{self.hash}"'

    @property
    def packed(self) -> bytes:
        """The same gzipped, when it is first asked for."""
        if not self._packed:
            self._packed = gzip.compress(self.body, 5, mtime=0)
        return self._packed


class OpenAPI:
    """The documents of a catalog, kept until they change."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._kept: dict[tuple[str, str], tuple[int, Document]] = {}
        self._v2: dict[str, tuple[int, Document]] = {}

    def answer(self, request: Request) -> Response | None:
        """The answer to /openapi/v3, /openapi/v3/… and /openapi/v2; None for other paths and versions not served."""
        path = request.path
        if path == "/openapi/v3":
            _only_get(request)
            _json_or_406(request)
            return Response(body=self.catalog.memo("openapi/v3", self._index))
        if path == "/openapi/v2":
            _only_get(request)
            return self._answer_v2(request)
        if not path.startswith("/openapi/v3/"):
            return None
        found = self._which(path.removeprefix("/openapi/v3/"))
        if found is None:
            return None
        _only_get(request)
        _json_or_406(request)
        document = self.document(*found)
        asked = request.get("hash")
        if asked and asked != document.hash:
            here = f"{path}?hash={document.hash}"
            return Response(301, b"", "application/json", {"Location": here})
        return _send(request, document, "application/json", IMMUTABLE if asked else "no-cache, private")

    def document(self, group: str, version: str) -> Document:
        """The v3 document of a group version; made anew if that group version has changed."""
        stamp = self.catalog.stamp(group, version)
        kept = self._kept.get((group, version))
        if kept is None or kept[0] != stamp:
            body = msgspec.json.encode(document_v3(self.catalog, group, version))
            kept = self._kept[group, version] = (stamp, _document(body))
        return kept[1]

    def _index(self) -> bytes:
        paths: Object = {}
        for group in self.catalog.groups():
            for version in self.catalog.versions(group):
                place = f"apis/{group}/{version}" if group else f"api/{version}"
                url = f"/openapi/v3/{place}?hash={self.document(group, version).hash}"
                paths[place] = {"serverRelativeURL": url}
        self._kept = {key: kept for key, kept in self._kept.items() if self.catalog.of(*key)}
        return msgspec.json.encode({"paths": paths})

    def _which(self, place: str) -> tuple[str, str] | None:
        match place.split("/"):
            case ["api", version] if self.catalog.of("", version):
                return "", version
            case ["apis", group, version] if group and self.catalog.of(group, version):
                return group, version
        return None

    def _answer_v2(self, request: Request) -> Response:
        """JSON where the client names it first (or says nothing), else protobuf: all that kubectl reads of v2."""
        for entry in media_ranges(request.headers.get("accept", "") or "*/*"):
            if entry.name in JSON_RANGES and "as" not in entry.parameters:
                return _send(request, self._document_v2("json"), "application/json", "no-cache, private")
            if entry.name in V2_RANGES:
                return _send(request, self._document_v2("protobuf"), PROTOBUF, "no-cache, private")
        raise StatusError("NotAcceptable", f"only the following media types are accepted: application/json, {PROTOBUF}")

    def _document_v2(self, form: str) -> Document:
        kept = self._v2.get(form)
        if kept is None or kept[0] != self.catalog.generation:
            whole = document_v2(self.catalog)
            body = msgspec.json.encode(whole) if form == "json" else encode_v2(whole)
            kept = self._v2[form] = (self.catalog.generation, _document(body))
        return kept[1]


def _document(body: bytes) -> Document:
    return Document(body, hashlib.sha256(body).hexdigest().upper())


def _only_get(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")


def _json_or_406(request: Request) -> None:
    accept = request.headers.get("accept", "")
    if accept and not any(entry.name in JSON_RANGES for entry in media_ranges(accept)):
        raise StatusError("NotAcceptable", "only the following media types are accepted: application/json")


def _send(request: Request, document: Document, content_type: str, keep: str) -> Response:
    headers = {"ETag": document.etag, "Vary": "Accept, Accept-Encoding", "Cache-Control": keep}
    if document.etag in (tag.strip() for tag in request.headers.get("if-none-match", "").split(",")):
        return Response(304, b"", content_type, headers)
    if any(entry.name == "gzip" for entry in media_ranges(request.headers.get("accept-encoding", ""))):
        return Response(200, document.packed, content_type, {**headers, "Content-Encoding": "gzip"})
    return Response(200, document.body, content_type, headers)
