"""How fast and how large exploration is: one line a case, each in a process of its own.

    python bench/explore.py [--rounds 5] [--against HAND_WRITTEN.py] [CASE …]

`--against` names a hand-written search of the anchor (called with `3 2 2`, printing "N states" first); it is run in
alternation with the case `plain`, and the ratio of the medians of distinct states per CPU second is printed.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent

Figures = dict[str, float]


def plain(fix: bool = False, symmetry: bool = False) -> Figures:
    """Distinct states and parents only."""
    from tests.model.anchor import anchor

    from dashpot.checker.search import breadth_first
    from dashpot.checker.symmetry import canoniser
    from dashpot.model.lower.python import compile_system

    system = anchor(fix=fix, symmetry=symmetry)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    backend = compile_system(system)
    space = breadth_first(backend, graph=False, canon=canoniser(backend) if symmetry else None)
    cpu_s = time.process_time() - began
    size = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return {"states": len(space.states), "transitions": space.transitions, "cpu_s": cpu_s, "bytes": size}


def verdicts(fix: bool = False, symmetry: bool = False) -> Figures:
    """Safety, convergence by exact weak fairness, hot loops, with their counterexamples."""
    from tests.model.anchor import anchor

    from dashpot.checker.explore import Options, check_system

    system = anchor(fix=fix, symmetry=symmetry)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    report = check_system(system, Options(symmetry=symmetry))
    cpu_s = time.process_time() - began
    size = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return {"states": report.states, "transitions": report.transitions, "cpu_s": cpu_s, "bytes": size}


CASES: dict[str, Callable[[], Figures]] = {
    "plain": plain,
    "plain-fixed": lambda: plain(fix=True),
    "plain-symmetric": lambda: plain(symmetry=True),
    "verdicts": verdicts,
    "verdicts-fixed": lambda: verdicts(fix=True),
    "verdicts-symmetric": lambda: verdicts(symmetry=True),
    "verdicts-fixed-symmetric": lambda: verdicts(fix=True, symmetry=True),
}


def measured(case: str) -> Figures:
    """The figures of one case, from a fresh process."""
    command = [sys.executable, __file__, "--one", case]
    figures: Figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def by_hand(path: str) -> float:
    """Distinct states per CPU second of a hand-written search, its start-up included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([sys.executable, path, "3", "2", "2"], check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"(\d+) states", out)
    assert found is not None, out
    return int(found[1]) / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def line(case: str, rounds: list[Figures]) -> str:
    """One case on one line: the median of its rounds."""
    rate = statistics.median(f["states"] / f["cpu_s"] for f in rounds)
    cpu_s = statistics.median(f["cpu_s"] for f in rounds)
    first = rounds[0]
    each = max(f["bytes"] for f in rounds) / first["states"]
    counts = f"{first['states']:>9,.0f} states {first['transitions']:>10,.0f} transitions"
    return f"{case:<25}{counts} {cpu_s:6.2f} CPU s {rate:>9,.0f} states/CPU s {each:6.0f} B/state"


def main() -> None:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--against", metavar="FILE", default="")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        sys.path[:0] = [str(ROOT), str(ROOT / "src")]
        print(json.dumps(CASES[args.one]()))
        return
    if args.against:
        pairs = [(measured("plain"), by_hand(args.against)) for _ in range(args.rounds)]
        ours = statistics.median(f["states"] / f["cpu_s"] for f, _ in pairs)
        theirs = statistics.median(rate for _, rate in pairs)
        print(line("plain", [f for f, _ in pairs]))
        print(f"{'by hand':<25}{theirs:,.0f} states/CPU s; ours is {ours / theirs:.2f} times that")
        return
    for case in args.cases or CASES:
        print(line(case, [measured(case) for _ in range(args.rounds)]))


if __name__ == "__main__":
    main()
