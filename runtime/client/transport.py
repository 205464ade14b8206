"""What carries requests to an API server and answers back: the interface, and how it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from attrs import define, field, frozen

ANSWER_LIMIT = 512 << 20
"""Bytes of one answer that are read into memory; lists of a big cluster are that long, nothing is longer."""
LINE_LIMIT = 64 << 20
"""Bytes of one line of a stream; an object has at most 3 MiB at upstream's limits."""


class TransportError(Exception):
    """No answer, or half of one. `sent` is false where the request cannot have reached the server."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class TransportTimeout(TransportError):
    """The answer did not come in time."""


class NoCredentials(TransportError):
    """There is nothing to be let in with: a plugin fails, a token file cannot be read. Trying again does not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


@frozen
class Call:
    """One request. `path` is encoded for a URL, `query` is not; header names are lower case; times in seconds."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = field(default=b"", repr=False)
    timeout: float = 0.0
    """Until the head of the answer is there; 0: no limit."""


async def _nothing() -> None:
    return


@define(eq=False)
class Answer:
    """The head of an answer, and its body as it comes. Read it or close it. Header names are lower case."""

    code: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    closing: Callable[[], Awaitable[None]] = _nothing

    async def read(self) -> bytes:
        """The whole body; TransportError where it breaks off or is too long."""
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self.chunks:
                size += len(part)
                if size > ANSWER_LIMIT:
                    raise TransportError(f"the answer is longer than {ANSWER_LIMIT} bytes")
                parts.append(part)
        finally:
            await self.close()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def lines(self) -> AsyncIterator[bytes]:
        """The body line by line, without line ends; the caller closes the answer."""
        rest = b""
        async for part in self.chunks:
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                if line:
                    yield line
            if len(rest) > LINE_LIMIT:
                raise TransportError(f"a line of the answer is longer than {LINE_LIMIT} bytes")
        if rest:
            yield rest

    async def close(self) -> None:
        """Gives the connection up, whatever is still to come; idempotent."""
        await self.closing()


class Transport(Protocol):
    """A way to one API server."""

    async def send(self, call: Call) -> Answer:
        """Sends a request and waits for the head of its answer; TransportError."""
        ...

    async def close(self) -> None:
        """Ends all connections; idempotent."""
        ...
