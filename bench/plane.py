"""What the whole plane costs: API server, controllers, scheduler and simulated nodes in one process on virtual time.

    python bench/plane.py [--quick] [--case NAME] [--profile FILE]

CPU is that of this process alone, so that a busy machine changes little. `rollout` creates Deployments and waits
until every pod is Ready: pods per CPU second, writes and passes per pod. `idle` leaves a cluster of ten nodes alone for
a day, with its leases on. Each line names its limit; the exit status is 1 where one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import User
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.fleet.nodes import Shape
from dashpot.runtime.loop import run_virtual, virtual_clock
from dashpot.runtime.plane.plane import Plane

Object = dict[str, Any]
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
PODS_PER_CPU_S = 100.0
WRITES_PER_POD = 6.0
PASSES_PER_POD = 8.0
IDLE_DAY_CPU_S = 60.0
SEED = 4


class Bench:
    """A plane to measure."""

    def __init__(self, server: ApiServer, plane: Plane, client: Client, quick: bool) -> None:
        self.server, self.plane, self.client, self.quick = server, plane, client, quick
        self.missed = False

    def line(self, name: str, figure: float, unit: str, limit: float, most: bool, text: str) -> None:
        """Prints a figure beside its limit."""
        held = figure <= limit if most else figure >= limit
        self.missed |= not held
        sign = "<=" if most else ">="
        print(
            f"{name:24} {figure:10.1f} {unit:16} limit {sign} {limit:<6g} {'' if held else 'MISSED '}{text}", flush=True
        )

    def writes(self) -> dict[str, float]:
        """Writes that were answered with success so far, by resource."""
        found: dict[str, float] = {}
        for labels, cell in self.server.metrics.registry["apiserver_request_total"].cells.items():
            if labels[0] in WRITES and labels[-1].startswith("2"):
                found[labels[4]] = found.get(labels[4], 0.0) + cell.value
        return found

    def passes(self) -> float:
        """Passes of all controllers so far."""
        families = self.plane.metrics.registry.collect()
        samples = (sample for family in families for sample in family.samples)
        return sum(s.value for s in samples if s.name == "controller_runtime_reconcile_total")

    async def ready(self, count: int, replicas: int) -> None:
        """Waits until all Deployments have what they want; ten virtual minutes at most."""
        for _ in range(600):
            await asyncio.sleep(1)
            listed = (await self.client.list("deployments.apps", "default")).items
            if sum(one["status"].get("availableReplicas") == replicas for one in listed) == count:
                return
        sys.exit("bench: the Deployments did not become available in ten minutes")

    async def rollout(self) -> None:
        """Deployments to Ready."""
        count, replicas = (10, 50) if self.quick else (100, 50)
        before, passes, started = self.writes(), self.passes(), time.process_time()
        for index in range(count):
            await self.client.create("deployments.apps", deployment(f"web-{index}", replicas), "default")
        await self.ready(count, replicas)
        used, pods = time.process_time() - started, count * replicas
        after = self.writes()
        by = {name: value - before.get(name, 0.0) for name, value in after.items() if value > before.get(name, 0.0)}
        by.pop("leases", None)
        everything = sum(by.values())
        without = everything - by.get("events", 0.0)
        parts = ", ".join(f"{name} {value / pods:.2f}" for name, value in sorted(by.items(), key=lambda p: -p[1])[:5])
        self.line("pods to Ready", pods / used, "pods/CPU s", PODS_PER_CPU_S, False, f"{pods} pods, {used:.1f} CPU s")
        self.line("writes without events", without / pods, "writes/pod", WRITES_PER_POD, True, parts)
        print(f"{'writes with events':24} {everything / pods:10.1f} writes/pod")
        self.line("passes", (self.passes() - passes) / pods, "reconciles/pod", PASSES_PER_POD, True, "all controllers")

    async def idle(self) -> None:
        """A day in which nobody does anything."""
        hours = 2 if self.quick else 24
        leases, started = self.writes().get("leases", 0.0), time.process_time()
        await asyncio.sleep(hours * 3600)
        used = time.process_time() - started
        renewed = self.writes().get("leases", 0.0) - leases
        text = f"{hours} h of 10 nodes in {used:.1f} CPU s, {renewed:.0f} writes of leases"
        self.line("an idle day", used * 24 / hours, "CPU s", IDLE_DAY_CPU_S, True, text)


def deployment(name: str, replicas: int) -> Object:
    """A Deployment of one small container."""
    labels = {"app": name}
    container = {"name": "c", "image": "example.com/web:1", "resources": {"requests": {"cpu": "10m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def measured(case: Callable[[Bench], Awaitable[None]], nodes: int, quick: bool) -> bool:
    """Runs a case on a plane of its own; whether it missed a limit."""
    clock = virtual_clock()
    server = await ApiServer.start(
        Settings(store="memory"), listen=False, seed=SEED, clock=clock, complain=lambda text: print(f"bench: {text}")
    )
    plane = Plane(server, nodes=nodes, shape=Shape(pods=250), complain=lambda text: print(f"bench: {text}"))
    try:
        await plane.start()
        client = Client(InProcess(server.local, User("bench", ("system:masters", "system:authenticated"))))
        await asyncio.sleep(30)
        bench = Bench(server, plane, client, quick)
        await case(bench)
    finally:
        await plane.stop()
        await server.stop()
    return bench.missed


def main() -> int:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small figures, for a look")
    parser.add_argument("--case", choices=("rollout", "idle"))
    parser.add_argument("--profile", metavar="FILE", help="write Python's profile of it here")
    options = parser.parse_args()
    cases: dict[str, tuple[Callable[[Bench], Awaitable[None]], int]] = {
        "rollout": (Bench.rollout, 50),
        "idle": (Bench.idle, 10),
    }
    missed = False
    with cProfile.Profile() if options.profile else _Plain() as profile:
        for name, (case, nodes) in cases.items():
            if options.case in (None, name):
                missed |= run_virtual(measured(case, nodes, options.quick), seed=SEED)
    if options.profile:
        profile.dump_stats(options.profile)
    return 1 if missed else 0


class _Plain:
    """No profile."""

    def __enter__(self) -> Any:
        return None

    def __exit__(self, *_: object) -> None:
        return None


if __name__ == "__main__":
    sys.exit(main())
