"""A proof that pods cannot be placed: the facts as linear arithmetic, refuted by Z3, with the few that suffice."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dashpot.checker.feasibility.classes import World
from dashpot.checker.feasibility.facts import Fact, var

TIMEOUT_S = 5.0


@frozen
class Refuted:
    """No placement exists: these facts cannot hold together."""

    core: tuple[Fact, ...]


@frozen
class Open:
    """The facts can hold together, or the solver did not come to an end (`known` false): nothing follows."""

    known: bool


def refute(world: World, facts: Sequence[Fact], timeout_s: float = TIMEOUT_S) -> Refuted | Open:
    """Whether the facts contradict each other."""
    import z3

    solver = z3.Solver()
    solver.set("timeout", int(timeout_s * 1000))
    solver.set("core.minimize", True)
    solver.from_string(text(world, facts))
    literals = [z3.Bool(f"p_{at}") for at in range(len(facts))]
    # what speaks of the whole cluster first: if that suffices, it is what people want to hear
    answer = solver.check(*(one for one, fact in zip(literals, facts, strict=True) if not fact.local))
    if answer != z3.unsat and any(fact.local for fact in facts):
        answer = solver.check(*literals)
    if answer == z3.unsat:
        names = sorted(int(str(literal)[2:]) for literal in solver.unsat_core())
        return Refuted(tuple(facts[at] for at in _smallest(solver, literals, names)))
    return Open(answer == z3.sat)


def _smallest(solver: object, literals: Sequence[object], core: list[int]) -> list[int]:
    """The core without any member that it does not need; the solver gives one that is nearly so."""
    import z3

    assert isinstance(solver, z3.Solver)
    kept = list(core)
    for one in core if len(core) <= 40 else ():
        fewer = [at for at in kept if at != one]
        if solver.check(*(literals[at] for at in fewer)) == z3.unsat:
            kept = fewer
    return kept


def text(world: World, facts: Sequence[Fact]) -> str:
    """The question as SMT-LIB: each fact holds if its literal does."""
    lines = []
    for t in range(len(world.instance.templates)):
        for k in range(len(world.classes)):
            lines += [f"(declare-const {var(t, k)} Int)", f"(assert (>= {var(t, k)} 0))"]
    lines += [f"(declare-const {name} Int)" for name in dict.fromkeys(fact.extra for fact in facts) if name]
    for at, fact in enumerate(facts):
        lines += [f"(declare-const p_{at} Bool)", f"(assert (=> p_{at} {fact.text}))"]
    return "\n".join(lines)
