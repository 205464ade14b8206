"""The versions in which one object can be shown: for webhooks and policies that ask for another one than was written.

Source: k8s.io/apiserver pkg/endpoints/installer (equivalent resources), release 1.34.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dashpot.model.objects.convert import convert
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.structure import Structure, custom, structure
from dashpot.runtime.api.admit.base import Object
from dashpot.runtime.api.catalog import Catalog

CustomConverter = Callable[[Object, Resource, Resource], Awaitable[Object]]
"""Converts a custom resource by its CRD's strategy (the conversion webhook)."""


class ServedVersions:
    """Equivalents by what is served now."""

    def __init__(self, catalog: Catalog, custom: CustomConverter | None = None) -> None:
        self._catalog, self._custom = catalog, custom

    def equivalents(self, resource: Resource) -> Sequence[Resource]:
        """All resources over the same storage, the given one first."""
        return self._catalog.memo(("equivalents", resource), lambda: self._find(resource))

    def _find(self, resource: Resource) -> Sequence[Resource]:
        def same(other: Resource) -> bool:
            stored = (other.storage_group, other.storage_version) == (resource.storage_group, resource.storage_version)
            return stored and other.plural == resource.plural and other is not resource

        return (resource, *(other for other in self._catalog.resources() if same(other)))

    async def convert(self, one: Object, source: Resource, target: Resource) -> Object:
        """The object in another version; custom ones by their webhook, else their fields stay."""
        if source.custom:
            if self._custom is not None:
                return await self._custom(one, source, target)
            return {**one, "apiVersion": target.api_version}
        return convert(one, target.api_version)

    def structure(self, resource: Resource) -> Structure:
        """How the objects of a resource are merged."""

        def make() -> Structure:
            if not resource.custom:
                return structure(resource.group, resource.version, resource.kind, self._catalog.registry)
            return custom(self._catalog.schema(resource.group, resource.version, resource.kind))

        return self._catalog.memo(("structure", resource), make)

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """What serves a kind."""
        group, _, version = api_version.rpartition("/")
        return self._catalog.by_kind(group, version, kind)
