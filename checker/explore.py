"""The checker's front door: a check of a program in, a report out."""

from __future__ import annotations

from attrs import evolve, frozen

from dashpot.checker.budget import Budget, Phase, Told
from dashpot.checker.decide import Exploration, explore, plain
from dashpot.checker.judge import Questions, judged, questions
from dashpot.checker.overflow import unbounded
from dashpot.checker.verdict import Report
from dashpot.model.kernel.walk import properties_of
from dashpot.model.program import Check, Converges, LeadsTo, Program, State
from dashpot.model.system import System

UNBOUNDED = "unbounded"

UNASKED = 5_000
"""States of a larger scope that are looked at, at least, for an overflow that nobody asked about."""

DEFAULT_LAG = 2
"""What a scope that does not speak of `lag` means (semantics.md)."""


@frozen
class Options:
    """How to explore; the defaults are what `dashpot check` does unasked.

    engine            "breadth" (shortest counterexamples) or "depth" (safety only: liveness stays Unknown)
    symmetry          permute interchangeable objects where that is exact
    cross_check       explore without symmetry too, and compare verdicts and counts
    defaults_only     look only for what every check looks for unasked
    max_states, max_memory_bytes, timeout_s   budgets of one check (timeout in CPU seconds); None: no limit
    progress          told now and then how far the search is, and what else takes long
    """

    engine: str = "breadth"
    symmetry: bool = True
    cross_check: bool = False
    defaults_only: bool = False
    max_states: int | None = None
    max_memory_bytes: int | None = None
    timeout_s: float | None = None
    progress: Told | None = None

    @property
    def budget(self) -> Budget:
        """The limits of one search."""
        return Budget(self.max_states, self.max_memory_bytes, self.timeout_s)


def check(program: Program, check: Check, options: Options | None = None, system: System | None = None) -> Report:
    """The answer to one check of a program, held against what the check expects.

    system   the world of the check, if it has been built already

    Raises `SpecError` when the spec cannot be made finite in this scope.
    """
    return examine(program, check, options, system).report


def examine(
    program: Program, check: Check, options: Options | None = None, system: System | None = None
) -> Exploration:
    """As `check`, with the explored space for graphs and stories."""
    from dashpot.model.kernel.build import build

    options = options or Options()
    if options.progress is not None:
        options.progress(Phase("building the world"))
    world = build(program, check) if system is None else system
    wanted = questions(program, check, options.defaults_only)
    absent = wanted.named & _unspoken(program, check, world)
    found = explore(
        world, name=check.name, asks=wanted.names, named=wanted.named - absent,
        needed=wanted.needed, waived=wanted.waived, budget=options.budget,
        symmetry=options.symmetry, progress=options.progress, engine=options.engine, cross_check=options.cross_check,
    )  # fmt: skip
    report = _with_unbounded(program, check, found, wanted, options)
    report = evolve(
        judged(report, wanted),
        lag=lag_of(check, found.space.backend.system),
        absent=tuple(sorted(absent - set(wanted.expected))),
    )
    return evolve(found, report=report)


def _unspoken(program: Program, check: Check, world: System) -> frozenset[str]:
    """State properties of which this world has no instance: the kind that they speak of does not occur in it.

    A property of steps holds where no such step exists; of a state property without states nothing is known.
    """
    asked = properties_of(program, check)
    of_states = {p.name for p in asked if isinstance(p.formula, State | LeadsTo | Converges)}
    monotone = {p.name for p in asked if isinstance(p.formula, State) and p.formula.op == "monotone"}
    return frozenset(of_states - monotone - {goal.property for goal in world.goals})


def lag_of(check: Check, world: System) -> int:
    """Up to how many undelivered changes a cache is explored; 0 where nothing can lag."""
    if not any(cell.area == "pending" and cell.lo < cell.hi for cell in world.cells):
        return 0
    lag = dict(check.scope).get("lag", DEFAULT_LAG)
    return lag if isinstance(lag, int) else DEFAULT_LAG


def _with_unbounded(
    program: Program, check: Check, found: Exploration, wanted: Questions, options: Options
) -> Report:  # fmt: skip
    """The report with a line for `unbounded`, if something has no bound or the check speaks of it."""
    report = found.report
    if ("", "") in wanted.waived.get(UNBOUNDED, frozenset()) or found.space.stopped == "interrupted":
        return report
    if report.bounds and options.progress is not None:
        options.progress(Phase("looking whether more room would do"))
    budget = options.budget
    if UNBOUNDED not in wanted.expected:  # nobody asked: look no further than the check itself did
        most = max(UNASKED, report.states)
        budget = evolve(budget, states=most if budget.states is None else min(most, budget.states))
    violated = unbounded(program, check, found.space, budget) if report.bounds else None
    if violated is None:
        return report
    lines = [line for line in report.results if line.property != UNBOUNDED]
    return evolve(report, results=(plain(UNBOUNDED, violated), *lines))


def check_system(system: System, options: Options | None = None, name: str = "") -> Report:
    """Every property of a system decided, nothing expected: one line a property, the worst first."""
    options = options or Options()
    return explore(
        system, name=name, budget=options.budget, symmetry=options.symmetry, defaults_only=options.defaults_only,
        progress=options.progress, engine=options.engine, cross_check=options.cross_check,
    ).report  # fmt: skip
