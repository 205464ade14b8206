"""`dashpot sim`: random runs, first with faults, then healed, and then it must settle.

With a file in the world of one of its checks; without one the whole plane runs (`sim_plane`).
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from dashpot.cli import console, sim_plane, sim_real
from dashpot.cli.parser import add_set, positive
from dashpot.cli.problem import HOLDS, UNKNOWN, VIOLATED, WRONG, Problem
from dashpot.cli.progress import Ticker

if TYPE_CHECKING:
    from dashpot.checker.simulate import Found, Simulation
    from dashpot.model.program import Check, Program

SUMMARY = "random runs: faults first, then heal, then it must settle"
USAGE = "dashpot sim [options] [FILE [CHECK]]"
DESCRIPTION = """\
Without FILE the whole plane runs in this process on virtual time: API server, controllers, scheduler and simulated
nodes. From one seed a client creates, scales, rolls out, deletes and drains while faults happen; then there is peace,
and then every goal of the library must be reached; its other properties are asked at every write. A seed that fails
is made small and told as a story.

With FILE: walks at random through the world of CHECK: first with faults and users, then without them, and then it must
come to rest with every property satisfied. The same seed always gives the same walks; a walk that fails is
saved as a run. For worlds that are too large to be explored whole.

With FILE and --real: the walks are taken by the real store, API server, informers and controllers on virtual time,
and each step of them must be one that the model has, to the state that was seen. Status 1: they differ.
"""
EXAMPLE = """\
  dashpot sim --seeds 1..100
  dashpot sim web.loop small --seed 7 --walks 1000 --steps 200
  dashpot sim web.loop small --real"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a .loop file (default: the whole plane)")
    parser.add_argument("check", metavar="CHECK", nargs="?", help="whose world to walk in (default: the only one)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where chance begins (default 0)")
    parser.add_argument("--walks", type=positive, metavar="N", help="with FILE: how many walks (default 100)")
    parser.add_argument(
        "--steps", type=positive, metavar="N", help="with FILE: steps with faults, each walk (default 200)"
    )
    parser.add_argument(
        "--real",
        action="store_true",
        help="with FILE: walk with the real store, API and controllers (default 20 of 60 steps)",
    )
    add_set(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")
    sim_plane.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Walks, then tells what the walks met and what they broke; without a file the whole plane runs."""
    if args.file is None:
        if args.walks or args.steps or args.set or args.real:
            raise Problem(WRONG, "--walks, --steps, --set and --real are for the world of a check", "name a FILE")
        return sim_plane.run(args)
    sim_plane.refuse_plane_options(args)
    from dashpot.checker.simulate import simulate
    from dashpot.cli.speech import build_world, load_spec
    from dashpot.cli.targets import only_check, with_scope

    program = load_spec(args.file)
    check = with_scope(program, only_check(program, args.check), args.set)
    if args.real:
        return sim_real.run(args, program, check)
    args.walks, args.steps = args.walks or 100, args.steps or 200
    ticker = Ticker(f"{args.file} {check.name}", time.monotonic, args.output == "json").start()
    try:
        done = simulate(
            program,
            check,
            build_world(program, check),
            seed=args.seed,
            walks=args.walks,
            steps=args.steps,
            told=lambda walks, steps: ticker.walks(walks, args.walks, steps),
        )
    finally:
        ticker.done()
    lines = [_line(args, program, check, done, found) for found in done.found]
    if args.output == "json":
        console.out(json.dumps(_document(args, check, done, lines), indent=2, ensure_ascii=False))
    else:
        _print(args, program, check, done, lines)
    troubles = [line.trouble for line in lines if line.trouble is not None]
    if troubles:
        raise troubles[0]
    if any(not line.fine for line in lines):
        return VIOLATED
    return HOLDS if done.walks == args.walks else UNKNOWN


class Line(NamedTuple):
    """A property that walks broke: how often, its run, its story, and whether the check says so."""

    found: Found
    run: str
    sentence: str
    said: str
    fine: bool
    trouble: Problem | None = None


def _line(args: argparse.Namespace, program: Program, check: Check, done: Simulation, found: Found) -> Line:
    from dashpot.checker.judge import DEFAULTS, questions
    from dashpot.cli.ask import keep

    asked = questions(program, check)
    kept = keep(args.file, program, done.system, found.violated, found.property, check.name, args)
    expect = asked.expected.get(found.property)
    if expect is not None and expect.violation:
        said, fine = "as expected ✓", True
    elif expect is None and asked.lenient and found.property in DEFAULTS:
        said, fine = "not judged", True
    else:
        said, fine = "unexpected ✗" if expect is None else "expected to hold ✗", False
    return Line(found, kept.id or "–", kept.sentence, said, fine, kept.trouble)


def _print(args: argparse.Namespace, program: Program, check: Check, done: Simulation, lines: list[Line]) -> None:
    from dashpot.cli.ask import budgets
    from dashpot.cli.verdicts import heading

    console.out(heading(check, budgets(program, check)))
    walks = f"{console.plural(done.walks, 'walk')} from seed {args.seed}"
    settled = f"{console.grouped(done.settled)} settled"
    console.out(f"  {walks}  {console.plural(done.steps, 'step')}  {settled}")
    if done.fired:
        console.out()
        rows = [["fault", "times"], *([name, console.grouped(count)] for name, count in done.fired)]
        for line in console.columns(rows, right=frozenset({1})):
            console.out(f"  {line}")
    console.out()
    for text in _table(lines):
        console.out(f"  {text}")
    if not lines:
        console.out("  no walk broke anything (that proves nothing: `dashpot check` explores all)")
    if done.reached:
        console.out(f"  reached:  {', '.join(done.reached)}")
    for what, count in done.cramped:
        console.out(f"  bound hit:  {what}: {console.plural(count, 'walk')} ended there")
    for one in lines:
        if not one.fine:
            told = "" if one.trouble else f"\n  Told by: dashpot explain {one.run}"
            console.out(f"\n  {one.found.property}: {one.sentence}{told}")


def _table(lines: list[Line]) -> list[str]:
    """One line a property that some walk broke."""
    from dashpot.cli.verdicts import WORDS, steps

    rows = [["property", "verdict", "walks", "first", "steps", "run", ""]]
    for one in lines:
        found = one.found
        verdict = f"✗ {WORDS.get(found.violated.kind, found.violated.kind)}"
        counts = [console.grouped(found.count), f"#{found.walk}", steps(found.violated)]
        rows.append([found.property, verdict, *counts, one.run, one.said])
    if not lines:
        return []
    styles = ["dim", *("" if line.fine else "red" for line in lines)]
    texts = console.columns(rows, right=frozenset({2, 3, 4}))
    return [console.paint(text, style) for text, style in zip(texts, styles, strict=True)]


def _document(args: argparse.Namespace, check: Check, done: Simulation, lines: list[Line]) -> dict[str, Any]:
    return {
        "format": 1,
        "file": args.file,
        "check": check.name,
        "seed": args.seed,
        "walks": done.walks,
        "steps": done.steps,
        "settled": done.settled,
        "faults": dict(done.fired),
        "reached": list(done.reached),
        "bounds": dict(done.cramped),
        "violations": [
            {
                "property": line.found.property,
                "kind": line.found.violated.kind,
                "steps": line.found.violated.steps,
                "walk": line.found.walk,
                "walks": line.found.count,
                "run": line.run,
                "message": line.sentence,
                "expected": line.fine,
            }
            for line in lines
        ],
    }
