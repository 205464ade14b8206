"""`dashpot fmt`: the one layout."""

from __future__ import annotations

import argparse
import sys

from dashpot.cli import console
from dashpot.cli.files import read_spec, specs, write_whole
from dashpot.cli.problem import HOLDS, VIOLATED, WRONG, Problem, worst
from dashpot.cli.speech import say, tell

SUMMARY = "bring specs into the one layout"
USAGE = "dashpot fmt [--check|--diff] FILE…"
DESCRIPTION = """\
Rewrites each FILE in the one layout and prints the names of those that changed. A folder stands for every
.loop file below it, `-` for the standard input (the result goes to the standard output).
Files that are no specs are left as they are (exit status 2).
"""
EXAMPLE = "  dashpot fmt web.loop\n  dashpot fmt --check specs/      # in CI: exit status 1 if a file would change"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a .loop file, a folder, or - for the standard input")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a file would change")
    mode.add_argument("--diff", action="store_true", help="change nothing; print what would change")


def run(args: argparse.Namespace) -> int:
    """Formats every file; one that is wrong does not keep the others from being formatted."""
    return worst([_one(path, args) for path in specs(args.files)])


def _one(path: str, args: argparse.Namespace) -> int:
    from dashpot.grammar.format import format_text
    from dashpot.grammar.report import SpecRejected

    name = "<stdin>" if path == "-" else path
    try:
        text = read_spec(path)
    except Problem as problem:
        tell(problem)
        return problem.status
    try:
        laid_out = format_text(text, name)
    except SpecRejected as wrong:
        say(wrong.messages, {name: text})
        return WRONG
    if args.check:
        return _checked(name, text, laid_out)
    if args.diff:
        return _differ(name, text, laid_out)
    if path == "-":
        console.out(laid_out, end="")
    elif laid_out != text:
        write_whole(path, laid_out)
        console.out(path)
    return HOLDS


def _checked(name: str, text: str, laid_out: str) -> int:
    if text == laid_out:
        return HOLDS
    console.out(name)
    return VIOLATED


def _differ(name: str, text: str, laid_out: str) -> int:
    from difflib import unified_diff

    lines = unified_diff(text.splitlines(True), laid_out.splitlines(True), name, f"{name} (formatted)")
    for line in lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[0], "") if line[:3] not in ("+++", "---") else "bold"
        body = line.removesuffix("\n")
        console.out(console.paint(body, style, sys.stdout))
        if body == line:
            console.out("\\ No newline at end of file")
    return HOLDS if text == laid_out else VIOLATED
