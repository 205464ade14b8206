"""One forwarded connection: bytes between a client's stream and a port in the pod."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.streams.pipe import Pipe

PIECE = 32 * 1024
DIAL_S = 30.0
"""Seconds that a connection to a port may take to be made."""
LINGER_S = 30.0
"""Seconds that a port has to take the last bytes of a connection that is over."""

Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
Send = Callable[[bytes], Awaitable[None]]


async def dialled(dial: Dial, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The connection; OSError with a text for the user."""
    try:
        async with asyncio.timeout(DIAL_S):
            return await dial(port)
    except TimeoutError:
        raise OSError("connection timed out") from None
    except StatusError as error:
        raise OSError(error.message) from None


async def carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pipe: Pipe, send: Send, taken: Send | None = None
) -> None:
    """Both directions until the port has said all, or the client has gone. `taken` hears what the port has got.

    A client that ends its half still gets the answer; a port that closes ends the connection, as upstream's does.
    """
    inward = asyncio.ensure_future(_inward(writer, pipe, taken))
    try:
        while piece := await _read(reader):
            await send(piece)
    finally:
        pipe.abandon()
        inward.cancel()
        await asyncio.gather(inward, return_exceptions=True)
        writer.close()
        # what was written may still leave; a port that never takes it must not keep the socket for ever
        asyncio.get_running_loop().call_later(LINGER_S, writer.transport.abort)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(PIECE)
    except ConnectionError:
        return b""


async def _inward(writer: asyncio.StreamWriter, pipe: Pipe, taken: Send | None) -> None:
    try:
        while data := await pipe.read():
            writer.write(data)
            await writer.drain()
            if taken is not None:
                await taken(data)
        if writer.can_write_eof():
            writer.write_eof()
    except (ConnectionError, RuntimeError):
        # the port takes no more; what it still says goes on to the client
        pipe.abandon()
