"""Random runs: first with faults and users, then healed, and then it must settle.

For worlds that are too large to be explored whole, and to see how a spec behaves at all. A walk draws from its
own seed, made of the seed of the call and its number: the same seed gives the same walks, each walk can be
taken alone, and nothing found means nothing found, not that nothing is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from attrs import frozen

from dashpot.checker.flow import Flow, Outcome
from dashpot.checker.judge import Questions, questions
from dashpot.checker.prefix import shortened
from dashpot.checker.verdict import Violated
from dashpot.model.lower.python import compile_system
from dashpot.model.program import Check, Program
from dashpot.model.prune import prune
from dashpot.model.system import System

FAULT_SHARE, USER_SHARE = 0.08, 0.2
"""How often a walk tries a fault, and a step of the environment, where there is a choice."""


@frozen
class Found:
    """A property that some walk broke.

    violated   the shortest of its runs, shortened
    walk       the walk that it comes from
    count      walks that broke it
    """

    property: str
    violated: Violated
    walk: int
    count: int


@frozen
class Simulation:
    """What the walks did and found.

    system     the world that was walked in, for stories
    walks      how many walks were taken, and in all how many steps
    settled    walks that came to rest
    fired      fault → how often it happened
    reached    `sometimes` properties that some walk reached
    cramped    walks that ended where the scope was too small: (what, how often)
    """

    system: System
    walks: int
    steps: int
    settled: int
    fired: tuple[tuple[str, int], ...]
    found: tuple[Found, ...]
    reached: tuple[str, ...]
    cramped: tuple[tuple[str, int], ...]


def simulate(
    program: Program, check: Check, system: System, *, seed: int = 0, walks: int = 100, steps: int = 200,
    told: Callable[[int, int], None] | None = None,
) -> Simulation:  # fmt: skip
    """Walks through the world of a check, which `system` is.

    steps    steps with faults in each walk, at most
    told     hears of each finished walk: (walks done, steps done)

    Ctrl-C ends it early; what was found is kept.
    """
    return _Simulator(prune(system), questions(program, check)).run(seed, walks, steps, told)


class _Simulator:
    def __init__(self, system: System, asked: Questions) -> None:
        self._flow = Flow(compile_system(system), asked)
        self._system = system
        self._fired: Counter[str] = Counter()
        self._cramped: Counter[str] = Counter()
        self._reached: dict[str, None] = {}
        self._first: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._count: Counter[str] = Counter()
        self._steps = self._settled = self._walks = 0

    def run(self, seed: int, walks: int, steps: int, told: Callable[[int, int], None] | None) -> Simulation:
        try:
            for walk in range(walks):
                self._walk(walk, Random(f"{seed}/{walk}"), steps)
                if told is not None:
                    told(self._walks, self._steps)
        except KeyboardInterrupt:
            pass
        return Simulation(
            self._system,
            self._walks,
            self._steps,
            self._settled,
            tuple(sorted(self._fired.items())),
            tuple(self._found()),
            tuple(sorted(self._reached)),
            tuple(sorted(self._cramped.items())),
        )

    def _walk(self, walk: int, chance: Random, steps: int) -> None:
        prefix = self._wander(chance, steps)
        outcome = self._flow.along(prefix)
        self._walks += 1
        self._steps += len(outcome.steps)
        self._settled += outcome.settled
        self._fired.update(self._fault(index) for index in outcome.steps if self._role(index) == "fault")
        self._reached.update(dict.fromkeys(outcome.reached))
        if outcome.cramped:
            self._cramped[outcome.cramped] += 1
        for name in outcome.violations:
            self._count[name] += 1
            known = self._first.get(name)
            if known is None or len(prefix) < len(known[1]):
                self._first[name] = (walk, prefix)

    def _wander(self, chance: Random, steps: int) -> tuple[int, ...]:
        """Updates to take: by chance a fault, a user's step, or one of the rest, each fairness class alike."""
        state, taken = self._flow.backend.initial, []
        for _ in range(steps):
            choices = self._flow.changing(state)
            if not choices:
                break
            index, state = self._draw(chance, choices)
            taken.append(index)
        self._flow.backend.alarms.clear()
        return tuple(taken)

    def _draw(self, chance: Random, choices: list[tuple[int, int]]) -> tuple[int, int]:
        by_role: dict[str, list[tuple[int, int]]] = {}
        for choice in choices:
            by_role.setdefault(self._role(choice[0]), []).append(choice)
        dice = chance.random()
        role = "fault" if dice < FAULT_SHARE else "environment" if dice < FAULT_SHARE + USER_SHARE else "step"
        if role not in by_role:
            role = "step" if "step" in by_role else sorted(by_role)[0]
        classes: dict[int, list[tuple[int, int]]] = {}
        for choice in by_role[role]:
            classes.setdefault(self._flow.turns[choice[0]], []).append(choice)
        return chance.choice(classes[chance.choice(sorted(classes))])

    def _role(self, index: int) -> str:
        return self._system.updates[index].label.role

    def _fault(self, index: int) -> str:
        label = self._system.updates[index].label
        verb = "timeout" if "Timeout" in label.detail else label.verb
        return " ".join(
            part for part in (verb, label.object if verb in ("relist", "drop") else "", label.actor) if part
        )

    def _found(self) -> list[Found]:
        """Every violation by its shortest walk, shortened; the most frequent first."""
        found = []
        for name, count in self._count.most_common():
            walk, prefix = self._first[name]
            short = shortened(prefix, lambda taken, name=name: name in self._flow.along(taken).violations)  # type: ignore[misc]
            found.append(Found(name, self._flow.along(short).violations[name], walk, count))
        return found


__all__ = ["Found", "Outcome", "Simulation", "simulate"]
