"""`dashpot explain`: a counterexample as a story."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dashpot.cli import console
from dashpot.cli.files import write_whole
from dashpot.cli.problem import HOLDS, WRONG, Problem

if TYPE_CHECKING:
    from dashpot.checker.runs import Run

SUMMARY = "tell a counterexample as a story"
USAGE = "dashpot explain [options] RUN [STEP]"
DESCRIPTION = """\
Tells a run that `dashpot check` has saved: one line a step, stale reads marked, why it went wrong.
With STEP it shows the whole state after that step (0 is the start).

RUN is the id that `check` prints, `last` for the run that was saved last, or the path of a run's file.
"""
EXAMPLE = """\
  dashpot explain last                         # the run that was saved last
  dashpot explain f3a1 4                       # everything that is the case after step 4
  dashpot explain f3a1 --eval 'Pod.size()'     # one value at every step
  dashpot explain f3a1 --html story.html"""

WIDEST = 120


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("run_id", metavar="RUN", help="the id of a saved run, `last`, or the path of its file")
    parser.add_argument("step", metavar="STEP", nargs="?", type=_number, help="show the whole state after this step")
    parser.add_argument("--html", metavar="FILE", help="write the story as one self-contained page")
    parser.add_argument("--itf", metavar="FILE", help="write the run in Informal Trace Format")
    parser.add_argument(
        "--eval", metavar="EXPR", action="append", default=[], help="show a value at every step; may be repeated"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is no step: steps are numbered from 0, the start")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Loads the run and shows it the way that was asked for."""
    from attrs import evolve

    found = find(args.run_id)
    if args.step is not None and args.step >= len(found.states):
        raise Problem(WRONG, f"run {args.run_id} has {len(found.states) - 1} steps, there is no step {args.step}")
    story = evolve(found.story, replay=f"dashpot explain {_name(args.run_id, found)}")
    if args.html:
        from dashpot.checker.page import page

        write_whole(args.html, page(story))
    if args.itf:
        from dashpot.checker.itf import encode, itf_of

        write_whole(args.itf, encode(itf_of(found)))
    if args.output == "json":
        import msgspec

        console.out(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif args.eval:
        _evaluate(found, args.eval)
    elif args.step is not None:
        from dashpot.cli.moment import moment

        console.out("\n".join(moment(found, args.step)))
    elif not (args.html or args.itf):
        from dashpot.checker.tell import tell

        console.out(tell(story, console.coloured(sys.stdout), width()))
    _warn_if_changed(found)
    return HOLDS


def find(name: str) -> Run:
    """The saved run of this id; a Problem says what is wrong with the id or the file."""
    from dashpot.checker.runs import RunError, load

    try:
        return load(name)
    except RunError as error:
        raise Problem(WRONG, str(error)) from None
    except ValueError:
        raise Problem(WRONG, f"{name!r} is no run") from None


def _name(given: str, found: Run) -> str:
    """By what the run is called from now on: the last one will soon be another."""
    from dashpot.checker.runs import LAST, short

    return short(found.id) if given == LAST else given


def width() -> int:
    """Columns that a text may take: those of the terminal, at most WIDEST."""
    from shutil import get_terminal_size

    return min(get_terminal_size((100, 24)).columns, WIDEST)


def _warn_if_changed(found: Run) -> None:
    from dashpot.checker.runs import changed_since
    from dashpot.cli.values import asked_again

    try:
        text = Path(found.spec).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if changed_since(found, text):
        console.err(f"note: {found.spec} has changed since this run was found; `{asked_again(found)}` looks again")


def _evaluate(found: Run, texts: list[str]) -> None:
    from dashpot.cli.values import along

    rows = [["step", "", *texts]]
    for number, cells in enumerate(zip(*along(found, texts), strict=True)):
        rows.append([str(number), found.labels[number - 1] if number else "start", *cells])
    for line in console.columns(rows, right=frozenset({0})):
        console.out(line)
