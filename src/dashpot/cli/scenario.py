"""`dashpot scenario`: one schedule, step by step."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from dashpot.cli import console
from dashpot.cli.console import paint
from dashpot.cli.problem import worst

if TYPE_CHECKING:
    from dashpot.cli.inquiry import Acted

SUMMARY = "play the scenarios of a spec, step by step"
USAGE = "dashpot scenario [options] FILE… [SCENARIO…]"
DESCRIPTION = """\
Plays each scenario of FILE (or only those named) line by line in one fixed order, and shows what every line
did. `dashpot check FILE` plays them too, and prints one line for each.
"""
EXAMPLE = "  dashpot scenario web.loop\n  dashpot scenario web.loop 'a stale cache does not make twins'"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("targets", nargs="*", metavar="FILE, SCENARIO", help="files or folders, then names to play")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only scenarios that fail")


def run(args: argparse.Namespace) -> int:
    """Plays everything that was asked for, also behind a scenario that fails."""
    from dashpot.cli.answer import scenario_to_json
    from dashpot.cli.ask import load_all, play_all
    from dashpot.cli.speech import say
    from dashpot.cli.targets import chosen, split

    files, names = split(args.targets)
    loaded = load_all(files)
    programs = [i.program for i in loaded if i.program is not None]
    wanted = iter(chosen(programs, names, only_scenarios=True) if programs else [])
    done = [play_all(i, next(wanted)) if i.program is not None else i for i in loaded]
    for inquiry in done:
        if inquiry.wrong:
            say(inquiry.wrong, inquiry.sources)
    if args.output == "json":
        found = [{"file": i.file, "scenarios": [scenario_to_json(a) for a in i.acted]} for i in done]
        console.out(json.dumps({"format": 1, "files": found}, indent=2, ensure_ascii=False))
        return worst([i.status for i in done])
    shown = [a for i in done for a in i.acted if not (args.quiet and a.played.failure is None)]
    for number, acted in enumerate(shown):
        console.out(("\n" if number else "") + "\n".join(lines(acted)))
    if not any(i.acted for i in done) and not any(i.wrong for i in done):
        console.out('there is no scenario; a file has one in `scenario "name" { … }`')
    return worst([i.status for i in done])


def lines(acted: Acted) -> list[str]:
    """A scenario as it was played: each line of the script, and below it the steps that it took."""
    played = acted.played
    texts = [paint(f"scenario {played.scenario!r}", "bold")]
    for line in played.lines:
        step = acted.scenario.steps[line.index]
        failed = played.failure is not None and played.failure.line == line.index
        mark = paint("✗", "red") if failed else paint("✓", "green")
        texts.append(f"  {mark} {acted.text(step)}")
        texts += [f"      {number + 1:>3}  {acted.labels[number]}" for number in range(line.first, line.last)]
    if played.failure is not None:
        texts.append(f"  {played.failure.span}: {played.failure.message}")
    texts += [f"  on the way it breaks {name}: {text}" for name, text in played.broken]
    return texts
