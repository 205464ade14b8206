"""`dashpot sim` without a file: the whole plane from one seed, with clients, faults, peace and a judgement."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.parser import positive, seconds
from dashpot.cli.problem import HOLDS, UNKNOWN, VIOLATED, WRONG, Problem, choose
from dashpot.cli.progress import Ticker

if TYPE_CHECKING:
    from dashpot.runtime.sim.story import Story
    from dashpot.runtime.sim.sweep import Size, Verdict
    from dashpot.runtime.sim.world import Setting

ONLY = ("seeds", "writes", "faults", "period", "without", "spec")
"""Options that mean nothing beside a file."""
MOST_SEEDS = 1_000_000
_SEEDS = re.compile(r"(\d{1,12})\.\.(\d{1,12})", re.ASCII)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of a simulation of the whole plane."""
    group = parser.add_argument_group("the whole plane (without FILE)")
    group.add_argument("--seeds", metavar="A..B", help="all seeds from A to B")
    group.add_argument("--writes", type=positive, metavar="N", help="what a client does in each run (default 200)")
    group.add_argument("--faults", type=_count, metavar="N", help="faults in each run (default 6)")
    group.add_argument(
        "--for", type=seconds, metavar="TIME", dest="period", help="virtual time until peace begins (default 60s)"
    )
    group.add_argument(
        "--without", metavar="CONTROLLER", action="append", help="a controller that does not run; may be repeated"
    )
    group.add_argument(
        "--spec", metavar="MODULE=FILE", action="append", help="a text that stands for a module of the library"
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 0 to 1000")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Plays the seeds, and tells what came of each."""
    from dashpot.runtime.sim.sweep import sweep

    setting, size, seeds = _setting(args), _size(args), _seeds(args)
    verdicts: list[Verdict] = []
    text = args.output == "text"
    ticker = Ticker("sim", time.monotonic, not text)
    for verdict in sweep(seeds, setting, size, told=ticker.note):
        ticker.done()
        if text:
            _print(verdict, size)
        # only what is printed of a run is kept: a thousand of them are large
        verdicts.append(verdict)
        verdict.run.forget()
        verdict.small = None
    if text:
        _print_sum(verdicts, size)
    else:
        console.out(json.dumps(_document(verdicts, size), indent=2, ensure_ascii=False))
    states = {verdict.status for verdict in verdicts}
    return VIOLATED if "violated" in states else UNKNOWN if "harness" in states else HOLDS


def refuse_plane_options(args: argparse.Namespace) -> None:
    """Beside a file these options would be ignored in silence: Problem."""
    for name in ONLY:
        if getattr(args, name) is not None:
            option = "--for" if name == "period" else f"--{name}"
            raise Problem(WRONG, f"{option} is for the whole plane", "leave FILE out, or leave the option out")


# -- what was asked for ------------------------------------------------------------


def _seeds(args: argparse.Namespace) -> range:
    if args.seeds is None:
        return range(args.seed, args.seed + 1)
    found = _SEEDS.fullmatch(args.seeds)
    if found is None or int(found[1]) > int(found[2]) or int(found[2]) - int(found[1]) >= MOST_SEEDS:
        raise Problem(WRONG, f"--seeds: '{args.seeds}' is no range of seeds", "write it as 1..100")
    return range(int(found[1]), int(found[2]) + 1)


def _size(args: argparse.Namespace) -> Size:
    from dashpot.runtime.sim.sweep import FAULTS, SECONDS, WRITES, Size

    return Size(args.writes or WRITES, FAULTS if args.faults is None else args.faults, args.period or SECONDS)


def _setting(args: argparse.Namespace) -> Setting:
    from dashpot.cli.files import read_spec
    from dashpot.grammar.load import load_as
    from dashpot.runtime.plane.parts import CONTROLLERS
    from dashpot.runtime.sim.world import Setting

    modules = list(dict.fromkeys(part.module for part in CONTROLLERS.values()))
    without = tuple(args.without or ())
    for name in without:
        if name not in CONTROLLERS:
            raise choose("controller", name, list(CONTROLLERS))
    programs = {}
    for word in args.spec or ():
        module, sign, path = word.partition("=")
        if not sign or not path:
            raise Problem(WRONG, f"--spec: '{word}' names no file", "write it as kubernetes.replicaset=FILE.loop")
        if module not in modules:
            raise choose("module of the plane", module, modules)
        read_spec(path)  # says in plain words why a file is no text at all
        program = programs[module] = load_as(module, path)
        have = {one.name for one in program.controllers} | {one.name for one in program.processes}
        for part in CONTROLLERS.values():
            missing = [actor for actor in part.actors if part.module == module and actor not in have]
            if missing:
                raise Problem(WRONG, f"{path} has no {missing[0]}, which the plane runs of {module}")
    return Setting(programs, without)


# -- what came of it ------------------------------------------------------------

MARKS = {"holds": ("✓ holds", ""), "violated": ("✗ violated", "red"), "harness": ("? proves nothing", "yellow")}


def _print(verdict: Verdict, size: Size) -> None:
    run = verdict.run
    mark, style = MARKS[verdict.status]
    kinds = len(verdict.figures)
    faults = f"{console.plural(verdict.figures.total(), 'fault')} of {console.plural(kinds, 'kind')}"
    rest = f"settled after {run.settled:.0f} s" if run.settled else verdict.why
    writes = console.plural(run.writes, "write")
    console.out(console.paint(f"seed {verdict.seed}  {mark}", style) + f"  {writes}  {faults}  {rest}")
    if verdict.story is not None:
        for line in story_lines(verdict.story, size):
            console.out(line)


def story_lines(story: Story, size: Size) -> list[str]:
    """The lines of a story."""
    broken = story.broken
    lines = ["", f"  {story.headline}"]
    if broken.property_at.file:
        lines.append(f"  claimed at {broken.property_at}: {story.claimed}")
    else:
        lines.append(f"  a law of every plane: {story.claimed}")
    if broken.line.file:
        lines.append(f"  decided at {broken.line}: {story.decided}")
    lines.append(f"  {story.writes} of {size.writes} writes and {story.faults} of {size.faults} faults are enough:")
    lines.append("")
    if story.skipped:
        lines.append(f"    … {console.plural(story.skipped, 'earlier write')} of the plane to the same objects")
    for line in story.lines:
        place = f"  ({line.place})" if line.place else ""
        lines.append(f"    {line.at:9.3f} s  {line.who}: {line.what}{place}")
    lines += ["", f"  Why it matters: {story.why}", ""]
    return lines


def _print_sum(verdicts: list[Verdict], size: Size) -> None:
    total: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for verdict in verdicts:
        total.update(verdict.figures)
        runs.update(verdict.figures.keys())
    console.out()
    rows = [["fault", "fired", "runs"]]
    rows += [[name, console.grouped(total[name]), console.grouped(runs[name])] for name in sorted(total)]
    for line in console.columns(rows, right=frozenset({1, 2})):
        console.out(f"  {line}")
    excused = Counter(f"{one.module}.{one.property}" for verdict in verdicts for one in verdict.run.excused)
    if excused:
        console.out("\n  excused (more faults, or other deeds of users, than any check that expects it has):")
        for name, count in sorted(excused.items()):
            console.out(f"    {name}: {console.plural(count, 'time')}")
    states = Counter(verdict.status for verdict in verdicts)
    if len(verdicts) > 1:
        console.out(
            f"\n  {console.plural(len(verdicts), 'seed')}: {states['holds']} hold, {states['violated']} violated, "
            f"{states['harness']} prove nothing"
        )


def _document(verdicts: list[Verdict], size: Size) -> dict[str, Any]:
    return {
        "format": 1,
        "writes": size.writes,
        "faults": size.faults,
        "seconds": size.seconds,
        "seeds": [_seed(verdict) for verdict in verdicts],
    }


def _seed(verdict: Verdict) -> dict[str, Any]:
    run, story = verdict.run, verdict.story
    return {
        "seed": verdict.seed,
        "status": verdict.status,
        "why": verdict.why,
        "writes": run.writes,
        "settled_s": run.settled or None,
        "faults": dict(sorted(verdict.figures.items())),
        "excused": [{"property": one.property, "about": one.about, "excuse": one.excuse} for one in run.excused],
        "violation": None if story is None else _told_story(story),
    }


def _told_story(story: Story) -> dict[str, Any]:
    broken = story.broken
    return {
        "property": broken.property,
        "module": broken.module,
        "kind": broken.kind,
        "about": broken.about,
        "message": broken.text,
        "at_s": broken.at,
        "decided": {"file": broken.line.file, "line": broken.line.line, "text": story.decided},
        "claimed": {"file": broken.property_at.file, "line": broken.property_at.line, "text": story.claimed},
        "writes": story.writes,
        "faults": story.faults,
        "story": [{"at_s": line.at, "who": line.who, "what": line.what, "at": line.place} for line in story.lines],
        "why": story.why,
    }
