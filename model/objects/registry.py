"""The built-in resources and the schema of every type that they reach: what a Kubernetes 1.37 API is made of.

One generated file (tools/registry.py) holds resources and schemas; definitions stay undecoded until somebody asks for
one. Schemas are OpenAPI v3 schema objects: references are `{"$ref": "#/components/schemas/NAME"}`, beside which a
`description` and the `x-kubernetes-*` keys may stand. Leaves with a JSON form of their own are known by `format`
(`quantity`, `int-or-string`, `date-time`, `byte`); what takes any JSON says `x-kubernetes-preserve-unknown-fields`.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from dashpot.model.objects.resource import Resource, Subresource

Object = dict[str, Any]

COMPONENTS = "#/components/schemas/"


class _Data(msgspec.Struct):
    """The file, its definitions still bytes."""

    release: str
    resources: list[Object]
    kinds: dict[str, str]
    definitions: dict[str, msgspec.Raw]


class Registry:
    """Resources by name and by kind, and schemas by kind and by definition name.

    A KeyError means a caller's mistake: what comes from outside is looked up by `find`, `by_kind` and `has`. The
    objects that `schema` and `definition` give are shared: never change one.
    """

    def __init__(self, data: _Data) -> None:
        self.release = data.release
        self.resources: tuple[Resource, ...] = tuple(_resource(row) for row in data.resources)
        self._found = {(r.group, r.version, r.plural): r for r in self.resources}
        self._kinds: dict[tuple[str, str, str], Resource] = {}
        for resource in self.resources:
            self._kinds.setdefault((resource.group, resource.version, resource.kind), resource)
        self._names = data.kinds
        self._raw: Mapping[str, msgspec.Raw] = data.definitions
        self._decoded: dict[str, Object] = {}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """`("apps", "v1", "deployments")`; None if it is not built in."""
        return self._found.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """`("apps", "v1", "Deployment")`; None if no built-in resource has that kind."""
        return self._kinds.get((group, version, kind))

    def has(self, group: str, version: str, kind: str) -> bool:
        """Whether a kind has a schema here, resource or not (DeleteOptions, Scale, PodList …)."""
        return f"{group}/{version}/{kind}" in self._names

    def type_name(self, group: str, version: str, kind: str) -> str:
        """The definition of a kind: `io.k8s.api.apps.v1.Deployment`. KeyError if there is none."""
        return self._names[f"{group}/{version}/{kind}"]

    def schema(self, group: str, version: str, kind: str) -> Object:
        """The schema of a kind. KeyError if there is none."""
        return self.definition(self.type_name(group, version, kind))

    def definition(self, name: str) -> Object:
        """A schema by its definition name, or by a `$ref` to it; decoded once. KeyError if there is none."""
        name = name.removeprefix(COMPONENTS)
        found = self._decoded.get(name)
        if found is None:
            found = self._decoded[name] = msgspec.json.decode(self._raw[name])
        return found

    def names(self) -> tuple[str, ...]:
        """The names of all definitions, sorted."""
        return tuple(self._raw)

    def defines(self, name: str) -> bool:
        """Whether there is a definition of that name."""
        return name in self._raw

    def kinds(self) -> tuple[tuple[str, str, str], ...]:
        """Every (group, version, kind) with a schema, resource or not."""
        return tuple((group, version, kind) for group, version, kind in (key.split("/") for key in self._names))

    def raw(self, name: str) -> bytes:
        """The JSON of a definition."""
        return bytes(self._raw[name])


def _resource(row: Object) -> Resource:
    subresources = tuple(Subresource(**{**sub, "verbs": tuple(sub["verbs"])}) for sub in row["subresources"])
    lists = {name: tuple(row[name]) for name in ("verbs", "short_names", "categories")}
    return Resource(**{**row, **lists, "subresources": subresources})


@cache
def builtin() -> Registry:
    """The registry; read once, on first use (some 15 ms)."""
    packed = files("dashpot.model.objects").joinpath("data/registry.json.gz").read_bytes()
    return Registry(msgspec.json.decode(gzip.decompress(packed), type=_Data))
