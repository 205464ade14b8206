"""From a Program and one of its checks to a System."""

from __future__ import annotations

from collections.abc import Mapping, Set

import attrs

from dashpot.model.core import Node
from dashpot.model.fault import SpecError
from dashpot.model.kernel import clock, collector, faults, incarnations
from dashpot.model.kernel.furnish import furnish
from dashpot.model.kernel.goals import goals
from dashpot.model.kernel.specialise import specialised
from dashpot.model.kernel.stepping import delivery_steps, resync_steps
from dashpot.model.kernel.tables import constants, pieces
from dashpot.model.kernel.widen import Ranges, Widen, attempts
from dashpot.model.kernel.world import World
from dashpot.model.program import Check, Program
from dashpot.model.system import Group, RankClass, Symmetry, System

COLLECTORS = {"gc": ("DependentCollector", "OwnerCollector"), "collector": ("GarbageCollector",)}
"""Library module → its controllers, of which one in a run switches the built-in collector off."""


def build(program: Program, check: Check, raised: Mapping[str, int] | None = None) -> System:
    """The world of one check as a transition system.

    raised   what overflowed in an earlier world ("Pod slots", "Kind.spec.field") → room to add to it (ruling 18)
    """
    widened: Ranges = {("raised", what, ""): (0, more) for what, more in (raised or {}).items()}
    grant = attempts()
    program = specialised(program, constants(program, check))
    while True:
        try:
            return assemble(program, check, widened)
        except Widen as request:
            if not grant(request, widened):
                break
    raise SpecError("D314", "a number that is computed in a body grows without a bound that can be found", check.span)


def assemble(program: Program, check: Check, widened: Ranges) -> System:
    """One attempt at the world of a check, with the ranges that earlier attempts asked for."""
    world = furnish(program, check, widened)
    for actor in world.actors:
        delivery_steps(world, actor)
        if check.resync:
            resync_steps(world, actor)
    fault_list = faults.faults_of(world)
    faults.build(world, fault_list)
    if not any(a.decl.name in COLLECTORS.get(a.decl.module.rpartition(".")[2], ()) for a in world.actors):
        collector.build(world)
    incarnations.renumber(world)
    finish_currency(world)
    if clock.ticking(pieces(program, check), world.schema.finite.constants):
        clock.build(world)
    return system(world)


def finish_currency(world: World) -> None:
    """A write to an object makes every copy kept in a local stale, whoever holds it."""
    for index, update in enumerate(world.updates):
        assigned = dict(update.assigns).keys() | world.kept.get(index, frozenset())
        stale: dict[int, Node] = {}
        for kind, slot, _ in world.commits.get(index, []):
            _outdate(world, kind, slot, assigned, stale)
        if stale:
            world.updates[index] = attrs.evolve(update, assigns=update.assigns + tuple(stale.items()))


def _outdate(world: World, kind: str, slot: int, assigned: Set[int], stale: dict[int, Node]) -> None:
    """Copies of (kind, slot) in locals that this step does not set itself are current no more."""
    g, cells = world.g, world.layout.cells
    for slot_cell, fixed, current in world.layout.currency.get(kind, ()):
        if current in assigned or (slot_cell is not None and slot_cell in assigned):
            continue
        here = g.truth(fixed == slot)
        if slot_cell is not None:
            code = world.schema.slot_code(kind, slot)
            here = g.eq(g.cell(slot_cell, cells[slot_cell].lo, cells[slot_cell].hi), g.const(code))
        now = stale.get(current, g.cell(current, cells[current].lo, cells[current].hi))
        stale[current] = g.and_(now, g.not_(here))


def system(world: World) -> System:
    """The finished System; memory that add handlers filled at the start gets its first value here."""
    cells = [
        attrs.evolve(cell, initial=world.started[cell.index]) if cell.index in world.started else cell
        for cell in world.layout.cells
    ]
    updates, asked = tuple(world.updates), tuple(goals(world))
    if world.sink >= 0:
        inside = world.g.eq(world.g.cell(world.sink, 0, 1), world.g.const(0))
        updates = tuple(attrs.evolve(u, guard=(*u.guard[:1], inside, *u.guard[1:])) for u in updates)
        asked = tuple(
            attrs.evolve(
                goal,
                alive=world.g.and_(goal.alive, inside),
                body=world.g.and_(goal.body, inside) if goal.op == "sometimes" else goal.body,
            )
            for goal in asked
        )
    vacuity = tuple((what, span, tuple(updates)) for (what, span), updates in world.fired.items())
    return System(
        world.g,
        tuple(cells),
        updates,
        tuple(RankClass(tuple(cells_)) for cells_ in _ranked(world)),
        asked,
        _symmetry(world),
        (),
        vacuity,
        tuple(world.waiting),
    )


def _ranked(world: World) -> list[list[int]]:
    """Generations of which only the order is looked at; where one is compared with a number, they count."""
    if not world.ranked:
        return []
    return list(world.layout.generations.values())


def _symmetry(world: World) -> Symmetry:
    finite = world.schema.finite
    groups = tuple(Group(n, len(finite.enums[n].members)) for n in sorted(finite.symmetric))
    groups += tuple(Group(k, world.schema.info(k).size) for k in sorted(finite.symmetric_kinds))
    return Symmetry(groups, finite.asymmetric)
