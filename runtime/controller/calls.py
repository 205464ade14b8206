"""Who makes the calls of a pass: the seam at which a driver watches, holds, counts or only tries them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from attrs import define, field

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.discovery import NoMatch
from dashpot.runtime.client.events import Recorder
from dashpot.runtime.client.metadata import MetadataClient, metadata_client
from dashpot.runtime.client.rest import Client, Delete, Patch, Write
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.controller.manifold import Manifold, One, every
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.paths import put
from dashpot.runtime.controller.request import ApiRequest

Object = dict[str, Any]
Answer = Obj | list[Obj] | None


class ApiError(Exception):
    """A call that failed. `name` is the error as `on …` names it, or "" for one that no handler can name."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(str(error))
        self.name = name
        self.error = error


class Caller(Protocol):
    """Makes calls."""

    async def perform(self, request: ApiRequest) -> Answer:
        """The object that the server answered with, the objects of a list, or None where it answered with none (an
        object that is not there, a delete that is done); ApiError."""
        ...

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        """An event about an object: Normal or Warning."""
        ...


REASONS = {
    "AlreadyExists": "AlreadyExists",
    "Conflict": "Conflict",
    "NotFound": "NotFound",
    "Gone": "NotFound",
    "Invalid": "Invalid",
    "Forbidden": "Denied",
    "TooManyRequests": "TooManyRequests",
    "Timeout": "Timeout",
    "ServerTimeout": "Timeout",
}
"""Reason of a Status → the error as specs name it."""


def error_name(error: Exception) -> str:
    """How `on …` names a failure; "" if nothing names it. An answer that was lost is a Timeout. What an admission
    webhook denies may have any code; its message says who denied."""
    if isinstance(error, TransportError):
        return "Timeout"
    if not isinstance(error, StatusError):
        return ""
    if error.message.startswith("admission webhook ") and "denied the request" in error.message:
        return "Denied"
    return REASONS.get(error.reason, "")


@define(eq=False)
class ClientCaller:
    """Calls over a client. `manager` owns the fields that are written; `dry_run` only tries."""

    client: Client
    manager: str
    recorder: Recorder | None = None
    dry_run: bool = False
    _metadata: MetadataClient | None = field(default=None, init=False, repr=False)

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        """Records an event, if there is a recorder."""
        if self.recorder is not None and not self.dry_run:
            self.recorder.event(about.json, "Warning" if kind == "Warning" else "Normal", reason, message)

    async def perform(self, request: ApiRequest) -> Answer:
        """Makes the call; ApiError."""
        try:
            return await _VERBS[request.verb](self, request)
        except (StatusError, TransportError) as error:
            raise ApiError(error_name(error), error) from error

    @property
    def write(self) -> Write:
        """How writes are meant."""
        return Write(self.manager, self.dry_run)

    @property
    def metadata(self) -> MetadataClient:
        """The client for kinds of which the metadata is all that is read."""
        if self._metadata is None:
            self._metadata = metadata_client(self.client)
        return self._metadata

    async def _get(self, request: ApiRequest) -> Answer:
        if isinstance(request.view, Manifold):
            return await self._referred(request, request.view)
        if request.view.declared.answers:
            return await self._answer(request)
        try:
            found = await self.client.get(request.view.resource, request.name, request.namespace)
        except StatusError as error:
            if error.reason == "NotFound":
                return None
            raise
        return Obj(request.view, found)

    async def _answer(self, request: ApiRequest) -> Answer:
        """What is answered at a path, a Status too."""
        try:
            found = await self.client.call("GET", f"{request.view.api_version}/{request.name}")
        except StatusError as error:
            found = error.status()
        return Obj(request.view, found)

    async def _referred(self, request: ApiRequest, view: Manifold) -> Answer:
        """What a reference names, of whatever kind; see docs/language.md for what is null and what an error."""
        wanted = request.reference
        assert wanted is not None
        one = await self._one(view, wanted.api_version, wanted.kind)
        if one is None:
            return None
        namespace = wanted.namespace if one.namespaced else ""
        if one.namespaced and not namespace:
            raise StatusError("Invalid", f"a cluster-wide object cannot refer to the {wanted.kind} {wanted.name}")
        client = self.client if view.part else self.metadata
        try:
            return one.seen(await client.get(one.resource, wanted.name, namespace, subresource=view.part))
        except StatusError as error:
            if error.reason == "NotFound":
                return None
            raise

    async def _one(self, view: Manifold, api_version: str, kind: str) -> One | None:
        """The resource of a kind; of a part None, where there is no such kind, or it has no such part."""
        try:
            resource = await self.client.discovery.by_kind(api_version, kind)
        except NoMatch as problem:
            if not view.part:
                raise StatusError("InternalError", str(problem)) from problem
            # any version will do: the part is the same in all
            group = api_version.rpartition("/")[0]
            served = await self.client.discovery.resources()
            found = next((r for r in served if (r.group, r.kind) == (group, kind)), None)
            if found is None:
                return None
            resource = found
        return view.at(resource) if not view.part or resource.subresource(view.part) is not None else None

    async def _all(self, view: Manifold, namespace: str) -> list[Obj]:
        """All objects of all resources, or those of a namespace."""
        found: list[Obj] = []
        for resource in every(await self.client.discovery.resources()):
            if resource.namespaced or not namespace:
                one = view.at(resource)
                try:
                    listing = await self.metadata.list(resource, namespace)
                except StatusError as error:
                    if error.reason == "NotFound":
                        continue  # its definition has just gone
                    raise
                found += [one.seen(item) for item in listing.items]
        return found

    async def _list(self, request: ApiRequest) -> Answer:
        if isinstance(request.view, Manifold):
            return list(await self._all(request.view, request.namespace))
        fields = f"metadata.name={request.name}" if request.name else ""
        listing = await self.client.list(request.view.resource, request.namespace, fields=fields)
        return [Obj(request.view, item) for item in listing.items]

    async def _create(self, request: ApiRequest) -> Answer:
        return Obj(
            request.view,
            await self.client.create(request.view.resource, request.body, request.namespace, how=self.write),
        )

    async def _update(self, request: ApiRequest) -> Answer:
        answer = await self.client.update(
            request.view.resource, request.body, request.namespace, subresource=request.subresource, how=self.write
        )
        return self._answered(request, answer)

    async def _patch(self, request: ApiRequest) -> Answer:
        answer = await self.client.patch(
            request.view.resource,
            request.name,
            request.body,
            request.namespace,
            kind=cast(Patch, request.patch),
            subresource=request.subresource,
            how=self.write,
        )
        return self._answered(request, answer)

    async def _apply(self, request: ApiRequest) -> Answer:
        answer = await self.client.apply(
            request.view.resource,
            request.body,
            request.namespace,
            manager=self.manager,
            force=request.force,
            subresource=request.subresource,
            how=self.write,
        )
        return Obj(request.view, answer)

    async def _delete(self, request: ApiRequest) -> Answer:
        how = Delete(request.grace, request.propagation, request.uid, request.version, self.dry_run)
        answer = await self.client.delete(request.view.resource, request.name, request.namespace, how=how)
        return self._answered(request, answer) if answer.get("kind") == request.view.resource.kind else None

    @staticmethod
    def _answered(request: ApiRequest, answer: Object) -> Obj:
        view = request.view
        return view.seen(answer) if isinstance(view, One) else Obj(view, answer)

    async def _evict(self, request: ApiRequest) -> Answer:
        body: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": request.name, "namespace": request.namespace},
        }
        if self.dry_run:
            body["deleteOptions"] = {"dryRun": ["All"]}
        await self.client.create(
            request.view.resource, body, request.namespace, subresource="eviction", name=request.name, how=self.write
        )
        return None

    async def _bind(self, request: ApiRequest) -> Answer:
        body: Object = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": request.name, "namespace": request.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": request.body},
        }
        if request.target is not None and request.target.uid:
            body["metadata"]["uid"] = request.target.uid
        await self.client.create(
            request.view.resource, body, request.namespace, subresource="binding", name=request.name, how=self.write
        )
        # the server answers with a Status: what it did to the pod is known all the same
        target = request.target
        return None if target is None else Obj(target.view, put(target.json, ("spec", "nodeName"), request.body))


_VERBS: dict[str, Callable[[ClientCaller, ApiRequest], Awaitable[Answer]]] = {
    "get": ClientCaller._get,
    "list": ClientCaller._list,
    "create": ClientCaller._create,
    "update": ClientCaller._update,
    "patch": ClientCaller._patch,
    "apply": ClientCaller._apply,
    "delete": ClientCaller._delete,
    "evict": ClientCaller._evict,
    "bind": ClientCaller._bind,
}
