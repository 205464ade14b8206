"""`dashpot sim FILE --real`: random walks of the real store, API and controllers, each step held against the model."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.console import grouped, plural
from dashpot.cli.problem import HOLDS, VIOLATED, WRONG, Problem
from dashpot.cli.progress import Ticker

if TYPE_CHECKING:
    from dashpot.model.program import Check, Program
    from dashpot.traces.conform.walk import Held

WALKS, STEPS = 20, 60
SHOWN = 6
"""How many differences are printed."""


def run(args: argparse.Namespace, program: Program, check: Check) -> int:
    """Takes the walks, and tells what happened in them and which step the model does not have."""
    from dashpot.runtime.replay.stage import CannotReplay
    from dashpot.traces.conform.walk import walks

    count, steps = args.walks or WALKS, args.steps or STEPS
    ticker = Ticker(f"{args.file} {check.name}", time.monotonic, args.output == "json").start()
    held: list[Held] = []
    verbs: Counter[str] = Counter()
    taken = left = 0
    try:
        for one in walks(program, check, seed=args.seed, count=count, steps=steps):
            verbs.update(f"{step.verb} {step.error}".strip() for step in one.trace.happenings)
            taken += 1
            ticker.walks(taken, count, verbs.total())
            if one.refusal is not None and one.refusal.outside:
                left += 1
            elif one.refusal is not None:
                held.append(one)
                break
    except CannotReplay as error:
        raise Problem(WRONG, f"this world cannot be built for real: {error}") from None
    finally:
        ticker.done()
    if args.output == "json":
        console.out(json.dumps(_document(args, check, taken, left, verbs, held), indent=2, ensure_ascii=False))
    else:
        _print(args, check, taken, left, verbs, held)
    return VIOLATED if held else HOLDS


def _print(
    args: argparse.Namespace, check: Check, taken: int, left: int, verbs: Counter[str], held: list[Held]
) -> None:
    walks = f"{plural(taken, 'walk')} of the real thing from seed {args.seed}"
    console.out(f"{check.name}: {walks}, {plural(verbs.total(), 'step')}")
    console.out("")
    rows = [["step", "times"], *([verb, grouped(times)] for verb, times in verbs.most_common())]
    for line in console.columns(rows, right=frozenset({1})):
        console.out(f"  {line}")
    console.out("")
    if not held:
        console.out("  ✓ every step is one of the model, to the state that was seen")
    if left:
        console.out(
            f"  {plural(left, 'walk')} left the scope of the check and {'were' if left > 1 else 'was'} followed so far"
        )
    for one in held:
        refusal = one.refusal
        assert refusal is not None
        step = refusal.happening
        told = "the start" if step is None else f"step {refusal.number}, {_told(args.file, step)}"
        console.out(f"  ✗ walk of seed {one.seed}: {told}: {refusal.why}")
        for row in refusal.differences[:SHOWN]:
            console.out(f"      {row.object} {row.field}: {row.runtime} (real), {row.model} (model)".replace("  ", " "))
        more = len(refusal.differences) - SHOWN
        if more > 0:
            console.out(f"      and {plural(more, 'more difference')}")
        console.out("    Runtime and model disagree: one of them has a bug. Please report it with the spec.")


def _told(file: str, step: Any) -> str:
    """A step in a few words, with its place in the spec."""
    words = [step.actor, step.verb, step.kind, step.name, step.error]
    place = f" ({file}:{step.line})" if step.line else ""
    return " ".join(word for word in words if word) + place


def _document(
    args: argparse.Namespace, check: Check, taken: int, left: int, verbs: Counter[str], held: list[Held]
) -> dict[str, Any]:
    return {
        "format": 1,
        "file": args.file,
        "check": check.name,
        "seed": args.seed,
        "walks": taken,
        "left_scope": left,
        "steps": dict(verbs),
        "refused": [
            {
                "seed": one.seed,
                "step": one.refusal.number,
                "told": _told(args.file, one.refusal.happening) if one.refusal.happening else "",
                "why": one.refusal.why,
                "differences": [
                    {"object": row.object, "field": row.field, "model": row.model, "real": row.runtime}
                    for row in one.refusal.differences
                ],
            }
            for one in held
            if one.refusal is not None
        ],
    }
