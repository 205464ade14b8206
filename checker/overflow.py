"""`unbounded`: what overflows its scope, and still does when the scope is larger (semantics.md, ruling 18)."""

from __future__ import annotations

from attrs import evolve

from dashpot.checker.budget import Budget
from dashpot.checker.search import breadth_first
from dashpot.checker.space import BOUND, Breach, Space
from dashpot.checker.verdict import Violated
from dashpot.model.lower.python import compile_system
from dashpot.model.program import Check, Program
from dashpot.model.prune import prune
from dashpot.model.system import System

RAISED = (1, 2)
"""By how much the scope is raised; an overflow that stays is taken to stay for ever."""

SLOTS = " slots"


def unbounded(program: Program, check: Check, space: Space, budget: Budget) -> Violated | None:
    """The first overflow of a kind's slots that stays however large the scope; None: the scope may just be small."""
    for breach in sorted(_overflows(space), key=lambda b: b.state):
        kind = breach.obligation.what.removesuffix(SLOTS)
        size = _size(check, space.backend.system, kind)
        if size is not None and all(_overflows_at(program, check, kind, size + more, budget) for more in RAISED):
            trace = space.path(breach.state, breach.update)
            message = f"there is no bound on {kind}: {size}, {size + 1} and {size + 2} of them are not enough"
            obligation, about = breach.obligation, (kind, "")
            return Violated("safety", len(trace.steps), trace, obligation=obligation, about=about, message=message)
    return None


def _overflows(space: Space) -> list[Breach]:
    bounds = [b for b in space.breaches.values() if b.obligation.property == BOUND]
    return [b for b in bounds if b.obligation.what.endswith(SLOTS)]


def _size(check: Check, system: System, kind: str) -> int | None:
    """How many objects of a kind the check has room for."""
    scoped = dict(check.scope).get(kind)
    if isinstance(scoped, int):
        return int(scoped)
    slots = [cell.slot for cell in system.cells if cell.kind == kind and cell.area == "store"]
    return max(slots) + 1 if slots and scoped is None else None


def _overflows_at(program: Program, check: Check, kind: str, size: int, budget: Budget) -> bool:
    from dashpot.model.kernel.build import build

    scope = (*(item for item in check.scope if item[0] != kind), (kind, size))
    system = prune(build(program, evolve(check, scope=scope)))
    wanted = (BOUND, (f"{kind}{SLOTS}", ""))
    space = breadth_first(
        compile_system(system), graph=False, budget=budget, enough=lambda space: wanted in space.breaches
    )
    return wanted in space.breaches
