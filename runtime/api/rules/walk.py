"""One pass over an object that asks each rule at its places: paths are merged into a tree, the tree into closures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from dashpot.model.objects.status import Cause
from dashpot.runtime.api.rules.place import Trail

Object = dict[str, Any]


@define(eq=False)
class Scene:
    """One object under validation."""

    object: Object
    old: Object | None
    causes: list[Cause] = field(factory=list)
    spec: Any = None
    """What the nearest rule of form `scope` remembered (the pod spec around a container)."""


Check = Callable[[Any, Any, Trail, Scene], None]
"""Asked with the value, the old value (None: none, or not known), the trail, the scene; adds causes."""


@define(eq=False)
class Tree:
    """The rules at one place, and the places below: by name, in lists, in the values of maps."""

    checks: list[Check] = field(factory=list)
    fields: dict[str, Tree] = field(factory=dict)
    items: Tree | None = None
    values: Tree | None = None
    scoped: bool = False

    def at(self, path: str) -> Tree:
        """The tree at a path: `spec.containers[*]`, `data{*}`; made where it is not there yet."""
        tree = self
        for part in path.split(".") if path else ():
            name = part.removesuffix("[*]").removesuffix("{*}")
            tree = tree.fields.setdefault(name, Tree())
            if part.endswith("[*]"):
                tree.items = tree.items or Tree()
                tree = tree.items
            elif part.endswith("{*}"):
                tree.values = tree.values or Tree()
                tree = tree.values
        return tree

    def compile(self) -> Check:
        """The tree as one closure."""
        checks = tuple(self.checks)
        fields = tuple((name, tree.compile()) for name, tree in self.fields.items())
        items = None if self.items is None else self.items.compile()
        values = None if self.values is None else self.values.compile()
        scoped = self.scoped
        if items is not None:
            return _listed(checks, items)

        def visit(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
            if type(value) is not dict:
                for check in checks:
                    check(value, old, trail, scene)
                return
            if scoped:
                scene.spec = value
            for check in checks:
                check(value, old, trail, scene)
            was = old if type(old) is dict else NOTHING
            for name, inner in fields:
                item = value.get(name)
                if item is not None:
                    inner(item, was.get(name), (trail, name), scene)
            if values is not None:
                for name, item in value.items():
                    values(item, was.get(name), (trail, f"[{name}]"), scene)

        return visit


NOTHING: Object = {}


def _listed(checks: tuple[Check, ...], items: Check) -> Check:
    def visit(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for check in checks:
            check(value, old, trail, scene)
        if type(value) is list:
            for at, item in enumerate(value):
                items(item, None, (trail, at), scene)

    return visit
