"""kill -9 of the server while many write: what was acknowledged or seen is there afterwards, and watches go on."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest
from attrs import define, field
from tests.clients.running import Running
from tests.histories.clients import Client, context_of, run
from tests.histories.kit import expect_sound, told
from tests.histories.record import Object, Record
from tests.histories.traffic import Traffic
from tests.store.servers import free_ports

from dashpot.runtime.store.embedded import EmbeddedStore

SEED = int(os.environ.get("DASHPOT_SEED", "1"))
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@define(eq=False)
class Lives:
    """One server of many lives on one folder and port."""

    folder: Path
    random: Random
    port: int = field(factory=lambda: free_ports(1)[0])
    running: Running | None = None
    starts: list[float] = field(factory=list)

    async def start(self) -> Running:
        began = time.monotonic()
        self.running = Running(self.folder / "data", "--port", str(self.port))
        await asyncio.to_thread(self.running.wait)
        self.starts.append(time.monotonic() - began)
        return self.running

    async def kill(self) -> None:
        assert self.running is not None
        self.running.process.kill()
        await asyncio.to_thread(self.running.process.wait)
        said = self.said()
        assert "mistake" not in said, said
        self.running.stop()

    def said(self) -> str:
        """What it complained of in this life."""
        assert self.running is not None
        return self.running.errors()

    async def stillborn(self) -> None:
        """A life that ends while it begins."""
        self.running = Running(self.folder / "data", "--port", str(self.port))
        await asyncio.sleep(self.random.uniform(0, 1.2 * (sum(self.starts) / len(self.starts))))
        await self.kill()


def identity(folder: Path) -> dict[str, bytes]:
    """Keys, certificates and the way in."""
    files = [folder / "data" / "kubeconfig", *sorted((folder / "data" / "pki").iterdir())]
    return {file.name: file.read_bytes() for file in files}


async def token_of(client: Client) -> str:
    path = "/api/v1/namespaces/a/serviceaccounts"
    await client.ask("POST", path, {"metadata": {"name": "default"}})
    answer = await client.done("POST", f"{path}/default/token", {"spec": {}})
    token: str = answer["status"]["token"]
    return token


async def rounds(folder: Path, count: int, seed: int) -> tuple[Record, list[float]]:
    lives = Lives(folder, Random(seed))
    running = await lives.start()
    url, context = f"https://127.0.0.1:{lives.port}", context_of(running.kubeconfig)
    client = Client(url, context, timeout_s=5)
    traffic = Traffic([client], seed)
    await traffic.prepare()
    token = await token_of(client)
    holder = Client(url, context_of(running.kubeconfig, certificate=False), token)
    before = identity(folder)
    for namespace, label in (("", ""), ("a", "x"), ("b", "")):
        traffic.keep(client, namespace, label)
    work = asyncio.create_task(traffic.run(3600, writers=12, watchers=4))
    try:
        for _ in range(count):
            await asyncio.sleep(lives.random.uniform(0, 0.5))
            await lives.kill()
            if lives.random.random() < 0.25:
                await lives.stillborn()
            await lives.start()
            assert identity(folder) == before
            code, answer = await holder.ask("POST", REVIEW, {})
            assert code == 201, (answer, lives.said())
            assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:a:default"
        traffic.quiet = True
        await work
        traffic.quiet = False
        await traffic.settle(client)
        await traffic.finish()
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await traffic.finish()
        await client.close()
        await holder.close()
        assert lives.running is not None
        status = await asyncio.to_thread(lives.running.stop)
    assert status == 0
    return traffic.record, lives.starts


async def stored(folder: Path) -> list[tuple[int, str, Object | None]]:
    store = await EmbeddedStore.open(folder / "data" / "store")
    try:
        return await told(store)
    finally:
        await store.close()


def killed(folder: Path, count: int, seed: int) -> str:
    record, starts = run(rounds(folder, count, seed))
    figures = expect_sound(record, seed, run(stored(folder)))
    return f"{count} kills, start {sum(starts) / len(starts):.2f} s, {figures}"


def test_kill(tmp_path: Path) -> None:
    killed(tmp_path, 3, SEED)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 204))
def test_kill_50_times(tmp_path: Path, seed: int) -> None:
    print(killed(tmp_path, 50, seed))
