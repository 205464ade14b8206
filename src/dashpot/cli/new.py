"""`dashpot new`: a spec, a scenario and a check to start from."""

from __future__ import annotations

import argparse
import os
import re
from importlib.resources import files as resources

from dashpot.cli import console
from dashpot.cli.files import reason
from dashpot.cli.problem import HOLDS, OUTSIDE, WRONG, Problem

SUMMARY = "write a spec, a scenario and a check to start from"
USAGE = "dashpot new NAME"
DESCRIPTION = "Writes NAME.loop: a small controller with a property, a check and a scenario, ready to be changed."
EXAMPLE = "  dashpot new web && dashpot check web.loop"

TAKEN = ("Name", "Uid", "Generation", "Time", "Duration", "Quantity", "Users")
"""Types of the language, and the name of the environment in the template."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options of this command."""
    parser.add_argument("name", metavar="NAME", help="the file to write, with or without .loop")


def run(args: argparse.Namespace) -> int:
    """Writes the file; never over one that is there."""
    path = args.name if args.name.endswith(".loop") else args.name + ".loop"
    kind = _kind(os.path.basename(path).removesuffix(".loop"))
    template = resources("dashpot.cli").joinpath("template.loop").read_text(encoding="utf-8")
    text = template.replace("Greeting", kind)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Problem(WRONG, f"'{path}' is there already", "choose another name; nothing was written") from None
    except ValueError:
        raise Problem(WRONG, f"{path!r} is no file name") from None
    except OSError as error:
        raise Problem(OUTSIDE, f"cannot write '{path}': {reason(error)}") from None
    console.out(f"wrote {path}: the kind {kind}, its controller, a check and a scenario")
    console.out(f"next:  dashpot check {path}")
    return HOLDS


def _kind(name: str) -> str:
    """The name of a kind made from a file name: my-web → MyWeb."""
    words = [w for w in re.split(r"[^A-Za-z0-9]+", name) if w]
    kind = "".join(w[0].upper() + w[1:] for w in words)
    if not kind or not kind[0].isalpha() or not kind.isascii():
        raise Problem(WRONG, f"'{name}' makes no name of a kind", "begin it with a letter: dashpot new web")
    if kind in TAKEN:
        raise Problem(
            WRONG, f"'{kind}' has a meaning of its own in a spec", f"choose another name: dashpot new my-{name}"
        )
    return kind
