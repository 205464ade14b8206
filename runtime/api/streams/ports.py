"""Port-forward as Python's clients speak it: plain WebSocket messages, channels 2i (data) and 2i+1 (error) for port i.

The first message of each channel is its port, two bytes, the low one first. Source: k8s.io/kubelet
pkg/cri/streaming/portforward/websocket.go, release 1.34.
"""

from __future__ import annotations

import asyncio
from typing import Any

from dashpot.model.objects.status import bad_request
from dashpot.runtime.api.exchange import Duplex, Request
from dashpot.runtime.api.streams.forward import Dial, carry, dialled
from dashpot.runtime.api.streams.pipe import IDLE_S, Idle, Pipe

PROTOCOLS = ("v4.channel.k8s.io", "portforward.k8s.io")
PORTS_MAX = 100
LEAVE_S = 5.0
"""Seconds that a connection goes on without its client."""


def wanted(request: Request) -> list[int]:
    """The ports of the query, `ports=80&ports=81` or `ports=80,81`; StatusError 400."""
    texts = [text for value in request.all("ports") for text in value.split(",")]
    if not any(texts):
        raise bad_request('query parameter "port" is required')
    found: list[int] = []
    for text in texts:
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 65536):
            raise bad_request(f'unable to parse "{text[:64]}" as a port')
        if int(text) == 0:
            raise bad_request(f'port "{text}" must be > 0')
        found.append(int(text))
    if len(found) > PORTS_MAX:
        raise bad_request(f"at most {PORTS_MAX} ports can be forwarded by one request")
    return found


async def converse(duplex: Duplex, ports: list[int], dial: Dial, about: str, idle_s: float = IDLE_S) -> None:
    """Connects all ports at once; until all of them have closed, or the client leaves."""
    pipes = [Pipe() for _ in ports]
    tasks: list[asyncio.Future[Any]] = []
    try:
        async with Idle(idle_s) as idle:
            for index, port in enumerate(ports):
                for channel in (2 * index, 2 * index + 1):
                    await duplex.send(bytes((channel,)) + port.to_bytes(2, "little"))
            ended = asyncio.gather(
                *(_forward(duplex, index, port, pipes[index], dial, about, idle) for index, port in enumerate(ports))
            )
            tasks = [asyncio.ensure_future(_pump(duplex, pipes, idle)), ended]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for pipe in pipes:
                pipe.end()
            # a client that sends and leaves at once: what it sent shall still arrive
            await asyncio.wait((ended,), timeout=LEAVE_S)
    except (TimeoutError, ConnectionError):
        # there is none to tell
        return
    finally:
        for pipe in pipes:
            pipe.abandon()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(duplex: Duplex, pipes: list[Pipe], idle: Idle) -> None:
    while (message := await duplex.receive()) is not None:
        idle.touch()
        data = message.encode() if isinstance(message, str) else message
        if data and data[0] % 2 == 0 and data[0] // 2 < len(pipes):
            await pipes[data[0] // 2].write(data[1:])


async def _forward(duplex: Duplex, index: int, port: int, pipe: Pipe, dial: Dial, about: str, idle: Idle) -> None:
    head, head_of_errors = bytes((2 * index,)), bytes((2 * index + 1,))

    async def send(piece: bytes) -> None:
        await duplex.send(head + piece)
        idle.touch()

    try:
        try:
            reader, writer = await dialled(dial, port)
        except OSError as why:
            pipe.abandon()
            text = f"error forwarding port {port} to {about}: {why.strerror or why}"
            await duplex.send(head_of_errors + text.encode())
        else:
            await carry(reader, writer, pipe, send)
    except ConnectionError:
        # the client is gone, which the pump sees by itself
        return
