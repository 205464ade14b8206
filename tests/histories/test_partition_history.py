"""Two API servers on three members of etcd that are cut from each other now and then: still one history."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.clients.running import Running
from tests.histories.clients import context_of, run
from tests.histories.kit import expect_sound, observed, told
from tests.histories.traffic import Traffic
from tests.store.cluster import Cluster, cluster


async def cuts(members: Cluster, random: Random, count: int) -> None:
    """One member after the other is alone, deaf or dumb for a moment; at times it is the one that leads, or killed."""
    for _ in range(count):
        await asyncio.sleep(random.uniform(0.2, 0.8))
        name = random.choice(members.names)
        what = random.randrange(4)
        if what == 0:
            members.isolate([name])
        elif what == 1:
            members.deafen(name)
        elif what == 2:
            members.silence(name)
        else:
            server = members.servers[members.names.index(name)]
            server.stop()
            await asyncio.sleep(random.uniform(0, 0.5))
            server.start()
            continue
        await asyncio.sleep(random.uniform(0.5, 2.5))
        members.heal()
    members.heal()


async def parted(program: str, folder: Path, seed: int, count: int) -> str:
    async with cluster(program, folder / "etcd", 3) as members:
        servers = []
        for number in range(2):
            # each has another member in front
            endpoints = ",".join(members.endpoints[number:] + members.endpoints[:number])
            way_in = folder / f"kubeconfig{number}"
            server = Running(folder / "data", "--store", f"etcd://{endpoints}?timeout=1.5", "--kubeconfig", str(way_in))
            await asyncio.to_thread(server.wait)
            server.kubeconfig = way_in
            servers.append(server)
        try:

            async def meanwhile(traffic: Traffic) -> None:
                await cuts(members, Random(seed), count)
                await asyncio.sleep(0.5)
                traffic.quiet = True

            doors = [(server.url, context_of(server.kubeconfig)) for server in servers]
            record = await observed(doors, seed, 3600, meanwhile=meanwhile, within=30)
        finally:
            for server in servers:
                assert "mistake" not in server.errors(), server.errors()
                await asyncio.to_thread(server.stop)
        store = await members.open()
        try:
            return expect_sound(record, seed, await told(store))
        finally:
            await store.close()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 304))
def test_cuts(tmp_path: Path, etcd_program: str, seed: int) -> None:
    print(run(parted(etcd_program, tmp_path, seed, 15)))
