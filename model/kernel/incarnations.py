"""Uids: which incarnation of a slot's object a copy is of.

Equality is all that a uid is good for, so incarnations are told apart relative to the store: 0 is the last
object that the slot held, 1 and up are older ones. When an object is created again, what was 0 becomes the
lowest number that nothing carries, everywhere at once.
"""

from __future__ import annotations

import attrs

from dashpot.model.core import Node
from dashpot.model.kernel.world import World
from dashpot.model.system import Obligation, Update


def new(world: World, kind: str) -> Node:
    """The incarnation, within the step that creates it, of an object of `kind`."""
    g = world.g
    return g.const(world.schema.finite.incarnations if world.schema.returns(kind) else 0)


def renumber(world: World) -> None:
    """Finish every creating update: older copies of the slot's object get a number of their own."""
    for index, update in enumerate(world.updates):
        for kind, slot in world.creations.get(index, []):
            if world.schema.returns(kind):
                update = _renumbered(world, update, kind, slot)
        world.updates[index] = update


def _now(world: World, assigned: dict[int, Node], cell: int, weak: bool = False) -> Node:
    c = world.layout.cells[cell]
    node = assigned.get(cell)
    return world.g.cell(cell, c.lo, c.hi, weak and c.area == "local") if node is None else node


def _renumbered(world: World, update: Update, kind: str, slot: int) -> Update:
    g, layout, top = world.g, world.layout, world.schema.finite.incarnations
    assigned = dict(update.assigns)
    carried: list[tuple[int, Node, int]] = []  # cell, "this is a copy of the slot's object", base
    for ref in layout.references.get(kind, ()):
        here = g.truth(ref.slot == slot)
        if ref.slot_cell is not None:
            here = g.eq(_now(world, assigned, ref.slot_cell), g.const(world.schema.slot_code(kind, slot)))
        if ref.valid is not None:
            here = g.and_(here, g.ne(_now(world, assigned, ref.valid), g.const(0)))
        carried.append((ref.cell, here, ref.base))
    number = world.schema.owner_index(kind, slot) + 1
    for owner, cell in layout.owner_references:
        carried.append((cell, g.eq(_now(world, assigned, owner), g.const(number)), 0))
    carried = [c for c in carried if c[1] is not g.false]
    free = [_free(world, assigned, carried, n) for n in range(1, top)]
    older = g.const(top - 1)
    for n in reversed(range(1, top - 1)):
        older = g.ite(free[n - 1], g.const(n), older)
    for cell, here, base in carried:
        node = _now(world, assigned, cell)
        kept = g.table((*range(base + top), base, *range(base + top + 1, layout.cells[cell].hi + 1)), node)
        shifted = g.ite(g.eq(node, g.const(base)), g.add(older, g.const(base)), kept)
        assigned[cell] = g.ite(here, shifted, node)
    about = (world.schema.object_text(kind, slot), "uid")
    room = Obligation("@bound", g.or_(*free), about, f"incarnations of {kind}", update.label.span)
    obligations = update.obligations if room.holds is g.true else (*update.obligations, room)
    assigns = tuple((c, n) for c, n in assigned.items() if n is not _now(world, {}, c))
    return attrs.evolve(update, assigns=assigns, obligations=obligations)


def _free(world: World, assigned: dict[int, Node], carried: list[tuple[int, Node, int]], number: int) -> Node:
    g = world.g
    return g.not_(
        g.or_(
            *[
                g.and_(here, g.eq(_now(world, assigned, cell, weak=True), g.const(number + base)))
                for cell, here, base in carried
            ]
        )
    )
