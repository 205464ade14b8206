"""`dashpot check`: every interleaving within the scope, under the faults, and what came of it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dashpot.cli import console
from dashpot.cli.console import paint
from dashpot.cli.files import write_whole
from dashpot.cli.parser import add_set, positive, seconds, size
from dashpot.cli.problem import HOLDS, UNKNOWN, VIOLATED, WRONG, worst

if TYPE_CHECKING:
    from dashpot.cli.ask import Asker
    from dashpot.cli.inquiry import Acted, Checked, Inquiry
    from dashpot.cli.targets import Wanted

SUMMARY = "explore all interleavings within the scope of each check"
USAGE = "dashpot check [options] FILE… [CHECK…]"
DESCRIPTION = """\
Explores every interleaving of the actors of each CHECK, within its scope and under its faults, and holds the
result against what the check expects. Then plays the scenarios of the file. Without names all checks and
scenarios of each FILE are run; a folder stands for every .loop file below it.

Every violation is saved as a run in .dashpot/runs; `dashpot explain RUN` tells it.
"""
EXAMPLE = """\
  dashpot check web.loop
  dashpot check web.loop small --set MAX=3
  dashpot check specs/ -o json --junit junit.xml --sarif dashpot.sarif"""

ENGINES = ("breadth", "depth")

WORDS = {"found": "unexpected ✗", "waived": "waived", "expected": "as expected ✓"}
"""How it is said that something never fires."""


ADVICE = """\
  hint: a check says who runs, how many objects there are, and what must hold:
          check small {
            run    MyController
            scope  { MyKind: 1 }
            given  MyKind one { }
            expect my_property
          }
        `dashpot new NAME` writes a whole spec; `dashpot lint FILE` looks at one that has no check yet."""
"""What to do about files in which there is nothing to check."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("targets", nargs="*", metavar="FILE, CHECK", help="files or folders, then names to run")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what is not as the checks say")
    parser.add_argument("--junit", metavar="FILE", help="also write the results as JUnit XML")
    parser.add_argument("--sarif", metavar="FILE", help="also write what is wrong as SARIF 2.1.0")
    what = parser.add_argument_group("what to explore")
    add_set(what)
    what.add_argument("--defaults-only", action="store_true", help="look only for what every check looks for unasked")
    what.add_argument("--no-scenarios", action="store_true", help="leave the scenarios out")
    what.add_argument("--list", action="store_true", help="print the names of checks and scenarios, run nothing")
    how = parser.add_argument_group("how to explore")
    how.add_argument("--engine", choices=ENGINES, default="breadth", help="breadth (shortest runs, default) or depth")
    how.add_argument("--no-symmetry", action="store_true", help="tell interchangeable objects apart")
    how.add_argument("--cross-check", action="store_true", help="also explore without symmetry, and compare")
    how.add_argument("--seed", type=int, default=0, metavar="N", help="for whatever draws at random (default 0)")
    how.add_argument("--max-states", type=positive, metavar="N", help="give up after so many states (200k, 5M)")
    how.add_argument("--max-memory", type=size, metavar="SIZE", help="give up at so much memory (512Mi, 4G)")
    how.add_argument("--timeout", type=seconds, metavar="TIME", help="give up on a check after this time (30s, 5min)")


def run(args: argparse.Namespace) -> int:
    """Loads all files first, so that a wrong name costs no search; then one file after the other."""
    from dashpot.cli.ask import load_all
    from dashpot.cli.targets import chosen, split

    files, names = split(args.targets)
    loaded = load_all(files)
    good = [(i.file, i.program) for i in loaded if i.program is not None]
    if names and not good:
        _say_wrong(loaded)
        return WRONG
    wanted = dict(zip([f for f, _ in good], chosen([p for _, p in good], names), strict=True))
    if args.list:
        return _list(wanted, loaded)
    inquiries, asker = _explore(loaded, wanted, args, whole=not names)
    outside = asker.trouble.status if asker.trouble is not None else HOLDS
    idle = bool(wanted) and not any(w.checks or w.scenarios for w in wanted.values())
    if idle:
        console.err(f"there is no check and no scenario in {', '.join(wanted)}\n{ADVICE}")
    status = worst([*(i.status for i in inquiries), UNKNOWN if asker.interrupted else HOLDS, outside, WRONG * idle])
    _write_files(args, inquiries)
    if args.output == "json":
        from dashpot.cli.answer import to_json

        console.out(to_json(inquiries, status, args.seed))
    return status


def _explore(
    loaded: list[Inquiry], wanted: dict[str, Wanted], args: argparse.Namespace, whole: bool
) -> tuple[list[Inquiry], Asker]:
    """All files taken through the checker, and what else there is to say: Ctrl-C, runs that could not be kept."""
    from dashpot.cli.ask import Asker
    from dashpot.cli.speech import tell

    asker = Asker(args, whole)
    text = args.output == "text"
    inquiries: list[Inquiry] = []
    for inquiry in loaded:
        if inquiry.program is not None and not asker.interrupted:
            if text and len(loaded) > 1 and not args.quiet:
                console.out(("\n" if inquiries else "") + paint(inquiry.file, "bold"))
            inquiry = asker.ask(inquiry, wanted[inquiry.file], _Printer(args) if text else _Silent())
        if inquiry.wrong:
            _say_wrong([inquiry])
        inquiries.append(inquiry)
    if asker.interrupted:
        console.err("interrupted: what was found is kept, the rest is unknown")
    if text and not args.quiet:
        _sum_up(inquiries)
    if asker.trouble is not None:
        tell(asker.trouble)
    return inquiries, asker


def _sum_up(inquiries: list[Inquiry]) -> None:
    """One line for many answers."""
    checks = [c.report.status for i in inquiries for c in i.checked]
    scenarios = [a.status for i in inquiries for a in i.acted]
    if len(checks) + len(scenarios) < 2:
        return
    parts = [console.plural(len(found), noun) for found, noun in ((checks, "check"), (scenarios, "scenario")) if found]
    words = ((HOLDS, "as expected", "green"), (VIOLATED, "not as expected", "red"), (UNKNOWN, "unknown", "yellow"))
    counted = [((checks + scenarios).count(status), word, style) for status, word, style in words]
    told = [paint(f"{console.grouped(count)} {word}", style) for count, word, style in counted if count]
    console.out(f"\n{', '.join(parts)}: {', '.join(told)}")


def _say_wrong(loaded: list[Inquiry]) -> None:
    from dashpot.cli.speech import say

    for inquiry in loaded:
        if inquiry.wrong:
            say(inquiry.wrong, inquiry.sources)


def _list(wanted: dict[str, Wanted], loaded: list[Inquiry]) -> int:
    _say_wrong(loaded)
    for file, what in wanted.items():
        for check in what.checks:
            console.out(f"{file}  check  {check.name}")
        for scenario in what.scenarios:
            console.out(f"{file}  scenario  {scenario.name}")
    return worst([i.status for i in loaded])


def _write_files(args: argparse.Namespace, inquiries: list[Inquiry]) -> None:
    from dashpot.cli.answer import findings, suites

    if args.junit:
        from dashpot.checker.junit import junit

        write_whole(args.junit, junit(suites(inquiries)))
    if args.sarif:
        from dashpot import __version__
        from dashpot.checker.sarif import sarif

        write_whole(args.sarif, sarif(findings(inquiries), __version__))


class _Silent:
    """Prints nothing while the search goes on: the answer comes as a whole."""

    def checked(self, checked: Checked) -> None:
        """Takes the result of one check."""

    def acted(self, acted: Acted) -> None:
        """Takes the result of one scenario."""

    def dead(self, names: tuple[str, ...], vacuous: str) -> None:
        """Takes what can never fire, in no check of the file, and how that is judged."""


class _Printer(_Silent):
    """Prints each result as soon as it is there."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._quiet: bool = args.quiet
        self._first = True

    def _gap(self) -> None:
        if not self._first:
            console.out()
        self._first = False

    def checked(self, checked: Checked) -> None:
        """Prints the verdict table, and what is not as the check says."""
        from dashpot.cli.verdicts import explored, footnotes, heading, table

        if self._quiet and checked.report.status == HOLDS:
            return
        self._gap()
        console.out(heading(checked.check, checked.faults))
        console.out(explored(checked.report))
        console.out()
        for line in table(checked.report, checked.runs):
            console.out(line)
        for line in footnotes(checked):
            console.out(line)
        self._explain(checked)
        if sys.stdout is not None:
            sys.stdout.flush()

    def _explain(self, checked: Checked) -> None:
        from dashpot.cli.answer import sentence

        for result in checked.report.results:
            if result.judged and result.as_said is False:
                style = "red"
                console.out()
                for line in f"{result.property}: {sentence(checked, result)}".split("\n"):
                    console.out("  " + paint(line, style))
                    style = ""

    def acted(self, acted: Acted) -> None:
        """Prints one line for a scenario that went through, and the place where another stopped."""
        failure = acted.played.failure
        if self._quiet and failure is None:
            return
        self._gap()
        mark = paint("✓", "green") if failure is None else paint("✗", "red")
        took = console.plural(len(acted.played.trace.steps), "step")
        console.out(f"{mark} scenario {acted.scenario.name!r}   {took}")
        if failure is not None:
            console.out(f"  {failure.span}: {failure.message}")
        for name, text in acted.played.broken:
            console.out(f"  on the way it breaks {name}: {text}")

    def dead(self, names: tuple[str, ...], vacuous: str) -> None:
        """Prints what fired in no check."""
        if not vacuous or (self._quiet and vacuous not in ("found", "missing")):
            return
        self._gap()
        style = "red" if vacuous in ("found", "missing") else "dim"
        for name in names:
            console.out(paint(f"vacuous: {name} fires in no check of this file ({WORDS[vacuous]})", style))
        if vacuous == "missing":
            console.out(paint("vacuous: a violation was expected, and everything fires in some check", style))
