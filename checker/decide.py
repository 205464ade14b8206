"""Explores a system and says of every property whether it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from attrs import evolve, field, frozen

from dashpot.checker.budget import Budget, Phase, Told
from dashpot.checker.judge import DEFAULTS
from dashpot.checker.live import HOT, LIVE, HistoryNeeded, Liveness, is_waived
from dashpot.checker.search import breadth_first, depth_first
from dashpot.checker.space import BOUND, Breach, Space
from dashpot.checker.symmetry import Symmetries
from dashpot.checker.unfold import TooLarge, Unfolded
from dashpot.checker.verdict import KINDS, Holds, Report, Result, Trace, Unknown, Verdict, Violated
from dashpot.model.core import Node
from dashpot.model.lower.python import Backend, compile_system
from dashpot.model.prune import prune
from dashpot.model.system import Goal, System

PATIENCE = 50_000
"""States up to which a search goes on although all that is needed is decided: small worlds are told in full."""

Waivers = Mapping[str, frozenset[tuple[str, str]]]
"""Default property → waived fields as (kind, path); ("", ""): everywhere."""


@frozen
class Exploration:
    """An explored world: what the report, the stories and the graphs are made of.

    system  the world as it was given; traces have its indices, and the initial values in cells that were pruned
    space   the search's tables; its backend knows the system that was really explored (pruned)
    report  the verdicts
    """

    system: System
    space: Space
    report: Report


@frozen
class _Asked:
    """The questions of one exploration, sorted by how they are answered."""

    safety: tuple[Goal, ...]
    witnesses: tuple[Goal, ...]
    live: tuple[Goal, ...]
    steps: tuple[str, ...]
    named: tuple[str, ...]
    hot: bool
    waived: Waivers = field(factory=dict)


def explore(
    system: System, *, name: str = "", asks: Iterable[str] | None = None, named: Iterable[str] = (),
    needed: Iterable[str] | None = None, waived: Waivers | None = None, budget: Budget | None = None,
    symmetry: bool = True, cross_check: bool = False, defaults_only: bool = False,
    engine: str = "breadth", progress: Told | None = None,
) -> Exploration:  # fmt: skip
    """Decide the properties of a system; one line a property, the worst first.

    asks           names to decide; None: all goals, all step obligations and `hot_loop`
    named          names that get a line although nothing in the system speaks of them: what cannot break holds
    needed         names that must be decided before a long search may stop; None: all
    waived         fields for which properties are switched off
    symmetry       permute interchangeable objects where that is exact; `Report.symmetry` says which groups were used
    cross_check    explore without symmetry too, and compare
    defaults_only  leave the user's own goals out
    engine         "breadth" | "depth" (no liveness)
    """
    started = time.process_time()
    pruned = prune(system)
    asked = _asked(pruned, asks, tuple(named), waived or {}, defaults_only)
    run = _Run(compile_system(pruned), asked, needed, budget, progress, engine)
    try:
        space, results, groups = run.decide(symmetry)
    except HistoryNeeded:
        space, results, groups = run.decide(symmetry=False)
    orbits_of = Symmetries(space.backend).covered(space.states) if groups else None
    compared = False
    if cross_check and groups:
        plain_space, plain_results, _ = run.decide(symmetry=False, phase="cross-check without symmetry")
        compared = _compare(space, results, orbits_of, plain_space, plain_results)
    report = Report(
        check=name, states=len(space.states), transitions=space.transitions, depth=space.depth,
        complete=space.complete, cpu_s=time.process_time() - started, symmetry=groups,
        results=tuple(evolve(line, verdict=_as_given(system, pruned, line.verdict)) for line in results),
        never_fired=_never_fired(space), bounds=_bounds(space), orbits_of=orbits_of,
        cross_checked=compared,
    )  # fmt: skip
    return Exploration(system, space, report)


def _as_given(system: System, pruned: System, verdict: Verdict) -> Verdict:
    """A verdict in the terms of the system that was given: the nodes of goals and obligations as they were."""
    if not isinstance(verdict, Violated):
        return verdict
    goal, obligation = verdict.goal, verdict.obligation
    if goal is not None:
        goal = next((g for g, p in zip(system.goals, pruned.goals, strict=True) if p is goal), goal)
    if obligation is not None:
        about = obligation.property, obligation.about
        given = system.updates[verdict.trace.steps[-1]].obligations
        obligation = next((o for o in given if (o.property, o.about) == about), obligation)
    return evolve(verdict, goal=goal, obligation=obligation)


@frozen
class _Run:
    """One search and its verdicts, with symmetry or without."""

    backend: Backend
    asked: _Asked
    needed: Iterable[str] | None
    budget: Budget | None
    progress: Told | None
    engine: str

    def tell(self, phase: str) -> None:
        """Says what the run goes on to."""
        if self.progress is not None:
            self.progress(Phase(phase))

    def decide(self, symmetry: bool, phase: str = "") -> tuple[Space, list[Result], tuple[str, ...]]:
        """The space, one line a property, and the names of the groups that were permuted."""
        backend, asked = self.backend, self.asked
        self.tell(phase)
        sights = [_sight(backend, goal) for goal in (*asked.safety, *asked.witnesses)]
        enough = None if self.needed is None else _enough(asked, frozenset(self.needed))
        if self.engine == "depth":
            space = depth_first(backend, sights=sights, budget=self.budget, progress=self.progress, enough=enough)
            return space, _results(space, asked, self.budget), ()
        symmetries = Symmetries(backend)
        groups = tuple(group.name for group in symmetries.groups) if symmetry else ()
        space = breadth_first(
            backend, sights=sights, graph=bool(asked.live) or asked.hot, budget=self.budget, progress=self.progress,
            enough=enough, canon=symmetries.representative() if groups else None,
        )  # fmt: skip
        self.tell(f"{phase}, judging liveness" if phase else "judging liveness")
        return space, _results(space, asked, self.budget), groups


def _compare(
    space: Space, results: list[Result], total: int | None, plain_space: Space, plain_results: list[Result]
) -> bool:
    """Hold an exploration under symmetry, whose orbits stand for `total` states, against one without.

    False when one of them is incomplete: nothing can be said. Raises AssertionError when they contradict each other.
    """
    if not (space.complete and plain_space.complete):
        return False
    kinds = [
        {r.property: getattr(r.verdict, "kind", type(r.verdict).__name__) for r in rs}
        for rs in (results, plain_results)
    ]
    if total != len(plain_space.states) or kinds[0] != kinds[1]:
        raise AssertionError(f"symmetry: {total} states, {kinds[0]}; without: {len(plain_space.states)}, {kinds[1]}")
    return True


def _asked(
    system: System, asks: Iterable[str] | None, named: tuple[str, ...], waived: Waivers, defaults_only: bool
) -> _Asked:  # fmt: skip
    names = None if asks is None else set(asks)

    def wanted(name: str) -> bool:
        if _everywhere(waived.get(name, frozenset())):
            return False
        return (names is None or name in names) and (not defaults_only or name in DEFAULTS)

    goals = [g for g in system.goals if wanted(g.property) and not _about_waived(g.about, "", waived.get(g.property))]
    steps = {o.property: None for u in system.updates for o in u.obligations if o.property != BOUND}
    return _Asked(
        safety=tuple(g for g in goals if g.op in ("always", "never")),
        witnesses=tuple(g for g in goals if g.op == "sometimes"),
        live=tuple(g for g in goals if g.op in LIVE),
        steps=tuple(step for step in steps if wanted(step)),
        named=tuple(sorted(name for name in named if wanted(name))),
        hot=wanted(HOT),
        waived=waived,
    )


def _sight(backend: Backend, goal: Goal) -> Node:
    """The states that decide a goal of safety, or witness a `sometimes`."""
    terms = backend.system.terms
    body = terms.not_(goal.body) if goal.op == "always" else goal.body
    return terms.and_(goal.alive, goal.premise, body)


def _enough(asked: _Asked, needed: frozenset[str]) -> Callable[[Space], bool] | None:
    """Whether all that is needed is known to be violated, once the search has become long; None: it never will be."""
    undecidable = {g.property for g in (*asked.live, *asked.witnesses)} | ({HOT} if asked.hot else set())
    if not needed or needed & undecidable:
        return None

    def enough(space: Space) -> bool:
        if len(space.states) < PATIENCE:
            return False
        seen = {g.property for g, at in zip(asked.safety, space.sights, strict=False) if at is not None}
        return needed <= seen | {breach.obligation.property for breach in _breaches(space, asked)}

    return enough


def _results(space: Space, asked: _Asked, budget: Budget | None) -> list[Result]:
    """One line a property: the worst of its instances."""
    undecided = _undecided(space)
    verdicts: dict[str, list[Verdict]] = {}
    for k, goal in enumerate(asked.safety):
        at = space.sights[k]
        verdicts.setdefault(goal.property, []).append(undecided or Holds() if at is None else _unsafe(space, goal, at))
    shown: dict[str, list[int]] = {}
    for k, goal in enumerate(asked.witnesses, len(asked.safety)):
        at = space.sights[k]
        shown.setdefault(goal.property, []).extend([] if at is None else [at])
    for goal in asked.witnesses:
        unseen = undecided or Violated("safety", 0, space.path(0), goal, message="no reachable state shows it")
        first = shown[goal.property]
        verdicts[goal.property] = [Holds(space.path(min(first))) if first else unseen]
    for name in asked.steps:
        breaches = [b for b in _breaches(space, asked) if b.obligation.property == name]
        verdicts.setdefault(name, []).extend([_bad_step(space, b) for b in breaches] or [undecided or Holds()])
    unjudged = Unknown("engine", "liveness needs the breadth-first engine")
    if space.graph and (asked.live or asked.hot):
        try:
            _live(space, asked, undecided, verdicts, budget)
        except KeyboardInterrupt:
            space.stopped = "interrupted"
            unjudged = Unknown("interrupted", "stopped while liveness was judged; all states were seen")
    for name in [*(goal.property for goal in asked.live), *([HOT] if asked.hot else [])]:
        verdicts.setdefault(name, [unjudged])
    for name in asked.named:
        verdicts.setdefault(name, [undecided or Holds()])
    lines = [plain(name, _worst([_believed(space, v) for v in found])) for name, found in verdicts.items()]
    return sorted(lines, key=lambda line: severity(line.verdict))


def _believed(space: Space, verdict: Verdict) -> Verdict:
    """A verdict, unless its evidence runs through an overflow of the scope: beyond it the world is not what it says.

    The last step of a broken obligation may overflow: what it breaks stands before the step.
    """
    if isinstance(verdict, Unknown) or verdict.trace is None:
        return verdict
    last = not isinstance(verdict, Violated) or verdict.obligation is None
    return verdict if space.is_real(verdict.trace, last) else Unknown("bound", "; ".join(_bounds(space)))


def plain(name: str, verdict: Verdict) -> Result:
    """The line of a property of which nobody said anything: it should hold."""
    said = True if isinstance(verdict, Holds) else False if isinstance(verdict, Violated) else None
    return Result(name, verdict, as_said=said)


def _live(
    space: Space, asked: _Asked, undecided: Unknown | None, verdicts: dict[str, list[Verdict]], budget: Budget | None
) -> None:  # fmt: skip
    live: Liveness | Unfolded
    live = Liveness(space) if space.canon is None else Unfolded(space, budget.states if budget is not None else None)
    named: dict[str, list[Goal]] = {}
    for goal in asked.live:
        named.setdefault(goal.property, []).append(goal)
    for name, goals in named.items():
        verdicts[name] = _unless_too_large(partial(live.broken, goals)) or [undecided or Holds()]
    if asked.hot:
        hot = _unless_too_large(partial(live.hot, asked.waived.get(HOT, frozenset())))
        verdicts[HOT] = hot or [undecided or Holds()]


def _unless_too_large(judge: Callable[[], Sequence[Violated] | Violated | None]) -> list[Verdict]:
    try:
        found = judge()
    except TooLarge:
        return [Unknown("states", "what fairness has to be judged on stands for too many states")]
    return [found] if isinstance(found, Violated) else list(found or ())


def _undecided(space: Space) -> Unknown | None:
    """Why what was not seen may still exist; None after a complete search without overflow."""
    if not space.complete:
        detail = f"stopped after {len(space.states)} states, {len(space.states) - space.expanded} of them not expanded"
        return Unknown(space.stopped, detail)
    bounds = _bounds(space)
    return Unknown("bound", "; ".join(bounds)) if bounds else None


def _bounds(space: Space) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for breach in space.breaches.values():
        if breach.obligation.property == BOUND:
            counts[breach.obligation.what] = counts.get(breach.obligation.what, 0) + breach.count
    return tuple(f"{what}: {count} step{'s' if count != 1 else ''}" for what, count in counts.items())


def _never_fired(space: Space) -> tuple[str, ...]:
    if not space.complete:
        return ()
    return tuple(what for what, _, updates in space.backend.system.vacuity if space.fired.isdisjoint(updates))


def _unsafe(space: Space, goal: Goal, at: int) -> Violated:
    trace = space.path(at)
    goal = _same(space, goal, trace)
    number = len(trace.steps)
    message = f"after step {number} it does not hold" if number else "it does not hold at the start"
    return Violated("safety", len(trace.steps), trace, goal=goal, about=(goal.about, ""), message=message)


def _same(space: Space, goal: Goal, trace: Trace) -> Goal:
    """The instance of a property that breaks in the last state of a run: symmetry may have renamed it."""
    if space.canon is None:
        return goal
    state = space.backend.pack(trace.states[-1])
    for other in space.backend.system.goals:
        if other.property == goal.property and space.backend.predicate(_sight(space.backend, other))(state):
            return other
    return goal


def _bad_step(space: Space, breach: Breach) -> Violated:
    trace = space.path(breach.state, breach.update)
    before = space.backend.pack(trace.states[-2])
    broken = space.backend.broken(before, trace.steps[-1])
    obligation = next((o for o in broken if o.property == breach.obligation.property), breach.obligation)
    message = obligation.what or f"a step breaks {obligation.property}"
    return Violated("safety", len(trace.steps), trace, obligation=obligation, about=obligation.about, message=message)


def _breaches(space: Space, asked: _Asked) -> list[Breach]:
    return [
        breach
        for breach in space.breaches.values()
        if breach.obligation.property in asked.steps
        and not _about_waived(*breach.obligation.about, asked.waived.get(breach.obligation.property))
    ]


def _about_waived(thing: str, path: str, waived: frozenset[tuple[str, str]] | None) -> bool:
    return bool(waived) and is_waived((thing.split(" ")[0], path), waived or frozenset())


def _everywhere(waived: frozenset[tuple[str, str]]) -> bool:
    return ("", "") in waived


def severity(verdict: Verdict) -> tuple[int, int]:
    """Sort key: violations by kind and length, then what is undecided, then what holds."""
    if isinstance(verdict, Violated):
        return KINDS.index(verdict.kind), verdict.steps
    return len(KINDS) + (0 if isinstance(verdict, Unknown) else 1), 0


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for all instances of a property: the worst, with the number of the others that are violated."""
    worst = min(verdicts, key=severity)
    if not isinstance(worst, Violated):
        return worst
    others = sum(isinstance(v, Violated) for v in verdicts) - 1 + worst.others
    return Violated(
        worst.kind, worst.steps, worst.trace, goal=worst.goal, obligation=worst.obligation, about=worst.about,
        message=worst.message, others=others,
    )  # fmt: skip
