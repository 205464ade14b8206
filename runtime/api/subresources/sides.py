"""Subresources that are one side of their object: status, finalize, approval, resize, ephemeralcontainers.

A write to a side changes that side alone; the rest is taken from the stored object. Sources: the strategies under
pkg/registry, release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.status import StatusError, forbidden_field, invalid
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.verbs import patching, reading, updating

Object = dict[str, Any]


async def _side(site: Site, exchange: Exchange, endpoint: Endpoint, name: str) -> Response:
    method = exchange.request.method
    if method in ("GET", "HEAD"):
        return await reading.get(site, exchange, endpoint)
    if method == "PUT":
        return await updating.update(site, exchange, endpoint, name)
    if method == "PATCH":
        return await patching.patch(site, exchange, endpoint, name)
    raise StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")


async def status(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """`…/status`: what a controller saw."""
    return await _side(site, exchange, endpoint, "status")


async def finalize(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """`namespaces/N/finalize`: the finalizers of the spec; the last one that goes ends the namespace."""
    return await _side(site, exchange, endpoint, "finalize")


async def approval(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """`certificatesigningrequests/N/approval`: its Approved and Denied conditions."""
    return await _side(site, exchange, endpoint, "approval")


async def resize(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """`pods/N/resize`: the resources of running containers."""
    return await _side(site, exchange, endpoint, "resize")


async def ephemeral_containers(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """`pods/N/ephemeralcontainers`: adds containers to a running pod; none is ever changed or taken away."""
    return await _side(site, exchange, endpoint, "ephemeralcontainers")


def only_added(new: Object, old: Object) -> None:
    """Refuses an ephemeral container that changed or went."""
    before = {c.get("name"): c for c in (old.get("spec") or {}).get("ephemeralContainers") or ()}
    after = {c.get("name"): c for c in (new.get("spec") or {}).get("ephemeralContainers") or ()}
    path = "spec.ephemeralContainers"
    for name, container in before.items():
        if name not in after:
            cause = forbidden_field(path, f"existing ephemeral containers {name!r} may not be removed\n".rstrip())
            raise invalid("", "Pod", old["metadata"]["name"], [cause])
        if after[name] != container:
            cause = forbidden_field(path, f"existing ephemeral containers {name!r} may not be changed")
            raise invalid("", "Pod", old["metadata"]["name"], [cause])
