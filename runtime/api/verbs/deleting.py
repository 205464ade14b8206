"""DELETE: at once, after a grace period, or when the last finalizer is gone; one object or a collection.

Source: k8s.io/apiserver pkg/registry/generic/registry/store.go and pkg/registry/rest/delete.go, release 1.34.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dashpot.model.objects.status import StatusError, conflict, forbidden, invalid, invalid_value
from dashpot.runtime.api import forms, lists
from dashpot.runtime.api.admit.base import DELETE
from dashpot.runtime.api.auth.attributes import AuthzAttributes
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.api.verbs import options, writing
from dashpot.runtime.api.verbs.options import DeleteOptions
from dashpot.runtime.clock import rfc3339

Object = dict[str, Any]

_GC = ("orphan", "foregroundDeletion")
UNSAFE_DELETE = "unsafe-delete-ignore-read-errors"
"""The verb of authorization that the removal of an unreadable object takes beside `delete`."""
_TRIES = 10
_GRACE_S = 30


async def delete(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """One object: Status Success when it is gone, the object while it lives on."""
    asked = await options.delete_options(exchange)
    exchange.request_object = asked.raw
    if asked.unreadable:
        return await _unreadable(site, exchange, endpoint, asked)
    gone, last = await delete_one(site, exchange, endpoint, exchange.info.name, asked)
    if not gone:
        if isinstance(last, Stored):
            return await forms.answer(exchange, endpoint.resource, endpoint.storage, last, 200)
        return forms.render(exchange, endpoint.resource, last, 200)
    return success(endpoint, last if isinstance(last, dict) else last.object)


async def _unreadable(site: Site, exchange: Exchange, endpoint: Endpoint, asked: DeleteOptions) -> Response:
    """Removes what nobody can read: no finalizer, precondition or admission is asked, so it takes a right of its own.

    Source: KEP-3926; k8s.io/apiserver pkg/registry/generic/registry/corrupt_obj_deleter.go.
    """
    info, resource = exchange.info, endpoint.resource
    namespace = info.namespace if resource.namespaced else ""
    names = (resource.group, resource.version, resource.plural, "", namespace, info.name)
    decision = await site.authorize(AuthzAttributes(exchange.user, UNSAFE_DELETE, *names))
    if not decision.allow:
        raise forbidden(resource.subject, info.name, f"not permitted to do {UNSAFE_DELETE!r}: {decision.reason}")
    removed = await endpoint.storage.remove_unreadable(namespace, info.name, dry_run=asked.dry_run)
    if not removed:
        why = "is exclusively used to delete corrupt object(s), try again by removing this option"
        raise invalid(resource.group, resource.kind, info.name, [invalid_value(options.UNREADABLE, True, why)])
    return success(endpoint, {"metadata": {"name": info.name}})


def success(endpoint: Endpoint, last: Object) -> Response:
    """`Status: Success` with the uid of what is gone."""
    meta = last["metadata"]
    details: Object = {"name": meta["name"], "kind": endpoint.resource.plural, "uid": meta.get("uid", "")}
    if endpoint.resource.group:
        details["group"] = endpoint.resource.group
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(200, msgspec.json.encode(body))


async def delete_one(
    site: Site, exchange: Exchange, endpoint: Endpoint, name: str, asked: DeleteOptions
) -> tuple[bool, Stored | Object]:
    """Whether the object is gone, and its last state."""
    namespace = exchange.info.namespace if endpoint.resource.namespaced else ""
    return await remove(site, exchange, endpoint, namespace, name, asked)


async def remove(
    site: Site,
    exchange: Exchange,
    endpoint: Endpoint,
    namespace: str,
    name: str,
    asked: DeleteOptions,
    *,
    admit: bool = True,
) -> tuple[bool, Stored | Object]:
    """`delete_one` in any namespace; `admit` False: an eviction, which admission has seen as such."""
    resource = endpoint.stored.resource
    for attempt in range(_TRIES):
        current = await endpoint.storage.get(namespace, name)
        _preconditions(endpoint, current, asked)
        write = writing.attributes(
            exchange, endpoint, DELETE, None, current.object, dry=asked.dry_run, options=asked.raw
        )
        write.namespace, write.name = namespace, name
        if admit:
            await site.chain.mutate(write)
            await site.chain.validate(write)
        left = _left(site, endpoint, current, asked)
        if asked.dry_run:
            return left is None, current if left is None else left
        try:
            if left is None:
                last = await endpoint.storage.delete(namespace, name, expect=current.revision)
                await site.hook(resource).after_delete(site, last.object)
                return True, last
            if left == current.object:
                return False, current
            stored = await endpoint.storage.update(namespace, name, left, expect=current.revision)
            hook = site.hook(resource)
            if hook.follows:
                await hook.after(site, write, stored.object)
            return False, stored
        except StatusError as error:
            if attempt == _TRIES - 1 or not writing.is_conflict(error):
                raise
    raise AssertionError("the last try returns or raises")


def _preconditions(endpoint: Endpoint, current: Stored, asked: DeleteOptions) -> None:
    resource, uid = endpoint.resource, current.object["metadata"].get("uid")
    if asked.uid is not None and asked.uid != uid:
        why = f"Precondition failed: UID in precondition: {asked.uid}, UID in object meta: {uid}"
        raise conflict(resource.subject, current.name, why)
    if asked.revision is not None and asked.revision != str(current.revision):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {asked.revision}, "
            f"ResourceVersion in object meta: {current.revision}"
        )
        raise conflict(resource.subject, current.name, why)


def _left(site: Site, endpoint: Endpoint, current: Stored, asked: DeleteOptions) -> Object | None:
    """The object as it lives on under deletion; None if it goes at once."""
    obj = writing.private(current.raw)
    meta = obj["metadata"]
    finalizers = _finalizers(list(meta.get("finalizers") or ()), asked.propagation)
    grace = _grace(obj, asked.grace) if endpoint.stored.resource.kind == "Pod" else 0
    waits = grace > 0 or bool(finalizers) or _holds(obj)
    if not waits:
        return None
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    now = site.clock.now()
    before = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = rfc3339(now + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta:
            meta["generation"] += 1
    elif before is not None and grace < before:
        # a second delete may only shorten the time
        meta["deletionTimestamp"] = rfc3339(now + grace)
        meta["deletionGracePeriodSeconds"] = grace
    if obj["kind"] == "Namespace":
        obj.setdefault("status", {})["phase"] = "Terminating"
    return obj


def _finalizers(present: list[str], policy: str) -> list[str]:
    if not policy:
        return present
    kept = [name for name in present if name not in _GC]
    wanted = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}.get(policy)
    return [*kept, wanted] if wanted else kept


def _holds(obj: Object) -> bool:
    """A namespace also waits for the finalizers of its spec."""
    return obj["kind"] == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))


def _grace(pod: Object, asked: int | None) -> int:
    """Seconds that a pod gets: none where no kubelet runs it."""
    spec = pod.get("spec") or {}
    grace: int = asked if asked is not None else spec.get("terminationGracePeriodSeconds", _GRACE_S)
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    before = pod["metadata"].get("deletionGracePeriodSeconds")
    return grace if before is None else min(grace, before)


async def delete_collection(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """All objects that the selectors choose; answers with the list of them."""
    asked = await options.delete_options(exchange)
    found = await lists.matching(exchange, endpoint.resource, endpoint.storage)
    removed: list[bytes] = []
    for stored in found:
        try:
            await remove(site, exchange, endpoint, stored.namespace, stored.name, asked)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
        removed.append(stored.raw)
    resource = endpoint.stored.resource
    head = msgspec.json.encode({"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": {}})
    return Response(200, head[:-1] + b',"items":[' + b",".join(removed) + b"]}")
