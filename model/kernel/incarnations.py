"""Uids: which incarnation of a slot's object a copy is of.

Equality is all that a uid is good for, so a new object takes the lowest number that no copy, reference or
undelivered change still carries.
"""

from __future__ import annotations

from dashpot.model.core import Node
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.world import World


def fresh(world: World, path: Path, kind: str, slot: int) -> Node:
    """The incarnation of an object created in `slot` now."""
    g, finite = world.g, world.schema.finite
    if not world.schema.returns(kind):
        return g.const(0)
    result = g.const(finite.incarnations - 1)
    for number in reversed(range(finite.incarnations - 1)):
        result = g.ite(in_use(world, path, kind, slot, number), result, g.const(number))
    everything = g.and_(*[in_use(world, path, kind, slot, n) for n in range(finite.incarnations)])
    about = (world.schema.object_text(kind, slot), "uid")
    if everything is not g.false:
        world.oblige(path, "@bound", g.not_(everything), about, f"incarnations of {kind}", world.check.span)
    return result


def in_use(world: World, path: Path, kind: str, slot: int, number: int) -> Node:
    """Some copy or reference names this incarnation."""
    g, layout = world.g, world.layout
    hits = []
    for slot_cell, fixed, cell, valid in layout.references.get(kind, ()):
        here = g.eq(path.get(cell), g.const(number))
        if slot_cell is None:
            if fixed != slot:
                continue
        else:
            here = g.and_(here, g.eq(path.get(slot_cell), g.const(slot)))
        if valid is not None:
            here = g.and_(here, g.ne(path.get(valid), g.const(0)))
        hits.append(here)
    owner = world.schema.owner_index(kind, slot) + 1
    for owner_cell, cell in layout.owner_references:
        hits.append(g.and_(g.eq(path.get(owner_cell), g.const(owner)), g.eq(path.get(cell), g.const(number))))
    return g.or_(*hits)
