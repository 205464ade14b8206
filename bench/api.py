"""What the API server costs: CPU of the server process alone, with TLS, all gates, Metadata audit and durable writes.

    python bench/api.py [--quick] [--case NAME]

The server is `dashpot up --api-only` in a process of its own; this process is the load: 200 connections, each with one
request in flight. CPU is utime + stime of the server from /proc, so that a busy machine changes little. Each line names
its limit; the exit status is 1 where one is missed. etcd, where it is installed, is measured beside it: the same
values, put with the same number in flight, its own CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

IN_FLIGHT = 200
Object = dict[str, Any]


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Bytes of resident memory."""
    line = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def descriptors(pid: int) -> int:
    """Open files and sockets."""
    return len(os.listdir(f"/proc/{pid}/fd"))


class Connection:
    """One keep-alive HTTP/1.1 connection over TLS, no more of it than the load needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def call(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, bytes]:
        """One request, one answer with Content-Length."""
        head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench/1\r\n{headers}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(re.search(rb"content-length: (\d+)", answer)[1])  # type: ignore[index]
        return int(answer[9:12]), await self.reader.readexactly(length)


class Server:
    """A server under load."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "dashpot", "up", "--api-only", "--port", "0"]
        command += ["--data", str(folder / "data"), "--audit-log", str(folder / "audit.log")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if not first.startswith("API server at "):
            sys.exit("bench: the server did not start")
        self.port = int(first.split()[3].rpartition(":")[2])
        self.process.stdout.readline()
        self.context = self._context()

    def _context(self) -> ssl.SSLContext:
        config = yaml.safe_load((self.folder / "data" / "kubeconfig").read_text())
        user = config["users"][0]["user"]
        context = ssl.create_default_context(
            cadata=base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        )
        pair = self.folder / "client.pem"
        parts = [base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")]
        pair.write_bytes(b"".join(parts))
        context.load_cert_chain(pair)
        return context

    async def connect(self) -> Connection:
        """A new connection with the administrator's certificate."""
        streams = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname="127.0.0.1", limit=1 << 26
        )
        return Connection(*streams)

    async def connections(self, count: int) -> list[Connection]:
        """Many, twenty at a time."""
        found: list[Connection] = []
        while len(found) < count:
            found += await asyncio.gather(*(self.connect() for _ in range(min(20, count - len(found)))))
        return found

    def stop(self) -> None:
        """Ends it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def config_map(name: str, size: int, turn: int = 0) -> bytes:
    """A ConfigMap whose JSON has about `size` bytes."""
    obj: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "bench"}}}
    obj["data"] = {"turn": f"{turn:06d}", "text": ""}
    obj["data"]["text"] = "x" * (size - len(msgspec.json.encode(obj)))
    return msgspec.json.encode(obj)


def pod(name: str, size: int) -> bytes:
    """A Pod as people write them, its JSON about `size` bytes: three containers, variables, mounts, probes."""
    containers: list[Object] = []
    for letter in "abc":
        containers.append(
            {
                "name": letter,
                "image": f"registry.example.com/team/{letter}:1.2.3",
                "args": ["--verbose", "--port=8080"],
                "ports": [{"name": f"http-{letter}", "containerPort": 8080}],
                "env": [{"name": f"SETTING_{i}", "value": ""} for i in range(8)],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "volumeMounts": [{"name": "data", "mountPath": f"/data/{letter}"}],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
            }
        )
    obj: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "web"}},
        "spec": {"containers": containers, "volumes": [{"name": "data", "emptyDir": {}}]},
    }
    variables = [variable for container in containers for variable in container["env"]]
    room = max(size - len(msgspec.json.encode(obj)), 0)
    for variable in variables:
        variable["value"] = "v" * (room // len(variables))
    return msgspec.json.encode(obj)


class Bench:
    """The cases, and what came out."""

    def __init__(self, server: Server, quick: bool) -> None:
        self.server = server
        self.pid = server.process.pid
        self.quick = quick
        self.missed = 0

    def tell(self, case: str, figure: float, unit: str, limit: float | None, more: str, *, least: bool = True) -> None:
        """One line a case."""
        verdict = ""
        if limit is not None:
            ok = figure >= limit if least else figure <= limit
            self.missed += not ok
            verdict = f"  {'>=' if least else '<='} {limit:g} {'ok' if ok else 'MISSED'} ({figure / limit:.2f} of it)"
        print(f"{case:24} {figure:12,.1f} {unit}{verdict}  {more}", flush=True)

    async def load(self, bodies: list[bytes], path: Callable[[int], str], method: str = "POST") -> float:
        """Sends all bodies with 200 in flight; CPU seconds of the server."""
        connections = await self.server.connections(IN_FLIGHT)
        left = iter(enumerate(bodies))
        before = cpu_s(self.pid)

        async def work(connection: Connection) -> None:
            for index, body in left:
                code, answer = await connection.call(method, path(index), body)
                if code not in (200, 201):
                    sys.exit(f"bench: {method} {path(index)} answered {code}: {answer[:300]!r}")

        await asyncio.gather(*map(work, connections))
        used = cpu_s(self.pid) - before
        for connection in connections:
            connection.writer.close()
        return used

    async def creates(self, case: str, make: Callable[[str, int], bytes], size: int, plural: str, limit: float) -> None:
        """Durable creates a CPU second."""
        count = 1000 if self.quick else 10_000
        bodies = [make(f"{case.split()[1].lower()}-{index}", size) for index in range(count)]
        used = await self.load(bodies, lambda _: f"/api/v1/namespaces/bench/{plural}")
        self.tell(case, count / used, "creates/CPU s", limit, f"{count} of {len(bodies[0])} bytes, {used:.2f} CPU s")

    async def lists(self) -> None:
        """One list of all pods, identity encoding, from the watch cache."""
        connection = await self.server.connect()
        await connection.call("GET", "/api/v1/pods")
        best, size, count = 1e9, 0, 0
        for _ in range(5):
            before = cpu_s(self.pid)
            code, body = await connection.call("GET", "/api/v1/pods", headers="Accept: application/json\r\n")
            best, size = min(best, cpu_s(self.pid) - before), len(body)
            count = body.count(b'"uid":')
            assert code == 200
        scale = 10_000 / max(count, 1)
        self.tell(
            "list of 10,000 pods", best * 1000 * scale, "ms CPU", 150, f"{count} pods, {size:,} bytes", least=False
        )
        connection.writer.close()

    async def watches(self) -> None:
        """Deliveries a CPU second: every watcher must see every update, in order."""
        watchers, updates, bursts = (100, 200, 2) if self.quick else (1000, 200, 5)
        names = [f"w-{index}" for index in range(updates)]
        await self.load([config_map(name, 1000) for name in names], lambda _: "/api/v1/namespaces/watched/configmaps")
        while descriptors(self.pid) > IN_FLIGHT // 2:
            await asyncio.sleep(0.05)  # the connections of the load are still being closed
        alone = memory(self.pid), descriptors(self.pid)
        connections = await self.server.connections(watchers)
        path = "/api/v1/namespaces/watched/configmaps?watch=1&resourceVersion={}"
        _, body = await connections[0].call("GET", "/api/v1/namespaces/watched/configmaps?limit=1")
        version = msgspec.json.decode(body)["metadata"]["resourceVersion"]
        for connection in connections:
            request = f"GET {path.format(version)} HTTP/1.1\r\nHost: bench\r\n\r\n"
            connection.writer.write(request.encode())
            await connection.reader.readuntil(b"\r\n\r\n")
        each = (memory(self.pid) - alone[0]) / watchers
        opened = (descriptors(self.pid) - alone[1]) / watchers
        more = f"of memory with its TLS connection, {opened:.2f} descriptors; {watchers} watches"
        self.tell("idle watch", each, "bytes", None, more)
        tasks = [asyncio.create_task(follow(connection, updates * bursts)) for connection in connections]
        started = cpu_s(self.pid)
        for turn in range(bursts):
            bodies = [config_map(name, 1000, turn + 1) for name in names]
            await self.load(bodies, lambda i: f"/api/v1/namespaces/watched/configmaps/{names[i]}", "PUT")
        streams = await asyncio.gather(*tasks)
        # all that the server did meanwhile: the updates, their connections, the deliveries
        used = cpu_s(self.pid) - started
        assert all(stream == streams[0] for stream in streams), "two watchers saw different histories"
        count = watchers * updates * bursts
        self.tell(
            "watch deliveries", count / used, "/CPU s", 100_000, f"{count:,} deliveries verified, {used:.2f} CPU s"
        )
        for connection in connections:
            connection.writer.close()


async def follow(connection: Connection, count: int) -> list[int]:
    """Reads a watch until it has seen `count` events; their versions, which must rise."""
    versions: list[int] = []
    rest = b""
    while len(versions) < count:
        size = int((await connection.reader.readuntil(b"\r\n")).strip(), 16)
        rest += (await connection.reader.readexactly(size + 2))[:-2]
        whole, newline, rest = rest.rpartition(b"\n")
        versions += map(int, re.findall(rb'"resourceVersion":"(\d+)"', whole + newline))
    assert len(versions) == count and versions == sorted(set(versions)), "a watch lost, repeated or swapped events"
    return versions


async def patient(opened: Callable[[], Awaitable[Any]]) -> Any:
    """Waits for a server that is starting, twenty seconds at most."""
    from dashpot.runtime.store.base import Unavailable

    for _ in range(100):
        try:
            return await opened()
        except Unavailable:
            await asyncio.sleep(0.2)
    sys.exit("bench: etcd did not start")


async def etcd(quick: bool, folder: Path) -> None:
    """etcd alone: the same values, the same number in flight."""
    if shutil.which("etcd") is None:
        print("etcd                     not installed, nothing to compare with")
        return
    from dashpot.runtime.store.base import Put
    from dashpot.runtime.store.open import open_store

    port, peer = 23790, 23800
    command = ["etcd", "--data-dir", str(folder / "etcd"), "--log-level", "error"]
    command += [
        "--listen-client-urls",
        f"http://127.0.0.1:{port}",
        "--advertise-client-urls",
        f"http://127.0.0.1:{port}",
    ]
    command += ["--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls"]
    command += [f"http://127.0.0.1:{peer}", "--initial-cluster", f"default=http://127.0.0.1:{peer}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        store = await patient(lambda: open_store(f"etcd://127.0.0.1:{port}"))
        for size in (1000, 4700):
            count = 1000 if quick else 10_000
            left = iter(range(count))

            async def work(left: Any = left, size: int = size) -> None:
                for index in left:
                    await store.put(Put(f"/bench/{size}/{index}", b"x" * size, expect=0))

            before = cpu_s(process.pid)
            await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
            used = cpu_s(process.pid) - before
            print(
                f"etcd alone, {size} bytes    {count / used:12,.1f} puts/CPU s of etcd  {count} puts, {used:.2f} CPU s"
            )
        await store.close()
    finally:
        process.terminate()
        process.wait(30)


async def measured(server: Server, options: argparse.Namespace) -> int:
    """All cases that were asked for."""
    bench = Bench(server, options.quick)
    connection = await server.connect()
    for name in ("bench", "watched"):
        await connection.call("POST", "/api/v1/namespaces", msgspec.json.encode({"metadata": {"name": name}}))
        account = msgspec.json.encode({"metadata": {"name": "default"}})
        await connection.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
    cases: dict[str, Callable[[], Awaitable[None]]] = {
        "small": lambda: bench.creates("creates 1kB", config_map, 1000, "configmaps", 1500),
        "large": lambda: bench.creates("creates 4.7kB", pod, 4700, "pods", 800),
        "list": bench.lists,
        "watch": bench.watches,
        "etcd": lambda: etcd(options.quick, server.folder),
    }
    for name, case in cases.items():
        if options.case in (None, name):
            await case()
    return 1 if bench.missed else 0


def main() -> int:
    """Starts a server, measures, ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small figures, for a look")
    parser.add_argument("--case", choices=("small", "large", "list", "watch", "etcd"))
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dashpot-bench-") as folder:
        server = Server(Path(folder))
        try:
            status = asyncio.run(measured(server, options))
        finally:
            server.stop()
    print(f"{'':24} {time.monotonic() - started:.0f} s in all")
    return status


if __name__ == "__main__":
    sys.exit(main())
