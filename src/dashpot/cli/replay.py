"""`dashpot replay`: a counterexample on the real thing."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.console import paint, plural
from dashpot.cli.parser import add_set
from dashpot.cli.problem import HOLDS, OUTSIDE, VIOLATED, WRONG, Problem

if TYPE_CHECKING:
    from dashpot.checker.runs import Run
    from dashpot.model.program import Check, Program
    from dashpot.model.schedule import Schedule
    from dashpot.runtime.replay.replay import Actors, Replayed, Rerun

SUMMARY = "drive the real API server and controllers through a counterexample"
USAGE = "dashpot replay [options] RUN"
DESCRIPTION = """\
Builds the world of a saved run for real, in this process and on virtual time: store, API pipeline, informers and
the controllers of the spec. Drives it through the run, step by step, compares it with the model after each step,
and asks the property of the real objects at the end. Status 1: the same violation; 4: model and runtime part.

With --with FIXED.loop it drives that spec's controllers through the same deliveries, faults and users' writes, as
far as they apply, and lets them settle: status 0 if they converge.
"""
EXAMPLE = """\
  dashpot replay last
  dashpot replay f3a1 --with fixed.loop
  dashpot replay f3a1 --with shop.loop --check fixed"""

FORMAT = 1
"""Version of the JSON."""
SHOWN = 12
"""How many differences are printed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("run_id", metavar="RUN", help="the id of a saved run, `last`, or the path of its file")
    parser.add_argument("--with", dest="other", metavar="FIXED.loop", help="drive this spec through the run instead")
    parser.add_argument("--check", metavar="NAME", help="with --with: the check that says which actors run")
    add_set(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")


def run(args: argparse.Namespace) -> int:
    """Replays the run, or another spec through it."""
    from dashpot.runtime.replay.stage import CannotReplay

    if args.other is None and (args.check or args.set):
        raise Problem(WRONG, "--check and --set say how another spec runs", "name it: --with FIXED.loop")
    found = _found(args.run_id)
    schedule, actors = prepared(found)
    try:
        if args.other is None:
            return _replay(args, found, schedule, actors)
        return _rerun(args, found, schedule)
    except CannotReplay as error:
        raise Problem(WRONG, f"this run cannot be replayed: {error}") from None


def _found(name: str) -> Run:
    """The run of this name; a trace is none."""
    from dashpot.cli.explain import find

    if name.endswith((".jsonl", ".ndjson", ".trace")) or (name.endswith(".json") and _traced(Path(name))):
        raise Problem(
            WRONG, f"'{name}' is a trace: only runs that `dashpot check` or `sim` saved can be replayed so far"
        )
    return find(name)


def _traced(path: Path) -> bool:
    """Whether a file is one object a line, as traces are."""
    try:
        with path.open("rb") as file:
            first, second = file.readline(1 << 20), file.readline(1 << 20)
    except OSError:
        return False
    try:
        return isinstance(json.loads(first), dict) and isinstance(json.loads(second), dict)
    except ValueError:
        return False


def prepared(found: Run) -> tuple[Schedule, Actors]:
    """The schedule of a run, and whom it drives. A Problem if the spec is another one by now."""
    from dashpot.checker.runs import changed_since
    from dashpot.checker.timetable import Mismatch, schedule_of
    from dashpot.cli.files import read_spec
    from dashpot.cli.targets import only_check, with_scope
    from dashpot.cli.values import asked_again
    from dashpot.grammar.load import load
    from dashpot.model.kernel.build import build

    if changed_since(found, read_spec(found.spec)):
        raise Problem(
            WRONG, f"{found.spec} has changed since this run was found", f"`{asked_again(found)}` looks again"
        )
    program = load(found.spec)
    check = with_scope(program, only_check(program, found.check), list(found.settings))
    try:
        schedule = schedule_of(program, check, build(program, check), found)
    except Mismatch as error:
        raise Problem(WRONG, f"the run cannot be taken again: {error}", f"`{asked_again(found)}` looks again") from None
    return schedule, actors_of(program, check)


def actors_of(program: Program, check: Check) -> Actors:
    """Whom a check drives."""
    from dashpot.model.kernel.tables import constants, givens
    from dashpot.runtime.replay.replay import Actors

    waived = {(w.kind or "", ".".join(w.path)) for w in check.waives if w.name == "hot_loop"}
    return Actors(program, check.run, givens(program, check), constants(program, check), waived)


# ---------------------------------------------------------------------- the same spec
def _replay(args: argparse.Namespace, found: Run, schedule: Schedule, actors: Actors) -> int:
    from dashpot.runtime.replay.replay import replay

    done = replay(actors, schedule)
    status = VIOLATED if done.violated else OUTSIDE
    if args.output == "json":
        console.out(json.dumps(_replay_json(found, schedule, done, status), indent=2, ensure_ascii=False))
    else:
        console.out("\n".join(_replay_lines(found, schedule, done)))
    return status


def _head(found: Run, schedule: Schedule) -> str:
    from dashpot.checker.runs import short

    about = f" for {schedule.thing}" if schedule.thing else ""
    return f"run {short(found.id)}: {schedule.property}{about} ({schedule.kind}), {plural(len(schedule.steps), 'step')}"


def _replay_lines(found: Run, schedule: Schedule, done: Replayed) -> list[str]:
    lines = [paint(_head(found, schedule), "bold")]
    lines += [f"  note: {note}" for note in done.notes]
    for number, text in enumerate(done.steps, 1):
        parts = done.parted is not None and number == len(done.steps)
        lines.append(f"  {paint('✗', 'red') if parts else paint('✓', 'green')} {number:>3}  {text}")
    lines += [f"  {model} is {real} here" for model, real in done.names.items()]
    lines.append("")
    if done.violated:
        about = f", for {schedule.thing}" if schedule.thing else ""
        lines.append(f"The real thing violates it just so: {schedule.property}{about}.")
        if done.rounds > 1:
            lines.append("The cycle was driven twice, and led back to the same state.")
        return lines
    if done.parted is None:
        lines.append(f"Model and runtime agree in every step, and not in the verdict: {done.reason}.")
    else:
        where = f"after step {done.parted}" if done.parted else "at the start"
        lines.append(f"Model and runtime part {where}:")
        rows = [["", "model", "runtime"]]
        for one in done.differences[:SHOWN]:
            rows.append([f"{one.object} {one.field}".rstrip(), one.model, one.runtime])
        lines += [f"  {row}" for row in console.columns(rows)]
        if len(done.differences) > SHOWN:
            lines.append(f"  … and {len(done.differences) - SHOWN} more")
    lines.append("One of them is wrong: please report it, with the spec.")
    return lines


def _replay_json(found: Run, schedule: Schedule, done: Replayed, status: int) -> dict[str, Any]:
    return {
        **_common(found, schedule, status, done.notes),
        "violated": done.violated,
        "parted": done.parted,
        "differences": [
            {"object": d.object, "field": d.field, "model": d.model, "runtime": d.runtime} for d in done.differences
        ],
        "reason": done.reason,
        "steps": list(done.steps),
        "rounds": done.rounds,
        "names": done.names,
    }


def _common(found: Run, schedule: Schedule, status: int, notes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "run": found.id,
        "file": found.spec,
        "check": found.check,
        "property": schedule.property,
        "kind": schedule.kind,
        "object": schedule.thing,
        "field": schedule.field,
        "status": status,
        "notes": list(notes),
    }


# ---------------------------------------------------------------------- another spec
def _rerun(args: argparse.Namespace, found: Run, schedule: Schedule) -> int:
    from dashpot.cli.files import read_spec
    from dashpot.cli.targets import with_scope
    from dashpot.grammar.load import load
    from dashpot.runtime.replay.replay import rerun

    read_spec(args.other)
    program = load(args.other)
    check = with_scope(program, _other_check(program, args.other, args.check, found), args.set)
    done = rerun(actors_of(program, check), schedule)
    status = HOLDS if done.converged else VIOLATED
    if args.output == "json":
        document = {
            **_common(found, schedule, status, done.notes),
            "with": args.other,
            "with_check": check.name,
            "converged": done.converged,
            "taken": done.taken,
            "skipped": done.skipped,
            "settling": done.settling,
            "changes": done.changes,
            "reason": done.reason,
        }
        console.out(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        console.out("\n".join(_rerun_lines(found, schedule, done, args.other, check.name)))
    return status


def _other_check(program: Program, path: str, name: str | None, found: Run) -> Check:
    """The check that says which actors run: the one that is named, else that of the run, else the one that expects no
    violation."""
    from dashpot.cli.targets import mine, only_check

    checks = mine(program).checks
    same = Path(path).resolve() == Path(found.spec).resolve()
    if name is None and not same and any(check.name == found.check for check in checks):
        name = found.check
    fixed = [check for check in checks if not any(expect.violation for expect in check.expects)]
    if name is None and len(fixed) == 1:
        return fixed[0]
    return only_check(program, name)


def _rerun_lines(found: Run, schedule: Schedule, done: Rerun, other: str, check: str) -> list[str]:
    lines = [paint(_head(found, schedule), "bold"), f"  with the actors of {other}, check {check}"]
    lines += [f"  note: {note}" for note in done.notes]
    lines.append(
        f"  {plural(done.taken, 'step')} taken, {done.skipped} skipped that did not apply; "
        f"settled after {plural(done.settling, 'round')}, {done.changes} with changes"
    )
    mark = paint("✓", "green") if done.converged else paint("✗", "red")
    lines.append(f"  {mark} {'it converges' if done.converged else done.reason}")
    return lines
