"""What every verb of the server needs at hand: resources, storages, admission, time and chance."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import define, field

from dashpot.model.objects.convert import convert
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.chain import Chain
from dashpot.runtime.api.auth.attributes import AuthzAttributes, Decision
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.api.kind import Kind
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.verbs.hooks import NONE, Hook
from dashpot.runtime.api.view import SyncedView
from dashpot.runtime.clock import Clock

Object = dict[str, Any]


@define(eq=False)
class Endpoint:
    """One resource in the version that was asked for, over the form in which it is stored."""

    kind: Kind
    stored: Kind
    storage: Storage

    @property
    def resource(self) -> Resource:
        """What was asked for."""
        return self.kind.resource

    @property
    def same(self) -> bool:
        """Whether objects are stored as they are asked for."""
        return self.kind is self.stored

    async def inward(self, obj: Object) -> Object:
        """An object as it is stored."""
        return obj if self.same else await self._converted(obj, self.stored.resource.api_version)

    async def outward(self, obj: Object) -> Object:
        """A stored object as it was asked for."""
        return obj if self.same else await self._converted(obj, self.kind.resource.api_version)

    async def _converted(self, obj: Object, api_version: str) -> Object:
        if not self.resource.custom:
            return convert(obj, api_version)
        if self.storage.webhook is not None:
            return (await self.storage.webhook([obj], api_version))[0]
        return {**obj, "apiVersion": api_version}


async def _deny(_: AuthzAttributes) -> Decision:
    return Decision(False, "nobody decides")


@define(eq=False)
class Site:
    """The server as its verbs see it."""

    catalog: Catalog
    view: SyncedView
    chain: Chain
    internal: Internal
    clock: Clock
    kinds: Callable[[Resource], Kind]
    storages: Callable[[str, str], Storage]
    """By group and plural of what is stored."""
    hooks: Mapping[tuple[str, str], Hook] = field(factory=dict)
    """By group and plural."""
    extensions: dict[str, Callable[[Exchange], Awaitable[Response]]] = field(factory=dict)
    """Groups that somebody else in this process answers, as an aggregated server would."""
    authorize: Callable[[AuthzAttributes], Awaitable[Decision]] = _deny
    """What a verb asks beyond the gate: a right that goes with an option."""
    chance: random.Random = field(factory=random.SystemRandom)
    _endpoints: dict[tuple[str, str, str], Endpoint] = field(factory=dict)
    _generation: int = -1

    def endpoint(self, group: str, version: str, plural: str) -> Endpoint | None:
        """What serves a resource; None if there is none."""
        if self._generation != self.catalog.generation:
            self._endpoints.clear()
            self._generation = self.catalog.generation
        key = (group, version, plural)
        found = self._endpoints.get(key)
        if found is None:
            resource = self.catalog.find(*key)
            if resource is None:
                return None
            stored = self._stored(resource)
            kind = self.kinds(resource)
            own = kind if stored is resource else self.kinds(stored)
            found = Endpoint(kind, own, self.storages(stored.group, stored.plural))
            self._endpoints[key] = found
        return found

    def hook(self, resource: Resource) -> Hook:
        """What the kind does beside being stored."""
        return self.hooks.get((resource.group, resource.plural), NONE)

    def _stored(self, resource: Resource) -> Resource:
        if (resource.storage_group, resource.storage_version) == (resource.group, resource.version):
            return resource
        stored = self.catalog.find(resource.storage_group, resource.storage_version, resource.plural)
        if stored is None:
            raise StatusError("InternalError", f"{resource.qualified} has no stored version")
        return stored

    def uid(self) -> str:
        """A new uid, version 4."""
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
