"""`dashpot graph`: the quotient of the state space by a view."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dashpot.cli import console
from dashpot.cli.parser import add_set, positive
from dashpot.cli.problem import HOLDS, OUTSIDE, UNKNOWN, WRONG, Problem, choose
from dashpot.cli.progress import Ticker

if TYPE_CHECKING:
    from dashpot.checker.quotient import Quotient, View, Words
    from dashpot.checker.runs import Run
    from dashpot.checker.space import Space
    from dashpot.cli.views import Answer, Asked
    from dashpot.model.core import Node
    from dashpot.model.program import Check, Program
    from dashpot.model.system import Goal, System

SUMMARY = "draw the state space, quotiented by a view"
USAGE = "dashpot graph [options] FILE [CHECK]"
DESCRIPTION = """\
Explores CHECK, puts states together in which every --view has the same value, and draws what is left:
boxes are values of the views, arrows are steps (dotted: need not happen), and no step that must happen
leads out of a heavy frame. Without --view it takes what the first convergence goal speaks of, and counts of
objects. Drawing needs Graphviz; without it the .dot source is written.
"""
EXAMPLE = """\
  dashpot graph web.loop small -o web.svg
  dashpot graph web.loop small --view 'WebPart.size()' --focus f3a1 --radius 2"""


class Seen(NamedTuple):
    """An explored world, the terms that tell its boxes apart, what colours them, what values are called."""

    space: Space
    view: View
    goal: Goal | None
    words: Words


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("file", metavar="FILE", help="a .loop file")
    parser.add_argument(
        "check", metavar="CHECK", nargs="?", help="the check to explore (default: that of the run, or the only one)"
    )
    parser.add_argument(
        "--view", metavar="EXPR", action="append", default=[], help="what tells boxes apart; may be repeated"
    )
    parser.add_argument("--goal", metavar="PROPERTY", help="the property that colours the boxes (default: the first)")
    parser.add_argument("-o", "--output", metavar="FILE", help="a .svg (default: CHECK.svg), .png, .pdf or .dot file")
    parser.add_argument("--focus", metavar="RUN", help="draw only what lies around this run (an id, or `last`)")
    parser.add_argument("--radius", type=positive, default=2, metavar="N", help="how far around it (default 2)")
    add_set(parser)
    parser.add_argument("--max-states", type=positive, metavar="N", help="give up after so many states (200k, 5M)")


def run(args: argparse.Namespace) -> int:
    """Explores, quotients, draws; says where the picture is."""
    from dashpot.cli.targets import only_check, with_scope
    from dashpot.cli.views import read

    program, asked = read(args.file, args.view)
    focus = _focus(args)
    name = args.check or (focus.check if focus is not None else None)
    # The world of the run: what overruled the scope when it was found, then what does so now.
    found_with = [] if focus is None or focus.check != name else list(focus.settings)
    check = with_scope(program, only_check(program, name), found_with + args.set)
    target = Path(args.output or f"{check.name}.svg")
    _format(target)
    seen = _explored(program, check, asked, args)
    return _draw(_quotient(seen, focus, args), target)


def _focus(args: argparse.Namespace) -> Run | None:
    from dashpot.cli.explain import find

    return find(args.focus) if args.focus else None


def _format(target: Path) -> None:
    from dashpot.checker.graph import FORMATS

    if target.suffix.removeprefix(".") not in FORMATS:
        raise Problem(WRONG, f"'{target}' names no format", f"end it in .{', .'.join(FORMATS)}")


def _explored(program: Program, check: Check, asked: tuple[Asked, ...], args: argparse.Namespace) -> Seen:
    from dashpot.checker.budget import Budget, Phase
    from dashpot.checker.live import LIVE
    from dashpot.checker.search import breadth_first
    from dashpot.checker.views import default_view
    from dashpot.cli.views import observed
    from dashpot.model.lower.python import compile_system
    from dashpot.model.prune import prune

    ticker = Ticker(f"{args.file} {check.name}", time.monotonic).start()
    try:
        ticker(Phase("building the world"))
        built, answers = observed(program, check, asked)
        system = prune(built)
        ticker(Phase(""))
        # Without symmetry: a view may name single objects.
        space = breadth_first(compile_system(system), budget=Budget(states=args.max_states), progress=ticker)
    finally:
        ticker.done()
    goals = [g for g in system.goals if args.goal is None or g.property == args.goal]
    if args.goal is not None and not goals:
        raise choose("property", args.goal, sorted({g.property for g in system.goals}), check.name)
    goal = next((g for g in goals if args.goal or g.op in LIVE), None)
    view = [_term(system, answer) for answer in answers]
    words = {answer.text: ("undefined", *(value for value, _ in answer.cases)) for answer in answers}
    return Seen(space, view or default_view(space, goal, dict(program.sources)), goal, words)


def _term(system: System, answer: Answer) -> tuple[str, Node]:
    """The place of the value among the cases, which exclude each other; 0 when it has none."""
    g = system.terms
    return answer.text, g.sum([g.ite(node, g.const(n), g.const(0)) for n, (_, node) in enumerate(answer.cases, 1)])


def _draw(picture: Quotient, target: Path) -> int:
    from dashpot.checker.graph import GraphError, draw

    try:
        drawing = draw(picture, target)
    except GraphError as error:
        raise Problem(OUTSIDE, str(error)) from None
    boxes = console.plural(len(picture.boxes), "box").replace("boxs", "boxes")
    console.out(f"{drawing.path}: {boxes} for {console.plural(picture.states, 'state')}")
    if drawing.note:
        raise Problem(OUTSIDE, drawing.note)
    return HOLDS if picture.complete else UNKNOWN


def _quotient(seen: Seen, focus: Run | None, args: argparse.Namespace) -> Quotient:
    from dashpot.checker.quotient import FOCUSED, LIMIT, TooFine, followed, quotient

    try:
        picture = quotient(seen.space, seen.view, seen.goal, seen.words, FOCUSED if focus is not None else LIMIT)
        if focus is None:
            return picture
        return followed(picture, seen.space, seen.view, focus.states, args.radius, seen.words)
    except TooFine as error:
        raise Problem(WRONG, str(error)) from None
    except (KeyError, ValueError):
        raise Problem(
            WRONG, f"run {args.focus} is of another world than this check", "check again, then draw"
        ) from None
