"""Garbage collection: dependents whose owner is gone, foreground and orphan finalizers. Exact and fair."""

from __future__ import annotations

from dashpot.model.automaton import Call
from dashpot.model.core import Node
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.pipeline import draft_of, finish
from dashpot.model.kernel.schema import FOREGROUND, ORPHAN, OWNING
from dashpot.model.kernel.values import Object
from dashpot.model.kernel.verbs import remove
from dashpot.model.kernel.walk import calls
from dashpot.model.kernel.world import World, Writer
from dashpot.model.span import NOWHERE
from dashpot.model.system import Label

ACTOR = "garbage collector"


def owning(world: World) -> set[str]:
    """Kinds whose objects may be given an owner in this run."""
    out = {g.kind for g in world.check.given for i in g.items if i.path[0] in OWNING}
    for actor in world.actors:
        for call in calls(actor.decl):
            if any(f.path[0] in OWNING for f in call.fields):
                out.add(call.kind)
    return out


def build(world: World) -> None:
    """One rule a slot that may have an owner, and one a slot whose finalizer is the collector's."""
    dependents = sorted(owning(world) & world.store.keys())
    for kind in dependents:
        for slot in range(world.schema.info(kind).size):
            _dependent(world, kind, slot)
    for finalizer in (FOREGROUND, ORPHAN):
        if finalizer in world.schema.finalizers:
            for kind in world.store:
                for slot in range(world.schema.info(kind).size):
                    _finalizer(world, kind, slot, finalizer, dependents)


def _label(world: World, path: Path, kind: str, slot: int, verb: str) -> Label:
    name = world.schema.object_text(kind, slot)
    changes = tuple(dict.fromkeys(path.changes))
    return Label(ACTOR, verb, "", name, tuple(path.detail), True, (ACTOR, verb, name), "step", changes)


def _owner_node(world: World, path: Path, copy: Object, kind: str, slot: int) -> Node:
    """`copy` is owned by the object that is, or was, in (kind, slot), whatever its incarnation."""
    g = world.g
    return g.eq(copy.read("owner"), g.const(world.schema.owner_index(kind, slot) + 1))


def _same(world: World, path: Path, copy: Object, kind: str, slot: int) -> Node:
    """The owner in (kind, slot) is still the incarnation that the reference names."""
    g = world.g
    row = world.store[kind][slot]
    if not world.schema.returns(kind):
        return path.get(row["present"])
    return g.and_(path.get(row["present"]), g.eq(g.const(0), copy.read("owner.incarnation")))


def _dependent(world: World, kind: str, slot: int) -> None:
    g = world.g

    def rule(path: Path) -> Label | None:
        present, copy = world.stored(path, kind)[slot]
        path.assume(present)
        path.assume(g.ne(copy.read("owner"), g.const(0)))
        absent, foreground = [], []
        for owner_kind, owner_slot in world.schema.finite.owners:
            mine = _owner_node(world, path, copy, owner_kind, owner_slot)
            alive = _same(world, path, copy, owner_kind, owner_slot)
            absent.append(g.and_(mine, g.not_(alive)))
            if FOREGROUND in world.schema.finalizers:
                row = world.store[owner_kind][owner_slot]
                ends = g.and_(
                    g.ne(path.get(row["deletionTimestamp"]), g.const(0)), path.get(row[f"finalizers.{FOREGROUND}"])
                )
                foreground.append(g.and_(mine, alive, ends))
        path.assume(g.or_(*absent, *foreground))
        path.assume(g.eq(copy.read("deletionTimestamp"), g.const(0)))
        draft = draft_of(world, path, "delete", copy, Writer(None))
        remove(world, path, draft, "", Call("delete", kind, 0))
        return _label(world, path, kind, slot, "collect")

    world.rule(rule)


def _finalizer(world: World, kind: str, slot: int, finalizer: str, dependents: list[str]) -> None:
    """Foreground waits for the dependents to go; orphan lets them go first. Then the finalizer is taken off."""
    g = world.g

    def rule(path: Path) -> Label | None:
        present, copy = world.stored(path, kind)[slot]
        path.assume(present)
        path.assume(g.ne(copy.read("deletionTimestamp"), g.const(0)))
        path.assume(copy.read(f"finalizers.{finalizer}"))
        children = [
            (
                other,
                i,
                child,
                g.and_(there, _owner_node(world, path, child, kind, slot), _same(world, path, child, kind, slot)),
            )
            for other in dependents
            for i, (there, child) in enumerate(world.stored(path, other))
        ]
        if path.branch(g.or_(*[mine for *_, mine in children])):
            if finalizer == FOREGROUND:
                return None
            other, i, child, mine = children[path.choose(len(children))]
            path.assume(mine)
            draft = draft_of(world, path, "update", child, Writer(None), ["owner"])
            draft.leaves["owner"] = g.const(0)
            if "owner.incarnation" in draft.leaves:
                draft.leaves["owner.incarnation"] = g.const(0)
            finish(world, path, draft, NOWHERE)
            return _label(world, path, other, i, "orphan")
        draft = draft_of(world, path, "update", copy, Writer(None), ["finalizers"])
        draft.leaves[f"finalizers.{finalizer}"] = g.false
        finish(world, path, draft, NOWHERE)
        return _label(world, path, kind, slot, "finalize")

    world.rule(rule)
