"""What an answer of `dashpot schedule` costs: CPU seconds of this process, building the question included.

    python bench/feasibility.py [--quick] [--case NAME] [--seeds N]

The instances: three zones, nodes of 8, 16 and 32 processors, one in ten tainted, half with a fast disk; ten kinds of
pods, with tolerations, anti-affinity over hosts and spread over zones. `sat` can be placed; `cap` asks for 102 % of
what there is; `frag` has one pod too many that is larger than half a node; `anti` one replica more than there are hosts
that it may stand on; `spread` a zone that is tainted. `packed` are nodes that were cut into pods so that a placement
exists. Each line names its limit; the exit status is 1 where one is missed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import Any

from dashpot.checker.feasibility.dump import Dump, Item
from dashpot.checker.feasibility.instance import Instance, instance
from dashpot.checker.feasibility.verdict import Feasible, Infeasible, Verdict, decide

Object = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
LIMIT_S = 5.0
CORE = 10
SIZES = ((10, 100), (50, 500), (200, 2000), (1000, 2000))
KINDS = ("sat", "cap", "frag", "anti", "spread")
SEED = 5


def node(at: int, cpu: int, chance: random.Random, tainted: bool) -> Object:
    """A node of a zone."""
    labels = {ZONE: f"z{at % 3}", HOST: f"n{at}", "disk": "ssd" if chance.random() < 0.5 else "hdd"}
    spec: Object = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]} if tainted else {}
    allocatable = {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": "250"}
    return {
        "kind": "Node",
        "metadata": {"name": f"n{at}", "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def controller(name: str, replicas: int, cpu_m: int, **spec: Any) -> Object:
    """A Deployment."""
    labels = {"app": name}
    requests = {"cpu": f"{cpu_m}m", "memory": f"{cpu_m * 3}Mi"}
    made = {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}], **spec}
    template = {"metadata": {"labels": labels}, "spec": made}
    return {
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def spread(app: str, key: str) -> list[Object]:
    """Over zones or hosts, with a skew of 1 and 5."""
    one = {"maxSkew": 1 if key == ZONE else 5, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**one, "labelSelector": {"matchLabels": {"app": app}}}]


def apart(app: str) -> Object:
    """One on a host."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def question(nodes: int, pods: int, kind: str, seed: int) -> Instance:
    """An instance of a kind."""
    chance = random.Random(seed)
    cpus = [chance.choice((8, 16, 32)) for _ in range(nodes)]
    taints = [chance.random() < 0.1 for _ in range(nodes)]
    if kind == "spread":
        taints = [at % 3 == 2 for at in range(nodes)]
    rows = [node(at, cpus[at], chance, taints[at]) for at in range(nodes)]
    load = 1.02 if kind == "cap" else 0.6
    groups = max(2, pods // 10 if pods <= 100 else 10)
    each = pods // groups
    weights = [chance.uniform(0.5, 1.5) for _ in range(groups)]
    unit = sum(cpus) * 1000 * load / (each * sum(weights))
    made: list[Object] = []
    for at, weight in enumerate(weights):
        name, spec = f"app-{at}", {}
        if at % 5 == 1:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        elif at % 5 == 2 and kind != "cap":
            spec["topologySpreadConstraints"] = spread(name, ZONE)
        elif at % 5 == 3 and kind != "cap":
            spec["topologySpreadConstraints"] = spread(name, HOST)
        size = max(50, min(int(weight * unit), 6000))
        made.append(controller(name, each, size if kind == "cap" else min(size, 1500), **spec))
    if kind != "spread":
        for one in made:
            if one["spec"]["template"]["spec"].get("topologySpreadConstraints", [{}])[0].get("topologyKey") == ZONE:
                one["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = "Honor"
    if kind == "frag":
        large = sum(1 for cpu, taint in zip(cpus, taints, strict=True) if cpu == 32 and not taint)
        made = [controller("large", large + 1, 17_000), *made[:3]]
    if kind == "anti":
        hosts = sum(1 for taint in taints if not taint)
        made = [controller("lonely", hosts + 1, 100, affinity=apart("lonely")), *made[:3]]
    if kind == "cap":
        lacking = int(sum(cpus) * 1020) - sum(o["spec"]["replicas"] * _cpu(o) for o in made)
        made.append(controller("rest", max(1, lacking // 500 + 1), 500, tolerations=[{"operator": "Exists"}]))
    return instance(Dump([Item(one, f"item {n}") for n, one in enumerate([*rows, *made])]))


def _cpu(one: Object) -> int:
    requests = one["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    return int(requests["cpu"].removesuffix("m"))


def packed(nodes: int, pods: int, load: float, seed: int) -> Instance:
    """Nodes of 32 processors, each cut into unequal pods that fill so much of it."""
    chance = random.Random(seed)
    rows = [node(at, 32, chance, False) for at in range(nodes)]
    made = []
    for at in range(nodes):
        count = pods // nodes
        cuts = sorted(chance.sample(range(1, int(32_000 * load)), count - 1))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, int(32_000 * load)], strict=True)]
        for n, size in enumerate(sizes):
            requests = {"cpu": f"{size}m"}
            spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}
            made.append({"kind": "Pod", "metadata": {"name": f"p{at}-{n}", "namespace": "default"}, "spec": spec})
    chance.shuffle(made)
    return instance(Dump([Item(one, f"item {n}") for n, one in enumerate([*rows, *made])]))


def told(verdict: Verdict) -> str:
    """A verdict in a word or two."""
    if isinstance(verdict, Infeasible):
        return f"infeasible, core of {len(verdict.core)}"
    return "feasible" if isinstance(verdict, Feasible) else f"unknown, {len(verdict.missed)} missed"


def main() -> int:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small instances, for a look")
    parser.add_argument("--case", choices=(*KINDS, "packed"))
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="of the packed ones (default 10)")
    options = parser.parse_args()
    missed = False
    for nodes, pods in SIZES[:2] if options.quick else SIZES:
        for kind in KINDS:
            if options.case not in (None, kind):
                continue
            started = time.process_time()
            verdict = decide(question(nodes, pods, kind, SEED))
            used = time.process_time() - started
            right = isinstance(verdict, Feasible if kind == "sat" else Infeasible)
            short = not isinstance(verdict, Infeasible) or kind == "cap" or len(verdict.core) <= CORE
            held = right and short and used <= LIMIT_S
            missed |= not held
            limit = f"limit <= {LIMIT_S:g} {'' if held else 'MISSED '}"
            print(f"{f'{nodes}x{pods} {kind}':20} {used:8.2f} CPU s   {limit}{told(verdict)}", flush=True)
    if options.case in (None, "packed"):
        for nodes, pods, load in ((10, 40, 0.90), (10, 40, 0.95), (20, 60, 0.95), (50, 150, 0.95)):
            started, found = time.process_time(), 0
            for seed in range(options.seeds):
                found += isinstance(decide(packed(nodes, pods, load, seed)), Feasible)
            used = (time.process_time() - started) / options.seeds
            must = load == 0.90
            missed |= must and found < options.seeds
            print(
                f"{f'{nodes}x{pods} at {load:.0%}':20} {used:8.2f} CPU s   {found} of {options.seeds} decided",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
