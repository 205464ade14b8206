"""Random walks through the world of a check, as schedules that ask nothing: model and runtime must agree all along."""

from __future__ import annotations

from random import Random

from dashpot.checker.timetable import Question, timetable
from dashpot.checker.verdict import Trace
from dashpot.model.kernel.build import build
from dashpot.model.lower.python import Backend, compile_system
from dashpot.model.program import Check, Program
from dashpot.model.schedule import Schedule
from dashpot.model.system import System


class Walker:
    """Takes walks through one world."""

    def __init__(self, program: Program, check: Check) -> None:
        self._program, self._check = program, check
        self._system: System = build(program, check)
        self._backend: Backend = compile_system(self._system)

    def walk(self, seed: str, length: int) -> Schedule:
        """A walk that takes each kind of step as often as any other, faults as often as deliveries."""
        chance, backend, updates = Random(seed), self._backend, self._system.updates
        states: list[int] = [backend.initial]
        steps: list[int] = []
        while len(steps) < length:
            flat = backend.successors(states[-1])
            kinds: dict[tuple[str, str], list[tuple[int, int]]] = {}
            for index, after in zip(flat[::2], flat[1::2], strict=True):
                label = updates[index].label
                beyond = any(text.startswith("overflows") for text in label.detail)
                if after != states[-1] and not beyond:
                    kinds.setdefault((label.role, label.verb), []).append((index, after))
            if not kinds:
                break
            index, after = chance.choice(kinds[chance.choice(sorted(kinds))])
            steps.append(index)
            states.append(after)
        backend.alarms.clear()
        trace = Trace(tuple(map(backend.unpack, states)), tuple(steps))
        return timetable(self._program, self._check, self._system, trace, Question())
