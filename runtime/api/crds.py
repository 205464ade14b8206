"""Custom resources coming and going: what a CustomResourceDefinition that was written means for what is served.

The hook follows this server's own writes before they are answered, so that a definition is served when its creator
hears of it; `follow` follows the store, so that one written through another server is served too. A deleted definition
takes its objects with it, then its API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema import compiler
from dashpot.model.objects.status import Cause, StatusError, bad_request, internal
from dashpot.model.objects.structure import Structure, custom
from dashpot.runtime.api.admit.base import Attributes
from dashpot.runtime.api.admit.calling import Caller as HttpCaller
from dashpot.runtime.api.admit.calling import CallError
from dashpot.runtime.api.catalog import META, Catalog
from dashpot.runtime.api.crd import controller
from dashpot.runtime.api.crd.conversion import Caller, convert
from dashpot.runtime.api.crd.custom import CustomType
from dashpot.runtime.api.kind import Kind
from dashpot.runtime.api.subresources.scale import ScalePaths
from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.verbs.hooks import Hook
from dashpot.runtime.clock import rfc3339

if TYPE_CHECKING:
    from dashpot.runtime.api.site import Site

Object = dict[str, Any]
Forget = Callable[[str, str], Awaitable[None]]

GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
ROOT = f"/apis/{GROUP}/v1/{PLURAL}"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
CONVERSION_S = 30.0
AGAIN_S = 0.5
"""Between two looks at objects of a deleted definition that still have finalizers."""


class Custom:
    """A kind that a definition declares."""

    def __init__(
        self, resource: Resource, declared: CustomType, structure: Structure, ending: Callable[[], bool]
    ) -> None:
        self.resource = resource
        self.structure = structure
        self._declared = declared
        self._ending = ending
        self._metadata = compiler(builtin()).named(f"{META}ObjectMeta")

    def decode(self, obj: Object) -> list[str]:
        """Metadata is that of every object; the rest is pruned by the schema."""
        meta = obj.get("metadata")
        unknown: list[str] = []
        if meta is not None:
            if not isinstance(meta, dict):
                raise bad_request(f"{self.resource.kind}: metadata must be an object")
            unknown = [text.replace('field "', 'field "metadata.', 1) for text in self._metadata.decode(meta)]
        return [*unknown, *(f'unknown field "{path}"' for path in self._declared.decode(obj))]

    def default(self, obj: Object, old: Object | None) -> None:
        """The schema's defaults."""
        self._declared.default(obj)

    def causes(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        """Schema and CEL rules; nothing new is made while the definition is being deleted."""
        if old is None and self._ending():
            raise StatusError("MethodNotAllowed", "create not allowed while custom resource definition is terminating")
        return self._declared.validate(obj, old)


class ConversionCaller:
    """Calls conversion webhooks through admission's dialler and connections."""

    def __init__(self, caller: HttpCaller) -> None:
        self._caller = caller

    async def call(self, client_config: Object, review: Object) -> Object:
        """The review that came back; StatusError 500 where there is none."""
        try:
            body = msgspec.json.encode(review)
            answer = await self._caller.post("conversion", "conversion", client_config, CONVERSION_S, body)
            found = msgspec.json.decode(answer)
        except CallError as error:
            raise internal(str(error)) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise internal(f"the conversion webhook answered no JSON: {error}") from None
        if not isinstance(found, dict):
            raise internal("the conversion webhook answered no object")
        return found

    async def close(self) -> None:
        """Closes the connections."""
        await self._caller.close()


def _described(name: str, versions: list[tuple[str, str]], reason: str) -> None:
    """A definition changes what the server says of itself in OpenAPI."""
    tally("apiextensions_openapi_v2_regeneration_count").cell(name, reason).value += 1
    for version in versions:
        tally("apiextensions_openapi_v3_regeneration_count").cell(*version, name, reason).value += 1


class Definitions(Hook):
    """The definitions that are served, and the work that follows from them."""

    follows = True

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._served: dict[str, Object] = {}
        self._kinds: dict[Resource, Kind] = {}
        self._site: Site | None = None
        self._forget: Forget | None = None
        self._busy = asyncio.Lock()
        self._waiting: set[asyncio.Task[None]] = set()
        self.caller: Caller | None = None
        """Calls conversion webhooks."""

    # -- what the verbs ask -------------------------------------------------------------------------------------

    def kind(self, resource: Resource) -> Kind:
        """How the objects of a served custom resource are read."""
        found = self._kinds.get(resource)
        if found is None:
            version = self._version(resource)
            name = f"{resource.plural}.{resource.group}"
            preserve = bool(self._served[name]["spec"].get("preserveUnknownFields"))
            structure = custom((version.get("schema") or {}).get("openAPIV3Schema"))

            def ending() -> bool:
                return "deletionTimestamp" in (self._served.get(name) or {}).get("metadata", {})

            found = Custom(resource, CustomType(version, preserve=preserve), structure, ending)
            self._kinds[resource] = found
        return found

    def scale(self, resource: Resource) -> ScalePaths | None:
        """Where its replicas are."""
        declared = (self._version(resource).get("subresources") or {}).get("scale")
        return ScalePaths.of(declared) if declared else None

    def _version(self, resource: Resource) -> Object:
        definition = self._served[f"{resource.plural}.{resource.group}"]
        found: Object = next(v for v in definition["spec"]["versions"] if v["name"] == resource.version)
        return found

    # -- what writes mean ---------------------------------------------------------------------------------------

    async def before_create(self, site: Site, write: Attributes) -> None:
        """A definition cleans up behind itself."""
        assert write.object is not None
        finalizers = write.object["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)

    async def after(self, site: Site, write: Attributes, stored: Object) -> None:
        """Serves it, before its writer hears of it."""
        if write.subresource != "status":
            await self._settle(stored["metadata"]["name"])

    async def after_delete(self, site: Site, last: Object) -> None:
        """Serves it no more."""
        await self._drop(last["metadata"]["name"])

    # -- the work -----------------------------------------------------------------------------------------------

    async def begin(self, site: Site, forget: Forget) -> None:
        """Serves what the store holds."""
        self._site = site
        self._forget = forget
        found = await site.internal.call("GET", ROOT)
        for definition in found["items"]:
            await self._settle(definition["metadata"]["name"])

    async def follow(self) -> None:
        """Follows the store until it is cancelled."""
        assert self._site is not None
        while True:
            try:
                await self._follow()
            except Exception:
                await asyncio.sleep(AGAIN_S)  # the store is away for a while

    async def _follow(self) -> None:
        """Until a watch ends."""
        assert self._site is not None
        storage = self._site.storages(GROUP, PLURAL)
        listed = await storage.store.range(storage.keys.prefix)
        present = {storage.keys.parts(entry.key)[1] for entry in listed.entries}
        for name in {*present, *self._served}:
            await self._guarded(name)
        watch = storage.store.watch(storage.keys.prefix, listed.revision)
        try:
            async for batch in watch:
                for name in {storage.keys.parts(event.key)[1] for event in batch}:
                    await self._guarded(name)
        finally:
            await watch.close()

    async def _guarded(self, name: str) -> None:
        try:
            await self._settle(name)
        except StatusError as error:
            if error.code >= 500:
                asyncio.get_running_loop().call_later(AGAIN_S, self._later, name)
            # else whoever comes next sees it again: the store told of a state that is older than what is there now
            await asyncio.sleep(0)

    async def _settle(self, name: str) -> None:
        """Makes what is served fit the definition, and its status fit both."""
        assert self._site is not None
        async with self._busy:
            definition = await self._read(name)
            if definition is None:
                await self._drop(name)
                return
            others = [entry for entry in self._served.values() if entry["metadata"]["name"] != name]
            now = rfc3339(self._site.clock.now())
            status = controller.conditions(definition, others, now)
            ending = "deletionTimestamp" in definition["metadata"]
            if ending:
                status = _terminating(status, now)
            if status != definition.get("status"):
                definition = await self._write_status(definition, status)
            self._serve(name, definition)
        if ending:
            await self._clean(name, definition)

    async def _read(self, name: str) -> Object | None:
        assert self._site is not None
        try:
            return await self._site.internal.call("GET", f"{ROOT}/{name}")
        except StatusError as error:
            if error.reason == "NotFound":
                return None
            raise

    async def _write_status(self, definition: Object, status: Object) -> Object:
        assert self._site is not None
        place = f"{ROOT}/{definition['metadata']['name']}/status"
        return await self._site.internal.call("PUT", place, {**definition, "status": status})

    def _serve(self, name: str, definition: Object) -> None:
        before = self._served.get(name)
        self._served[name] = definition
        if before is not None and before["spec"] == definition["spec"] and before.get("status") == definition["status"]:
            return
        resources = controller.resources(definition)
        self._kinds = {r: kind for r, kind in self._kinds.items() if f"{r.plural}.{r.group}" != name}
        if not resources:
            return
        group = resources[0].group
        reason = "add" if self._catalog.find(group, resources[0].version, resources[0].plural) is None else "update"
        _described(name, [(group, one.version) for one in resources], reason)
        self._catalog.add(group, resources, controller.schemas(definition))
        assert self._site is not None
        storage = self._site.storages(group, resources[0].plural)
        conversion = definition["spec"].get("conversion") or {}
        storage.webhook = self._converter(name) if conversion.get("strategy") == "Webhook" else None

    async def converted(self, obj: Object, resource: Resource, wanted: Resource) -> Object:
        """One object in another version of its definition."""
        definition = self._served[f"{resource.plural}.{resource.group}"]
        return (await convert(definition, [obj], wanted.version, self.caller))[0]

    def _converter(self, name: str) -> Callable[[Sequence[Object], str], Awaitable[Sequence[Object]]]:
        async def converted(objects: Sequence[Object], api_version: str) -> Sequence[Object]:
            return await convert(self._served[name], objects, api_version.rpartition("/")[2], self.caller)

        return converted

    async def _drop(self, name: str) -> None:
        definition = self._served.pop(name, None)
        if definition is None:
            return
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        self._kinds = {r: kind for r, kind in self._kinds.items() if f"{r.plural}.{r.group}" != name}
        _described(name, [(group, one.version) for one in self._catalog.all_versions(group, plural)], "delete")
        self._catalog.remove(group, plural)
        assert self._forget is not None
        await self._forget(group, plural)

    async def _clean(self, name: str, definition: Object) -> None:
        """Deletes the objects, waits for their finalizers in the background, then lets the definition go."""
        assert self._site is not None
        spec = definition["spec"]
        served = [version["name"] for version in spec["versions"] if version.get("served")]
        if served and controller.established(definition):
            place = f"/apis/{spec['group']}/{served[0]}/{spec['names']['plural']}"
            await self._site.internal.call("DELETE", place)
            left = await self._site.internal.call("GET", place, query={"limit": "1"})
            if left["items"]:
                asyncio.get_running_loop().call_later(AGAIN_S, self._later, name)
                return
        finalizers = [f for f in definition["metadata"].get("finalizers") or () if f != CLEANUP]
        if len(finalizers) == len(definition["metadata"].get("finalizers") or ()):
            return
        patch = {"metadata": {"finalizers": finalizers, "uid": definition["metadata"]["uid"]}}
        try:
            await self._site.internal.call(
                "PATCH", f"{ROOT}/{name}", patch, content_type="application/merge-patch+json"
            )
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    def _later(self, name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(name))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


def _terminating(status: Object, now: str) -> Object:
    rows = [row for row in status["conditions"] if row["type"] != "Terminating"]
    old = next((row for row in status["conditions"] if row["type"] == "Terminating"), None)
    row = old or {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }
    return {**status, "conditions": [*rows, row]}
