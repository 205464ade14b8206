"""Follows a recorded walk through the model: each step must be one that the kernel offers, to the state that was seen.

    refusal = follow(program, check, trace)   # None: the trace is a behaviour of the spec

Names that the API server made up, and the model's numbers for them, are matched as they appear. Where several steps of
the model look alike, all are kept in mind; a trace is refused when none is left.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from attrs import evolve, frozen

from dashpot.checker.scene import Stage
from dashpot.checker.timetable import given_names, moment_of
from dashpot.model.automaton import ERRORS
from dashpot.model.kernel.build import build
from dashpot.model.lower.python import Backend, compile_system
from dashpot.model.program import Check, Program
from dashpot.model.schedule import Moment
from dashpot.model.system import Label, System
from dashpot.runtime.replay.likeness import runtime_name
from dashpot.runtime.replay.naming import Difference, Names, compared
from dashpot.runtime.replay.wander import Happening, Snapshot, Trace

MOST_STATES = 2_000
"""States that are kept in mind at once."""
COLLECTOR = ("collect", "finalize")
"""Steps of the garbage collector."""
SILENT_STEPS = ("start", "read", "act", "end")
"""Steps of a pass by which nothing outside changes."""


OVERFLOW = "overflows: "
"""How a label says that a step needs more room than the scope has."""


@frozen
class Refusal:
    """The first step that no behaviour of the model has: its number (from 1; 0: the start), why, and what differs in
    the state of the model that comes nearest. `outside`: the step leaves the scope of the check; of that the model says
    nothing, so it is no difference."""

    number: int
    happening: Happening | None
    why: str
    differences: tuple[Difference, ...] = ()
    outside: bool = False


@frozen
class Here:
    """A state of the model that the trace may be in, and whose objects are called what."""

    state: int
    names: Names


class Follower:
    """Steps of one world, and the states that a trace may be in."""

    def __init__(self, program: Program, check: Check, system: System | None = None) -> None:
        self.system = system or build(program, check)
        self.backend: Backend = compile_system(self.system)
        self.stage = Stage(self.system)
        self._given = given_names(check)
        self._moments: dict[int, Moment] = {}

    def moment(self, state: int) -> Moment:
        """What can be seen of a state."""
        found = self._moments.get(state)
        if found is None:
            found = self._moments[state] = moment_of(self.stage, self.backend.unpack(state), self._given)
        return found

    def lagging(self) -> set[tuple[str, str]]:
        """Actor and kind of the caches that may be behind."""
        start = self.moment(self.backend.initial)
        return {(runtime_name(actor), kind) for actor, kinds in start.pending.items() for kind in kinds}

    def collects(self) -> bool:
        """Whether there is a garbage collector beside the actors of the spec."""
        return any(update.label.verb in COLLECTOR for update in self.system.updates)

    # -- following ----------------------------------------------------------------------------------------------

    def follow(self, trace: Trace) -> Refusal | None:
        """Takes the whole trace; the first step that is refused."""
        first = Here(self.backend.initial, Names())
        for obj in trace.start.truth:
            first.names.saw(obj)
        differences = self.differing(first, trace.start)
        if differences:
            return Refusal(0, None, "the start is another one", tuple(differences))
        here, before = self._quiet([first], trace.start), trace.start
        for number, happening in enumerate(trace.happenings, 1):
            after, nearest, offered = self._after(here, happening, before)
            before = happening.after
            if not after and any(self._overflows(one.state, happening.actor) for one in here):
                return Refusal(number, happening, "the scope of the check has no room for it", outside=True)
            if not after:
                why = "the model has such a step, to another state" if offered else "the model has no such step here"
                return Refusal(number, happening, why, tuple(nearest))
            here = self._quiet(after, happening.after)
            if len(here) > MOST_STATES:
                return Refusal(number, happening, f"more than {MOST_STATES} states of the model look like this one")
        return None

    def _after(
        self, here: list[Here], happening: Happening, before: Snapshot
    ) -> tuple[list[Here], list[Difference], bool]:
        there = {(obj.view.kind, obj.name) for obj in before.truth}
        found: dict[int, Here] = {}
        nearest: list[Difference] | None = None
        offered = False
        for one in here:
            for index, state in self._steps(one.state):
                label = self.system.updates[index].label
                names = matched(label, happening, one.names, there)
                if names is None:
                    continue
                offered = True
                then = Here(state, _acquainted(names, happening.after))
                differences = self.differing(then, happening.after)
                if not differences:
                    found.setdefault(state, then)
                elif nearest is None or len(differences) < len(nearest):
                    nearest = differences
            if happening.verb == "end" and not self.differing(one, happening.after):
                found.setdefault(one.state, one)  # the model ended the pass with its last call
        return list(found.values()), nearest or [], offered

    def _quiet(self, here: list[Here], seen: Snapshot) -> list[Here]:
        """All states that look the same and are reached without anything that could have been seen."""
        found = {one.state: one for one in here}
        waiting = list(here)
        while waiting and len(found) <= MOST_STATES:
            one = waiting.pop()
            for index, state in self._steps(one.state):
                label = self.system.updates[index].label
                silent = label.verb in SILENT_STEPS and not label.changes and label.role == "step"
                if silent and state not in found:
                    then = Here(state, one.names)
                    if not self.differing(then, seen):
                        found[state] = then
                        waiting.append(then)
        return list(found.values())

    def _overflows(self, state: int, actor: str) -> bool:
        """Whether an actor's next step does not fit the scope."""
        labels = (self.system.updates[index].label for index, _ in self._steps(state))
        return any(
            runtime_name(label.actor) == actor and any(word.startswith(OVERFLOW) for word in label.detail)
            for label in labels
        )

    def _steps(self, state: int) -> Iterator[tuple[int, int]]:
        flat = self.backend.successors(state)
        return zip(flat[::2], flat[1::2], strict=True)

    def differing(self, here: Here, seen: Snapshot) -> list[Difference]:
        """Where a state of the model looks otherwise than what was seen."""
        moment = self.moment(here.state)
        found = compared(moment.truth, seen.truth, here.names)
        for actor, things in moment.caches.items():
            for kind in moment.pending.get(actor, {}):
                objects = seen.caches.get((runtime_name(actor), kind))
                if objects is not None:
                    mine = [thing for thing in things if thing.kind == kind]
                    rows = compared(mine, objects, here.names)
                    found += [evolve(row, object=f"{row.object} in {actor}'s cache") for row in rows]
        return found


def follow(program: Program, check: Check, trace: Trace) -> Refusal | None:
    """Whether a trace is a behaviour of a check's world; None: it is."""
    return Follower(program, check).follow(trace)


def _acquainted(names: Names, seen: Snapshot) -> Names:
    """The names with the uids of all that is there."""
    strange = [obj for obj in seen.truth if obj.uid not in names.uids]
    if not strange:
        return names
    found = names.copy()
    for obj in strange:
        found.saw(obj)
    return found


def matched(label: Label, happening: Happening, names: Names, there: Container[tuple[str, str]]) -> Names | None:
    """The names after a step that is the one that happened; None: it is another step. `there`: the objects before."""
    if label.verb != happening.verb and not (happening.verb == "end" and label.verb == "act"):
        return None
    if happening.verb not in COLLECTOR and runtime_name(label.actor) != happening.actor:
        return None
    if label.action != happening.action:
        return None
    error = next((word for word in label.detail if word in ERRORS), "")
    if happening.verb not in ("end", "deliver", "crash", *COLLECTOR):
        if error != happening.error or (label.span.line, label.span.column) != (happening.line, happening.column):
            return None
    if happening.subject and label.fairness and not _same_subject(label.fairness[-1], happening.subject, names):
        return None
    return _named(label, happening, names, there)


def _named(label: Label, happening: Happening, names: Names, there: Container[tuple[str, str]]) -> Names | None:
    kind, _, name = label.object.partition(" ")
    if not happening.kind:
        return names
    if kind != happening.kind:
        return None
    if not name or not happening.name or names.model(kind, happening.name) == name:
        return names
    if happening.verb == "create" and not happening.error and names.may_learn(kind, name, happening.name, there):
        learnt = names.copy()
        learnt.learn(kind, name, happening.name)
        return learnt
    return None


def _same_subject(text: str, subject: Mapping[str, tuple[str, str] | str], names: Names) -> bool:
    key = subject.get("")
    if isinstance(key, tuple):
        return text == f"{key[0]} {names.model(key[0], key[1])}"
    parts = []
    for parameter, value in subject.items():
        shown = value if isinstance(value, str) else names.model(value[0], value[1])
        parts.append(f"{parameter} = {shown}")
    return text == ", ".join(parts)
