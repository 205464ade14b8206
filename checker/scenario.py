"""A scenario: one schedule through the world, step by step, and what came of it.

`script` builds its world, this module plays it, always in the same order: scripted writes where the script has
them, and in between fair steps in turn.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from dashpot.checker.flow import turns
from dashpot.checker.script import SCRIPT, SMALL, Room, assertion, build_scenario, grown
from dashpot.checker.verdict import Trace
from dashpot.model.automaton import ERRORS
from dashpot.model.core import Node
from dashpot.model.lower.python import Backend, compile_system
from dashpot.model.program import Program, Scenario, Step
from dashpot.model.span import Span
from dashpot.model.system import Goal, Label, System

LONGEST_SETTLE = 10_000
"""Steps after which a settle that neither ends nor returns to a state it was in is given up."""

OVERRUN = "more changes are held than the largest world has room for"


@frozen
class Line:
    """One line of the script, played: which steps of `Played.trace` it took (first, last exclusive)."""

    index: int
    first: int
    last: int


@frozen
class Failure:
    """Why a scenario stopped at a line.

    kind     "assert" it does not hold | "refused" the write or fault could not be done | "unsettled" steps that
             change the store repeat for ever | "bound" the scope overflowed
    line     index into `Scenario.steps`
    message  one sentence
    span     the line in the spec
    """

    kind: str
    line: int
    message: str
    span: Span


@frozen
class Played:
    """What a scenario did.

    system   the world that it was played in
    broken   properties that broke on the way, as (property, sentence), each once
    """

    scenario: str
    system: System
    trace: Trace
    lines: tuple[Line, ...]
    failure: Failure | None = None
    broken: tuple[tuple[str, str], ...] = ()


class _Stop(Exception):
    def __init__(self, kind: str, message: str, loop: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.loop = loop


def perform(program: Program, scenario: Scenario) -> Played:
    """Builds the world of a scenario, as large as its script needs, and plays it.

    Raises `SpecError` when it cannot be made finite.
    """
    room: Room = SMALL
    while True:
        played = play(build_scenario(program, scenario, room), scenario)
        if played.failure is None or played.failure.kind != "bound":
            return played
        larger = grown(room, "lag" if played.failure.message == OVERRUN else "slots")
        if larger is None:
            return played
        room = larger


def play(system: System, scenario: Scenario) -> Played:
    """Runs the script to its end or to the first line that fails."""
    player = _Player(system, compile_system(system))
    lines: list[Line] = []
    for index, step in enumerate(scenario.steps):
        first = len(player.steps)
        try:
            player.line(index, step)
        except _Stop as stop:
            lines.append(Line(index, first, len(player.steps)))
            failure = Failure(stop.kind, index, stop.message, step.span)
            return player.played(scenario, lines, failure, stop.loop)
        lines.append(Line(index, first, len(player.steps)))
    return player.played(scenario, lines)


class _Player:
    """The state of a play: where the world is, which deliveries are held, what was done."""

    def __init__(self, system: System, backend: Backend) -> None:
        self._system = system
        self._backend = backend
        self._held: list[tuple[str, str | None]] = []
        self._timeouts: list[str | None] = []
        self._watched = [
            g for g in system.goals if g.op in ("always", "never") and not g.property.startswith("assert ")
        ]
        self._bad = backend.bits([_against(system, g) for g in self._watched])
        self._turns = turns(system)
        self.states: list[int] = [backend.initial]
        self.steps: list[int] = []
        self.broken: dict[str, str] = {}
        self._freeze()
        self._look()

    def played(
        self, scenario: Scenario, lines: list[Line], failure: Failure | None = None, loop: int | None = None
    ) -> Played:
        trace = Trace(tuple(map(self._backend.unpack, self.states)), tuple(self.steps), loop)
        return Played(scenario.name, self._system, trace, tuple(lines), failure, tuple(self.broken.items()))

    def line(self, index: int, step: Step) -> None:
        match step.verb:
            case "write":
                self._write(index, step)
            case "settle":
                self._settle()
            case "hold":
                self._hold(step.kind or "", step.actor)
            case "release":
                self._release(step.kind or "", step.actor)
            case "tick":
                self._tick(step.count)
            case "inject":
                self._inject(step)
            case "assert":
                self._assert(index)
            case _:
                raise AssertionError(f"no such line: {step.verb}")

    def _write(self, index: int, step: Step) -> None:
        label = self._take(
            lambda label: label.actor == SCRIPT and label.action == str(index),
            "this write cannot be done here",
        )
        error = next((word for word in label.detail if word in ERRORS), None)
        if "undefined" in label.detail:
            raise _Stop("refused", "this write cannot be done here: it speaks of what does not exist")
        if error is not None:
            raise _Stop("refused", f"the API server refused this write: {error}")

    def _hold(self, kind: str, actor: str | None) -> None:
        if not any(_delivers(u.label, kind, actor) for u in self._system.updates):
            whose = f"the cache of {actor}" if actor else "any cache"
            raise _Stop("refused", f"there is nothing to hold: {whose} takes no {kind}")
        self._held.append((kind, actor))

    def _release(self, kind: str, actor: str | None) -> None:
        kept = [(k, a) for k, a in self._held if not (k == kind and actor in (None, a))]
        if len(kept) == len(self._held):
            raise _Stop("refused", f"{kind} is not held{f' for {actor}' if actor else ''}")
        self._held = kept

    def _tick(self, count: int) -> None:
        for _ in range(count):
            self._take(lambda label: label.verb == "tick", "time cannot pass here: no age in this world matters")

    def _inject(self, step: Step) -> None:
        fault = step.fault or ""
        if fault == "timeout":
            self._timeouts.append(step.target)  # it hits the next call
            return
        whom = " ".join(part for part in (fault, step.target, f"for {step.actor}" if step.actor else "") if part)
        self._take(lambda label: _hits(label, step), f"the fault {whom} cannot happen here")
        if fault == "stale_restart":
            self._freeze()

    def _freeze(self) -> None:
        """An API server that lags shows the world as it was when the script began, or at the last stale restart."""
        for index, after in self._enabled():
            label = self._system.updates[index].label
            if label.role == "fault" and label.verb == "freeze":
                self._do(index, after)
                return self._freeze()
        return None

    def _assert(self, index: int) -> None:
        goal = next(g for g in self._system.goals if g.property == assertion(index))
        if not self._backend.predicate(goal.body)(self.states[-1]):
            raise _Stop("assert", "this does not hold")

    def _take(self, wanted: Callable[[Label], bool], otherwise: str) -> Label:
        """The first enabled update of this kind, done."""
        for index, after in self._enabled():
            if wanted(self._system.updates[index].label):
                self._do(index, after)
                return self._system.updates[index].label
        raise _Stop("refused", otherwise)

    def _enabled(self) -> list[tuple[int, int]]:
        """(update, next state) for what can happen now, in the order of the updates."""
        flat = self._backend.successors(self.states[-1])
        return list(zip(flat[::2], flat[1::2], strict=True))

    def _do(self, index: int, after: int) -> None:
        before = self.states[-1]
        self.steps.append(index)
        self.states.append(after)
        for duty in self._backend.broken(before, index):
            if duty.property == "@bound":
                raise _Stop("bound", f"the largest world is too small for this scenario: {duty.what}")
            self.broken.setdefault(duty.property, duty.what or " ".join(duty.about))
        if self._held and self._system.updates[index].label.role != "fault" and self._overrun(before, after):
            raise _Stop("bound", OVERRUN)
        self._look()

    def _overrun(self, before: int, after: int) -> bool:
        """A held cache changed: its list of undelivered changes was full, and a write delivered the oldest."""
        old, new = self._backend.unpack(before), self._backend.unpack(after)
        return any(
            cell.area == "cache" and old[cell.index] != new[cell.index]
            for cell in self._system.cells
            if any(
                cell.kind == kind and actor in (None, cell.actor, cell.actor.split("[")[0])
                for kind, actor in self._held
            )
        )

    def _look(self) -> None:
        """Notes the properties that the state breaks."""
        bits = self._bad(self.states[-1])
        for place, goal in enumerate(self._watched):
            if bits >> place & 1:
                self.broken.setdefault(
                    goal.property, f"after step {len(self.steps)}" + (f", for {goal.about}" if goal.about else "")
                )

    def _settle(self) -> None:
        """Fair steps in turn, each actor's actions one after the other, until none changes anything.

        Retries that change nothing in the store may go on for ever: coming back to a state without a write on the
        way is the end, too.
        """
        turn, began = 0, len(self.steps)
        seen = {(self.states[-1], turn): began}
        while True:
            choice = self._next(turn)
            if choice is None:
                return
            index, after = choice
            self._do(index, after)
            turn = self._turns[index] + 1
            now = len(self.steps)
            back = seen.setdefault((after, turn), now)
            if back != now:
                if any(self._system.updates[i].label.changes for i in self.steps[back:]):
                    raise _Stop("unsettled", f"it never settles: {now - back} steps repeat for ever", back)
                return
            if now - began > LONGEST_SETTLE:
                raise _Stop("unsettled", f"it has not settled after {LONGEST_SETTLE} steps")

    def _next(self, turn: int) -> tuple[int, int] | None:
        state = self.states[-1]
        may = [(i, after) for i, after in self._enabled() if after != state and self._goes_on(i)]
        if not may:
            return None
        late = self._timed_out()
        if late is not None:
            return late
        behind = [choice for choice in may if self._turns[choice[0]] >= turn]
        return min(behind or may, key=lambda choice: (self._turns[choice[0]], choice[0]))

    def _timed_out(self) -> tuple[int, int] | None:
        """A call that an injected time-out hits, if one is due."""
        for place, target in enumerate(self._timeouts):
            for index, after in self._enabled():
                label = self._system.updates[index].label
                if label.role == "fault" and "Timeout" in label.detail and _is(label.actor, target):
                    del self._timeouts[place]
                    return index, after
        return None

    def _goes_on(self, index: int) -> bool:
        label = self._system.updates[index].label
        if not label.fair or label.role == "fault" or label.verb == "tick" or label.actor == SCRIPT:
            return False
        return not any(_delivers(label, kind, actor) for kind, actor in self._held)


def _delivers(label: Label, kind: str, actor: str | None) -> bool:
    return label.verb == "deliver" and label.object.partition(" ")[0] == kind and _is(label.actor, actor)


def _hits(label: Label, step: Step) -> bool:
    """Whether a step is the fault that a line injects. Faults of caches aim at a kind, for an actor or any."""
    if label.role != "fault" or label.verb != step.fault:
        return False
    if step.fault in ("relist", "drop"):
        return step.target in (None, label.object.partition(" ")[0]) and _is(label.actor, step.actor)
    return _is(label.actor, step.target) or step.target in label.object.split(" ")


def _against(system: System, goal: Goal) -> Node:
    """The states that break an `always` or `never`."""
    g = system.terms
    return g.and_(goal.alive, goal.premise, goal.body if goal.op == "never" else g.not_(goal.body))


def _is(instance: str, actor: str | None) -> bool:
    """Whether an actor instance ("Operator[a]") is the actor named ("Operator", or None for any)."""
    return actor is None or instance == actor or instance.partition("[")[0] == actor
