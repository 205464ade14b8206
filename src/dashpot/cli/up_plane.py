"""The options of `dashpot up` for what runs beside the API server: controllers, scheduler, simulated nodes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.problem import WRONG, Problem

if TYPE_CHECKING:
    from dashpot.runtime.api.apiserver import ApiServer
    from dashpot.runtime.plane.plane import Plane

NODES = 3
MOST_NODES = 5_000
PREFIX = "kubernetes."
ONLY = ("nodes", "node_cpu", "node_memory", "node_pods", "controllers", "set")
"""Options that mean nothing for an API server alone."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    plane = parser.add_argument_group("controllers and nodes")
    plane.add_argument("--nodes", type=_count, metavar="N", help=f"simulated nodes (default {NODES})")
    plane.add_argument("--runtime", choices=("fake", "oci"), default="fake", help="what nodes do (default: fake)")
    plane.add_argument("--node-cpu", metavar="AMOUNT", help="processors of each node (default 8)")
    plane.add_argument("--node-memory", metavar="AMOUNT", help="memory of each node (default 32Gi)")
    plane.add_argument("--node-pods", type=_count, metavar="N", help="pods that each node takes (default 110)")
    plane.add_argument(
        "--controllers", metavar="LIST", help="* all (default), NAME one more, -NAME without it, as in Kubernetes"
    )
    plane.add_argument(
        "--set", action="append", metavar="MODULE.CONST=VALUE", help="a constant of a spec, such as node.GRACE=20s"
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:9]) > MOST_NODES:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 0 to {MOST_NODES}")
    return int(text)


def check(args: argparse.Namespace) -> dict[str, Any]:
    """What a plane is made with; a Problem for what cannot be meant."""
    if args.runtime == "oci":
        raise Problem(WRONG, "--runtime oci is not built yet: nodes are simulated", "leave it out, or --runtime fake")
    if args.api_only:
        for name in ONLY:
            if getattr(args, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise Problem(WRONG, f"{flag} means nothing with --api-only", "leave one of them out")
        return {}
    from dashpot.model.objects.quantity import QuantityError, parse
    from dashpot.runtime.fleet.nodes import Shape
    from dashpot.runtime.plane.parts import UnknownController, chosen

    words = [word.strip() for word in (args.controllers or "*").split(",") if word.strip()]
    try:
        names = chosen(words)
    except UnknownController as error:
        raise Problem(WRONG, f"--controllers: {error}") from None
    for flag, text in (("--node-cpu", args.node_cpu), ("--node-memory", args.node_memory)):
        try:
            if text is not None and parse(text).nano <= 0:
                raise Problem(WRONG, f"{flag} '{text}' is no amount that a node can have", "write 8, or 32Gi")
        except QuantityError as error:
            raise Problem(WRONG, f"{flag} '{text}': {error}", "write 8, or 32Gi") from None
    shape = Shape(args.node_cpu or "8", args.node_memory or "32Gi", 110 if args.node_pods is None else args.node_pods)
    nodes = NODES if args.nodes is None else args.nodes
    return {"nodes": nodes, "shape": shape, "controllers": names, "settings": _settings(args.set or [], names)}


def _settings(texts: list[str], names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Module → constants. `node.GRACE=20s` and `kubernetes.node.GRACE=20s` are the same."""
    from dashpot.cli.problem import choose
    from dashpot.cli.targets import constants_of
    from dashpot.runtime.plane.parts import modules
    from dashpot.runtime.plane.plane import library_program

    found: dict[str, dict[str, Any]] = {}
    known = modules(names)
    for text in texts:
        path, sign, value = text.partition("=")
        module, dot, const = path.strip().rpartition(".")
        if not sign or not dot:
            raise Problem(WRONG, f"--set '{text}' sets nothing", "write --set MODULE.CONST=VALUE, as in node.GRACE=20s")
        full = module if module.startswith(PREFIX) else PREFIX + module
        if full not in known:
            raise choose("module of a controller that runs", module, [one.removeprefix(PREFIX) for one in known])
        found.setdefault(full, {}).update(constants_of(library_program(full), [f"{const}={value}"]))
    return found


def plane(server: ApiServer, made: dict[str, Any]) -> Plane:
    """The plane around a server; `made` is what `check` gave."""
    from dashpot.runtime.plane.plane import Plane

    return Plane(server, complain=lambda text: console.err(f"dashpot: {text}"), **made)


def line(made: dict[str, Any]) -> str:
    """What runs, for people."""
    nodes = made["nodes"]
    return f"{len(made['controllers'])} controllers, a scheduler, {nodes} simulated node{'s' * (nodes != 1)}"
