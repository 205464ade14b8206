"""`dashpot schedule`: whether pods can be placed; if not, what cannot hold together, and what would help."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.problem import HOLDS, OUTSIDE, UNKNOWN, VIOLATED, WRONG, Problem

if TYPE_CHECKING:
    from dashpot.checker.feasibility.instance import Instance
    from dashpot.checker.feasibility.repair import Repair
    from dashpot.checker.feasibility.verdict import Infeasible, Verdict

SUMMARY = "can these pods be placed? if not, the smallest reason why, and what would help"
USAGE = "dashpot schedule -f FILE… [--replicas NAME=N] [--how-many NAME] [--why POD] [-o wide|json]"
DESCRIPTION = """\
Asks whether all pending pods of a dump can be placed where its other pods stay, by the rules of kube-scheduler: pods
that wait, and pods of controllers that have fewer than they want. FILE is a manifest, the output of
`kubectl get nodes,pods -o json`, or a folder of them.

Exit status: 0 FEASIBLE, 1 INFEASIBLE, 2 the input is wrong, 3 UNKNOWN: no placement was found and none was excluded.
"""
EXAMPLE = (
    "  kubectl get nodes,pods,pvc,pv -o json -A > cluster.json\n"
    "  dashpot schedule -f cluster.json\n"
    "  dashpot schedule -f cluster.json -f web.yaml --replicas web=12\n"
    "  dashpot schedule -f cluster.json -f web.yaml --how-many web"
)
LARGEST = 10_000
"""Replicas of which --how-many goes no further."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        type=Path,
        required=True,
        metavar="FILE",
        help="a file or folder; again for more",
    )
    parser.add_argument(
        "--replicas", action="append", default=[], metavar="NAME=N", help="so many pods of a controller of the input"
    )
    parser.add_argument("--how-many", metavar="NAME", help="how many pods of this controller fit at most")
    parser.add_argument("--why", metavar="POD", help="what each node says of one pod, rule by rule")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where chance begins (default 0)")
    parser.add_argument("-o", "--output", choices=("text", "wide", "json"), default="text", help="how to print")


def run(args: argparse.Namespace) -> int:
    """Reads, decides, prints."""
    from dashpot.checker.feasibility.dump import BadInput

    try:
        return _run(args)
    except BadInput as error:
        raise Problem(WRONG, str(error)) from None
    except ModuleNotFoundError as error:
        raise Problem(
            OUTSIDE, f"the Python package '{error.name}' is missing", "install it: pip install 'dashpot[solver]'"
        ) from None
    except OSError as error:
        raise Problem(OUTSIDE, f"{error.filename}: {error.strerror}") from None


def _run(args: argparse.Namespace) -> int:
    from dashpot.checker.feasibility.dump import read
    from dashpot.checker.feasibility.instance import instance
    from dashpot.checker.feasibility.verdict import decide

    dump = read(args.filename)
    replicas = dict(_number(text) for text in args.replicas)
    if args.how_many is not None:
        return _how_many(args, lambda count: instance(dump, replicas={**replicas, args.how_many: count}))
    question = instance(dump, replicas=replicas)
    if args.why is not None:
        from dashpot.cli.placing import why

        return why(question, args.why, args.output == "json")
    if not question.templates:
        console.out("FEASIBLE: no pod waits for a node")
        return HOLDS
    started = time.process_time()
    verdict = decide(question, seed=args.seed)
    return _answer(question, verdict, args, time.process_time() - started)


def _number(text: str) -> tuple[str, int]:
    name, sign, count = text.rpartition("=")
    if not sign or not name or not count.isascii() or not count.isdigit() or int(count[:9]) > LARGEST:
        raise Problem(WRONG, f"--replicas '{text}' is no number of pods", f"write NAME=N, N up to {LARGEST}")
    return name, int(count)


def _how_many(args: argparse.Namespace, asked: Any) -> int:
    """The largest number of pods that can be placed, by halving; status 3 where a verdict on the way is unknown."""
    from dashpot.checker.feasibility.verdict import Feasible, Infeasible, decide

    low, high, unsure = 0, 1, ""
    verdicts: dict[int, Any] = {}

    def fits(count: int) -> bool:
        verdicts[count] = decide(asked(count), seed=args.seed)
        return isinstance(verdicts[count], Feasible)

    while high <= LARGEST and fits(high):
        low, high = high, high * 2
    high = min(high, LARGEST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    after = verdicts.get(high)
    if low < LARGEST and not isinstance(after, Infeasible):
        unsure = f"whether {high} fit is not known"
    if args.output == "json":
        _json({"name": args.how_many, "fit": low, "certain": not unsure})
    else:
        console.out(f"{low} of {args.how_many} fit{f'; {unsure}' if unsure else ''}")
        if isinstance(after, Infeasible):
            _core(after)
    return UNKNOWN if unsure else HOLDS


def _answer(question: Instance, verdict: Verdict, args: argparse.Namespace, cpu_s: float) -> int:
    from dashpot.checker.feasibility.reach import reached
    from dashpot.checker.feasibility.repair import repairs
    from dashpot.checker.feasibility.verdict import Feasible, Infeasible

    helped: list[Repair] = []
    reachable: bool | None = None
    if isinstance(verdict, Infeasible):
        helped = repairs(question, verdict.core)
    elif isinstance(verdict, Feasible):
        reachable = reached(question, seed=args.seed) is not None
    if args.output == "json":
        _print_json(question, verdict, helped, reachable, cpu_s)
    else:
        _print(question, verdict, helped, reachable, args.output == "wide")
    if isinstance(verdict, Infeasible):
        return VIOLATED
    return HOLDS if isinstance(verdict, Feasible) else UNKNOWN


def _print(question: Instance, verdict: Verdict, helped: list[Repair], reachable: bool | None, wide: bool) -> None:
    from dashpot.checker.feasibility.verdict import Feasible, Infeasible

    pods = len(question.pods)
    if isinstance(verdict, Feasible):
        console.out(f"FEASIBLE: {pods} pod{'s' * (pods != 1)} can be placed")
        if reachable:
            console.out("REACHABLE: the scheduler gets there, one pod at a time")
        else:
            console.out("REACHABLE is not known: no order that was tried places all")
    elif isinstance(verdict, Infeasible):
        console.out(f"INFEASIBLE: {pods} pod{'s' * (pods != 1)} cannot be placed")
        _core(verdict)
        _helped(helped)
    else:
        console.out(f"UNKNOWN: {verdict.why}")
        placed = len(verdict.placement)
        console.out(
            f"  the best placement has {placed} of {pods} pods; without a node: {_few(p.name for p in verdict.missed)}"
        )
    for sentence in question.missing:
        console.out(f"  note: {sentence}")
    if wide and not isinstance(verdict, Infeasible):
        names = {pod.uid: f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name for pod in question.pods}
        for uid, node in verdict.placement.items():
            console.out(f"  {names[uid]} → {node}")


def _few(names: Any, most: int = 5) -> str:
    rows = list(names)
    return ", ".join(rows[:most]) + (f" and {len(rows) - most} more" if len(rows) > most else "")


def _core(verdict: Infeasible) -> None:
    how = "none of these can be left out" if verdict.minimal else "sufficient, not shown minimal"
    console.out(f"  these cannot hold together ({how}):")
    for fact in verdict.core:
        console.out(f"    {fact.label}{f'   {fact.place}' if fact.place and fact.kind == 'demand' else ''}")


def _helped(helped: list[Repair]) -> None:
    if not helped:
        console.out("  no single change that was tried helps")
        return
    console.out("  any one of these would help:")
    for one in helped:
        console.out(f"    {one.text}")


def _print_json(
    question: Instance, verdict: Verdict, helped: list[Repair], reachable: bool | None, cpu_s: float
) -> None:
    from dashpot.checker.feasibility.verdict import Infeasible, Unknown

    names = {pod.uid: f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name for pod in question.pods}
    answer: dict[str, Any] = {
        "verdict": type(verdict).__name__.upper(),
        "pods": len(question.pods),
        "assumed": question.missing,
        "cpuSeconds": round(cpu_s, 3),
    }
    if isinstance(verdict, Infeasible):
        answer["core"] = [{"text": f.label, "kind": f.kind, "place": f.place} for f in verdict.core]
        answer["minimal"] = verdict.minimal
        answer["repairs"] = [one.text for one in helped]
    else:
        answer["placement"] = {names[uid]: node for uid, node in verdict.placement.items()}
        answer["reachable"] = True if reachable else None
    if isinstance(verdict, Unknown):
        answer["why"] = verdict.why
        answer["missed"] = [names[pod.uid] for pod in verdict.missed]
    _json(answer)


def _json(answer: dict[str, Any]) -> None:
    import msgspec

    console.out(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
