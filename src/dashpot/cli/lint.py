"""`dashpot lint`: parse, type, and smell."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from dashpot.cli import console
from dashpot.cli.files import read_spec, specs, write_whole
from dashpot.cli.problem import HOLDS, VIOLATED, WRONG, Problem, worst
from dashpot.cli.speech import say, tell

if TYPE_CHECKING:
    from dashpot.checker.sarif import Finding
    from dashpot.grammar.report import Message

SUMMARY = "parse, type, and smell"
USAGE = "dashpot lint [options] FILE…"
DESCRIPTION = """\
Reports what is wrong with each FILE, and what smells: a delete decided by a cached read, an unhandled
Conflict, a kind that is read but not watched. A folder stands for every .loop file below it.

Errors give exit status 2. Smells alone give 0, or 1 with --strict.
"""
EXAMPLE = "  dashpot lint web.loop\n  dashpot lint --strict --sarif lint.sarif specs/"

STDIN = "<stdin>"
"""What the standard input is called in messages."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a .loop file, a folder, or - for the standard input")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if anything smells")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")
    parser.add_argument("--sarif", metavar="FILE", help="also write the messages as SARIF 2.1.0")


def run(args: argparse.Namespace) -> int:
    """Prints the messages of all files in the order of the files and lines."""
    messages: list[Message] = []
    sources: dict[str, str] = {}
    statuses = []
    for path in specs(args.files):
        try:
            messages += _messages(path, sources)
        except Problem as problem:
            tell(problem)
            statuses.append(problem.status)
    errors = sum(m.severity == "error" for m in messages)
    if args.sarif:
        from dashpot import __version__
        from dashpot.checker.sarif import sarif

        write_whole(args.sarif, sarif([finding(m) for m in messages], __version__))
    if args.output == "json":
        from dashpot.grammar.report import to_json

        console.out(json.dumps({"format": 1, "messages": json.loads(to_json(messages))}, indent=2))
    else:
        _print(messages, errors, sources)
    return worst([*statuses, WRONG if errors else VIOLATED if messages and args.strict else HOLDS])


def _print(messages: list[Message], errors: int, sources: dict[str, str]) -> None:
    if not messages:
        return
    say(messages, sources, to_stdout=True)
    smells = len(messages) - errors
    parts = [console.plural(errors, "error")] if errors else []
    parts += [console.plural(smells, "warning")] if smells else []
    console.out(f"\n{' and '.join(parts)}")


def _messages(path: str, sources: dict[str, str]) -> list[Message]:
    from dashpot.grammar.lint import lint_text

    name = STDIN if path == "-" else path
    sources[name] = read_spec(path)
    return list(lint_text(sources[name], name))


def finding(message: Message) -> Finding:
    """A message of the grammar as a line of a SARIF log."""
    from dashpot.checker.sarif import Finding

    level = "error" if message.severity == "error" else "warning"
    text = f"{message.text} {message.fix}".strip()
    return Finding(message.code, level, text, message.span, key=message.text, help=message.title)
