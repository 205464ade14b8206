"""Port-forward as kubectl speaks it: SPDY/3.1 inside a WebSocket, two streams for each connection.

A stream of `streamtype: error` and one of `streamtype: data` share a `requestid` and a `port`. Back-pressure is the
WebSocket's: kubectl neither sends nor heeds window updates, so the tunnel stops reading while a port does not take
what was sent to it; for clients that keep windows, windows are kept, too. Sources: KEP-4006, k8s.io/kubelet
pkg/cri/streaming/portforward/httpstream.go, release 1.34.
"""

from __future__ import annotations

import asyncio

from attrs import define, field

from dashpot.runtime.api.exchange import Duplex
from dashpot.runtime.api.streams import spdy
from dashpot.runtime.api.streams.forward import Dial, carry, dialled
from dashpot.runtime.api.streams.pipe import IDLE_S, Idle, Pipe

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
STREAMS_MAX = 1000
"""Streams of one tunnel at a time; more are refused."""
PAIR_S = 30.0
"""Seconds that the second stream of a connection may take to come."""


@define(eq=False)
class _Stream:
    """One stream of the client's."""

    number: int
    pipe: Pipe
    window: int = spdy.WINDOW
    open: bool = True
    """Whether we may still send on it."""
    room: asyncio.Event = field(factory=asyncio.Event)


@define(eq=False)
class _Pair:
    """The two streams of a connection, as they come."""

    port: int
    error: _Stream | None = None
    data: _Stream | None = None
    late: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None


class Tunnel:
    """All connections of one `kubectl port-forward`. `about` is what messages call the pod: `pod web, uid 1234`."""

    def __init__(self, duplex: Duplex, dial: Dial, about: str, idle_s: float = IDLE_S) -> None:
        self._duplex = duplex
        self._dial = dial
        self._about = about
        self._idle = Idle(idle_s)
        self._reader = spdy.Reader()
        self._writer = spdy.Writer()
        self._streams: dict[int, _Stream] = {}
        self._pairs: dict[str, _Pair] = {}
        self._last = 0
        self._heeds = False
        """Whether the client has ever sent a window update: only then does it want ours to be kept."""

    async def serve(self) -> None:
        """Until the client leaves, says goodbye, or is silent for hours."""
        try:
            async with self._idle:
                await self._read()
        except (TimeoutError, ConnectionError):
            # there is none to tell
            return
        finally:
            await self._end()

    async def _read(self) -> None:
        while (message := await self._duplex.receive()) is not None:
            self._idle.touch()
            try:
                for frame in self._reader.feed(message.encode() if isinstance(message, str) else message):
                    if frame.kind == spdy.GOAWAY:
                        return
                    await self._take(frame)
            except spdy.SpdyError:
                await self._duplex.send(spdy.go_away(self._last, spdy.PROTOCOL_ERROR))
                return

    async def _take(self, frame: spdy.Frame) -> None:
        if frame.kind == 0:
            await self._data(frame)
        elif frame.kind == spdy.SYN_STREAM:
            await self._opened(frame)
        elif frame.kind == spdy.RST_STREAM:
            stream = self._streams.pop(frame.stream, None)
            if stream is not None:
                self._drop(stream)
        elif frame.kind == spdy.PING and frame.value % 2:
            await self._duplex.send(spdy.ping(frame.value))
        elif frame.kind == spdy.WINDOW_UPDATE:
            self._heeds = True
            stream = self._streams.get(frame.stream)
            if stream is not None:
                stream.window += frame.value
                stream.room.set()

    async def _data(self, frame: spdy.Frame) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            await self._duplex.send(spdy.reset(frame.stream, spdy.INVALID_STREAM))
            return
        if frame.data:
            await stream.pipe.write(frame.data)
        if frame.fin:
            stream.pipe.end()

    async def _opened(self, frame: spdy.Frame) -> None:
        headers = frame.headers or {}
        port, kind = _port(headers.get("port", "")), headers.get("streamtype", "")
        # clients before request ids open the error stream of a pair right before its data stream
        request = headers.get("requestid") or str(frame.stream - 2 if kind == "data" else frame.stream)
        if frame.stream <= self._last or not frame.stream % 2 or port is None or kind not in ("error", "data"):
            await self._duplex.send(spdy.reset(frame.stream, spdy.PROTOCOL_ERROR))
            return
        self._last = frame.stream
        pair = self._pairs.get(request)
        if len(self._streams) >= STREAMS_MAX or (pair is not None and getattr(pair, kind) is not None):
            await self._duplex.send(spdy.reset(frame.stream, spdy.REFUSED_STREAM))
            return
        stream = self._streams[frame.stream] = _Stream(frame.stream, Pipe())
        if frame.fin:
            stream.pipe.end()
        if pair is None:
            pair = self._pairs[request] = _Pair(port)
            pair.late = asyncio.get_running_loop().call_later(PAIR_S, self._lonely, request)
        setattr(pair, kind, stream)
        await self._duplex.send(self._writer.reply(frame.stream, {}))
        if pair.error is not None and pair.data is not None:
            if pair.late is not None:
                pair.late.cancel()
            pair.task = asyncio.ensure_future(self._connect(request, pair, pair.error, pair.data))

    def _lonely(self, request: str) -> None:
        pair = self._pairs.pop(request, None)
        for stream in () if pair is None else (pair.error, pair.data):
            if stream is not None:
                self._drop(stream)
                self._streams.pop(stream.number, None)

    async def _connect(self, request: str, pair: _Pair, error: _Stream, data: _Stream) -> None:
        """One connection from its dialling to its end; both streams end with it."""
        error.pipe.abandon()
        taken = 0

        async def told(piece: bytes) -> None:
            nonlocal taken
            taken += len(piece)
            if taken >= spdy.WINDOW // 2:
                await self._duplex.send(spdy.window_update(data.number, taken))
                taken = 0

        async def send(piece: bytes) -> None:
            await self._send(data, piece)

        try:
            try:
                reader, writer = await dialled(self._dial, pair.port)
            except OSError as why:
                told_why = f"error forwarding port {pair.port} to {self._about}: {why.strerror or why}"
                await self._send(error, told_why.encode())
            else:
                await carry(reader, writer, data.pipe, send, told)
            await self._finish(data)
            await self._finish(error)
        except ConnectionError:
            # this stream was reset, or the client is gone, which the reader sees by itself
            await self._finish(error)
        finally:
            self._pairs.pop(request, None)
            for stream in (error, data):
                self._drop(stream)
                self._streams.pop(stream.number, None)

    async def _send(self, stream: _Stream, piece: bytes) -> None:
        """Sends on a stream, as much as its window lets if the client keeps windows; ConnectionError if reset."""
        at = 0
        while at < len(piece):
            while self._heeds and stream.window <= 0 and stream.open:
                stream.room.clear()
                await stream.room.wait()
            if not stream.open:
                raise ConnectionResetError
            end = at + min(len(piece) - at, stream.window) if self._heeds else len(piece)
            stream.window -= end - at
            await self._duplex.send(spdy.data(stream.number, piece[at:end]))
            self._idle.touch()
            at = end

    async def _finish(self, stream: _Stream) -> None:
        if stream.open:
            stream.open = False
            try:
                await self._duplex.send(spdy.data(stream.number, b"", fin=True))
            except ConnectionError:
                # the client is gone, which the reader sees by itself
                return

    def _drop(self, stream: _Stream) -> None:
        stream.open = False
        stream.room.set()
        stream.pipe.abandon()

    async def _end(self) -> None:
        tasks = [pair.task for pair in self._pairs.values() if pair.task is not None]
        for pair in self._pairs.values():
            if pair.late is not None:
                pair.late.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _port(text: str) -> int | None:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    return number if 0 < number < 65536 else None
