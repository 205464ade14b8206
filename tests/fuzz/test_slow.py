"""Clients that send a byte at a time (slowloris): waited for as long as the limit says, and nobody else waits."""

from __future__ import annotations

import asyncio
import resource
import ssl
import time

import pytest

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import front
from dashpot.runtime.api.exchange import Request, Response
from dashpot.runtime.api.server import failure
from tests.fuzz.bystander import MIB
from tests.fuzz.victim import CONFIGMAPS, Victim


async def _echo(request: Request) -> Response:
    try:
        return Response(200, await request.read())
    except StatusError as error:
        return failure(error)


@pytest.mark.parametrize(
    ("name", "sent", "drip"),
    [
        ("HEADER_TIME_S", b"GET / HTTP/1.1\r\n", b"X"),
        ("BODY_TIME_S", b"POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n", b"x"),
    ],
)
def test_drops_of_a_request(monkeypatch: pytest.MonkeyPatch, name: str, sent: bytes, drip: bytes) -> None:
    """A header or a body that comes a byte at a time is waited for no longer than the limit."""

    async def main() -> None:
        monkeypatch.setattr(front, name, 0.3)
        server = front.Front(_echo, None)
        await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        begun = time.monotonic()
        answered = asyncio.create_task(reader.read())
        while not answered.done():
            writer.write(drip)
            await asyncio.wait((answered,), timeout=0.02)
            assert time.monotonic() - begun < 5
        writer.close()
        await server.stop()

    asyncio.run(main())


HEADER = b"GET /version HTTP/1.1\r\nX-Slow: "
BODY = (
    f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n".encode()
)
HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a ClientHello of 512 bytes."""
HANDSHAKE_TIME_S = 60.0
"""asyncio's limit for TLS to begin."""
LATE_S = 10.0
"""How much later than its limit a connection may end: the machine has other things to do."""
ATTACKS = {
    "header": (HEADER, b"a", True, front.HEADER_TIME_S, 0.4),
    "body": (BODY, b" ", True, front.BODY_TIME_S, 0.4),
    "handshake": (HANDSHAKE, b"a", False, HANDSHAKE_TIME_S, 0.1),
    "silence": (b"", b"", False, HANDSHAKE_TIME_S, 0.1),
}
"""What is sent, what drips, whether within TLS, the server's limit in seconds, and the share of all connections."""


async def drip(victim: Victim, context: ssl.SSLContext, name: str, room: asyncio.Semaphore) -> tuple[str, float]:
    """One connection that is slow by intent: its attack, and seconds until the server ended it."""
    sent, drop, secret, limit, _ = ATTACKS[name]
    host, port = victim.wire().address
    async with room:
        begun = time.monotonic()
        reader, writer = await asyncio.open_connection(host, port, ssl=context if secret else None)
    writer.write(sent)
    ended = asyncio.create_task(reader.read())
    while not ended.done() and time.monotonic() - begun < limit + 2 * LATE_S:
        await asyncio.wait((ended,), timeout=1.0)
        if drop and not ended.done():
            writer.write(drop)
    over = time.monotonic() - begun
    ended.cancel()
    await asyncio.gather(ended, return_exceptions=True)
    writer.transport.abort()
    return name, over


@pytest.mark.soak
@pytest.mark.parametrize("count", [1000])
def test_a_thousand_slow_clients(victim: Victim, count: int) -> None:
    """All at once, against the limits as they are: each connection ends in time, and others are served meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count * 2 + 500)), hard))
    context = victim.wire().context
    names = [name for name, row in ATTACKS.items() for _ in range(round(count * row[4]))]
    assert len(names) == count

    async def main() -> list[tuple[str, float]]:
        room = asyncio.Semaphore(30)
        return await asyncio.gather(*(drip(victim, context, name, room) for name in names))

    with victim.bystander(growth=256 * MIB) as other:
        ended = asyncio.run(main())
    for name, (*_, limit, _share) in ATTACKS.items():
        times = [seconds for what, seconds in ended if what == name]
        print(f"{len(times)} x {name}: ended after {min(times):.1f} to {max(times):.1f} s, limit {limit:g} s")
        assert limit - 1 < min(times) and max(times) < limit + LATE_S, name
    print(f"another client: {other.answers} answers, slowest {other.slowest:.2f} s, memory up {other.grown // MIB} MiB")
    assert other.answers > 500
