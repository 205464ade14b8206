"""`dashpot sim`: random runs, first with faults, then healed, and then it must settle."""

from __future__ import annotations

import argparse

from dashpot.cli.parser import add_set, positive

SUMMARY = "random runs: faults first, then heal, then it must settle"
DESCRIPTION = """\
Walks at random through the world of CHECK: first with faults and users, then without them, and then it must
come to rest with every property satisfied. The same seed always gives the same walks; a walk that fails is
saved as a run. For worlds that are too large to be explored whole.
"""
EXAMPLE = "  dashpot sim web.loop small --seed 7 --walks 1000 --steps 200"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("file", metavar="FILE", help="a .loop file")
    parser.add_argument("check", metavar="CHECK", nargs="?", help="whose world to walk in (default: the only one)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where chance begins (default 0)")
    parser.add_argument("--walks", type=positive, default=100, metavar="N", help="how many walks (default 100)")
    parser.add_argument(
        "--steps", type=positive, default=200, metavar="N", help="steps with faults, each walk (default 200)"
    )
    add_set(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")


def run(args: argparse.Namespace) -> int:
    """Pending."""
    raise NotImplementedError
