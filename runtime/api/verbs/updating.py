"""PUT, and the loop that every change of a stored object goes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from dashpot.model.objects import prepare
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError, bad_request, conflict
from dashpot.runtime.api import body, forms
from dashpot.runtime.api.admit.base import UPDATE, Attributes
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.api.verbs import creating, options, writing
from dashpot.runtime.api.verbs.writing import Lens

Object = dict[str, Any]
Change = Callable[[Object, Stored], Object]
"""From a copy of the stored object, in the version that was asked for, to the new one (the copy itself may be used)."""

TRIES = 1000
"""How often a change that lost a race is repeated where the client named no version: the request's time ends it before
(upstream's GuaranteedUpdate has no bound either)."""


async def update(site: Site, exchange: Exchange, endpoint: Endpoint, subresource: str = "") -> Response:
    """Replaces an object, or one side of it (status)."""
    obj = await body.read(exchange, endpoint.kind)
    exchange.request_object = obj
    creating.place(exchange, endpoint.resource, obj)
    if not obj["metadata"].get("name"):
        raise bad_request("name must be provided")
    dry = options.dry_run(exchange.request, "UpdateOptions")

    def change(_: Object, __: Stored) -> Object:
        return body_copy(obj)

    return await modify(site, exchange, endpoint, change, Manner(subresource, dry, options.manager(exchange.request)))


def body_copy(obj: Object) -> Object:
    """A copy that may be changed: the body itself serves a second try."""
    return writing.private(forms.encode(obj))


@frozen
class Manner:
    """How a change is made: through which side, for whom, seen by admission as what (`admit` False: not at all)."""

    subresource: str = ""
    dry: bool = False
    manager: str | None = None
    lens: Lens | None = None
    admit: bool = True


async def modify(site: Site, exchange: Exchange, endpoint: Endpoint, change: Change, manner: Manner) -> Response:
    """Changes the stored object, again where another write came between and the client named no version."""
    stored = await modified(site, exchange, endpoint, change, manner)
    if isinstance(stored, Stored):
        return await forms.answer(exchange, endpoint.resource, endpoint.storage, stored, 200)
    return forms.render(exchange, endpoint.resource, stored, 200)


async def modified(
    site: Site, exchange: Exchange, endpoint: Endpoint, change: Change, manner: Manner
) -> Stored | Object:
    """`modify`, but the object itself: a plain one where the write was dry or the last finalizer went."""
    info = exchange.info
    namespace = info.namespace if endpoint.resource.namespaced else ""
    for attempt in range(TRIES):
        current = await endpoint.storage.get(namespace, info.name)
        old = writing.private(current.raw)
        new = await endpoint.inward(change(await endpoint.outward(old), current))
        asked = keep_identity(endpoint.stored.resource, new, current)
        try:
            return await _write(site, exchange, endpoint, current, new, manner)
        except StatusError as error:
            if asked or attempt == TRIES - 1 or not writing.is_conflict(error):
                raise
    raise AssertionError("the last try returns or raises")


def keep_identity(resource: Resource, new: Object, current: Stored) -> bool:
    """Keeps what no client may change, and sees to the versions it names; True if it named one."""
    meta = new.get("metadata")
    if not isinstance(meta, dict):
        meta = new["metadata"] = {}
    old = current.object["metadata"]
    uid = meta.get("uid")
    if uid and uid != old.get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.get('uid')}"
        raise conflict(resource.subject, current.name, why)
    revision = meta.get("resourceVersion")
    if revision and revision != "0" and revision != str(current.revision):
        raise conflict(resource.subject, current.name)
    for field in ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation"):
        if field in old:
            meta[field] = old[field]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in old:
            meta[field] = old[field]
        else:
            meta.pop(field, None)
    meta.pop("selfLink", None)
    if "managedFields" not in meta and "managedFields" in old:
        # left out is not emptied (`[]`): the owners stay
        meta["managedFields"] = old["managedFields"]
    return bool(revision and revision != "0")


async def _write(
    site: Site, exchange: Exchange, endpoint: Endpoint, current: Stored, new: Object, manner: Manner
) -> Stored | Object:
    resource, subresource = endpoint.stored.resource, manner.subresource
    old = current.object
    endpoint.stored.default(new, old)
    if manner.manager is not None:
        writing.own(site, endpoint, new, old, subresource, manner.manager)
    prepare.on_update(resource, new, old, subresource)
    write = writing.attributes(exchange, endpoint, UPDATE, new, old, subresource=subresource, dry=manner.dry)
    hook = site.hook(resource)
    try:
        new = await _admitted(site, endpoint, write, new, manner)
        prepare.generation(resource, new, old, subresource)
        if unchanged(new, old):
            await writing.undone(site, write)
            return current
        if manner.dry:
            await writing.undone(site, write)
            return await endpoint.outward(new)
        if finished(new):
            await endpoint.storage.delete(current.namespace, current.name, expect=current.revision)
            await hook.after_delete(site, new)
            return await endpoint.outward(new)
        stored = await endpoint.storage.update(
            current.namespace, current.name, new, expect=current.revision, ttl_s=hook.ttl_s
        )
    except BaseException:
        await writing.undone(site, write)
        raise
    if hook.follows:
        await hook.after(site, write, stored.object)
    return stored


async def _admitted(site: Site, endpoint: Endpoint, write: Attributes, new: Object, manner: Manner) -> Object:
    """Mutating admission → defaults → checks → validating admission."""
    resource, old = endpoint.stored.resource, write.old
    assert old is not None
    lens = manner.lens
    if lens is not None:
        write.object, write.old = lens.show(new), lens.show(old)
    if manner.admit:
        await site.chain.mutate(write)
        assert write.object is not None
        new = write.object if lens is None else lens.take(new, write.object)
    if not manner.subresource:
        await site.hook(resource).before_update(site, write)
    endpoint.stored.default(new, old)
    prepare.on_update(resource, new, old, manner.subresource)
    writing.check(endpoint, new, old, manner.subresource)
    if manner.admit:
        await site.chain.validate(write)
    return new


def unchanged(new: Object, old: Object) -> bool:
    """Whether a write would change nothing: it then keeps its resourceVersion, or `apply` never says "unchanged"."""
    return new == old


def finished(new: Object) -> bool:
    """Whether the last finalizer of a deleted object went: the write that removes it deletes the object."""
    meta = new["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if new.get("kind") == "Namespace" and (new.get("spec") or {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")
