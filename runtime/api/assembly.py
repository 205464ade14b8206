"""Puts a server together: stores, storages and caches, gates, verbs, and what must exist from the start."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from attrs import define, field

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema import shape
from dashpot.model.objects.structure import structure
from dashpot.runtime.api.addresses import Services
from dashpot.runtime.api.cache import Cache
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.crds import Definitions
from dashpot.runtime.api.faults import Faults
from dashpot.runtime.api.history import Limits
from dashpot.runtime.api.keys import Keys
from dashpot.runtime.api.kind import Builtin, Checks, Kind
from dashpot.runtime.api.leasing import Leases
from dashpot.runtime.api.metrics_cells import Registry
from dashpot.runtime.api.metrics_store import MeasuredStore
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.subresources.scale import ScalePaths
from dashpot.runtime.api.verbs.hooks import Events, Hook
from dashpot.runtime.api.view import SyncedView
from dashpot.runtime.clock import Clock
from dashpot.runtime.store.base import Store
from dashpot.runtime.store.open import Overrides


@define(eq=False)
class Storages:
    """One Storage for each stored resource, made when it is first asked for."""

    catalog: Catalog
    stores: Overrides
    clock: Clock
    faults: Faults | None
    registry: Registry | None = None
    """Where the requests to the stores are counted."""
    history: int = 10_000
    """Events that each cache keeps."""
    chance: random.Random = field(factory=random.Random)
    """When bookmarks come and watches end."""
    _made: dict[tuple[str, str], Storage] = field(factory=dict)
    _leases: dict[int, Leases] = field(factory=dict)

    def __call__(self, group: str, plural: str) -> Storage:
        """By group and plural of what is stored; KeyError if nothing of that name is served."""
        key = (group, plural)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(self.resource(group, plural))
        return found

    def resource(self, group: str, plural: str) -> Resource:
        """The version in which a resource is stored."""
        for resource in self.catalog.all_versions(group, plural):
            if (resource.storage_group, resource.storage_version) == (resource.group, resource.version):
                return resource
        raise KeyError(f"{plural}.{group}")

    def _make(self, resource: Resource) -> Storage:
        keys = Keys(resource)
        store = self.stores.of(keys.prefix)
        leases = self._leases.get(id(store))
        if leases is None:
            leases = self._leases[id(store)] = Leases(store, self.clock)
        measured: Store = store
        if self.registry is not None:
            measured = MeasuredStore(store, self.registry, resource.group, resource.plural)
        store = measured
        cache = Cache(store, keys, self.clock, limits=Limits(most=self.history))
        made = Storage(store, resource, self.clock, cache=cache, faults=self.faults, leases=leases)
        made.chance = random.Random(self.chance.random())
        return made

    async def forget(self, group: str, plural: str) -> None:
        """Ends the cache of a resource that is served no more."""
        gone = self._made.pop((group, plural), None)
        if gone is not None:
            await gone.cache.close()

    def finish(self) -> None:
        """Ends all watches; everything else is served on."""
        for storage in self._made.values():
            storage.cache.fanout.finish()

    async def close(self) -> None:
        """Ends all caches."""
        await asyncio.gather(*(storage.cache.close() for storage in self._made.values()))

    def made(self) -> dict[tuple[str, str], Storage]:
        """What was made so far."""
        return dict(self._made)


@define(eq=False)
class Kinds:
    """How the objects of each served resource are read, compiled once."""

    catalog: Catalog
    definitions: Definitions
    rules: Checks
    _made: dict[Resource, Kind] = field(factory=dict)

    def __call__(self, resource: Resource) -> Kind:
        """The kind of a served resource."""
        found = self._made.get(resource)
        if found is None:
            found = self._made[resource] = self._make(resource)
        return found

    def _make(self, resource: Resource) -> Kind:
        if resource.custom:
            return self.definitions.kind(resource)
        registry = builtin()
        names = (resource.group, resource.version, resource.kind)
        return Builtin(resource, shape(*names, registry), structure(*names, registry), self.rules)


GATES: Sequence[tuple[str, str]] = (
    ("", "namespaces"),
    ("", "serviceaccounts"),
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("", "nodes"),
    ("", "pods"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("networking.k8s.io", "ingressclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
)
"""What the gates look up: a server lets nobody in before it has seen them, or a LimitRange would not hold at first."""


async def warm(view: SyncedView) -> None:
    """Fills the caches that the gates look into."""
    await asyncio.gather(*(view.synced(group, plural) for group, plural in GATES))


def hooks(
    stores: Overrides,
    network: str,
    ports: tuple[int, int],
    chance: random.Random,
    clock: Clock,
    definitions: Definitions,
) -> dict[tuple[str, str], Hook]:
    """What some kinds do beside being stored."""
    services = Services(stores.of("/registry/services/"), network, ports, chance, clock)
    return {
        ("", "events"): Events(),
        ("", "services"): services,
        ("apiextensions.k8s.io", "customresourcedefinitions"): definitions,
    }


def scales(definitions: Definitions) -> Callable[[Resource], ScalePaths | None]:
    """Where each resource that can be scaled keeps its replicas."""

    def paths(resource: Resource) -> ScalePaths | None:
        return definitions.scale(resource) if resource.custom else ScalePaths()

    return paths
