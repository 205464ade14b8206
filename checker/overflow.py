"""`unbounded`: what overflows its scope, and still does when the scope is larger (semantics.md, ruling 18)."""

from __future__ import annotations

from dashpot.checker.budget import Budget
from dashpot.checker.search import breadth_first
from dashpot.checker.space import BOUND, Breach, Space
from dashpot.checker.symmetry import Symmetries
from dashpot.checker.verdict import Violated
from dashpot.model.lower.python import compile_system
from dashpot.model.program import Check, Program
from dashpot.model.prune import prune
from dashpot.model.system import System

RAISED = (1, 2)
"""By how much the scope is raised; an overflow that stays is taken to stay for ever."""

SLOTS = " slots"


def unbounded(program: Program, check: Check, space: Space, budget: Budget) -> Violated | None:
    """The first overflow that stays however large the scope; None: the scope may just be small."""
    for breach in sorted(_overflows(space), key=lambda b: b.state):
        what = breach.obligation.what
        if all(_overflows_at(program, check, what, more, budget) for more in RAISED):
            trace = space.path(breach.state, breach.update)
            kind = what.removesuffix(SLOTS)
            obligation, about = breach.obligation, (kind, "") if what.endswith(SLOTS) else breach.obligation.about
            message = _message(check, space.backend.system, what)
            return Violated("safety", len(trace.steps), trace, obligation=obligation, about=about, message=message)
    return None


def _message(check: Check, system: System, what: str) -> str:
    kind = what.removesuffix(SLOTS)
    size = _size(check, system, kind) if what.endswith(SLOTS) else None
    if size is None:
        return f"there is no bound on {kind}: with more room, once and twice, it overflows all the same"
    return f"there is no bound on {kind}: {size}, {size + 1} and {size + 2} of them are not enough"


def _overflows(space: Space) -> list[Breach]:
    return [b for b in space.breaches.values() if b.obligation.property == BOUND]


def _size(check: Check, system: System, kind: str) -> int | None:
    """How many objects of a kind the check has room for."""
    scoped = dict(check.scope).get(kind)
    if isinstance(scoped, int):
        return int(scoped)
    slots = [cell.slot for cell in system.cells if cell.kind == kind and cell.area == "store"]
    return max(slots) + 1 if slots and scoped is None else None


def _overflows_at(program: Program, check: Check, what: str, more: int, budget: Budget) -> bool:
    from dashpot.model.kernel.build import build

    system = prune(build(program, check, {what: more}))

    def again(space: Space) -> bool:
        return any(b.obligation.property == BOUND and b.obligation.what == what for b in space.breaches.values())

    backend = compile_system(system)
    symmetries = Symmetries(backend)
    canon = symmetries.representative() if symmetries.groups else None
    return again(breadth_first(backend, graph=False, canon=canon, budget=budget, enough=again))
