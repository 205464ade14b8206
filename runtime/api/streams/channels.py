"""exec and attach over a WebSocket: each message is one channel's number and its bytes.

0 stdin, 1 stdout, 2 stderr, 3 error (a Status at the end), 4 the terminal's size as JSON; 255 N: channel N ends
(version 5). Sources: KEP-4006, k8s.io/apimachinery pkg/util/remotecommand, k8s.io/apiserver pkg/util/wsstream,
k8s.io/kubelet pkg/cri/streaming/remotecommand, release 1.34.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import Duplex
from dashpot.runtime.api.streams.node import RunError, StreamOptions, Streams
from dashpot.runtime.api.streams.pipe import IDLE_S, Idle, Pipe

Object = dict[str, Any]
Run = Callable[[Streams], Awaitable[int]]

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
PROTOCOLS = (V5, V4, "channel.k8s.io")
"""Without a subprotocol, and with the oldest, the error channel carries a text, and nothing for success."""
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PIECE = 32 * 1024
"""Bytes of one message to the client."""


class Channels:
    """The client's streams, fed by `pump`."""

    def __init__(self, duplex: Duplex, options: StreamOptions, idle: Idle) -> None:
        self._duplex = duplex
        self._options = options
        self._idle = idle
        self._stdin = Pipe()
        if not options.stdin:
            self._stdin.abandon()
        self._size: tuple[int, int] | None = None
        self._sized = asyncio.Event()

    @property
    def options(self) -> StreamOptions:
        """What is connected."""
        return self._options

    async def read(self) -> bytes:
        """The next piece of stdin; empty at its end."""
        return await self._stdin.read()

    async def out(self, data: bytes) -> None:
        """Sends stdout, if it is wanted."""
        if self._options.stdout:
            await self._send(STDOUT, data)

    async def err(self, data: bytes) -> None:
        """Sends stderr, if it is wanted."""
        if self._options.stderr:
            await self._send(STDERR, data)

    async def resized(self) -> tuple[int, int]:
        """The terminal's next size."""
        await self._sized.wait()
        self._sized.clear()
        assert self._size is not None
        return self._size

    async def greet(self) -> None:
        """An empty message on the first channel out, by which clients see that they are connected."""
        options = self._options
        await self._duplex.send(bytes((STDOUT if options.stdout else STDERR if options.stderr else ERROR,)))

    async def tell(self, status: Object) -> None:
        """The last word, on the error channel."""
        if self._duplex.protocol in (V5, V4):
            await self._duplex.send(bytes((ERROR,)) + msgspec.json.encode(status))
        elif status["status"] != "Success":
            await self._duplex.send(bytes((ERROR,)) + status["message"].encode())

    async def pump(self) -> None:
        """Takes what the client sends until it has left. Runs even if no input is wanted: it answers pings, too."""
        while True:
            message = await self._duplex.receive()
            if message is None:
                self._stdin.end()
                return
            self._idle.touch()
            data = message.encode() if isinstance(message, str) else message
            if data:
                await self._take(data[0], data[1:])

    def leave(self) -> None:
        """The command has ended: input is thrown away."""
        self._stdin.abandon()

    async def _take(self, channel: int, data: bytes) -> None:
        if channel == STDIN:
            await self._stdin.write(data)
        elif channel == RESIZE:
            size = terminal_size(data)
            if size is not None:
                self._size = size
                self._sized.set()
        elif channel == CLOSE and data == bytes((STDIN,)) and self._duplex.protocol == V5:
            self._stdin.end()

    async def _send(self, channel: int, data: bytes) -> None:
        head = bytes((channel,))
        for at in range(0, len(data), PIECE):
            await self._duplex.send(head + data[at : at + PIECE])
            self._idle.touch()


def terminal_size(data: bytes) -> tuple[int, int] | None:
    """Columns and rows of a resize message; None if it is none."""
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    if not isinstance(found, dict):
        return None
    width, height = found.get("Width"), found.get("Height")
    if not isinstance(width, int) or not isinstance(height, int):
        return None
    return (width, height) if 0 < width < 65536 and 0 < height < 65536 else None


def ended(code: int) -> Object:
    """The Status of a command's end."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failed(message: str) -> Object:
    """The Status of a command that did not get so far."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


async def converse(duplex: Duplex, options: StreamOptions, run: Run, idle_s: float = IDLE_S) -> None:
    """One exec or attach from its first byte to its Status. A client that leaves ends the run by cancelling it."""
    try:
        async with Idle(idle_s) as idle:
            channels = Channels(duplex, options, idle)
            await channels.greet()
            status = await _run(channels, run)
            if status is not None:
                await channels.tell(status)
    except (TimeoutError, ConnectionError):
        # nobody reads any more, or nobody has for hours: there is none to tell
        return


async def _run(channels: Channels, run: Run) -> Object | None:
    """The Status to send; None if the client has left."""
    command = asyncio.ensure_future(run(channels))
    pump = asyncio.ensure_future(channels.pump())
    try:
        await asyncio.wait((command, pump), return_when=asyncio.FIRST_COMPLETED)
        if not command.done():
            pump.result()
            return None
        try:
            return ended(command.result())
        except RunError as error:
            return failed(str(error))
        except StatusError as error:
            return error.status()
    finally:
        channels.leave()
        pump.cancel()
        command.cancel()
        await asyncio.gather(command, pump, return_exceptions=True)
