"""The start of a world: given objects in the store and in every cache, add handlers run, every key dirty."""

from __future__ import annotations

from dashpot.model import types as t
from dashpot.model.expr import Expr
from dashpot.model.fault import SpecError
from dashpot.model.kernel import faults
from dashpot.model.kernel.fields import adapt, assign
from dashpot.model.kernel.goals import quiet
from dashpot.model.kernel.layout import read_row
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.verbs import new_leaves
from dashpot.model.kernel.world import World
from dashpot.model.program import GivenObject


def begin(world: World, given: list[GivenObject]) -> None:
    """Store the given objects, bring every cache in step, run add handlers, make every key dirty."""
    g, layout = world.g, world.layout
    path = quiet(world)
    for blank in layout.cells:
        path.overlay[blank.index] = g.const(blank.initial)
    for obj in given:
        _store_given(world, path, obj)
    for actor in world.actors:
        for decl, row in actor.memory.values():
            _initial_memory(world, path, decl.default, decl.type, decl.name, row)
        for kind, cache in actor.caches.items():
            for slot, row in enumerate(cache.rows):
                for leaf, cell in row.items():
                    path.overlay[cell] = read_row(g, path, world.store[kind][slot], leaf)
    for cell, node in list(path.overlay.items()):
        layout.amend(cell, initial=node.value)
    for actor in world.actors:
        if not actor.blind:
            faults.listed(world, path, actor)
    for cell, node in path.overlay.items():
        value = path.resolve(node)
        assert value.is_const, layout.cells[cell].name
        if layout.cells[cell].area != "memory":
            layout.amend(cell, initial=value.value)
        else:
            world.started[cell] = value.value


def _initial_memory(world: World, path: Path, default: Expr | None, ty: t.Type, name: str, row: dict[str, int]) -> None:
    if default is None:
        return
    value, _ = world.terms(path, None).value(default, {})
    leaves, _ = world.schema.finite.store(ty, name, adapt(world.schema, value, ty))
    for leaf, cell in row.items():
        path.overlay[cell] = leaves[leaf]


def _store_given(world: World, path: Path, obj: GivenObject) -> None:
    slot = world.schema.slot_of(obj.kind, obj.name)
    row = world.store[obj.kind][slot]
    leaves = new_leaves(world, path, obj.kind)
    leaves["creationTimestamp"] = world.g.const(world.schema.finite.oldest)
    terms = world.terms(path, None)
    for item in obj.items:
        value, ok = terms.value(item.value, {})
        if ok is world.g.false:
            raise SpecError("D315", f"this value of {obj.kind} {obj.name} is undefined at the start", item.span)
        overflow = assign(terms, obj.kind, leaves, item.path, value, {})
        if overflow is world.g.true:
            raise SpecError("D316", f"this value of {obj.kind} {obj.name} is outside the range of its field", item.span)
    for leaf, cell in row.items():
        path.overlay[cell] = leaves[leaf]
