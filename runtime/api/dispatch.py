"""From what a URL asks for to the verb that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import discovery, forms, health
from dashpot.runtime.api.admit.base import CONNECT, CREATE
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.health import Check
from dashpot.runtime.api.openapi import OpenAPI
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.subresources import binding, eviction, scale, sides
from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.verbs import creating, deleting, patching, reading, updating, writing

Object = dict[str, Any]
Verb = Callable[[Site, Exchange, Endpoint], Awaitable[Response]]
Page = Callable[[Exchange], Awaitable[Response]]
Streams = Callable[[Exchange, Endpoint], Awaitable[Response]]
Review = Callable[[Resource, Object, Exchange], Awaitable[Object]]

VERBS: Mapping[str, Verb] = {
    "get": reading.get,
    "list": reading.list_,
    "watch": reading.watch,
    "create": creating.create,
    "update": updating.update,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
_DEPRECATED_ASKED = tally("apiserver_requested_deprecated_apis")
_DEPRECATED = {
    ("", "v1", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_STREAMS = ("log", "exec", "attach", "portforward", "proxy")
_CONNECTS = {
    "exec": "ExecOptions",
    "attach": "AttachOptions",
    "portforward": "PortForwardOptions",
    "proxy": "ProxyOptions",
}
_SIDES: Mapping[str, Verb] = {
    "status": sides.status,
    "finalize": sides.finalize,
    "approval": sides.approval,
    "resize": sides.resize,
    "ephemeralcontainers": sides.ephemeral_containers,
}


def nothing_there() -> StatusError:
    """404 for a path that nobody serves."""
    return StatusError("NotFound", "the server could not find the requested resource")


def not_allowed() -> StatusError:
    """405."""
    return StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")


class Dispatch:
    """Answers what has come through the gates."""

    def __init__(
        self,
        site: Site,
        *,
        openapi: OpenAPI,
        checks: Mapping[str, Check],
        pages: Mapping[str, Page],
        review: Review,
        token: Review,
        streams: Streams,
        scales: Callable[[Resource], scale.ScalePaths | None],
    ) -> None:
        self._site = site
        self._openapi = openapi
        self._checks = checks
        self._pages = pages
        self._review = review
        self._token = token
        self._streams = streams
        self._scales = scales

    async def serve(self, exchange: Exchange) -> Response:
        """The verb of a resource, or a page."""
        info = exchange.info
        if not info.resource_request:
            return await self._page(exchange)
        extension = self._site.extensions.get(info.group)
        if extension is not None:
            return await extension(exchange)
        endpoint = self._site.endpoint(info.group, info.version, info.resource)
        if endpoint is None:
            raise nothing_there()
        resource = exchange.resource = endpoint.resource
        if info.namespace and not resource.namespaced and resource.plural != "namespaces":
            raise nothing_there()
        if warning := resource.deprecation or _DEPRECATED.get((resource.group, resource.version, resource.plural)):
            exchange.warn(warning)
            place = (resource.group, resource.version, resource.plural, info.subresource)
            _DEPRECATED_ASKED.set(1.0, *place, "")
        if info.subresource:
            return await self._subresource(exchange, endpoint)
        if info.group in _REVIEWS:
            return await self._reviewed(exchange, resource)
        # `create` needs no name, `patch` and `update` need one
        misplaced = (info.verb == "create") == bool(info.name) and info.verb in ("create", "patch", "update")
        headless = info.verb == "watch" and exchange.request.method == "HEAD"
        if info.verb not in resource.verbs or misplaced or headless:
            if (info.group, info.resource, info.verb) == ("", "bindings", "create"):
                return await self._binding(exchange)
            raise not_allowed()
        return await VERBS[info.verb](self._site, exchange, endpoint)

    async def _binding(self, exchange: Exchange) -> Response:
        pods = self._site.endpoint("", "v1", "pods")
        assert pods is not None
        return await binding.bind(self._site, exchange, pods)

    async def _reviewed(self, exchange: Exchange, resource: Resource) -> Response:
        if exchange.info.verb != "create":
            raise not_allowed()
        obj = await forms.read_review(exchange, resource)
        exchange.request_object = obj
        answer = await self._review(resource, obj, exchange)
        exchange.response_object = answer
        return forms.render_plain(exchange, answer, 201)

    async def _subresource(self, exchange: Exchange, endpoint: Endpoint) -> Response:
        info, method = exchange.info, exchange.request.method
        name = info.subresource
        declared = endpoint.resource.subresource(name)
        if declared is None:
            raise nothing_there()
        if name in _STREAMS:
            if name != "log":
                await self._connect(exchange, endpoint)
            return await self._streams(exchange, endpoint)
        if info.verb not in declared.verbs:
            raise not_allowed()
        if name == "scale":
            paths = self._scales(endpoint.resource)
            if paths is None:
                raise nothing_there()
            return await scale.serve(self._site, exchange, endpoint, paths)
        side = _SIDES.get(name)
        if side is not None:
            return await side(self._site, exchange, endpoint)
        if name == "binding" and method == "POST":
            return await binding.bind(self._site, exchange, endpoint)
        if name == "eviction" and method == "POST":
            return await eviction.evict(self._site, exchange, endpoint)
        if name == "token" and method == "POST":
            obj = await forms.read_review(exchange, endpoint.resource)
            exchange.request_object = obj
            write = writing.attributes(exchange, endpoint, CREATE, obj, None, subresource=name)
            obj = await writing.admitted(self._site, exchange, endpoint, write)
            return forms.render_plain(exchange, await self._token(endpoint.resource, obj, exchange), 201)
        raise nothing_there()

    async def _connect(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Admission of a stream: CONNECT, with the options of the query as its object."""
        name = exchange.info.subresource
        kind = f"{endpoint.resource.kind}{_CONNECTS[name]}"
        query = exchange.request.query
        options: Object = {"kind": kind, "apiVersion": endpoint.resource.api_version}
        for key, value in query:
            if key == "command":
                options.setdefault("command", []).append(value)
            else:
                options[key] = value
        write = writing.attributes(exchange, endpoint, CONNECT, options, None, subresource=name)
        await writing.admitted(self._site, exchange, endpoint, write)

    async def _page(self, exchange: Exchange) -> Response:
        request = exchange.request
        parts = [part for part in request.path.split("/") if part]
        # kr8s and the kubernetes client ask `/api/` and `/version/`
        request.path = "/" + "/".join(parts)
        if request.method not in ("GET", "HEAD"):
            raise not_allowed()
        page = self._pages.get(request.path)
        if page is not None:
            return await page(exchange)
        found = await health.answer(request, parts, self._checks)
        if found is None and parts and parts[0] in ("api", "apis"):
            found = discovery.answer(self._site.catalog, request)
        if found is None and parts and parts[0] == "openapi":
            found = self._openapi.answer(request)
        if found is None and not parts:
            found = Response(200, msgspec.json.encode({"paths": self._paths()}))
        if found is None:
            raise nothing_there()
        return found

    def _paths(self) -> list[str]:
        """What `/` lists."""
        catalog = self._site.catalog
        found = {"/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3", *self._pages}
        for group in catalog.groups():
            if group:
                found.add(f"/apis/{group}")
                found.update(f"/apis/{group}/{version}" for version in catalog.versions(group))
        for kind in health.PATHS:
            found.add(f"/{kind}")
            found.update(f"/{kind}/{name}" for name in self._checks if health.has(kind, name))
        return sorted(found)
