"""A node for tests, whose commands and ports are this machine's, and a server that real clients can reach."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import Request, Response
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.api.streams import LogOptions, RunError, Streams
from dashpot.runtime.api.streams.containers import check_log

Object = dict[str, Any]
LINES = [b"started", b"two", b"three"]


class LocalNode:
    """Runs every command here. `ports` maps ports of pods to ports of this machine."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.asked: list[LogOptions] = []
        self.more = asyncio.Event()
        self.closed = 0
        """How many logs and commands have been ended from outside."""
        self.sizes: list[tuple[int, int]] = []
        self.proxied: list[tuple[str, str, dict[str, str]]] = []

    async def logs(self, pod: Object, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Three lines; with `follow` a fourth when `more` is set."""
        check_log(pod, container, options.previous)
        self.asked.append(options)
        return self._lines(options)

    async def _lines(self, options: LogOptions) -> AsyncIterator[bytes]:
        try:
            count = len(LINES) if options.tail_lines is None else options.tail_lines
            for line in LINES[len(LINES) - count :] if count else ():
                yield (b"2026-01-01T00:00:00.000000000Z " if options.timestamps else b"") + line + b"\n"
            if options.follow:
                await self.more.wait()
                yield b"four\n"
        except (GeneratorExit, asyncio.CancelledError):
            self.closed += 1
            raise

    async def run(self, pod: Object, container: str, command: Sequence[str], streams: Streams) -> int:
        """A process of this machine."""
        options = streams.options
        master = slave = -1
        if options.tty:
            master, slave = pty.openpty()
        pipe = slave if options.tty else subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            raise RunError(f'exec failed: "{command[0]}": {(error.strerror or "").lower()}') from None
        tasks = self._terminal(streams, master, slave) if options.tty else self._pipes(streams, process)
        try:
            code = await process.wait()
            await asyncio.gather(*tasks[1:])
            return code if code >= 0 else 128 - code
        except asyncio.CancelledError:
            self.closed += 1
            raise
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if master >= 0:
                os.close(master)

    def _pipes(self, streams: Streams, process: asyncio.subprocess.Process) -> list[asyncio.Task[None]]:
        async def feed() -> None:
            assert process.stdin is not None
            try:
                while data := await streams.read():
                    process.stdin.write(data)
                    await process.stdin.drain()
            except ConnectionError:
                return
            process.stdin.close()

        async def drain(reader: StreamReader | None, send: Callable[[bytes], Awaitable[None]]) -> None:
            assert reader is not None
            while data := await reader.read(65536):
                await send(data)

        make = asyncio.get_running_loop().create_task
        return [make(feed()), make(drain(process.stdout, streams.out)), make(drain(process.stderr, streams.err))]

    def _terminal(self, streams: Streams, master: int, slave: int) -> list[asyncio.Task[None]]:
        loop = asyncio.get_running_loop()
        os.close(slave)

        async def feed() -> None:
            while data := await streams.read():
                os.write(master, data)

        async def size() -> None:
            while True:
                width, height = await streams.resized()
                self.sizes.append((width, height))
                fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

        def read() -> bytes:
            try:
                return os.read(master, 65536)
            except OSError:
                return b""

        async def drain() -> None:
            while data := await loop.run_in_executor(None, read):
                await streams.out(data)

        tasks = [loop.create_task(feed()), loop.create_task(drain())]
        sizes = loop.create_task(size())
        tasks[1].add_done_callback(lambda _: sizes.cancel())
        return tasks

    async def attach(self, pod: Object, container: str, streams: Streams) -> int:
        """The container's process is `cat`."""
        return await self.run(pod, container, ["cat"], streams)

    async def forward(self, pod: Object, port: int) -> tuple[StreamReader, StreamWriter]:
        """A port of this machine."""
        if port not in self.ports:
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_connection("127.0.0.1", self.ports[port])

    async def proxy(self, request: Request, path: str) -> Response:
        """Tells what was asked."""
        self.proxied.append((request.method, path, dict(request.headers)))
        return Response(200, b"kubelet " + path.encode(), "text/plain")


class OneNode:
    """The node `n1`."""

    def __init__(self, node: LocalNode) -> None:
        self.node = node

    def of(self, name: str) -> LocalNode | None:
        """The node, by its name."""
        return self.node if name == "n1" else None


def running(container: str) -> Object:
    """A status of a container that runs."""
    return {
        "name": container,
        "image": "x",
        "imageID": "x",
        "ready": True,
        "restartCount": 0,
        "containerID": "t://1",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }


class Cluster:
    """A server that listens, on a loop in a thread of its own, so that clients may block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.complaints: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Cluster:
        self._thread.start()
        self.do(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Any) -> Any:
        """Runs a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _begin(self) -> None:
        settings = Settings(store="memory", port=0, data=self.folder / "data")
        self.server = await ApiServer.start(settings, complain=self.complaints.append, seed=1)
        self.server.write_kubeconfig(self.kubeconfig)
        self.node = LocalNode()
        self.server.nodes = OneNode(self.node)
        account = {"metadata": {"name": "default"}}
        await self.server.local.call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        for name in ("n1", "n2"):
            await self.server.local.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})

    async def _end(self) -> None:
        await self.server.stop()
        await asyncio.get_running_loop().shutdown_default_executor()

    async def pod(self, name: str, containers: Sequence[str] = ("c",), node: str = "n1", **status: Any) -> Object:
        """Creates a pod on a node, with a status."""
        spec: Object = {"containers": [{"name": c, "image": "example.com/x:1"} for c in containers]}
        if node:
            spec["nodeName"] = node
        body: Object = {"metadata": {"name": name}, "spec": spec}
        made = await self.server.local.call("POST", "/api/v1/namespaces/default/pods", body)
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
        told = {"phase": "Running", "conditions": conditions, "containerStatuses": [running(c) for c in containers]}
        made["status"] = {**made.get("status", {}), **told, **status}
        return await self.server.local.call("PUT", f"/api/v1/namespaces/default/pods/{name}/status", made)

    def kubectl(
        self, *arguments: str, stdin: bytes = b"", program: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a kubectl to its end."""
        command = [str(program or KUBECTLS[-1]), "--kubeconfig", str(self.kubeconfig), *arguments]
        home = {**os.environ, "HOME": str(self.folder)}
        return subprocess.run(command, input=stdin, capture_output=True, timeout=60, env=home, check=False)


def kubectls() -> list[Path]:
    """Those that are there: in `.dashpot/tools`, or the one of the wheel."""
    tools = Path(__file__).parents[2] / ".dashpot" / "tools"
    found = sorted(tools.glob("kubectl-*"))
    wheel = Path(sys.prefix) / "bin" / "kubectl"
    return found or ([wheel] if wheel.exists() else [])


KUBECTLS = kubectls()
