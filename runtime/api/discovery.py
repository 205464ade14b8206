"""Discovery: which groups, versions and resources there are, in the plain and in the aggregated form.

Aggregated (KEP-3352): one document for `/api` and one for `/apis`, asked for by media type parameters; kubectl needs
no other. Sources: apimachinery pkg/apis/meta/v1 (APIResourceList …), k8s.io/api/apidiscovery v2, release 1.34.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from attrs import frozen

from dashpot.model.objects.resource import Resource, Subresource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.exchange import Request, Response

Object = dict[str, Any]

AGGREGATED = ("v2", "v2beta1")
JSON_RANGES = ("application/json", "application/*", "*/*")
ACCEPTED = "only the following media types are accepted: application/json"


@frozen
class MediaRange:
    """One entry of an Accept header: `application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`."""

    name: str
    parameters: dict[str, str]


def media_ranges(accept: str) -> list[MediaRange]:
    """An Accept header, best first: by quality, then in the order of the client; those of quality 0 are left out."""
    found: list[tuple[float, MediaRange]] = []
    for part in accept.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        if name and quality > 0:
            found.append((-quality, MediaRange(name.lower(), parameters)))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def answer(catalog: Catalog, request: Request) -> Response | None:
    """The answer to /api, /apis, /apis/G, /apis/G/V and /api/v1; None if the path is none of these or not served.

    One trailing slash is the caller's to remove. StatusError 405 for a method other than GET and HEAD, 406 for an
    Accept header that JSON does not satisfy.
    """
    if request.path != "/api" and request.path != "/apis" and not request.path.startswith(("/api/", "/apis/")):
        return None
    parts = request.path[1:].split("/")
    if len(parts) > 3 or (parts[0] == "api" and len(parts) > 2) or (parts[0] == "apis" and "" in parts):
        return None
    if parts[0] == "api" and len(parts) == 2:
        parts = ["apis", "", parts[1]]
    group = parts[1] if len(parts) > 1 else ""
    if len(parts) == 2 and not catalog.versions(group):
        return None
    if len(parts) == 3 and not catalog.of(group, parts[2]):
        return None
    if request.method not in ("GET", "HEAD"):
        raise StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")
    if len(parts) == 1:
        return _root(catalog, request, parts[0])
    _plain_or_406(request)
    if len(parts) == 2:
        return Response(body=catalog.memo(("group", group), lambda: _encode(_group(catalog, group, typed=True))))
    version = parts[2]
    return Response(
        body=catalog.memo(("version", group, version), lambda: _encode(resource_list(catalog, group, version)))
    )


def _root(catalog: Catalog, request: Request, which: str) -> Response:
    """`/api` or `/apis`, in the first form that the client names."""
    version = _aggregated(request)
    if version:
        etag, body = catalog.memo((which, version), lambda: _tagged(aggregated(catalog, which, version)))
        kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        headers = {"ETag": etag, "Vary": "Accept"}
        if etag in (tag.strip() for tag in request.headers.get("if-none-match", "").split(",")):
            return Response(304, b"", kind, headers)
        return Response(200, body, kind, headers)
    headers = {"Vary": "Accept"}
    if which == "apis":
        return Response(body=catalog.memo("groups", lambda: _encode(group_list(catalog))), headers=headers)
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
    versions = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
    return Response(body=_encode(versions), headers=headers)


def _aggregated(request: Request) -> str:
    """The version of the aggregated form that the client likes best; empty if it likes the plain form better."""
    for entry in media_ranges(request.headers.get("accept", "")):
        if entry.name not in JSON_RANGES:
            continue
        if entry.parameters.get("as") == "APIGroupDiscoveryList":
            version = entry.parameters.get("v", "")
            if entry.parameters.get("g") == "apidiscovery.k8s.io" and version in AGGREGATED:
                return version
        elif "as" not in entry.parameters:
            return ""
    _plain_or_406(request)
    return ""


def _plain_or_406(request: Request) -> None:
    accept = request.headers.get("accept", "")
    ranges = media_ranges(accept)
    if accept and not any(e.name in JSON_RANGES and "as" not in e.parameters for e in ranges):
        raise StatusError("NotAcceptable", ACCEPTED)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _tagged(value: Any) -> tuple[str, bytes]:
    body = _encode(value)
    return f'"{hashlib.sha256(body).hexdigest().upper()}"', body


def group_list(catalog: Catalog) -> Object:
    """The APIGroupList: every group but core."""
    groups = [_group(catalog, group) for group in catalog.groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(catalog: Catalog, group: str, *, typed: bool = False) -> Object:
    """An APIGroup; inside a list it does not say its own kind."""
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in catalog.versions(group)]
    found: Object = {"kind": "APIGroup", "apiVersion": "v1"} if typed else {}
    return {**found, "name": group, "versions": versions, "preferredVersion": versions[0]}


def resource_list(catalog: Catalog, group: str, version: str) -> Object:
    """The APIResourceList of a group version, subresources behind their resource."""
    rows: list[Object] = []
    for resource in catalog.of(group, version):
        rows.append(_row(resource))
        rows += [_sub_row(resource, sub) for sub in resource.subresources]
    named = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
    return {**named, "groupVersion": f"{group}/{version}" if group else version, "resources": rows}


def _row(resource: Resource) -> Object:
    row: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        row["shortNames"] = resource.short_names
    if resource.categories:
        row["categories"] = resource.categories
    return row


def _sub_row(resource: Resource, sub: Subresource) -> Object:
    row: Object = {"name": f"{resource.plural}/{sub.name}", "singularName": "", "namespaced": resource.namespaced}
    if (sub.group, sub.version) != (resource.group, resource.version):
        row |= {"group": sub.group, "version": sub.version}
    return {**row, "kind": sub.kind, "verbs": sub.verbs}


def aggregated(catalog: Catalog, which: str, version: str) -> Object:
    """The APIGroupDiscoveryList of `/api` (core) or `/apis` (all others)."""
    items: list[Object] = []
    for group in catalog.groups():
        if (which == "api") != (group == ""):
            continue
        versions = [
            {"version": v, "resources": [_entry(r) for r in catalog.of(group, v)], "freshness": "Current"}
            for v in catalog.versions(group)
        ]
        metadata: Object = {"name": group} if group else {}
        items.append({"metadata": {**metadata, "creationTimestamp": None}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _entry(resource: Resource) -> Object:
    entry: Object = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": sub.verbs,
            }
            for sub in resource.subresources
        ]
    return entry
