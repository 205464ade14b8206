"""Server-side apply: which manager owns which field, for kinds that some spec in the run applies.

Managers are actor instances. A field is owned by whoever applied it or last changed it; applying another's
field with another value is a conflict unless forced; fields no longer applied are given up, and go when
nobody else owns them. A list map is owned entry by entry, each under the name `field[key]`.
"""

from __future__ import annotations

from dashpot.model import types as t
from dashpot.model.automaton import Call
from dashpot.model.core import Node
from dashpot.model.kernel.domain import Leaf
from dashpot.model.kernel.equality import equal
from dashpot.model.kernel.fields import dotted, list_map
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.pipeline import Draft
from dashpot.model.kernel.values import Items, Record, Scalar, Value
from dashpot.model.kernel.walk import calls
from dashpot.model.kernel.world import World, Writer

Owners = dict[tuple[str, int, str, str], int]


def allocate(world: World) -> Owners:
    """A bit for each (kind, slot, applied field, manager)."""
    owners: Owners = {}
    applied: dict[str, list[str]] = {}
    for actor in world.actors:
        for call in calls(actor.decl):
            if call.verb == "apply":
                for f in call.fields:
                    applied.setdefault(call.kind, []).append(dotted(f.path))
    for kind, fields in applied.items():
        for slot in range(world.schema.info(kind).size):
            for name in dict.fromkeys(fields):
                for actor in world.actors:
                    for leaf in _parts(world, kind, name, actor.name):
                        part = leaf.path.rpartition("@")[0]
                        row = world.layout.leaves([leaf], "shadow", kind=kind, slot=slot)
                        owners[kind, slot, part, actor.name] = row[leaf.path]
    return owners


def _parts(world: World, kind: str, name: str, manager: str) -> list[Leaf]:
    """What is owned of a field: the field, or each possible entry of a list map."""
    ty = list_map(world.schema, kind, name)
    if ty is None:
        return [Leaf(f"{name}@{manager}", 0, 1, ("", "owned"))]
    key, finite = _key_type(ty), world.schema.finite
    return [
        Leaf(f"{name}[{k}]@{manager}", 0, 1, ("", "owned"), dims=finite.dims(key, k), family=f"{name}[*]@{manager}")
        for k in finite.keys(key)
    ]


def _key_type(ty: t.ListOf) -> t.Type:
    assert isinstance(ty.element, t.Struct) and ty.key is not None
    return dict(ty.element.fields)[ty.key]


def _entry(part: str) -> tuple[str, int]:
    """The list map and the key that `field[key]` is of; -1 for a field that is owned whole."""
    name, bracket, key = part.partition("[")
    return name, int(key[:-1]) if bracket else -1


def _with_key(world: World, kind: str, name: str, items: Items, key: int) -> list[tuple[Node, Record]]:
    """The entries of a list map, each with whether it is there and has that key."""
    g, ty = world.g, list_map(world.schema, kind, name)
    assert ty is not None and ty.key is not None
    wanted = Scalar(g.const(key), _key_type(ty))
    records = [(inside, v) for inside, v in items.items if isinstance(v, Record)]
    return [(g.and_(inside, equal(world.schema, v.fields[ty.key], wanted)), v) for inside, v in records]


def _items(world: World, kind: str, name: str, leaves: dict[str, Node]) -> Items:
    ty = list_map(world.schema, kind, name)
    assert ty is not None
    value = world.schema.finite.load(ty, name, leaves.__getitem__)
    assert isinstance(value, Items)
    return value


def _there(world: World, draft: Draft, part: str) -> Node:
    """The part is in the draft: always, but for an entry of a list map."""
    name, key = _entry(part)
    if key < 0:
        return world.g.true
    return world.g.or_(
        *[here for here, _ in _with_key(world, draft.kind, name, _items(world, draft.kind, name, draft.leaves), key)]
    )


def _fields(owners: Owners, kind: str, slot: int) -> list[str]:
    return list(dict.fromkeys(f for k, s, f, _ in owners if (k, s) == (kind, slot)))


def _differs(world: World, draft: Draft, field: str) -> Node:
    g = world.g
    name, key = _entry(field)
    if key >= 0:
        old = _with_key(world, draft.kind, name, _items(world, draft.kind, name, draft.old_leaves), key)
        new = _with_key(world, draft.kind, name, _items(world, draft.kind, name, draft.leaves), key)
        same = [g.and_(i, j, equal(world.schema, a, b)) for i, a in old for j, b in new]
        return g.and_(g.or_(*[i for i, _ in [*old, *new]]), g.not_(g.or_(*same)))
    return g.or_(
        *[
            g.ne(draft.old_leaves[leaf], node)
            for leaf, node in draft.leaves.items()
            if leaf == field or leaf.startswith(field + ".")
        ]
    )


def created(world: World, path: Path, draft: Draft, call: Call) -> None:
    """The creator owns the fields that it sets."""
    owners: Owners = world.owners
    said = {dotted(f.path) for f in call.fields}
    for (kind, slot, part, manager), cell in owners.items():
        if (kind, slot) == (draft.kind, draft.slot):
            mine = manager == draft.writer.name and _entry(part)[0] in said
            path.set(cell, _there(world, draft, part) if mine else world.g.false)


def updated(world: World, path: Path, draft: Draft, writer: Writer) -> None:
    """An update or patch that went through takes over each field that it has changed."""
    owners: Owners = world.owners
    for part in _fields(owners, draft.kind, draft.slot):
        changed = _differs(world, draft, part)
        for (kind, slot, name, manager), cell in owners.items():
            if (kind, slot, name) == (draft.kind, draft.slot, part):
                path.set_if(changed, cell, _there(world, draft, part) if manager == writer.name else world.g.false)


Changes = list[tuple[int, Node]]


def applied(world: World, path: Path, draft: Draft, call: Call, writer: Writer) -> Changes | None:
    """Who owns what once a filled draft is stored; None is a conflict. What is given up leaves its default behind."""
    from dashpot.model.kernel.verbs import new_leaves

    g = world.g
    owners: Owners = world.owners
    said = {dotted(f.path) for f in call.fields}
    fresh = new_leaves(world, path, draft.kind)
    changes: Changes = []
    gone: list[tuple[str, int, Node]] = []
    for part in _fields(owners, draft.kind, draft.slot):
        if part.startswith("status.") != (call.side == "status"):
            continue  # the status is applied as a subresource, with managed fields of its own
        name, key = _entry(part)
        cells = {m: c for (k, s, f, m), c in owners.items() if (k, s, f) == (draft.kind, draft.slot, part)}
        mine = cells.pop(writer.name)
        others = g.or_(*[path.get(c) for c in cells.values()])
        given = g.truth(name in said)
        if key >= 0 and name in said:
            given = g.or_(*[here for here, _ in _with_key(world, draft.kind, name, draft.said[name], key)])
        taken = g.and_(given, _differs(world, draft, part))
        if not call.force and path.branch(g.and_(taken, others)):
            return None
        changes += [(cell, g.and_(path.get(cell), g.not_(taken))) for cell in cells.values() if call.force]
        changes.append((mine, given))
        gone.append((name, key, g.and_(path.get(mine), g.not_(others), g.not_(given))))
    for name, key, dropped in gone:
        if key >= 0:
            _drop(world, draft, name, key, dropped)
            continue
        for leaf, node in draft.leaves.items():
            if leaf == name or leaf.startswith(name + "."):
                draft.leaves[leaf] = g.ite(dropped, fresh[leaf], node)
    return changes


def _drop(world: World, draft: Draft, name: str, key: int, dropped: Node) -> None:
    """Take the entry with that key off a list map, if `dropped`."""
    if dropped is world.g.false:
        return
    g, ty = world.g, list_map(world.schema, draft.kind, name)
    assert ty is not None
    items = _items(world, draft.kind, name, draft.leaves)
    keyed = _with_key(world, draft.kind, name, items, key)
    kept: list[tuple[Node, Value]] = [
        (g.and_(inside, g.not_(g.and_(here, dropped))), v)
        for (inside, v), (here, _) in zip(items.items, keyed, strict=True)
    ]
    part, _ = world.schema.finite.store(ty, name, Items(kept, [g.const(i) for i in range(len(kept))]))
    draft.leaves.update(part)
