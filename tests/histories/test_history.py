"""Many clients of a real server at once: what they saw is one history, with each store behind it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest
from tests.clients.running import Running
from tests.histories.clients import context_of, run
from tests.histories.kit import expect_sound, observed, told
from tests.histories.record import Record
from tests.histories.traffic import Traffic
from tests.store.cluster import cluster
from tests.store.conftest import running as own_etcd
from tests.store.servers import connected

from dashpot.runtime.store.embedded import EmbeddedStore

SECONDS = 1.5
SEED = int(os.environ.get("DASHPOT_SEED", "1"))


async def at(running: Running, seed: int, seconds: float) -> Record:
    return await observed([(running.url, context_of(running.kubeconfig))], seed, seconds)


def test_memory(tmp_path: Path) -> None:
    with Running(tmp_path / "data", "--store", "memory") as running:
        record = run(at(running, SEED, SECONDS))
    expect_sound(record, SEED)


def embedded(folder: Path, seed: int, seconds: float) -> str:
    """The store's own files are one witness more."""
    with Running(folder / "data") as running:
        record = run(at(running, seed, seconds))

    async def more() -> list[tuple[int, str, dict[str, object] | None]]:
        store = await EmbeddedStore.open(folder / "data" / "store")
        try:
            return await told(store)
        finally:
            await store.close()

    return expect_sound(record, seed, run(more()))


def test_embedded(tmp_path: Path) -> None:
    embedded(tmp_path, SEED, SECONDS)


async def on_etcd(folder: Path, endpoint: str, seed: int, seconds: float) -> str:
    """An etcd that forgets all but its newest revisions all the time."""
    store = await connected([endpoint])
    ended = asyncio.Event()
    telling = asyncio.create_task(told(store, await store.revision(), ended))
    random = Random(seed)
    running = Running(folder / "data", "--store", f"etcd://{endpoint}")
    await asyncio.to_thread(running.wait)

    async def forget(traffic: Traffic) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(0, 0.3))
            await store.compact(await store.revision() - random.randrange(100))

    try:
        doors = [(running.url, context_of(running.kubeconfig))]
        record = await observed(doors, seed, seconds, gone=True, meanwhile=forget)
        ended.set()
        return expect_sound(record, seed, await telling)
    finally:
        telling.cancel()
        await asyncio.to_thread(running.stop)
        await store.close()


def test_etcd(tmp_path: Path, etcd_program: str) -> None:
    with own_etcd(etcd_program) as endpoint:  # one that holds what these clients wrote, and nothing else
        run(on_etcd(tmp_path, endpoint, SEED, SECONDS))


async def on_members(program: str, folder: Path, seed: int, seconds: float) -> str:
    async with cluster(program, folder / "etcd", 3) as members:
        running = Running(folder / "data", "--store", f"etcd://{','.join(members.endpoints)}")
        await asyncio.to_thread(running.wait)
        try:
            record = await at(running, seed, seconds)
        finally:
            status = await asyncio.to_thread(running.stop)
        assert status == 0
        store = await members.open()
        try:
            return expect_sound(record, seed, await told(store))
        finally:
            await store.close()


def test_three_members(tmp_path: Path, etcd_program: str) -> None:
    run(on_members(etcd_program, tmp_path, SEED, SECONDS))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 105))
@pytest.mark.parametrize("store", ["memory", "embedded", "etcd", "members"])
def test_long(tmp_path: Path, request: pytest.FixtureRequest, store: str, seed: int) -> None:
    if store == "memory":
        with Running(tmp_path / "data", "--store", "memory") as running:
            figures = expect_sound(run(at(running, seed, 20)), seed)
    elif store == "embedded":
        figures = embedded(tmp_path, seed, 20)
    elif store == "etcd":
        with own_etcd(request.getfixturevalue("etcd_program")) as endpoint:
            figures = run(on_etcd(tmp_path, endpoint, seed, 20))
    else:
        figures = run(on_members(request.getfixturevalue("etcd_program"), tmp_path, seed, 20))
    print(f"{store}, {figures}")
