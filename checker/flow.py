"""One run, judged: a given sequence of steps, then no more faults and users, and fair steps in turn until it rests."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from dashpot.checker.judge import Questions
from dashpot.checker.live import HOT, LIVE, is_waived
from dashpot.checker.verdict import Trace, Violated
from dashpot.model.core import Node
from dashpot.model.lower.python import Backend
from dashpot.model.system import Goal, System

LONGEST_REST = 20_000
"""Fair steps after which a run that neither rests nor repeats is left undecided."""


@define
class Outcome:
    """What came of one run.

    steps       updates that were taken, those of the fair end included
    violations  property → the violation that this run shows
    settled     it came to rest: nothing changes the store any more
    reached     `sometimes` properties that it reached
    cramped     what was too small in the scope, where the run ended; "" if nothing was
    """

    steps: list[int] = field(factory=list)
    states: list[int] = field(factory=list)
    violations: dict[str, Violated] = field(factory=dict)
    settled: bool = False
    reached: list[str] = field(factory=list)
    cramped: str = ""
    loop: int | None = None


class Flow:
    """Runs and judges sequences of updates in one world.

    turns   update → place of its fairness class in the order in which fair steps take turns
    """

    def __init__(self, backend: Backend, asked: Questions) -> None:
        self.backend = backend
        self.system = backend.system
        self.turns = turns(self.system)
        self._asked = asked
        goals = [g for g in self.system.goals if g.property in asked.names]
        self._instant = [g for g in goals if g.op in ("always", "never", "sometimes")]
        self._final = [g for g in goals if g.op in LIVE]
        self._look = backend.bits([_sight(self.system, g) for g in self._instant])
        terms = self.system.terms
        self._owing = backend.predicates([terms.and_(g.alive, g.premise) for g in self._final])
        self._body = backend.predicates([g.body for g in self._final])
        self._alive = backend.predicates([g.alive for g in self._final])

    def enabled(self, state: int) -> list[tuple[int, int]]:
        """(update, next state) for what can happen in a state, in the order of the updates."""
        flat = self.backend.successors(state)
        return list(zip(flat[::2], flat[1::2], strict=True))

    def changing(self, state: int) -> list[tuple[int, int]]:
        """`enabled` without what leaves everything as it is."""
        return [choice for choice in self.enabled(state) if choice[1] != state]

    def along(self, prefix: Sequence[int]) -> Outcome:
        """Takes those updates of `prefix` that are enabled in their turn, then heals; all of it is judged."""
        run = Outcome(states=[self.backend.initial])
        self._see(run)
        for index in prefix:
            if run.cramped:
                break
            after = next((state for i, state in self.enabled(run.states[-1]) if i == index), None)
            if after is not None:
                self._take(run, index, after)
        if not run.cramped:
            self._heal(run)
        self.backend.alarms.clear()
        if run.loop is not None:
            self._judge(run, run.loop)
        return run

    def _take(self, run: Outcome, index: int, after: int) -> None:
        before = run.states[-1]
        run.steps.append(index)
        run.states.append(after)
        for duty in self.backend.broken(before, index):
            if duty.property == "@bound":
                run.cramped = duty.what
            elif duty.property in self._asked.names and not self._waived(duty.property, *duty.about):
                trace = self._trace(run)
                found = Violated("safety", len(run.steps), trace, None, duty, duty.about, duty.what)
                run.violations.setdefault(duty.property, found)
        self._see(run)

    def _see(self, run: Outcome) -> None:
        bits = self._look(run.states[-1])
        for place, goal in enumerate(self._instant):
            if bits >> place & 1:
                if goal.op == "sometimes":
                    run.reached.append(goal.property)
                elif goal.property not in run.violations:
                    found = Violated("safety", len(run.steps), self._trace(run), goal, None, (goal.about, ""))
                    run.violations[goal.property] = found

    def _heal(self, run: Outcome) -> None:
        """Fair steps in turn until nothing changes, or until a state returns at the same turn: the end is a cycle."""
        turn, began = 0, len(run.steps)
        seen = {(run.states[-1], turn): began}
        while len(run.steps) - began < LONGEST_REST and not run.cramped:
            may = [c for c in self.changing(run.states[-1]) if self._fair(c[0])]
            if not may:
                run.loop = len(run.steps)
                run.settled = True
                return
            behind = [c for c in may if self.turns[c[0]] >= turn]
            index, after = min(behind or may, key=lambda c: (self.turns[c[0]], c[0]))
            self._take(run, index, after)
            turn = self.turns[index] + 1
            back = seen.setdefault((after, turn), len(run.steps))
            if back != len(run.steps):
                run.loop = back
                run.settled = not any(self.system.updates[i].label.changes for i in run.steps[back:])
                return

    def _fair(self, index: int) -> bool:
        label = self.system.updates[index].label
        return label.fair and label.role != "fault"

    def _judge(self, run: Outcome, loop: int) -> None:
        """What the end of the run, which goes on for ever, breaks."""
        cycle = run.states[loop:]
        kind = "stuck" if run.settled else "loop"
        length = loop if run.settled else len(run.steps)
        for place, goal in enumerate(self._final):
            if goal.property not in run.violations and self._fails(place, goal, run.states, cycle):
                trace = self._trace(run, None if run.settled else loop, loop if run.settled else None)
                run.violations[goal.property] = Violated(kind, length, trace, goal, None, (goal.about, ""))
        hot = [c for i in run.steps[loop:] for c in self.system.updates[i].label.changes if not self._cool(c)]
        if HOT in self._asked.names and hot:
            object_ = next(self.system.updates[i].label.object for i in run.steps[loop:] if hot[0] in self._changes(i))
            message = f"{object_ or hot[0][0]} is written again and again, for ever ({hot[0][1]})"
            run.violations[HOT] = Violated(
                "loop", length, self._trace(run, loop), None, None, (object_, hot[0][1]), message
            )

    def _changes(self, index: int) -> tuple[tuple[str, str], ...]:
        return self.system.updates[index].label.changes

    def _cool(self, change: tuple[str, str]) -> bool:
        return is_waived(change, self._asked.waived.get(HOT, frozenset()))

    def _fails(self, place: int, goal: Goal, states: Sequence[int], cycle: Sequence[int]) -> bool:
        body, owing, alive = self._body[place], self._owing[place], self._alive[place]
        if not all(alive(state) for state in cycle):
            return False
        if goal.op in ("converges", "stabilizes"):
            return all(owing(state) for state in cycle) and not all(body(state) for state in cycle)
        if any(body(state) for state in cycle):
            return False
        if goal.op == "recurs":
            return True
        owed = False
        for state in states:
            owed = bool((owed or owing(state)) and alive(state) and not body(state))
            if goal.op == "eventually" and body(state):
                return False
        return owed

    def _waived(self, name: str, thing: str, path: str) -> bool:
        return is_waived((thing.split(" ")[0], path), self._asked.waived.get(name, frozenset()))

    def _trace(self, run: Outcome, loop: int | None = None, end: int | None = None) -> Trace:
        stop = len(run.steps) if end is None else end
        states = tuple(self.backend.unpack(s) for s in run.states[: stop + 1])
        return Trace(states, tuple(run.steps[:stop]), loop)


def turns(system: System) -> list[int]:
    """For each update the place of its fairness class in the order of play."""
    order: dict[tuple[str, ...], int] = {}
    keys = [u.label.fairness or (u.label.actor, u.label.verb, u.label.object) for u in system.updates]
    return [order.setdefault(key, len(order)) for key in keys]


def _sight(system: System, goal: Goal) -> Node:
    """The states that break an `always` or `never`, or reach a `sometimes`."""
    g = system.terms
    return g.and_(goal.alive, goal.premise, g.not_(goal.body) if goal.op == "always" else goal.body)
