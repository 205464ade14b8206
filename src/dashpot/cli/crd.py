"""`dashpot crd`: the CustomResourceDefinitions of a spec."""

from __future__ import annotations

import argparse

from dashpot.cli import console
from dashpot.cli.parser import add_set
from dashpot.cli.problem import HOLDS, OUTSIDE, WRONG, Problem

SUMMARY = "the CustomResourceDefinitions of the kinds that a spec declares"
USAGE = "dashpot crd FILE [-o yaml|json] [--set NAME=VALUE]"
DESCRIPTION = (
    "Prints a definition for each resource of the file whose group is not Kubernetes' own: schema, status subresource, "
    "printer columns, and its rules in CEL. A rule that CEL cannot say is left out, and named on the standard error."
)
EXAMPLE = "  dashpot crd web.loop | kubectl apply -f -"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("file", metavar="FILE", help="the spec")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="how to print (default yaml)")
    add_set(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the definitions."""
    from dashpot.cli.speech import load_spec
    from dashpot.cli.targets import constants_of

    program = load_spec(args.file)
    try:
        from dashpot.runtime.controller.definition import definitions
        from dashpot.runtime.controller.paths import PathError
    except ModuleNotFoundError as error:
        raise Problem(
            OUTSIDE, f"the Python package '{error.name}' is missing", "install them all: pip install 'dashpot[serve]'"
        ) from None
    try:
        found = definitions(program, constants_of(program, args.set))
    except PathError as error:
        raise Problem(WRONG, f"{args.file}: {error}") from None
    if not found:
        raise Problem(
            WRONG,
            f"{args.file} declares no kind of a group of its own",
            'a custom kind has its group behind the name: resource Site "example.com/v1" { … }',
        )
    for one in found:
        for sentence in one.untold:
            console.err(f"dashpot: {sentence}")
    documents = [one.json for one in found]
    if args.output == "json":
        import msgspec

        listed = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        console.out(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
    else:
        import yaml

        console.out(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120), end="")
    return HOLDS
