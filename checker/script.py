"""The world of a scenario: the kernel's own, with the script as one more environment.

Each write of the script is an action of an environment named `scenario`, each assert a property: the kernel
needs to know nothing of scenarios. A scenario does not say how large its world is: it starts small and grows
until the script fits (`grown`).
"""

from __future__ import annotations

from collections import Counter

from attrs import evolve, frozen

from dashpot.model.automaton import Automaton, End
from dashpot.model.kernel.build import build
from dashpot.model.kernel.walk import calls
from dashpot.model.program import (
    Action,
    Check,
    Environment,
    Expect,
    Fault,
    OnWrite,
    Program,
    Property,
    Scenario,
    State,
)
from dashpot.model.system import System

SCRIPT = "scenario"
"""The actor of scripted writes; action names are indices into `Scenario.steps`."""


@frozen
class Room:
    """How large a world is: slots of a kind beyond what the script puts there, undelivered changes a cache holds."""

    slots: int
    lag: int


SMALL = Room(2, 3)
LARGE = Room(6, 8)
"""Where a world starts, and beyond which it does not grow."""


def grown(room: Room, kind: str) -> Room | None:
    """The next larger room after a script did not fit: "slots" or "lag" was too small. None: there is none."""
    larger = Room(room.slots + 2 * (kind == "slots"), min(room.lag * 2, LARGE.lag) if kind == "lag" else room.lag)
    return larger if larger != room and larger.slots <= LARGE.slots else None


def assertion(line: int) -> str:
    """The name of the property that stands for the assert on a line of a script."""
    return f"assert {line}"


def build_scenario(program: Program, scenario: Scenario, room: Room) -> System:
    """The world of a scenario: everything that its program declares runs, users only as far as the script says.

    Raises `SpecError` when it cannot be made finite.
    """
    script = Environment(SCRIPT, tuple(_writes(scenario)), (), program.main, scenario.span)
    asserts = tuple(_asserts(program, scenario))
    # What `expect` names is looked at even where no actor of the run touches it.
    kept = tuple(p for p in program.properties if _watched(p) and p.module == program.main)
    world = evolve(
        program,
        environments=(*program.environments, script),
        properties=(*kept, *asserts),
    )
    check = Check(
        name=scenario.name,
        run=(*_actors(program), SCRIPT),
        scope=(*_sizes(program, scenario, room), ("lag", room.lag)),
        faults=tuple(_budgets(scenario)),
        resync=False,
        time="free",
        given=scenario.given,
        expects=(Expect(tuple(p.name for p in asserts), False, None, None),) if asserts else (),
        waives=(),
        module=program.main,
        span=scenario.span,
    )
    return build(world, check)


def _writes(scenario: Scenario) -> list[Action]:
    made = []
    for line, step in enumerate(scenario.steps):
        if step.call is not None:
            body = Automaton((evolve(step.call, next=1, handlers=()), End()))
            made.append(Action(str(line), (), None, None, False, body, step.span))
    return made


def _asserts(program: Program, scenario: Scenario) -> list[Property]:
    return [
        Property(assertion(line), None, State("always", step.expr), program.main, step.span)
        for line, step in enumerate(scenario.steps)
        if step.expr is not None
    ]


def _watched(property: Property) -> bool:
    """Whether a property can be held against single states or steps."""
    formula = property.formula
    return isinstance(formula, OnWrite) or (isinstance(formula, State) and formula.op in ("always", "never"))


def _actors(program: Program) -> list[str]:
    """Who runs: all but users, who do only what the script says (a fair action of an environment is no user)."""
    fair = [e.name for e in program.environments if any(a.fair for a in e.actions)]
    controllers = [c.name for c in program.controllers]
    return [*controllers, *(p.name for p in program.processes), *(a.name for a in program.admissions), *fair]


def _sizes(program: Program, scenario: Scenario, room: Room) -> list[tuple[str, int]]:
    """Slots for kinds that somebody creates; the others have their given objects."""
    bodies: list[object] = [*program.controllers, *program.processes, *(s.call for s in scenario.steps)]
    made = {c.kind for body in bodies for c in calls(body) if c.verb in ("create", "apply")}
    there = Counter(g.kind for g in scenario.given)
    there += Counter(s.call.kind for s in scenario.steps if s.call is not None and s.call.verb in ("create", "apply"))
    return [(kind, there[kind] + room.slots) for kind in sorted(made)]


def _budgets(scenario: Scenario) -> list[Fault]:
    """As much of each fault as the script injects."""
    asked = Counter((s.fault, s.target, s.actor) for s in scenario.steps if s.fault is not None)
    return [Fault(name, target, limit, by, scenario.span) for (name, target, by), limit in asked.items() if name]
