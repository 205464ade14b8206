"""Views of kinds that stand for many: `"*"` is every object, by its metadata; `"*/scale"` a part of any that has it.

objects = views["Object"]; one = objects.at(deployments)
one.key_name(obj)  # deployments.apps/web
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from dashpot.model.objects.resource import Resource
from dashpot.model.program import Resource as Declared
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import View

Object = dict[str, Any]
EVENTS = frozenset({("", "events"), ("events.k8s.io", "events")})
"""What no controller of all objects looks at: events own nothing, and are many (upstream: garbagecollector's
DefaultIgnoredResources)."""
NEEDED = frozenset({"list", "watch", "delete"})


@frozen
class Reference:
    """Which object of which kind: what a reference says. `uid` may be empty."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class One(View):
    """One resource, seen as a kind that stands for many. `kind` is that of the spec, `resource.kind` that of the
    object."""

    def __init__(self, whole: Manifold, resource: Resource) -> None:
        super().__init__(whole.declared, resource, whole.constants)
        self.part = whole.part
        self.kind = whole.kind
        self.key_prefix = f"{resource.plural}.{resource.group}/" if resource.group else f"{resource.plural}/"

    def key_name(self, name: str) -> str:
        """What tells an object of that name apart from those of other resources: `deployments.apps/web`."""
        return self.key_prefix + name

    def seen(self, json: Object) -> Obj:
        """An object as such a kind sees it: of `"*"` its metadata."""
        resource = self.resource
        if self.part:
            return Obj(self, json)
        meta = json.get("metadata") or {}
        return Obj(self, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta})


class Manifold(View):
    """The kind as declared. `part`: the subresource that it is, or "" for whole objects."""

    def __init__(self, declared: Declared, constants: Mapping[str, Any]) -> None:
        part = declared.part
        nowhere = Resource("*", "*", declared.kind, "*", "*", False, storage_group="*", storage_version="*")
        super().__init__(declared, nowhere, constants)
        self.part = part
        self.constants = dict(constants)
        self._ones: dict[tuple[str, str], One] = {}

    def at(self, resource: Resource) -> One:
        """The view of one resource; made once."""
        key = (resource.api_version, resource.plural)
        found = self._ones.get(key)
        if found is None or found.resource is not resource:
            found = self._ones[key] = One(self, resource)
        return found


def every(resources: Any) -> list[Resource]:
    """Of what a server serves that which `"*"` stands for: each resource once, in the version that it prefers."""
    found: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        key = (resource.group, resource.plural)
        if key not in EVENTS and set(resource.verbs) >= NEEDED:
            found.setdefault(key, resource)
    return list(found.values())


def referred(value: Any, namespace: str) -> Reference:
    """What an object, an owner reference, or a struct that names an object refers to; Undefined. `namespace`: where the
    pass is, for structs."""
    if isinstance(value, Obj):
        resource = value.view.resource
        return Reference(resource.api_version, resource.kind, value.namespace, value.name, value.uid)
    if not isinstance(value, dict) or not value.get("name") or not value.get("kind"):
        raise Undefined("a reference needs a kind and a name")
    space = str(value["namespace"]) if "uid" in value and "namespace" in value else namespace
    version = str(value.get("apiVersion") or "v1")
    return Reference(version, str(value["kind"]), space, str(value["name"]), str(value.get("uid") or ""))
