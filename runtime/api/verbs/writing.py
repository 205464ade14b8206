"""What creates and updates share: admission, defaults, checks, ownership, and the write itself.

Order: mutating admission → defaults again → schema, immutability and CEL rules → validating admission → ownership of
fields → store. A write that fails after admission gives back what admission had taken (quota).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from attrs import frozen

from dashpot.model.objects import ownership
from dashpot.model.objects.metadata import validate_metadata, validate_metadata_update
from dashpot.model.objects.status import Cause, StatusError, invalid
from dashpot.runtime.api.admit.base import CREATE, Attributes
from dashpot.runtime.api.exchange import Exchange
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.clock import rfc3339

Object = dict[str, Any]


def attributes(
    exchange: Exchange,
    endpoint: Endpoint,
    operation: str,
    obj: Object | None,
    old: Object | None,
    *,
    subresource: str = "",
    dry: bool = False,
    options: Object | None = None,
) -> Attributes:
    """One write, as admission sees it."""
    meta = (obj or old or {}).get("metadata") or {}
    return Attributes(
        operation,
        endpoint.stored.resource,
        subresource,
        exchange.info.namespace if endpoint.resource.namespaced else "",
        exchange.info.name or meta.get("name", ""),
        obj,
        old,
        exchange.user,
        exchange,
        dry,
        options or {},
    )


@frozen
class Lens:
    """Admission looks at another object than the one that is stored: the Scale of a Deployment."""

    show: Callable[[Object], Object]
    take: Callable[[Object, Object], Object]
    """The stored object with what was changed in the one that was shown."""


async def admitted(site: Site, exchange: Exchange, endpoint: Endpoint, write: Attributes) -> Object:
    """Both halves of admission for an object that is not stored (a Binding, an Eviction, a TokenRequest)."""
    try:
        await site.chain.mutate(write)
        await site.chain.validate(write)
    except BaseException:
        await undone(site, write)
        raise
    assert write.object is not None
    return write.object


def check(endpoint: Endpoint, obj: Object, old: Object | None, subresource: str) -> None:
    """Metadata, schema, rules of the kind, CEL; 422 with all that is wrong."""
    resource = endpoint.stored.resource
    causes: list[Cause]
    if old is None:
        causes = validate_metadata(resource, obj)
    else:
        causes = validate_metadata_update(resource, obj, old)
    causes = causes + endpoint.stored.causes(obj, old, subresource)
    if causes:
        raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), causes)


def check_asked(endpoint: Endpoint, obj: Object) -> None:
    """What the version that was asked for wants of a new object beyond the form in which it is stored; 422."""
    causes = endpoint.kind.causes(obj, None, "")
    if causes:
        resource = endpoint.resource
        raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), causes)


def own(site: Site, endpoint: Endpoint, new: Object, old: Object | None, subresource: str, manager: str) -> None:
    """Writes down who owns the fields that this write sets; before admission, whose changes are nobody's."""
    ownership.track(
        old,
        new,
        manager=manager,
        operation="Update",
        api_version=endpoint.stored.resource.api_version,
        subresource=subresource,
        time=rfc3339(site.clock.now()),
        structure=endpoint.stored.structure,
        reset=reset_fields(endpoint, subresource),
    )


def reset_fields(endpoint: Endpoint, subresource: str) -> Object:
    """What a write through this side cannot own: it is taken back."""
    has_status = endpoint.stored.resource.subresource("status") is not None
    return ownership.reset_fields(subresource, has_status)


def private(raw: bytes) -> Object:
    """An object of one's own: decoding is faster than copying."""
    found: Object = msgspec.json.decode(raw)
    return found


async def undone(site: Site, write: Attributes) -> None:
    """Gives back what admission took."""
    if write.undo:
        await site.chain.undo(write)


def is_create(write: Attributes) -> bool:
    """Whether the write makes a new object."""
    return write.operation == CREATE


def is_conflict(error: StatusError) -> bool:
    """Whether a write lost a race (and not a precondition of the client's)."""
    return error.reason == "Conflict" and error.message.startswith("Operation cannot be fulfilled")
