"""A failing plan made small: items are left out as long as the same claim fails in the same way at the same line.

Delta debugging (Zeller and Hildebrandt, 2002) over the client's writes; faults are tried one by one: there are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, evolve

from dashpot.runtime.sim.claims import Broken
from dashpot.runtime.sim.plan import Item, Plan
from dashpot.runtime.sim.world import Run, Setting, play

TRIES = 80
"""Runs that a shrinking may take."""
AFTER_S = 1.0


@define(eq=False)
class Shrinking:
    """One shrinking while it lasts. `best` is the smallest run so far that fails as the first did."""

    setting: Setting
    best: Run
    wanted: Broken
    told: Callable[[int, int], None]
    left: int = TRIES

    def fails(self, plan: Plan) -> bool:
        """Whether a plan fails in the same way; then it is the best."""
        if self.left <= 0:
            return False
        self.left -= 1
        run = play(plan, self.setting, until_broken=self.wanted.kind == "safety")
        found = next((one for one in run.broken if alike(one, self.wanted)), None)
        self.told(TRIES - self.left, len(plan.items if found is None else run.plan.items))
        if found is None:
            return False
        run.broken = [found]
        self.best = run
        return True

    def items(self, *, faults: bool) -> list[Item]:
        """The writes or the faults that are left."""
        return [item for item in self.best.plan.items if item.is_fault == faults]

    def without(self, gone: Sequence[Item]) -> Plan:
        """The best plan without some items."""
        plan = self.best.plan
        return plan.only([item for item in plan.items if item not in gone])


def alike(one: Broken, other: Broken) -> bool:
    """Whether two failures are the same: the same claim, in the same way, decided at the same line."""
    return (one.property, one.kind, one.line.file, one.line.line) == (
        other.property, other.kind, other.line.file, other.line.line,
    )  # fmt: skip


def shrink(run: Run, setting: Setting, told: Callable[[int, int], None] = lambda tries, items: None) -> Run:
    """The smallest run found that fails as this one does first. Told: tries so far, and items of the plan."""
    assert run.first is not None
    work = Shrinking(setting, run, run.first, told)
    if run.first.kind == "safety":
        _cut(work, run.first.at)
    for item in work.items(faults=True):
        work.fails(work.without([item]))
    _bisect(work)
    for item in work.items(faults=True):
        work.fails(work.without([item]))
    return work.best


def _cut(work: Shrinking, at: float) -> None:
    """What comes later cannot matter."""
    plan = work.best.plan
    soon = [item for item in plan.items if item.at <= at]
    work.fails(evolve(plan.only(soon), seconds=min(plan.seconds, at + AFTER_S)))


def _bisect(work: Shrinking) -> None:
    """Leaves out ever smaller pieces of the writes, until none can go."""
    size = max(1, len(work.items(faults=False)) // 2)
    while work.left > 0:
        gone = False
        at = 0
        while at < len(items := work.items(faults=False)):
            if work.fails(work.without(items[at : at + size])):
                gone = True
            else:
                at += size
        if size == 1 and not gone:
            return
        size = max(1, size // 2)
