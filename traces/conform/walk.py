"""Walks of a check's world, taken by the real thing and held against the model.

for held in walks(program, check, seed=7, count=20, steps=60): ...
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from dashpot.model.kernel.tables import constants, givens
from dashpot.model.program import Check, Program
from dashpot.runtime.replay.replay import Actors
from dashpot.runtime.replay.wander import Trace, wander
from dashpot.traces.conform.follow import Follower, Refusal

LAG = 2
"""Undelivered changes of a cache where the scope says nothing, as in the kernel."""


@frozen
class Held:
    """A walk, and the first step of it that the model does not have."""

    seed: int
    trace: Trace
    refusal: Refusal | None


def walked(program: Program, check: Check, model: Follower, *, seed: int, steps: int) -> Trace:
    """One walk of the check's actors, with as many crashes as its faults allow. CannotReplay."""
    kinds = {cell.kind for cell in model.system.cells if cell.area == "store" and cell.path == "present"}
    actors = Actors(program, check.run, givens(program, check), constants(program, check))
    crashes = sum(fault.limit for fault in check.faults or () if fault.name == "crash")
    lag = next((value for key, value in check.scope if key == "lag" and isinstance(value, int)), LAG)
    return wander(
        actors,
        kinds,
        model.lagging(),
        lag,
        seed=seed,
        steps=steps,
        crashes=crashes,
        collects=model.collects(),
    )


def walks(program: Program, check: Check, *, seed: int, count: int, steps: int) -> Iterator[Held]:
    """So many walks, of consecutive seeds, each followed through the model. CannotReplay."""
    model = Follower(program, check)
    for number in range(seed, seed + count):
        trace = walked(program, check, model, seed=number, steps=steps)
        yield Held(number, trace, model.follow(trace))
