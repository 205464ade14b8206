"""Server-side apply: which manager owns which field, for kinds that some spec in the run applies.

Managers are actor instances. A field is owned by whoever applied it or last changed it; applying another's
field with another value is a conflict unless forced; fields no longer applied are given up, and go when
nobody else owns them.
"""

from __future__ import annotations

from dashpot.model.automaton import Call
from dashpot.model.core import Node
from dashpot.model.kernel.fields import dotted
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.pipeline import Draft
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
                    owners[kind, slot, name, actor.name] = world.layout.add(
                        "shadow", f"{name}@{actor.name}", 0, 1, kind=kind, slot=slot, texts=("", "owned")
                    )
    return owners


def _fields(owners: Owners, kind: str, slot: int) -> list[str]:
    return list(dict.fromkeys(f for k, s, f, _ in owners if (k, s) == (kind, slot)))


def _differs(world: World, draft: Draft, field: str) -> Node:
    g = world.g
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
    for (kind, slot, field, manager), cell in owners.items():
        if (kind, slot) == (draft.kind, draft.slot):
            path.set(cell, world.g.truth(manager == draft.writer.name and field in said))


def updated(world: World, path: Path, draft: Draft, writer: Writer) -> None:
    """An update or patch takes over each field that it changes."""
    owners: Owners = world.owners
    for field in _fields(owners, draft.kind, draft.slot):
        changed = _differs(world, draft, field)
        for (kind, slot, name, manager), cell in owners.items():
            if (kind, slot, name) == (draft.kind, draft.slot, field):
                path.set_if(changed, cell, world.g.truth(manager == writer.name))


def applied(world: World, path: Path, draft: Draft, call: Call, writer: Writer) -> bool:
    """Apply's rules on a filled draft; False is a conflict. What goes leaves its default behind."""
    from dashpot.model.kernel.verbs import new_leaves

    g = world.g
    owners: Owners = world.owners
    said = {dotted(f.path) for f in call.fields}
    fresh = new_leaves(world, path, draft.kind)
    for field in _fields(owners, draft.kind, draft.slot):
        if field.startswith("status.") != (call.side == "status"):
            continue  # the status is applied as a subresource, with managed fields of its own
        cells = {m: c for (k, s, f, m), c in owners.items() if (k, s, f) == (draft.kind, draft.slot, field)}
        mine = cells.pop(writer.name)
        others = g.or_(*[path.get(c) for c in cells.values()])
        if field in said:
            clash = g.and_(_differs(world, draft, field), others)
            if not call.force and path.branch(clash):
                return False
            for cell in cells.values():
                if call.force:
                    path.set_if(_differs(world, draft, field), cell, g.false)
            path.set(mine, g.true)
            continue
        dropped = g.and_(path.get(mine), g.not_(others))
        for leaf, node in draft.leaves.items():
            if leaf == field or leaf.startswith(field + "."):
                draft.leaves[leaf] = g.ite(dropped, fresh[leaf], node)
        path.set(mine, g.false)
    return True
