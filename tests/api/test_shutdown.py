"""A server that is told to stop: /readyz fails, nobody new is let in, who is in gets an answer, watches end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from attrs import define, field

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import Exchange, Request, Response
from dashpot.runtime.api.front import Front
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.store.embedded import EmbeddedStore

MAPS = "/api/v1/namespaces/default/configmaps"


@define(eq=False)
class Hold:
    """Holds writes before the verb until told to let them go."""

    held: asyncio.Event = field(factory=asyncio.Event)
    go: asyncio.Event = field(factory=asyncio.Event)

    async def __call__(self, gate: str, exchange: Exchange) -> None:
        if gate == "serve" and exchange.request.method == "POST" and exchange.request.path == MAPS:
            self.held.set()
            await self.go.wait()


async def idle(session: aiohttp.ClientSession, url: str, count: int) -> None:
    """Opens so many connections and leaves them open."""
    answers = await asyncio.gather(*(session.get(url + "/livez") for _ in range(count)))
    for answer in answers:
        assert await answer.text() == "ok"


def test_requests_under_way_are_answered(tmp_path: Path) -> None:
    async def main() -> None:
        server = await ApiServer.start(Settings(data=tmp_path, store="embedded", port=0))
        hold = server._pipeline.delay = Hold()
        server.pki.admin()
        connector = aiohttp.TCPConnector(ssl=server.pki.client_context("admin"))
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.timeout(20):
            url = server.url
            await idle(session, url, 5)
            watch = await session.get(url + MAPS, params={"watch": "true", "timeoutSeconds": "600"})
            write = asyncio.create_task(session.post(url + MAPS, json={"metadata": {"name": "late"}}))
            await hold.held.wait()
            stopping = asyncio.create_task(server.stop())
            assert await watch.read() == b"", "the watch comes to its end, though nobody waits for it"
            for path, code, text in (("readyz", 500, "[-]shutdown failed"), ("livez", 200, "ok")):
                async with session.get(f"{url}/{path}") as answer:
                    assert (answer.status, answer.headers["Connection"]) == (code, "close")
                    assert text in await answer.text()
            async with session.get(url + MAPS, params={"watch": "true", "resourceVersion": "0"}) as late:
                assert late.status == 200 and await late.read() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            assert not stopping.done() and not write.done()
            hold.go.set()
            made = await write
            assert made.status == 201 and (await made.json())["metadata"]["name"] == "late"
            await stopping
        store = await EmbeddedStore.open(tmp_path / "store")
        assert await store.get("/registry/configmaps/default/late") is not None
        await store.close()

    asyncio.run(main())


def test_who_does_not_end_is_cut_off() -> None:
    async def main() -> None:
        entered = asyncio.Event()

        async def handle(_: Request) -> Response:
            entered.set()
            await asyncio.Event().wait()
            raise AssertionError

        front = Front(handle, None)
        await front.start("127.0.0.1", 0)
        async with aiohttp.ClientSession() as session, asyncio.timeout(10):
            asking = asyncio.create_task(session.get(f"http://127.0.0.1:{front.port}/"))
            await entered.wait()
            await front.drain(0.05)
            await front.stop()
            with pytest.raises(aiohttp.ClientError):
                await asking

    asyncio.run(main())


def test_the_check_is_of_readyz_alone(tmp_path: Path) -> None:
    async def main() -> None:
        server = await ApiServer.start(Settings(store="memory"), listen=False)
        try:
            for path, there in (("readyz", True), ("livez", False), ("healthz", False)):
                told = await server.local.request("GET", f"/{path}?verbose")
                assert ("[+]shutdown ok\n" in told.body.decode()) is there
                assert (await server.local.request("GET", f"/{path}/shutdown")).code == (200 if there else 404)
                paths = (await server.local.request("GET", "/")).body.decode()
                assert (f'"/{path}/shutdown"' in paths) is there
        finally:
            await server.stop()

    asyncio.run(main())


def test_a_watch_ends_with_its_client(tmp_path: Path) -> None:
    """Nothing is written meanwhile: the server does not find out by sending."""

    async def main() -> None:
        server = await ApiServer.start(Settings(data=tmp_path, store="memory", port=0))
        server.pki.admin()
        connector = aiohttp.TCPConnector(ssl=server.pki.client_context("admin"))
        headers = {"user-agent": "viewer/1"}
        try:
            async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
                asked = {"watch": "true", "timeoutSeconds": "600"}
                watches = [await session.get(server.url + MAPS, params=asked) for _ in range(5)]
                assert server.metrics.clients.watches == {"viewer/1": 5}
                for watch in watches:
                    watch.close()
            async with asyncio.timeout(10):
                while server.metrics.clients.watches:
                    await asyncio.sleep(0.01)
        finally:
            await server.stop()

    asyncio.run(main())
