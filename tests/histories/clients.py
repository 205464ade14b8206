"""A small client of the API, without any cleverness: one request, one answer, and streams of events line by line."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

Object = dict[str, Any]
T = TypeVar("T")

LOST = (aiohttp.ClientError, TimeoutError, ConnectionError, OSError)
"""What a request raises that has no answer."""


def context_of(kubeconfig: Path, *, certificate: bool = True) -> ssl.SSLContext:
    """The administrator's way in; or, without the certificate, anybody's."""
    config = msgspec.yaml.decode(kubeconfig.read_bytes())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if not certificate:
        return context
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.write_bytes(
            base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"])
        )
        context.load_cert_chain(pair)
    return context


class Client:
    """One user of one server. `token` is sent in place of the certificate where it is given."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str = "", timeout_s: float = 30.0) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> tuple[int, Object]:
        """The code and the answer; one of LOST where there is none."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": media} if data is not None else {}
        async with self._session.request(
            method, self.url + path, data=data, headers=headers, params=query, timeout=self._timeout
        ) as answer:
            text = await answer.read()
            try:
                return answer.status, msgspec.json.decode(text)
            except msgspec.DecodeError:
                return answer.status, {"message": text.decode(errors="replace")}

    async def done(self, method: str, path: str, body: Any = None, **options: Any) -> Object:
        """The answer of a request that must succeed."""
        code, answer = await self.ask(method, path, body, **options)
        assert code < 300, (method, path, code, answer)
        return answer

    async def watch(self, path: str, query: dict[str, str]) -> AsyncGenerator[Object]:
        """Events; a failure is one event of type ERROR. One of LOST where the connection breaks."""
        async with self._session.get(self.url + path, params={**query, "watch": "true"}) as answer:
            if answer.status != 200:
                yield {"type": "ERROR", "object": msgspec.json.decode(await answer.read())}
                return
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield msgspec.json.decode(line)

    async def close(self) -> None:
        """Closes its connections."""
        await self._session.close()


def run(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, but ends only when no connection is open any more.

    One whose handshake was cancelled is taken down a moment after its session was closed; a loop that is gone by then
    leaves its socket to the garbage collector.
    """
    with asyncio.Runner() as runner:
        try:
            return runner.run(main)
        finally:
            runner.run(_closed())


async def _closed(seconds: float = 5.0) -> None:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    ends = asyncio.get_running_loop().time() + seconds
    # the loop's own pipe stays
    while len(selector.get_map()) > 1 and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
