"""GET: one object, a list, a watch."""

from __future__ import annotations

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import forms, lists, watching
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site


async def get(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """One object, at least as new as `resourceVersion` asks for."""
    request, info = exchange.request, exchange.info
    if request.get("resourceVersionMatch"):
        raise StatusError("BadRequest", "resourceVersionMatch is forbidden for get")
    namespace = info.namespace if endpoint.resource.namespaced else ""
    stored = await endpoint.storage.get(
        namespace,
        info.name,
        version=request.get("resourceVersion"),
        user_agent=request.headers.get("user-agent", ""),
        user=exchange.user.name,
    )
    return await forms.answer(exchange, endpoint.resource, endpoint.storage, stored, 200)


async def list_(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """Many objects at one revision."""
    return await lists.list_response(exchange, endpoint.resource, endpoint.storage)


async def watch(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """What changes from a revision on."""
    return await watching.watch_response(exchange, endpoint.resource, endpoint.storage)
