"""The end of a server and of its store: clean on SIGTERM, clear where etcd is away, whole again when it is back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from attrs import define, field
from tests.clients.running import Running
from tests.histories.clients import LOST, Client, context_of, run
from tests.histories.kit import expect_sound, told
from tests.histories.traffic import Traffic, place
from tests.store.servers import Server, connected, free_ports

from dashpot.runtime.store.embedded import EmbeddedStore

SEED = int(os.environ.get("DASHPOT_SEED", "1"))
STOP_S = 5.0
BACK_S = 15.0
"""Within it, everything works again after etcd is back: a watch cache tries every five seconds at the least."""


@define(eq=False)
class Scene:
    """A server, and traffic at it with watches that stay open."""

    running: Running
    traffic: Traffic
    client: Client
    work: list[asyncio.Task[None]] = field(factory=list)

    @classmethod
    async def of(cls, running: Running, **options: Any) -> Scene:
        await asyncio.to_thread(running.wait)
        client = Client(running.url, context_of(running.kubeconfig), timeout_s=10)
        traffic = Traffic([client], SEED, **options)
        await traffic.prepare()
        for namespace, label in (("", ""), ("a", "x"), ("b", "")):
            traffic.keep(client, namespace, label)
        return cls(running, traffic, client)

    def begin(self, seconds: float) -> None:
        self.work.append(asyncio.create_task(self.traffic.run(seconds)))

    async def end(self) -> None:
        await self.traffic.finish()
        await asyncio.gather(*self.work, return_exceptions=True)
        await self.client.close()


def test_sigterm(tmp_path: Path) -> None:
    """With writes under way and watches open; what was acknowledged is there at the next start."""
    port = free_ports(1)[0]

    def server() -> Running:
        return Running(tmp_path / "data", "--port", str(port))

    async def main() -> None:
        first = server()
        scene = await Scene.of(first)
        scene.begin(60)
        await asyncio.sleep(0.7)
        first.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        status = await asyncio.to_thread(first.process.wait, 30)
        took = time.monotonic() - began
        errors = first.errors()
        first.stop()
        scene.traffic.quiet = True
        await asyncio.gather(*scene.work)
        scene.traffic.quiet = False
        second = server()
        await asyncio.to_thread(second.wait)
        await scene.traffic.settle(scene.client)
        await scene.end()
        assert await asyncio.to_thread(second.stop) == 0
        assert (status, errors) == (0, "")
        assert took < STOP_S
        store = await EmbeddedStore.open(tmp_path / "data" / "store")
        expect_sound(scene.traffic.record, SEED, await told(store))
        await store.close()

    run(main())


def test_sigterm_cuts_no_write_off(tmp_path: Path) -> None:
    """Each of many writes is answered, or finds nobody who listens; none is lost half-way."""

    async def main() -> None:
        running = Running(tmp_path / "data")
        await asyncio.to_thread(running.wait)
        made: list[int] = []
        connector = aiohttp.TCPConnector(ssl=context_of(running.kubeconfig), limit=0)
        async with aiohttp.ClientSession(running.url, connector=connector) as session:

            async def write(number: int) -> None:
                for turn in count():
                    body = {"metadata": {"name": f"m{number}-{turn}"}}
                    try:
                        async with session.post(place("default"), json=body) as answer:
                            assert answer.status == 201, await answer.text()
                    except aiohttp.ClientConnectorError:
                        return
                    made.append(turn)

            writers = [asyncio.create_task(write(number)) for number in range(12)]
            while len(made) < 60:
                await asyncio.sleep(0.01)
            running.process.send_signal(signal.SIGTERM)
            await asyncio.gather(*writers)
        assert await asyncio.to_thread(running.stop) == 0
        store = await EmbeddedStore.open(tmp_path / "data" / "store")
        assert await store.count("/registry/configmaps/default/") == len(made)
        await store.close()

    run(main())


def test_etcd_is_down_at_the_start(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    command = [sys.executable, "-m", "dashpot", "up", "--api-only", "--port", "0"]
    command += ["--data", str(tmp_path), "--store", f"etcd://127.0.0.1:{port}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4
    assert f"etcd at 127.0.0.1:{port} does not answer" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 3


def test_etcd_goes_and_comes_back(tmp_path: Path, etcd_program: str) -> None:
    """Meanwhile requests fail with Statuses, cached reads are served, and /readyz says so."""

    async def main() -> None:
        etcd = Server(etcd_program, tmp_path / "etcd")
        etcd.start()
        running = None
        try:
            await (await connected([etcd.endpoint])).close()
            running = Running(tmp_path / "data", "--store", f"etcd://{etcd.endpoint}")
            scene = await Scene.of(running)
            client = scene.client
            scene.begin(1.5)
            await asyncio.sleep(0.5)
            etcd.stop()
            await asyncio.gather(*scene.work)
            scene.work.clear()
            await _refused(client)
            etcd.start()
            began = time.monotonic()
            await _whole(client)
            scene.begin(1)
            await asyncio.gather(*scene.work)
            await scene.traffic.settle(client)
            assert time.monotonic() - began < BACK_S + 5
            await scene.end()
            store = await connected([etcd.endpoint])
            expect_sound(scene.traffic.record, SEED, await told(store))
            await store.close()
            assert await asyncio.to_thread(running.stop) == 0
        finally:
            if running is not None and running.process.poll() is None:
                running.process.kill()
            etcd.stop()

    run(main())


async def _refused(client: Client) -> None:
    body = {"metadata": {"name": "late"}}
    for method, path, sent in (("POST", place("a"), body), ("GET", place("a"), None), ("GET", place("a", "n0"), None)):
        code, answer = await client.ask(method, path, sent)
        assert code in (500, 503, 504), (code, answer)
        assert answer["kind"] == "Status" and answer["code"] == code, answer
        assert code != 500 or answer["message"].startswith("etcdserver: "), answer
    code, answer = await client.ask("GET", "/readyz")
    assert code == 500 and "[-]etcd failed" in answer["message"], answer
    assert (await client.ask("GET", place("a"), query={"resourceVersion": "0"}))[0] == 200


async def _whole(client: Client) -> None:
    """Ready, written and watched again."""
    async with asyncio.timeout(BACK_S):
        for method, path in (("GET", "/readyz"), ("GET", place("a")), ("POST", "/api/v1/namespaces")):
            number = 0
            while True:
                number += 1
                body = {"metadata": {"name": f"again{number}"}} if method == "POST" else None
                try:
                    if (await client.ask(method, path, body))[0] < 300:
                        break
                except LOST:
                    pass
                await asyncio.sleep(0.05)
