"""The rules of all kinds, read from rules.json once and compiled kind by kind when a kind is first seen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Cause
from dashpot.runtime.api.rules.calls import CALLS
from dashpot.runtime.api.rules.forms import FORMS, conditional
from dashpot.runtime.api.rules.walk import Check, Scene, Tree

Object = dict[str, Any]
MOST = 100
"""How many causes one object is told at most."""


class Rules:
    """The rules of a data file: `shapes` names places that several kinds share, `rules` are the entries.

    `whole` names subresources whose writes are checked as those of the object itself are, by kind.
    An entry's `for` lists where it holds: `apps/deployments` (the root of that kind), `@container` (each place of that
    shape), either with a path below.
    """

    def __init__(self, data: Object) -> None:
        self.entries: list[Object] = data["rules"]
        self._shapes: dict[str, list[str]] = data["shapes"]
        self._scopes = frozenset(data.get("scopes", ()))
        self._whole: dict[str, list[str]] = data.get("whole", {})
        self._checks: dict[tuple[str, str, str], Check | None] = {}
        self._places: dict[str, list[tuple[str, str]]] = {}
        self._by_kind: dict[str, list[tuple[str, Object]]] = {}
        for entry in self.entries:
            for place in entry["for"]:
                for kind, path in self.places(place):
                    at = ".".join(part for part in (path, entry.get("at", "")) if part)
                    self._by_kind.setdefault(kind, []).append((_joined(at), entry))

    def places(self, place: str) -> list[tuple[str, str]]:
        """Where a shape or kind is: pairs of a kind (`apps/deployments`) and a path in it."""
        known = self._places.get(place)
        if known is None:
            known = self._places[place] = list(self._found(place))
        return known

    def _found(self, place: str) -> Iterator[tuple[str, str]]:
        name, _, path = place.partition(" ")
        if not name.startswith("@"):
            yield name, path
            return
        for inner in self._shapes[name]:
            for kind, base in self.places(inner):
                yield kind, _joined(f"{base}.{path}" if base and path else base or path)

    def check(self, resource: Resource, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        """What is wrong with an object that fits its schema; `old` is None on create."""
        key = (resource.group, resource.plural, subresource)
        try:
            found = self._checks[key]
        except KeyError:
            found = self._checks[key] = self._compile(*key)
        if found is None:
            return []
        scene = Scene(obj, old)
        try:
            found(obj, old, (), scene)
        except (AttributeError, TypeError, KeyError, ValueError, RecursionError):
            # The schema comes first; what it lets through in another shape (a null in a list) is refused, not a crash.
            scene.causes.append(Cause("<nil>", 'Invalid value: "": a value is not of the type that its field has'))
        if scene.causes and old is not None:
            return self._new(found, scene)[:MOST]
        return scene.causes[:MOST]

    def _new(self, check: Check, scene: Scene) -> list[Cause]:
        """The causes that the old object did not have already: what was stored before a rule was made may stay."""
        before = Scene(scene.old or {}, None)
        try:
            check(before.object, None, (), before)
        except (AttributeError, TypeError, KeyError, ValueError):
            return scene.causes
        return [cause for cause in scene.causes if cause not in before.causes]

    def _compile(self, group: str, plural: str, subresource: str) -> Check | None:
        kind = f"{group}/{plural}" if group else plural
        usual = ("", *self._whole.get(kind, ()))
        rows = [
            (at, entry) for at, entry in self._by_kind.get(kind, ()) if subresource in entry.get("subresources", usual)
        ]
        if not rows:
            return None
        tree = Tree()
        for at, entry in rows:
            tree.at(at).checks.append(compiled(entry))
        for scope in self._scopes:
            for where, path in self.places(scope):
                if where == kind:
                    tree.at(path).scoped = True
        return tree.compile()


def compiled(entry: Object) -> Check:
    """The check of an entry."""
    form = FORMS.get(entry["form"])
    return conditional(entry, CALLS[entry["call"]](entry) if form is None else form(entry))


def _joined(path: str) -> str:
    """`spec.containers.[*]` as `spec.containers[*]`."""
    return path.replace(".[*]", "[*]").replace(".{*}", "{*}")


@cache
def builtin_rules() -> Rules:
    """Those of Kubernetes' own kinds."""
    text = files("dashpot.runtime.api.rules").joinpath("rules.json").read_bytes()
    return Rules(msgspec.json.decode(text))
