"""What simulated nodes answer for logs, exec, attach, port-forward and proxy: that nothing runs there."""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Container, Sequence
from typing import Any, NoReturn

from attrs import frozen

from dashpot.runtime.api.exchange import Request, Response
from dashpot.runtime.api.streams.node import LogOptions, Node, RunError, Streams, no_backend

Object = dict[str, Any]
WHY = "the node is simulated: nothing runs in its containers"


@frozen
class FakeStreams:
    """One simulated node."""

    name: str

    async def logs(self, pod: Object, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """One line that says so."""

        async def line() -> AsyncIterator[bytes]:
            yield f"node {self.name}: {WHY}\n".encode()

        return line()

    async def run(self, pod: Object, container: str, command: Sequence[str], streams: Streams) -> int:
        """RunError."""
        self._refuse()

    async def attach(self, pod: Object, container: str, streams: Streams) -> int:
        """RunError."""
        self._refuse()

    async def forward(self, pod: Object, port: int) -> tuple[StreamReader, StreamWriter]:
        """OSError: nobody listens."""
        raise ConnectionRefusedError(WHY)

    async def proxy(self, request: Request, path: str) -> Response:
        """There is no kubelet to ask."""
        raise no_backend(self.name, WHY)

    def _refuse(self) -> NoReturn:
        raise RunError(WHY)


@frozen
class FakeNodes:
    """The nodes of a fleet; `names` is looked into at each request."""

    names: Container[str]

    def of(self, name: str) -> Node | None:
        """The node of this name; None if the fleet has none."""
        return FakeStreams(name) if name in self.names else None
