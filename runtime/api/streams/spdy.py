"""SPDY/3.1 frames: bytes in, frames out, and back; no I/O. Only what port-forward needs.

Source: SPDY protocol draft 3.1 (2.2 framing, 2.6 control frames, 2.6.10 header compression).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

from attrs import frozen

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 1
PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5
"""Reasons of RST_STREAM."""
WINDOW = 64 * 1024
"""Bytes that either side may send on a stream before it hears a WINDOW_UPDATE."""
FRAME_MAX = 1 << 20
"""Bytes of a frame: clients send 32 KiB."""
HEADERS_MAX = 64 * 1024
"""Bytes of one unzipped header block."""
PAIRS_MAX = 64

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    words = (word.replace("_", " ").encode() for word in _WORDS.split(" "))
    return b"".join(len(word).to_bytes(4, "big") + word for word in words) + _TAIL.encode()


DICTIONARY = _dictionary()
"""What both sides prime zlib with: the words of HTTP, each after its length, and a tail of usual values."""


class SpdyError(Exception):
    """The other side does not speak SPDY/3.1, or overdoes it: the connection cannot go on."""


@frozen
class Frame:
    """One frame. `kind` 0 is data; `value` is the status of RST_STREAM, the delta of WINDOW_UPDATE, the id of PING."""

    kind: int
    stream: int = 0
    fin: bool = False
    data: bytes = b""
    headers: Mapping[str, str] | None = None
    value: int = 0


class Reader:
    """Cuts the bytes of one direction into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._unzip = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete; SpdyError."""
        self._buffer += data
        while len(self._buffer) >= 8:
            head, size = struct.unpack_from("!II", self._buffer)
            flags, length = size >> 24, size & 0xFFFFFF
            if length > FRAME_MAX:
                raise SpdyError(f"a frame of {length} bytes")
            if len(self._buffer) < 8 + length:
                return
            body = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if not head >> 31:
                yield Frame(0, head, bool(flags & FIN), body)
                continue
            if head >> 16 != 0x8003:
                raise SpdyError(f"version {head >> 16 & 0x7FFF}")
            frame = self._control(head & 0xFFFF, flags, body)
            if frame is not None:
                yield frame

    def _control(self, kind: int, flags: int, body: bytes) -> Frame | None:
        at = {SYN_STREAM: 10, SYN_REPLY: 4, HEADERS: 4}.get(kind)
        try:
            if at is not None:
                (stream,) = struct.unpack_from("!I", body)
                # each block goes through the same stream of zlib, so none may be skipped
                return Frame(kind, stream & 0x7FFFFFFF, bool(flags & FIN), headers=self._headers(body[at:]))
            if kind in (RST_STREAM, WINDOW_UPDATE):
                stream, value = struct.unpack_from("!II", body)
                return Frame(kind, stream & 0x7FFFFFFF, value=value)
            if kind in (PING, GOAWAY):
                (value,) = struct.unpack_from("!I", body)
                return Frame(kind, value=value)
        except struct.error:
            raise SpdyError(f"a control frame {kind} of {len(body)} bytes") from None
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._unzip.decompress(block, HEADERS_MAX)
        except zlib.error:
            raise SpdyError("headers that cannot be unzipped") from None
        if self._unzip.unconsumed_tail:
            raise SpdyError("too many headers")
        found: dict[str, str] = {}
        (count,) = struct.unpack_from("!I", plain)
        if count > PAIRS_MAX:
            raise SpdyError("too many headers")
        at = 4
        for _ in range(count):
            name, at = _text(plain, at)
            found[name.lower()], at = _text(plain, at)
        return found


def _text(plain: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("!I", plain, at)
    end = at + 4 + length
    if end > len(plain):
        raise SpdyError("headers that end too early")
    return plain[at + 4 : end].decode("latin-1"), end


class Writer:
    """Makes the bytes of one direction."""

    def __init__(self) -> None:
        self._zip = zlib.compressobj(zdict=DICTIONARY)

    def _block(self, headers: Mapping[str, str]) -> bytes:
        plain = bytearray(struct.pack("!I", len(headers)))
        for name, value in headers.items():
            for text in (name.encode("latin-1"), value.encode("latin-1")):
                plain += struct.pack("!I", len(text)) + text
        return self._zip.compress(bytes(plain)) + self._zip.flush(zlib.Z_SYNC_FLUSH)

    def open(self, stream: int, headers: Mapping[str, str], fin: bool = False) -> bytes:
        """SYN_STREAM."""
        return _control(SYN_STREAM, struct.pack("!IIH", stream, 0, 0) + self._block(headers), FIN if fin else 0)

    def reply(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """SYN_REPLY."""
        return _control(SYN_REPLY, struct.pack("!I", stream) + self._block(headers))


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack("!HHI", 0x8003, kind, flags << 24 | len(body)) + body


def data(stream: int, piece: bytes, fin: bool = False) -> bytes:
    """A data frame."""
    return struct.pack("!II", stream, (FIN if fin else 0) << 24 | len(piece)) + piece


def reset(stream: int, status: int) -> bytes:
    """RST_STREAM."""
    return _control(RST_STREAM, struct.pack("!II", stream, status))


def ping(number: int) -> bytes:
    """PING, or the answer to one."""
    return _control(PING, struct.pack("!I", number))


def window_update(stream: int, delta: int) -> bytes:
    """WINDOW_UPDATE: so many more bytes may come."""
    return _control(WINDOW_UPDATE, struct.pack("!II", stream, delta))


def go_away(last: int, status: int) -> bytes:
    """GOAWAY: nothing after stream `last` was looked at."""
    return _control(GOAWAY, struct.pack("!II", last, status))
