"""Time: only ages matter. A tick makes every stored time older, saturated above the largest threshold."""

from __future__ import annotations

from math import gcd

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.automaton import End
from dashpot.model.core import Node
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.walk import parts
from dashpot.model.kernel.world import World
from dashpot.model.system import Label, Update

BLOCKLESS = ("resume", "reconnect", "resync")
"""Ends of faults do not hold an urgent clock (time passes for who stands still), nor does a periodic resync."""


def durations(pieces: list[object], constants: dict[str, int | bool | str]) -> list[int]:
    """Every duration that the run compares with or waits for, in milliseconds."""
    out: list[int] = []
    for piece in pieces:
        for p in parts(piece):
            if isinstance(p, e.Literal) and isinstance(p.type, t.Duration) and isinstance(p.value, int):
                out.append(int(p.value))
            elif isinstance(p, e.Const) and isinstance(p.type, t.Duration):
                value = constants[p.name]
                if isinstance(value, int):
                    out.append(int(value))
    return [d for d in out if d > 0]


def scale(values: list[int]) -> tuple[int, int]:
    """(tick in ms, oldest age in ticks) for these durations."""
    if not values:
        return 1000, 0
    tick = gcd(*values)
    return tick, max(values) // tick + 1


def ticking(pieces: list[object], constants: dict[str, int | bool | str]) -> bool:
    """Whether anything in the run depends on how much time passes (comparing moments alone does not)."""
    if not durations(pieces, constants):
        return False
    for piece in pieces:
        for p in parts(piece):
            if isinstance(p, e.Builtin) and p.op == "since":
                return True
            if isinstance(p, End) and p.how == "after":
                return True
    return False


def build(world: World) -> None:
    """The tick: everything ages, delayed keys come closer. Built last, since an urgent one looks at all steps."""
    g, layout = world.g, world.layout
    busy = _busy(world) if world.check.time != "free" else g.false

    def rule(path: Path) -> Label | None:
        path.assume(g.not_(busy))
        for cell, base in layout.ages:
            c = layout.cells[cell]
            now = path.get(cell)
            older = g.min_(g.add(now, g.const(1)), g.const(c.hi))
            path.set(cell, older if base == 0 else g.ite(g.eq(now, g.const(0)), now, g.max_(older, g.const(1))))
        for actor in world.actors:
            for key, cell in enumerate(actor.delay):
                left = path.get(cell)
                due = g.eq(left, g.const(1))
                path.set(actor.dirty[key], g.or_(path.get(actor.dirty[key]), due))
                path.set(cell, g.clamp(g.sub(left, g.const(1)), 0, layout.cells[cell].hi))
        return Label("clock", "tick", fair=True, fairness=("clock", "tick", ""))

    world.rule(rule)


def _busy(world: World) -> Node:
    """Some fair step that changes something is enabled."""
    g = world.g
    return g.or_(*[_changing(world, u) for u in world.updates if u.label.fair and u.label.verb not in BLOCKLESS])


def _changing(world: World, update: Update) -> Node:
    g, cells = world.g, world.layout.cells
    moved = [g.ne(g.cell(i, cells[i].lo, cells[i].hi), node) for i, node in update.assigns]
    return g.and_(*update.guard, g.or_(*moved))
