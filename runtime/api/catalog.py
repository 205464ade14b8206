"""What this server serves now: the built-in resources and the custom ones, which come and go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import fields

from dashpot.model.objects.registry import COMPONENTS, Registry, builtin
from dashpot.model.objects.resource import Resource

Object = dict[str, Any]
T = TypeVar("T")

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """Sorts versions as Kubernetes prefers them: v10 v2 v1 v2beta1 v1beta2 v1alpha1, then other names by alphabet.

    Source: apimachinery pkg/version/helpers.go, CompareKubeAwareVersionStrings.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, stage, minor = match.groups()
    return (0, _STAGES[stage], -int(major), -int(minor or 0), "")


class Catalog:
    """All resources by group, version and plural name, and the schemas of their kinds.

    `generation` rises with each change. What is derived from the whole catalog is kept with `memo`, which forgets it
    when the catalog changes; what is derived from one group version lives as long as its `stamp`.
    """

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or builtin()
        self.generation = 1
        self._custom: dict[tuple[str, str], tuple[Resource, ...]] = {}
        self._schemas: dict[tuple[str, str, str], Object] = {}
        self._stamps: dict[tuple[str, str], int] = {}
        self._memo: dict[Any, Any] = {}
        self._order()

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """`("apps", "v1", "deployments")`; None if it is not served."""
        return self._found.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """`("apps", "v1", "Deployment")`; None if no served resource has that kind."""
        return self._kinds.get((group, version, kind))

    def resources(self) -> tuple[Resource, ...]:
        """Everything served, in the order of discovery."""
        return self._resources

    def groups(self) -> tuple[str, ...]:
        """The groups by priority, "" (core) first."""
        return tuple(self._groups)

    def versions(self, group: str) -> tuple[str, ...]:
        """The versions of a group, the preferred one first; empty if the group is not served."""
        return tuple(self._groups.get(group, ()))

    def of(self, group: str, version: str) -> tuple[Resource, ...]:
        """The resources of one group version, by plural name; empty if it is not served."""
        return self._groups.get(group, {}).get(version, ())

    def all_versions(self, group: str, plural: str) -> tuple[Resource, ...]:
        """One resource in each version in which it is served, the preferred one first."""
        found = (self.find(group, version, plural) for version in self.versions(group))
        return tuple(resource for resource in found if resource is not None)

    def custom(self) -> tuple[Resource, ...]:
        """The custom resources alone."""
        return tuple(resource for resources in self._custom.values() for resource in resources)

    def has(self, group: str, version: str, kind: str) -> bool:
        """Whether a kind has a schema: a custom kind, or any built-in one (Scale, DeleteOptions, PodList …)."""
        return (group, version, kind) in self._schemas or self.registry.has(group, version, kind)

    def schema(self, group: str, version: str, kind: str) -> Object:
        """The schema of a kind, with apiVersion, kind and metadata; shared, never change it. KeyError if unknown."""
        found = self._schemas.get((group, version, kind))
        return self.registry.schema(group, version, kind) if found is None else found

    def definition(self, name: str) -> Object:
        """What a `$ref` in a schema means (built-in types; a custom schema refers to nothing else)."""
        return self.registry.definition(name)

    def add(self, group: str, resources: Sequence[Resource], schemas: Mapping[str, Object]) -> None:
        """Serves a custom resource in all its versions, in place of what the same plural name meant in that group.

        `schemas`: the openAPIV3Schema of each version; a version without one takes any object. Adding what is served
        already, unchanged, changes nothing.
        """
        if not resources:
            raise ValueError("a custom resource has at least one version")
        plural = resources[0].plural
        served = {(group, r.version, r.kind): whole(schemas.get(r.version)) for r in resources}
        before = self._custom.get((group, plural), ())
        same = list(map(_facts, before)) == list(map(_facts, resources))
        if same and all(_equal(self._schemas.get(key), schema) for key, schema in served.items()):
            return
        self._forget(group, plural)
        self._custom[group, plural] = tuple(resources)
        self._schemas.update(served)
        self._changed(group, {r.version for r in (*before, *resources)})

    def remove(self, group: str, plural: str) -> None:
        """Stops serving a custom resource; nothing happens if there is none."""
        before = self._forget(group, plural)
        if before:
            self._changed(group, {r.version for r in before})

    def stamp(self, group: str, version: str) -> int:
        """The generation in which a group version changed last."""
        return self._stamps.get((group, version), 1)

    def memo(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` makes, kept until the catalog changes."""
        if key not in self._memo:
            self._memo[key] = make()
        found: T = self._memo[key]
        return found

    def _forget(self, group: str, plural: str) -> tuple[Resource, ...]:
        before = self._custom.pop((group, plural), ())
        for resource in before:
            self._schemas.pop((group, resource.version, resource.kind), None)
        return before

    def _changed(self, group: str, versions: set[str]) -> None:
        self.generation += 1
        for version in versions:
            self._stamps[group, version] = self.generation
        self._memo.clear()
        self._order()

    def _order(self) -> None:
        """Groups: built-in by priority, custom by name, metrics last (priorities above 1000, 1000, 100)."""
        every = [*self.registry.resources, *self.custom()]
        rank = {group: i for i, group in enumerate(dict.fromkeys(r.group for r in self.registry.resources))}
        middle = rank["metrics.k8s.io"] = len(rank)
        every.sort(key=lambda r: (rank.get(r.group, middle - 1), r.group, version_order(r.version), r.plural))
        self._resources = tuple(every)
        self._found = {(r.group, r.version, r.plural): r for r in every}
        self._kinds = {(r.group, r.version, r.kind): r for r in reversed(every)}
        groups: dict[str, dict[str, list[Resource]]] = {}
        for resource in every:
            groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        self._groups = {group: {v: tuple(rs) for v, rs in versions.items()} for group, versions in groups.items()}


def whole(schema: Object | None) -> Object:
    """A custom schema as that of a whole object: apiVersion, kind and metadata are those of every object."""
    schema = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    text = builtin().definition(f"{META}Status")["properties"]
    common = {
        "apiVersion": text["apiVersion"],
        "kind": text["kind"],
        "metadata": {"$ref": f"{COMPONENTS}{META}ObjectMeta", "description": "Standard object's metadata."},
    }
    return {**schema, "properties": {**schema.get("properties", {}), **common}}


def _equal(one: Object | None, other: Object) -> bool:
    """Equality of schemas; those nested too deep to compare are taken to differ."""
    try:
        return one == other
    except RecursionError:
        return False


def _facts(resource: Resource) -> tuple[Any, ...]:
    """What makes two resources equal (the class compares by identity)."""
    return tuple(getattr(resource, attribute.name) for attribute in fields(Resource))
