"""Whether the faults of a check can hit anything: their targets have to take part in it."""

from __future__ import annotations

from collections.abc import Iterator

from dashpot.grammar.notes import Notes
from dashpot.grammar.targets import OF_CACHES
from dashpot.model.kernel.walk import kinds_named
from dashpot.model.program import Controller, Fault, Process, Program


def aims(program: Program, notes: Notes) -> None:
    """Report every fault of a check whose target is no part of what runs there.

    The faults of an environment are left alone: the same environment runs in checks of different actors.
    """
    everyone: tuple[Controller | Process, ...] = (*program.controllers, *program.processes)
    for check in program.checks:
        running = {a.name: a for a in everyone if a.name in check.run}
        kinds = {name: kinds_named(actor) for name, actor in running.items()}
        for fault in check.faults or ():
            for text, fix in _missed(fault, kinds):
                notes.error("D122", fault.span, text, fix)


def _missed(fault: Fault, kinds: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """(what is wrong, how to mend it)"""
    of_cache = fault.name in OF_CACHES
    actor = fault.by if of_cache else fault.target if fault.name != "node_down" else None
    if actor is not None and actor not in kinds:
        others = f", or hit {' or '.join(kinds)}" if kinds else ""
        yield f"`{fault.name}` hits {actor}, which this check does not run.", f"add {actor} to `run`{others}"
    elif of_cache and fault.target is not None:
        seen = set().union(*kinds.values()) if actor is None else kinds[actor]
        if fault.target not in seen:
            who = actor or "no actor of this check"
            text = (
                f"`{fault.name}` hits {fault.target} in a cache, and {who} {'never ' if actor else ''}reads that kind."
            )
            there = f"name {' or '.join(sorted(seen))}" if seen else "add an actor that has a cache to `run`"
            yield text, there
