"""PATCH: JSON patch, merge patch, strategic merge patch, server-side apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dashpot.model.objects import apply as ssa
from dashpot.model.objects import jsonpatch, mergepatch, strategic
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema import decode_json
from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api import body
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.api.verbs import creating, options, updating, writing
from dashpot.runtime.clock import rfc3339

Object = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_ALL = (JSON_PATCH, MERGE, STRATEGIC, APPLY)


def _supported(resource: Resource) -> tuple[str, ...]:
    return tuple(media for media in _ALL if media != STRATEGIC) if resource.custom else _ALL


async def patch(site: Site, exchange: Exchange, endpoint: Endpoint, subresource: str = "") -> Response:
    """Changes the stored object as the patch says; an apply of a missing object creates it (201)."""
    media = body.media_type(exchange)
    supported = _supported(endpoint.resource)
    if media not in supported:
        raise StatusError(
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(supported),
        )
    dry = options.dry_run(exchange.request, "PatchOptions")
    data = await exchange.request.read()
    if media == APPLY:
        return await _apply(site, exchange, endpoint, data, subresource, dry)
    if exchange.request.get("force"):
        raise StatusError(
            "Invalid",
            'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
        )
    doubles: list[str] = []
    change = _change(exchange, endpoint, media, _decoded(data, doubles), doubles)
    manner = updating.Manner(subresource, dry, options.manager(exchange.request))
    return await updating.modify(site, exchange, endpoint, change, manner)


def _decoded(data: bytes, doubles: list[str]) -> Any:
    if not data:
        raise bad_request("unable to decode an empty body")
    return decode_json(data, doubles)


def _change(exchange: Exchange, endpoint: Endpoint, media: str, patch: Any, doubles: list[str]) -> updating.Change:
    if media == JSON_PATCH and not isinstance(patch, list):
        raise bad_request("a JSON patch is a list of operations")
    if media != JSON_PATCH and not isinstance(patch, dict):
        raise bad_request("a merge patch is an object")

    def merged(old: Object) -> Any:
        if media == JSON_PATCH:
            return jsonpatch.apply(old, patch)
        if media == MERGE:
            return mergepatch.merge(old, patch)
        return strategic.merge(old, patch, endpoint.kind.structure)

    exchange.request_object = patch if isinstance(patch, dict) else {"patch": patch}

    def change(old: Object, _: Stored) -> Object:
        named = old["metadata"].get("resourceVersion")
        new = merged(old)
        if not isinstance(new, dict):
            raise bad_request("the patch leaves no object")
        checked = body.check(exchange, endpoint.kind, new, doubles)
        creating.place(exchange, endpoint.resource, checked)
        # a patch that does not speak of the version is no precondition: the server repeats it on a lost race
        if checked["metadata"].get("resourceVersion") == named:
            checked["metadata"].pop("resourceVersion", None)
            if _names_version(patch, media):
                checked["metadata"]["resourceVersion"] = named
        return checked

    return change


def _names_version(patch: Any, media: str) -> bool:
    """Whether the patch itself holds a resourceVersion."""
    if media == JSON_PATCH:
        return any(
            isinstance(step, dict)
            and step.get("path") == "/metadata/resourceVersion"
            and step.get("op") in ("add", "replace")
            for step in patch
        )
    meta = patch.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("resourceVersion"))


async def _apply(
    site: Site, exchange: Exchange, endpoint: Endpoint, data: bytes, subresource: str, dry: bool
) -> Response:
    request = exchange.request
    if not request.get("fieldManager"):
        raise StatusError(
            "Invalid",
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        )
    manager, force = options.manager(request), request.flag("force")
    applied = await body.read_yaml(data) if data.lstrip()[:1] != b"{" else _decoded(data, [])
    if not isinstance(applied, dict):
        raise bad_request("the applied configuration is no object")
    for field in ("apiVersion", "kind"):
        if not applied.get(field):
            raise bad_request(f"error decoding YAML: Object '{'Kind' if field == 'kind' else field}' is missing")
    exchange.request_object = applied
    text = msgspec.json.encode(applied)

    def configuration() -> Object:
        mine: Object = msgspec.json.decode(text)
        body.validation(exchange)
        body.identify(endpoint.resource, mine)
        unknown = endpoint.kind.decode(mine)
        creating.place(exchange, endpoint.resource, mine)
        if unknown:
            # whatever fieldValidation says: a field that nobody declared cannot be owned
            raise ssa.untyped(mine, f".{_quoted(unknown[0])}: field not declared in schema")
        return mine

    def applied_to(live: Object | None) -> Object:
        wanted = configuration()
        named = wanted["metadata"].get("resourceVersion")
        new = ssa.apply(
            live,
            wanted,
            manager=manager,
            force=force,
            api_version=endpoint.resource.api_version,
            subresource=subresource,
            time=rfc3339(site.clock.now()),
            structure=endpoint.kind.structure,
            reset=writing.reset_fields(endpoint, subresource),
        )
        if not named:
            # the merged object carries the live version: only one that the configuration names is a precondition
            new["metadata"].pop("resourceVersion", None)
        return new

    return await _stored(site, exchange, endpoint, applied, applied_to, updating.Manner(subresource, dry))


def _quoted(text: str) -> str:
    """The path in `unknown field "spec.x"`."""
    return text.partition('"')[2].rpartition('"')[0]


async def _stored(
    site: Site,
    exchange: Exchange,
    endpoint: Endpoint,
    applied: Object,
    applied_to: Callable[[Object | None], Object],
    manner: updating.Manner,
) -> Response:
    """Changes the object, or makes it; again where another manager made or deleted it meanwhile."""
    for _ in range(updating.TRIES):
        try:
            return await updating.modify(site, exchange, endpoint, lambda live, _: applied_to(live), manner)
        except StatusError as error:
            if error.reason != "NotFound" or manner.subresource or error.details.get("name") != exchange.info.name:
                raise
        metadata = applied.get("metadata")
        if isinstance(metadata, dict) and metadata.get("uid"):
            raise StatusError("Conflict", f"uid mismatch: the provided object specified uid {metadata['uid']}")
        try:
            return await creating.store_new(site, exchange, endpoint, applied_to(None), manner.dry, None)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
    raise AssertionError("the last try returns or raises")
