"""The commands and their options, as argparse sees them; help and completion are derived from here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from dashpot.cli import console
from dashpot.cli.problem import WRONG, Problem, nearest

COMMANDS = tuple(
    "new fmt lint check scenario sim explain replay graph schedule run crd up store doctor completion".split()
)

EPILOG = """\
exit status:
  0  holds, or everything came out as the spec expects
  1  a property is violated, or an expected violation was not found
  2  the spec or the command line is wrong
  3  unknown: a bound, the time or the memory ended before the answer
  4  something outside failed: a full disk, a missing program

start here:
  dashpot new web && dashpot check web.loop
"""


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest command or option named in its errors."""

    commands: argparse._SubParsersAction[Parser] | None = None

    def _print_message(self, message: str, file: object = None) -> None:
        # argparse's own swallows a full disk and a closed pipe.
        if message:
            console.out(message, end="") if file is sys.stdout else console.err(message, end="")

    def error(self, message: str) -> NoReturn:
        """Ends with status 2, the usage line and what was probably meant."""
        console.err(self.format_usage(), end="")
        console.err(f"dashpot: {message}")
        hint = self._hint(message)
        if hint:
            console.err(f"  hint: {hint}")
        raise SystemExit(WRONG)

    def _hint(self, message: str) -> str:
        wrong = message.split(": ", 1)[-1].split()
        if not message.startswith("unrecognized arguments") or not wrong:
            return ""
        close = nearest(wrong[0].split("=")[0], [o for a in self._actions for o in a.option_strings])
        return f"did you mean {close}?" if close else ""

    def dispatch(self, argv: Sequence[str]) -> int:
        """Parses and runs one command."""
        words = list(argv)
        command = next((w for w in words if not w.startswith("-")), None)
        if command is not None and self.commands is not None and command not in self.commands.choices:
            close = nearest(command, list(COMMANDS))
            raise Problem(
                WRONG,
                f"there is no command '{command}'",
                f"did you mean '{close}'?" if close else f"there are: {', '.join(COMMANDS)}",
            )
        try:
            args = self._parse(words)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else WRONG
        if args.command is None:
            self.print_help(sys.stdout)
            return WRONG
        status: int = args.run(args)
        return status

    def _parse(self, words: list[str]) -> argparse.Namespace:
        args, rest = self.parse_known_args(words)
        if "targets" in args and not any(word.startswith("-") for word in rest):
            # argparse takes the words of a list only where they stand together: `check a.loop --quiet small`.
            args.targets += rest
            rest = []
        chosen = self.commands.choices[args.command] if self.commands is not None and args.command else self
        chosen.fill(args, rest)
        if rest:
            chosen.error(f"unrecognized arguments: {' '.join(rest)}")
        return args

    def fill(self, args: argparse.Namespace, rest: list[str]) -> None:
        """Gives words that stand behind options to the arguments that may be left out: `explain f3a1 -o text 4`."""
        for action in self._actions:
            open_ = action.nargs == "?" and not action.option_strings and getattr(args, action.dest) is None
            if open_ and rest and not rest[0].startswith("-"):
                word = rest.pop(0)
                try:
                    setattr(args, action.dest, self._get_value(action, word))
                except argparse.ArgumentError as error:
                    self.error(str(error))


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from dashpot import __version__

        console.out(f"dashpot {__version__}")
        parser.exit()


def build() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="dashpot",
        description="Write a Kubernetes controller once, as a spec; check every interleaving, run it, explain it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    parser.commands = commands
    for name in COMMANDS:
        module = import_module(f"dashpot.cli.{name}")
        sub = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            usage=module.USAGE,
            epilog=f"example:\n{module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(sub)
        sub.set_defaults(run=module.run)
    return parser


def add_set(parser: argparse._ActionsContainer) -> None:
    """Declares --set, which several commands have."""
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="overrule a constant, a kind or lag in the scope",
    )


def positive(text: str) -> int:
    """A whole number of at least 1; 10k and 2M are understood."""
    factor = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isascii() or not digits.isdigit() or int(digits) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 1 (10k and 2M are understood)")
    return int(digits) * factor


def seconds(text: str) -> float:
    """A time span: 30, 1.5s, 500ms, 2min, 1h → seconds."""
    for unit, factor in (("ms", 0.001), ("min", 60.0), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)):
        if text.endswith(unit) and unit != text:
            number = text[: len(text) - len(unit)]
            if number.isascii() and number.replace(".", "", 1).isdigit():
                value = float(number) * factor
                if value > 0:
                    return value
            break
    raise argparse.ArgumentTypeError(f"'{text}' is no time span: write 30s, 500ms or 2min")


def size(text: str) -> int:
    """An amount of memory: 512M, 4Gi, bytes without a unit → bytes."""
    units = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    trimmed = text.removesuffix("B")
    for unit in ("Ki", "Mi", "Gi", "k", "M", "G", ""):
        if trimmed.endswith(unit):
            digits = trimmed[: len(trimmed) - len(unit)]
            if digits.isascii() and digits.isdigit() and int(digits) > 0:
                return int(digits) * units.get(unit, 1)
            break
    raise argparse.ArgumentTypeError(f"'{text}' is no amount of memory: write 512Mi or 4G")
