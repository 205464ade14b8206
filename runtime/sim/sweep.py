"""Seed after seed: each is drawn, played and judged; what fails is made small and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from attrs import define, field, frozen

from dashpot.model.program import Program
from dashpot.runtime.plane.parts import chosen, modules
from dashpot.runtime.sim.plan import draw
from dashpot.runtime.sim.shrink import shrink
from dashpot.runtime.sim.story import Story, tell
from dashpot.runtime.sim.world import Run, Setting, play

WRITES = 200
FAULTS = 6
SECONDS = 60.0
HOLDS, BROKEN, HARNESS = "holds", "violated", "harness"


@frozen
class Size:
    """How much happens in a run. `seconds` of virtual time until peace."""

    writes: int = WRITES
    faults: int = FAULTS
    seconds: float = SECONDS


@define(eq=False)
class Verdict:
    """What came of a seed.

    status   holds, violated, or harness: the run proves nothing, and `why` says why
    figures  fault (as the plan names it) → how often it fired
    """

    seed: int
    status: str
    run: Run
    why: str = ""
    figures: Counter[str] = field(factory=Counter)
    small: Run | None = None
    story: Story | None = None


def judge(run: Run) -> Verdict:
    """The verdict on a run."""
    what = {item.number: item.what for item in run.plan.items}
    figures = Counter(what[one.item] for one in run.fired if one.item in what)
    planned = any(item.is_fault for item in run.plan.items)
    if run.mistake:
        return Verdict(run.plan.seed, HARNESS, run, run.mistake, figures)
    if run.broken:
        return Verdict(run.plan.seed, BROKEN, run, run.broken[0].text, figures)
    if planned and not figures:
        return Verdict(run.plan.seed, HARNESS, run, "no fault fired: the run shows nothing", figures)
    return Verdict(run.plan.seed, HOLDS, run, "", figures)


def sweep(
    seeds: Iterable[int],
    setting: Setting,
    size: Size,
    *,
    shrinking: bool = True,
    told: Callable[[str], None] = lambda text: None,
) -> Iterator[Verdict]:
    """The verdicts on some seeds, in order; the first failure of each kind is shrunk and told."""
    seen: set[tuple[str, str, str, int]] = set()
    for seed in seeds:
        verdict = judge(play(draw(seed, writes=size.writes, faults=size.faults, seconds=size.seconds), setting))
        first = verdict.run.first if verdict.status == BROKEN else None
        if first is not None:
            mark = (first.property, first.kind, first.line.file, first.line.line)
            small = verdict.run
            if shrinking and mark not in seen:
                small = shrink(verdict.run, setting, lambda tries, items: told(f"shrinking: {items} left, try {tries}"))
            seen.add(mark)
            verdict.small = small
            assert small.first is not None
            verdict.story = tell(small, small.first, programs(setting))
        yield verdict


def programs(setting: Setting) -> dict[str, Program]:
    """The programs of the plane, by module."""
    names = chosen(("*", *(f"-{name}" for name in setting.without)))
    return {module: setting.program(module) for module in modules(names)}
