"""POST: a new object."""

from __future__ import annotations

from typing import Any

from dashpot.model.objects import names, prepare
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api import body, forms
from dashpot.runtime.api.admit.base import CREATE
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.verbs import options, writing
from dashpot.runtime.clock import rfc3339

Object = dict[str, Any]

# upstream tries a generated name again where it is taken (KEP-4420)
_NAME_TRIES = 8


async def create(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """Reads, completes, checks and stores a new object; 201."""
    obj = await body.read(exchange, endpoint.kind)
    exchange.request_object = obj
    place(exchange, endpoint.resource, obj)
    dry = options.dry_run(exchange.request)
    return await store_new(site, exchange, endpoint, obj, dry, options.manager(exchange.request))


def place(exchange: Exchange, resource: Resource, obj: Object) -> None:
    """Sees that the body's name and namespace are those of the URL, and completes them from it."""
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    info = exchange.info
    if resource.namespaced:
        named = meta.get("namespace")
        if named and info.namespace and named != info.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not info.namespace:
            raise bad_request("an empty namespace may not be set when a resource name is provided")
        meta["namespace"] = info.namespace
    elif meta.get("namespace"):
        raise bad_request("namespace may not be set on objects of the cluster")
    else:
        meta.pop("namespace", None)
    if info.name:
        named = meta.get("name")
        if named and named != info.name:
            raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({info.name})")
        meta["name"] = info.name


def complete(site: Site, obj: Object) -> None:
    """What the server alone writes: uid, time of creation, a generated name."""
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        meta.pop(field, None)
    meta["uid"] = site.uid()
    meta["creationTimestamp"] = rfc3339(site.clock.now())
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = names.generate(meta["generateName"], site.chance)


async def store_new(
    site: Site,
    exchange: Exchange,
    endpoint: Endpoint,
    obj: Object,
    dry: bool,
    manager: str | None,
) -> Response:
    """The rest of a create, from an object that was read; `manager` None: its fields are owned already (apply)."""
    generated = not obj["metadata"].get("name")
    endpoint.kind.default(obj, None)
    if endpoint.resource.group != endpoint.stored.resource.group:
        # events.k8s.io wants more of an event than the form in which it is stored
        writing.check_asked(endpoint, obj)
    obj = await endpoint.inward(obj)
    if manager is not None:
        writing.own(site, endpoint, obj, None, "", manager)
    for attempt in range(_NAME_TRIES):
        try:
            if generated:
                obj["metadata"].pop("name", None)
            return await _once(site, exchange, endpoint, obj, dry)
        except StatusError as error:
            if error.reason != "AlreadyExists" or not generated or attempt == _NAME_TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


async def _once(site: Site, exchange: Exchange, endpoint: Endpoint, obj: Object, dry: bool) -> Response:
    resource = endpoint.stored.resource
    complete(site, obj)
    prepare.on_create(resource, obj)
    namespace = exchange.info.namespace if resource.namespaced else ""
    write = writing.attributes(exchange, endpoint, CREATE, obj, None, dry=dry)
    hook = site.hook(resource)
    try:
        await site.chain.mutate(write)
        assert write.object is not None
        # a webhook may change much, but not who the object is
        identity = {field: obj["metadata"][field] for field in ("uid", "creationTimestamp")}
        obj = write.object
        obj["metadata"].update(identity)
        await hook.before_create(site, write)
        # for the second time, 4 % of a create: plugins and hooks change the object in place, so nobody can tell whether
        # there is anything new to complete but by looking, and that is what this does
        endpoint.stored.default(obj, None)
        # what is derived (a pod's class of service) is derived from what admission made of the object
        prepare.on_create(resource, obj)
        writing.check(endpoint, obj, None, "")
        await site.chain.validate(write)
        if dry:
            await writing.undone(site, write)
            return forms.render(exchange, endpoint.resource, await endpoint.outward(obj), 201)
        stored = await endpoint.storage.create(namespace, obj["metadata"]["name"], obj, ttl_s=hook.ttl_s)
    except BaseException:
        await writing.undone(site, write)
        raise
    if hook.follows:
        await hook.after(site, write, stored.object)
    return await forms.answer(exchange, endpoint.resource, endpoint.storage, stored, 201)
