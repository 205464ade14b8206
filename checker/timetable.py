"""A saved run as a schedule that a driver of the real thing can follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import frozen

from dashpot.checker.retrace import retrace
from dashpot.checker.runs import Run
from dashpot.checker.scene import Item, Scene, Stage
from dashpot.checker.verdict import Trace
from dashpot.model.kernel.clock import durations, scale
from dashpot.model.kernel.specialise import specialised
from dashpot.model.kernel.tables import constants, givens, pieces
from dashpot.model.program import Check, Program
from dashpot.model.schedule import Moment, Schedule, ScheduleStep, Thing
from dashpot.model.system import System


class Mismatch(Exception):
    """The run is of another world than the one that was built."""


@frozen
class Question:
    """What a schedule is to show: a property, how it is violated, and of which object and field."""

    property: str = ""
    kind: str = ""
    thing: str = ""
    field: str = ""


def schedule_of(program: Program, check: Check, system: System, run: Run) -> Schedule:
    """The schedule of a run. `system` is the world of its check, built again; Mismatch if it is not the same one."""
    names = [cell.name for cell in system.cells]
    if names != [column.name for column in run.columns] or any(i >= len(system.updates) for i in run.steps):
        raise Mismatch("the spec makes another world now than the one of the run")
    question = Question(run.property, run.kind, *_about(run))
    made = timetable(program, check, system, run.trace(), question)
    if tuple(step.text for step in made.steps) != run.labels:
        raise Mismatch("the steps of the spec are others now than those of the run")
    return made


def timetable(program: Program, check: Check, system: System, trace: Trace, question: Question) -> Schedule:
    """The schedule of any path through the world of a check; Mismatch if it cannot be taken."""
    try:
        # the states of a search lack what it had no use for
        states = retrace(system, trace).states
    except AssertionError as error:
        raise Mismatch(str(error)) from None
    stage = Stage(system)
    given: dict[str, list[str]] = {}
    for one in givens(program, check):
        given.setdefault(one.kind, []).append(one.name)
    moments = [moment_of(stage, values, given) for values in states]
    steps = tuple(_step(system, trace.steps[number - 1], number, moments[number]) for number in range(1, len(moments)))
    values = constants(program, check)
    tick, _ = scale(durations(pieces(specialised(program, values), check), values))
    sizes = Counter(cell.kind for cell in system.cells if cell.area == "store" and cell.path == "present")
    return Schedule(
        question.property,
        question.kind,
        question.thing,
        question.field,
        moments[0],
        steps,
        trace.loop,
        tick,
        dict(sizes),
    )


def _about(run: Run) -> tuple[str, str]:
    """(object, field) of a violation, from the title of its story: "lost_update for spec.claim of Volume v1"."""
    _, _, about = run.story.title.partition(f"{run.property} for ")
    field, of, thing = about.partition(" of ")
    return (thing, field) if of else (about, "")


def _step(system: System, index: int, number: int, after: Moment) -> ScheduleStep:
    label = system.updates[index].label
    return ScheduleStep(
        number,
        label.actor,
        label.verb,
        label.action,
        label.fairness[-1] if label.fairness else "",
        label.object,
        label.detail,
        label.role,
        tuple(dict.fromkeys(kind for kind, _ in label.changes)),
        label.span.line,
        label.span.column,
        " ".join(p for p in (label.actor, label.action, label.verb, label.object, *label.detail) if p),
        after,
    )


def given_names(check: Check) -> dict[str, list[str]]:
    """kind → the names of the objects that a check gives, in their order."""
    given: dict[str, list[str]] = {}
    for one in check.given:
        given.setdefault(one.kind, []).append(one.name)
    return given


def moment_of(stage: Stage, values: Sequence[int], given: dict[str, list[str]]) -> Moment:
    """What can be seen of a state. `given`: see given_names."""
    scene: Scene = stage.scene(values)
    pending: dict[str, dict[str, int]] = {}
    busy: Counter[str] = Counter()
    for cell in stage.system.cells:
        if cell.area == "pending" and cell.path == "count":
            pending.setdefault(cell.actor, {})[cell.kind] = values[cell.index]
        elif cell.area == "control" and cell.path.rstrip("0123456789") == "at":
            busy[cell.actor] += values[cell.index] != cell.lo
    caches = {actor: _things(items, given) for actor, items in scene.caches.items()}
    return Moment(_things(scene.truth, given), caches, pending, dict(busy))


def _things(items: Sequence[Item], given: dict[str, list[str]]) -> tuple[Thing, ...]:
    named = ((_name(item, given.get(item.kind, [])), item) for item in items)
    return tuple(Thing(item.kind, name, item.fields) for name, item in named if name)


def _name(item: Item, given: list[str]) -> str:
    """The name of an object that no step names: it has been given, or "": it never exists."""
    if not item.name.startswith("#"):
        return item.name
    return given[item.slot] if item.slot < len(given) else ""
