"""Real etcd servers for tests: one, or a cluster, on free ports of this machine."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from attrs import define, field

from dashpot.runtime.store.base import StoreError
from dashpot.runtime.store.etcd import EtcdStore


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@define(eq=False)
class Server:
    """One etcd process. `peers` are what members call each other, which may lead through forwarders."""

    program: str
    folder: Path
    name: str = "m0"
    port: int = 0
    peer_port: int = 0
    peers: dict[str, int] = field(factory=dict)
    more: Sequence[str] = ()
    scheme: str = "http"
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if not self.port:
            self.port, self.peer_port = free_ports(2)
        peers = self.peers or {self.name: self.peer_port}
        client = f"{self.scheme}://127.0.0.1:{self.port}"
        words = [
            self.program, "--name", self.name, "--data-dir", str(self.folder / self.name),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", f"http://127.0.0.1:{self.peer_port}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peers[self.name]}",
            "--initial-cluster", ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in peers.items()),
            "--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap", *self.more,
        ]  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


async def connected(
    endpoints: Sequence[str], *, within: float = 20, quota: int = 2 << 30, options: Mapping[str, str] | None = None
) -> EtcdStore:
    """A store on servers that may still be starting."""
    async with asyncio.timeout(within):
        while True:
            try:
                return await EtcdStore.open(endpoints, options or {}, quota=quota)
            except StoreError:
                await asyncio.sleep(0.05)


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
