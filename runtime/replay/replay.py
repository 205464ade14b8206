"""Replaying a schedule: the same violation, or the step at which model and runtime part; and the same schedule with
another spec, which must converge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from attrs import field, frozen

from dashpot.model.program import GivenObject, OnWrite, Program, Property, State
from dashpot.model.schedule import Schedule, ScheduleStep
from dashpot.runtime.controller.body import Outcome
from dashpot.runtime.loop import run_virtual
from dashpot.runtime.replay.driver import Driver, World
from dashpot.runtime.replay.judge import DEFAULTS, Judge, lost
from dashpot.runtime.replay.naming import Difference
from dashpot.runtime.replay.settle import settle
from dashpot.runtime.replay.stage import CannotReplay, staged
from dashpot.runtime.replay.terms import Asker


@frozen
class Actors:
    """Whom a replay drives: the actors of a check by name, what is given, its constants, and the fields (kind, path)
    that may be written for ever."""

    program: Program
    names: Sequence[str]
    given: Sequence[GivenObject]
    constants: Mapping[str, Any]
    waived: Set[tuple[str, str]] = frozenset()


@frozen
class Replayed:
    """What a replay came to.

    violated     the same property is violated on the same object
    parted       the step after which model and runtime differ (0: the start), and how; None: they agree
    differences  what differs there
    reason       why the violation is another, where the steps agree
    steps        those that were taken
    rounds       how often the cycle was driven
    notes        what was made otherwise than the spec has it
    names        the model's name of an object → its name here
    """

    violated: bool
    parted: int | None
    differences: tuple[Difference, ...]
    reason: str
    steps: tuple[str, ...]
    rounds: int
    notes: tuple[str, ...]
    names: dict[str, str] = field(factory=dict)


@frozen
class Rerun:
    """What became of a schedule under another spec.

    converged   it settled, and nothing that it promises is broken
    taken       steps that applied, and `skipped`, that did not
    settling    rounds until nothing changed any more, and `changes` made in them
    reason      why it has not converged
    """

    converged: bool
    taken: int
    skipped: int
    settling: int
    changes: int
    reason: str
    notes: tuple[str, ...]


def replay(actors: Actors, schedule: Schedule) -> Replayed:
    """Drives a world through a schedule. CannotReplay."""
    return run_virtual(_replay(actors, schedule), seed=1)


def rerun(actors: Actors, schedule: Schedule) -> Rerun:
    """Drives the actors of another spec through the deliveries, faults and writes of a schedule as far as they apply,
    and then lets them settle. CannotReplay."""
    return run_virtual(_rerun(actors, schedule), seed=1)


def agree(actors: Actors, schedule: Schedule) -> tuple[int, tuple[Difference, ...]]:
    """Drives a world through a schedule that asks nothing: how far the two agree, and where they part. CannotReplay."""
    return run_virtual(_agree(actors, schedule), seed=1)


async def _agree(actors: Actors, schedule: Schedule) -> tuple[int, tuple[Difference, ...]]:
    kinds = _kinds(actors, schedule)
    async with staged(actors.program, actors.names, actors.given, actors.constants, kinds) as stage:
        driver = Driver(stage, tick_ms=schedule.tick_ms)
        await driver.begin()
        driver.compare(schedule.start)
        if driver.differences:
            return 0, tuple(driver.differences)
        for step in schedule.steps:
            differences = await driver.follow(step)
            if differences:
                return step.number, tuple(differences)
        return len(schedule.steps), ()


def _kinds(actors: Actors, schedule: Schedule) -> set[str]:
    """The kinds of a run, as far as a program has them."""
    return {r.kind for r in actors.program.resources} & schedule.sizes.keys()


async def _replay(actors: Actors, schedule: Schedule) -> Replayed:
    kinds = _kinds(actors, schedule)
    async with staged(actors.program, actors.names, actors.given, actors.constants, kinds) as stage:
        driver = Driver(stage, tick_ms=schedule.tick_ms)
        await driver.begin()
        notes = tuple(stage.notes)
        driver.compare(schedule.start)
        if driver.differences:
            return Replayed(False, 0, tuple(driver.differences), "", (), 0, notes)
        worlds: list[World] = [driver.world]
        taken: list[str] = []
        cycle = schedule.steps[schedule.loop :] if schedule.loop is not None else ()
        rounds = 0
        for part in (schedule.steps, cycle):
            for step in part:
                differences = await driver.follow(step)
                taken.append(step.text)
                worlds.append(driver.world)
                if differences and not _beyond(step):
                    return Replayed(
                        False, step.number, tuple(differences), "", tuple(taken), rounds, notes, driver.names.known()
                    )
            rounds += bool(part) and bool(cycle)
        reason = Judge(driver, schedule, worlds, schedule.loop).violated()
        if not reason and schedule.kind == "stuck":
            reason = await _moves_on(driver)
        return Replayed(not reason, None, (), reason, tuple(taken), rounds, notes, driver.names.known())


def _beyond(step: ScheduleStep) -> bool:
    """A step that leads out of the model's world has no state to compare with."""
    return any(text.startswith("overflows") for text in step.detail)


async def _moves_on(driver: Driver) -> str:
    """Why what is stuck in the model is not stuck here; "" if it is."""
    settled = await settle(driver, rounds=20)
    if settled.changes:
        return "it is not stuck here: what is left to be done changes the store"
    return "" if settled.calm else "it does not come to rest here"


# ---------------------------------------------------------------------- another spec
async def _rerun(actors: Actors, schedule: Schedule) -> Rerun:
    kinds = _kinds(actors, schedule)
    async with staged(actors.program, actors.names, actors.given, actors.constants, kinds) as stage:
        driver = Driver(stage, tick_ms=schedule.tick_ms)
        await driver.begin()
        taken = skipped = 0
        broken: dict[str, None] = {}
        watch = _watched(actors, schedule)
        for step in schedule.steps:
            applied = await driver.attempt(step)
            taken, skipped = taken + applied, skipped + (not applied)
            _note(driver, watch, broken, step.number)
        settled = await settle(driver, waived=actors.waived)
        _note(driver, watch, broken, 0)
        reason = next(iter(broken), "")
        if not settled.calm:
            reason = reason or "it does not come to rest: the store is changed again and again"
        reason = reason or _unmet(driver, actors, schedule)
        return Rerun(not reason, taken, skipped, settled.rounds, settled.changes, reason, tuple(stage.notes))


def _watched(actors: Actors, schedule: Schedule) -> list[Property]:
    """The properties of the spec that must never break, those among them that the check is about."""
    return [
        p
        for p in actors.program.properties
        if p.module == actors.program.main
        and (isinstance(p.formula, OnWrite) or (isinstance(p.formula, State) and p.formula.op in ("always", "never")))
    ]


def _note(driver: Driver, watch: Sequence[Property], broken: dict[str, None], number: int) -> None:
    asker = Asker(driver.stage)
    where = f"after step {number}" if number else "while it settles"
    for asked in watch:
        if isinstance(asked.formula, OnWrite):
            continue
        for obj, bound in asker.instances(asked, driver.world):
            if not asker.state(asked, driver.world, bound):
                about = f" for {driver.names.title(obj)}" if obj is not None else ""
                broken.setdefault(f"`{asked.name}` breaks{about} {where}")


def _unmet(driver: Driver, actors: Actors, schedule: Schedule) -> str:
    """What the settled world, or what was done on the way, leaves to be desired."""
    asker = Asker(driver.stage)
    for asked in actors.program.properties:
        if asked.module != actors.program.main or isinstance(asked.formula, OnWrite):
            continue
        if isinstance(asked.formula, State) and asked.formula.op not in ("stabilizes", "recurs"):
            continue
        for obj, bound in asker.instances(asked, driver.world):
            if not asker.state(asked, driver.world, bound):
                about = f" for {driver.names.title(obj)}" if obj is not None else ""
                return f"`{asked.name}` does not hold{about} when all is settled"
    ending = [obj for obj in driver.world.values() if obj.meta.get("deletionTimestamp")]
    if schedule.property == "terminates" and ending:
        return f"{driver.names.title(ending[0])} is being deleted and never goes"
    if schedule.property in DEFAULTS or schedule.property not in {p.name for p in actors.program.properties}:
        return _defaults(driver, schedule)
    return ""


def _defaults(driver: Driver, schedule: Schedule) -> str:
    for record in driver.history:
        if schedule.property == "panic" and isinstance(record.outcome, Outcome) and record.outcome.how == "panic":
            return f"a term of {record.actor} is undefined: {record.outcome.message}"
        if schedule.property == "lost_update" and lost(record, driver.history):
            return f"{record.actor} loses what another wrote"
    if schedule.property == "unbounded":
        for kind, room in schedule.sizes.items():
            if sum(of == kind for of, _ in driver.world) > room:
                return f"there are more than {room} {kind}s"
    return ""


__all__ = ["Actors", "CannotReplay", "Replayed", "Rerun", "agree", "replay", "rerun"]
