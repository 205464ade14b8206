"""The node as the API server sees it: what a kubelet must answer for logs, exec, attach, port-forward and proxy.

The server has already chosen the container, checked the request and asked admission when it calls a node.
"""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from attrs import frozen

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import Request, Response

Object = dict[str, Any]


@frozen
class LogOptions:
    """Which part of a container's log is wanted (upstream: v1.PodLogOptions); None: no limit."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str | None = None
    """RFC 3339, as it was asked for."""
    tail_lines: int | None = None
    limit_bytes: int | None = None


@frozen
class StreamOptions:
    """Which standard streams exec and attach connect. `stderr` is never set together with `tty`."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class Streams(Protocol):
    """The client's side of exec and attach."""

    @property
    def options(self) -> StreamOptions:
        """What the client wants connected."""
        ...

    async def read(self) -> bytes:
        """The next piece of stdin; empty at its end, and at once if none was asked for."""
        ...

    async def out(self, data: bytes) -> None:
        """Sends stdout (of a terminal: everything). Waits while the client does not read; ConnectionError if gone."""
        ...

    async def err(self, data: bytes) -> None:
        """Sends stderr, as `out` does."""
        ...

    async def resized(self) -> tuple[int, int]:
        """Waits for the next size of the client's terminal: columns, rows. Sizes in between are skipped."""
        ...


class RunError(Exception):
    """A command that could not be run or watched to its end; the text is shown to the user after `error: `."""


class Node(Protocol):
    """One node. All methods raise StatusError for what Kubernetes has words for; the server passes it on."""

    async def logs(self, pod: Object, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The container's log, in pieces. `containers.check_log` has the refusals for one that has none.

        With `follow` the iterator ends when the container does. It is closed when the client goes away.
        """
        ...

    async def run(self, pod: Object, container: str, command: Sequence[str], streams: Streams) -> int:
        """Runs a command in a container; its exit code. RunError if it does not start; cancelled: the client left."""
        ...

    async def attach(self, pod: Object, container: str, streams: Streams) -> int:
        """Joins the container's own process; its exit code when it ends. Cancelled: the client has detached."""
        ...

    async def forward(self, pod: Object, port: int) -> tuple[StreamReader, StreamWriter]:
        """A connection to a port as seen from inside the pod; OSError if nobody listens."""
        ...

    async def proxy(self, request: Request, path: str) -> Response:
        """The kubelet's own HTTP interface (`/pods`, `/stats/summary`, `/metrics`); `path` begins with a slash."""
        ...


class Nodes(Protocol):
    """All nodes that have a kubelet."""

    def of(self, name: str) -> Node | None:
        """The node of this name; None if no kubelet has registered for it."""
        ...


class NoNodes:
    """A control plane alone."""

    def of(self, name: str) -> Node | None:
        """None."""
        return None


def no_backend(name: str, why: str = "no kubelet has registered for this node") -> StatusError:
    """500 in the words of a server that cannot reach a kubelet, without a reason, as upstream leaves it."""
    return StatusError("", f'error dialing backend: node "{name}": {why}', code=500)
