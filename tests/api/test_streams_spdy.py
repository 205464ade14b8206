"""SPDY's frames, and a tunnel against a client that keeps its rules, and some that do not."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.runtime.api.streams import spdy
from dashpot.runtime.api.streams.tunnel import STREAMS_MAX, Tunnel

TEXT = st.text(st.characters(max_codepoint=255), max_size=20)


def test_dictionary() -> None:
    """The draft's: 1423 bytes, and the checksum by which every zlib stream of SPDY/3 names it."""
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


@given(
    st.lists(st.dictionaries(TEXT.map(str.lower), TEXT, max_size=5), max_size=5),
    st.binary(max_size=50),
    st.integers(1, 9),
)
def test_there_and_back(blocks: list[dict[str, str]], piece: bytes, cut: int) -> None:
    """Frames survive any division of their bytes; header blocks share one stream of zlib."""
    writer, reader = spdy.Writer(), spdy.Reader()
    sent = b""
    for i, headers in enumerate(blocks):
        sent += writer.open(2 * i + 1, headers) + spdy.data(2 * i + 1, piece, True)
    sent += spdy.ping(7) + spdy.window_update(3, 9) + spdy.reset(5, spdy.CANCEL) + spdy.go_away(1, 0)
    frames = [frame for at in range(0, len(sent), cut) for frame in reader.feed(sent[at : at + cut])]
    expected: list[spdy.Frame] = []
    for i, headers in enumerate(blocks):
        # names differ only in case above 127 for some letters: the last one wins on both sides
        lower = {name.lower(): value for name, value in headers.items()}
        expected += [spdy.Frame(spdy.SYN_STREAM, 2 * i + 1, headers=lower), spdy.Frame(0, 2 * i + 1, True, piece)]
    expected += [spdy.Frame(spdy.PING, value=7), spdy.Frame(spdy.WINDOW_UPDATE, 3, value=9)]
    expected += [spdy.Frame(spdy.RST_STREAM, 5, value=spdy.CANCEL), spdy.Frame(spdy.GOAWAY, value=1)]
    assert frames == expected


def _bomb() -> bytes:
    block = spdy.Writer()._block({"a": "x" * (spdy.HEADERS_MAX + 1)})
    return struct.pack("!HHI", 0x8003, spdy.SYN_STREAM, len(block) + 10) + bytes(10) + block


@pytest.mark.parametrize(
    "wrong",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!HHI", 0x8002, 1, 0),
        struct.pack("!HHI", 0x8003, 3, 2) + b"xx",
        struct.pack("!HHI", 0x8003, 1, 12) + b"x" * 12,
        struct.pack("!II", 1, spdy.FRAME_MAX + 1),
        _bomb(),
    ],
)
def test_not_spdy(wrong: bytes) -> None:
    """What is no frame, too long a frame, or too much of headers."""
    with pytest.raises(spdy.SpdyError):
        list(spdy.Reader().feed(wrong))


@given(st.binary(max_size=200))
def test_garbage(garbage: bytes) -> None:
    """Bytes of any kind are frames or a SpdyError."""
    try:
        for _ in spdy.Reader().feed(garbage):
            continue
    except spdy.SpdyError:
        return


Accepted = asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]


class Wire:
    """A Duplex in memory, and a client of SPDY at its other end."""

    protocol = "SPDY/3.1+portforward.k8s.io"

    def __init__(self) -> None:
        self.to_server: asyncio.Queue[bytes | str | None] = asyncio.Queue()
        self.frames: list[spdy.Frame] = []
        self.reader = spdy.Reader()
        self.writer = spdy.Writer()
        self.changed = asyncio.Event()

    async def receive(self) -> bytes | str | None:
        return await self.to_server.get()

    async def send(self, message: bytes | str) -> None:
        assert isinstance(message, bytes)
        self.frames += self.reader.feed(message)
        self.changed.set()

    async def close(self, code: int = 1000) -> None:
        return

    def put(self, data: bytes) -> None:
        """The client sends."""
        self.to_server.put_nowait(data)

    def pair(self, number: int, port: str = "80", request: str = "0") -> None:
        """Opens the two streams of a connection, as kubectl does."""
        for at, kind in ((number, "error"), (number + 2, "data")):
            headers = {"streamtype": kind, "port": port, "requestid": request}
            self.put(self.writer.open(at, headers, fin=kind == "error"))

    async def until(self, met: Callable[[], bool]) -> None:
        """Waits for frames."""
        async with asyncio.timeout(20):
            while not met():
                self.changed.clear()
                await self.changed.wait()

    def data(self, number: int) -> bytes:
        """All that has come on a stream."""
        return b"".join(f.data for f in self.frames if f.kind == 0 and f.stream == number)

    def ended(self, number: int) -> bool:
        """Whether a stream has ended."""
        return any(f.fin for f in self.frames if f.kind == 0 and f.stream == number)

    def resets(self) -> dict[int, int]:
        """Streams that were refused, and why."""
        return {f.stream: f.value for f in self.frames if f.kind == spdy.RST_STREAM}


def _tunnel(
    test: Callable[[Wire, Accepted], Awaitable[None]],
) -> None:
    """Runs a test against a tunnel whose port 80 is a server of the test's."""

    async def main() -> None:
        accepted: Accepted = asyncio.Queue()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.put_nowait((reader, writer))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        number = server.sockets[0].getsockname()[1]

        async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if port != 80:
                raise ConnectionRefusedError(111, "Connection refused")
            return await asyncio.open_connection("127.0.0.1", number)

        wire = Wire()
        serving = asyncio.ensure_future(Tunnel(wire, dial, "pod web, uid 1", 60).serve())
        try:
            await test(wire, accepted)
        finally:
            wire.to_server.put_nowait(None)
            await asyncio.wait_for(serving, 20)
            server.close()

    asyncio.run(main())


def test_connection() -> None:
    """Bytes both ways, a half that ends, and the end of both streams."""

    async def test(wire: Wire, accepted: Accepted) -> None:
        wire.pair(1)
        reader, writer = await accepted.get()
        wire.put(spdy.data(3, b"question", fin=True))
        assert await reader.read() == b"question"
        writer.write(b"answer")
        writer.close()
        await wire.until(lambda: wire.ended(1) and wire.ended(3))
        assert wire.data(3) == b"answer"
        assert [f.stream for f in wire.frames if f.kind == spdy.SYN_REPLY] == [1, 3]
        wire.put(spdy.ping(5))
        await wire.until(lambda: wire.frames[-1] == spdy.Frame(spdy.PING, value=5))

    _tunnel(test)


def test_refused_port() -> None:
    """The error stream says why, and both end."""

    async def test(wire: Wire, _: object) -> None:
        wire.pair(1, "81")
        await wire.until(lambda: wire.ended(1) and wire.ended(3))
        assert wire.data(1) == b"error forwarding port 81 to pod web, uid 1: Connection refused"

    _tunnel(test)


def test_windows() -> None:
    """A client that keeps windows gets no more than it has room for, and is told what was taken."""

    async def test(wire: Wire, accepted: Accepted) -> None:
        wire.pair(1)
        reader, writer = await accepted.get()
        wire.put(spdy.window_update(3, 0))
        wire.put(spdy.data(3, b"x" * spdy.WINDOW))
        await reader.readexactly(spdy.WINDOW)
        await wire.until(lambda: any(f.kind == spdy.WINDOW_UPDATE for f in wire.frames))
        assert sum(f.value for f in wire.frames if f.kind == spdy.WINDOW_UPDATE) <= spdy.WINDOW
        writer.write(b"y" * 500_000)
        await wire.until(lambda: len(wire.data(3)) == spdy.WINDOW)
        wire.put(spdy.window_update(3, 100))
        await wire.until(lambda: len(wire.data(3)) == spdy.WINDOW + 100)
        wire.put(spdy.window_update(3, 1_000_000))
        await wire.until(lambda: len(wire.data(3)) == 500_000)
        writer.close()

    _tunnel(test)


def test_reset() -> None:
    """A stream that the client gives up ends its connection, and no other."""

    async def test(wire: Wire, accepted: Accepted) -> None:
        wire.pair(1)
        reader, writer = await accepted.get()
        wire.pair(5, request="1")
        other, answer = await accepted.get()
        wire.put(spdy.data(3, b"x"))
        assert await reader.readexactly(1) == b"x"
        wire.put(spdy.reset(3, spdy.CANCEL))
        writer.write(b"into the void")
        await wire.until(lambda: wire.ended(1))
        wire.put(spdy.data(7, b"still here", fin=True))
        assert await other.read() == b"still here"
        writer.close()
        answer.close()
        await wire.until(lambda: wire.ended(7))
        assert wire.data(3) == b""

    _tunnel(test)


def test_wrong_streams() -> None:
    """What is not opened properly is refused, stream by stream."""

    async def test(wire: Wire, _: object) -> None:
        wire.put(wire.writer.open(1, {"streamtype": "data", "port": "0"}))
        wire.put(wire.writer.open(3, {"streamtype": "other", "port": "80"}))
        wire.put(wire.writer.open(4, {"streamtype": "data", "port": "80"}))
        wire.put(spdy.data(99, b"x"))
        await wire.until(lambda: len(wire.resets()) == 4)
        assert wire.resets() == {1: 1, 3: 1, 4: 1, 99: 2}
        wire.put(b"GET / HTTP/1.1\r\n\r\n")
        await wire.until(lambda: wire.frames[-1].kind == spdy.GOAWAY)

    _tunnel(test)


def test_too_many_streams() -> None:
    """The thousand and first is refused."""

    async def test(wire: Wire, _: object) -> None:
        for index in range(STREAMS_MAX + 1):
            wire.put(wire.writer.open(2 * index + 1, {"streamtype": "error", "port": "80", "requestid": str(index)}))
        await wire.until(lambda: bool(wire.resets()))
        assert wire.resets() == {2 * STREAMS_MAX + 1: spdy.REFUSED_STREAM}

    _tunnel(test)


FRAMES = st.one_of(
    st.builds(spdy.data, st.integers(0, 9), st.binary(max_size=9), st.booleans()),
    st.builds(spdy.reset, st.integers(0, 9), st.integers(0, 9)),
    st.builds(spdy.window_update, st.integers(0, 9), st.integers(0, 2**31 - 1)),
    st.builds(spdy.ping, st.integers(0, 9)),
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(("error", "data", "x")),
        st.sampled_from(("80", "81", "", "99999")),
        st.sampled_from(("", "1", "2")),
    ),
    st.binary(max_size=9),
)


@given(st.lists(FRAMES, max_size=20))
def test_any_client(frames: list[bytes | tuple[int, str, str, str]]) -> None:
    """Whatever a client sends, in any order: the tunnel ends with its client, and without a mistake of ours."""

    async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError(111, "Connection refused")

    async def main() -> None:
        wire = Wire()
        for frame in frames:
            if isinstance(frame, bytes):
                wire.put(frame)
            else:
                stream, kind, port, request = frame
                wire.put(wire.writer.open(stream, {"streamtype": kind, "port": port, "requestid": request}))
        wire.to_server.put_nowait(None)
        await asyncio.wait_for(Tunnel(wire, dial, "pod web, uid 1", 60).serve(), 20)

    asyncio.run(main())
