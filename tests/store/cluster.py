"""A cluster of etcd members whose messages to each other pass through forwarders, where they can be held back.

Members name themselves in the head of what they send each other (X-Server-From), so one forwarder before each member
is enough to hold back each direction between each two of them. A client that is to be cut off has forwarders of its own
(`doors`), one before each member, and a name as members have one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from attrs import define, field
from tests.store.servers import Server, connected, free_ports

from dashpot.runtime.store import etcd_messages as m
from dashpot.runtime.store.etcd import EtcdStore

FROM = re.compile(rb"X-Server-From: ([0-9a-f]+)\r\n")


@define(eq=False)
class Net:
    """Which messages do not get through: pairs of names, sender and receiver. `names` is by number of the member."""

    cut: set[tuple[str, str]] = field(factory=set)
    names: dict[str, str] = field(factory=dict)
    changed: asyncio.Event = field(factory=asyncio.Event)

    def set(self, cut: Iterable[tuple[str, str]]) -> None:
        self.cut = set(cut)
        self.changed.set()
        self.changed = asyncio.Event()

    async def passes(self, sender: str, receiver: str) -> None:
        """Waits until the way is open."""
        while (sender, receiver) in self.cut:
            await self.changed.wait()


@define(eq=False)
class Forwarder:
    """Stands before the peer port of one member; or, for one client, before the port that serves clients."""

    net: Net
    member: str
    target: int
    port: int
    client: str = ""
    server: asyncio.Server | None = None
    tasks: set[asyncio.Task[None]] = field(factory=set)

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # it may be cancelled before it begins

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        peer = [self.client]
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, outer, peer, inwards=True))
                both.create_task(self._pump(inner, writer, peer, inwards=False))
        except* OSError:
            pass
        finally:
            outer.close()
            writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: list[str], inwards: bool
    ) -> None:
        while data := await reader.read(1 << 16):
            if inwards and not peer[0] and (found := FROM.search(data)):
                peer[0] = found[1].decode()
            other = self.client or self.net.names.get(peer[0], "")
            await self.net.passes(*((other, self.member) if inwards else (self.member, other)))
            writer.write(data)
            await writer.drain()
        writer.close()


@define(eq=False)
class Cluster:
    """The members and what lies between them."""

    servers: list[Server]
    forwarders: list[Forwarder]
    net: Net

    @property
    def names(self) -> list[str]:
        return [server.name for server in self.servers]

    @property
    def endpoints(self) -> list[str]:
        return [server.endpoint for server in self.servers]

    def isolate(self, names: Iterable[str]) -> None:
        """Each of these is alone."""
        alone = set(names)
        self.net.set((a, b) for a in self.names for b in self.names if a != b and (a in alone or b in alone))

    def deafen(self, name: str) -> None:
        """This one hears nobody, but is heard."""
        self.net.set((other, name) for other in self.names if other != name)

    def silence(self, name: str) -> None:
        """This one is heard by nobody, but hears."""
        self.net.set((name, other) for other in self.names if other != name)

    def split(self, *groups: Iterable[str]) -> None:
        """Members and clients of different groups neither hear each other nor are heard."""
        sides = [set(group) for group in groups]
        self.net.set((a, b) for one in sides for other in sides if one is not other for a in one for b in other)

    def hold_requests(self, client: str) -> None:
        """No member hears the client; what members say gets through."""
        self.net.set((client, name) for name in self.names)

    def hold_answers(self, client: str) -> None:
        """All members hear the client, which hears none."""
        self.net.set((name, client) for name in self.names)

    async def doors(self, client: str) -> list[str]:
        """Endpoints for one client, each leading to one member through a forwarder."""
        endpoints = []
        for server, port in zip(self.servers, free_ports(len(self.servers)), strict=True):
            forwarder = Forwarder(self.net, server.name, server.port, port, client)
            await forwarder.start()
            self.forwarders.append(forwarder)
            endpoints.append(f"127.0.0.1:{port}")
        return endpoints

    def heal(self) -> None:
        self.net.set(())

    async def leader(self) -> str:
        """The name of the member that leads, as the others have it."""
        store = await self.open()
        try:
            status = await store._link.call("Status", m.StatusRequest())
            return self.net.names[f"{status.leader:x}"]
        finally:
            await store.close()

    async def open(self) -> EtcdStore:
        return await connected(self.endpoints, options={"timeout": "1.5"})


@asynccontextmanager
async def cluster(program: str, folder: Path, size: int) -> AsyncIterator[Cluster]:
    """A running cluster."""
    net = Net()
    ports = free_ports(3 * size)
    names = [f"m{number}" for number in range(size)]
    peers = dict(zip(names, ports[:size], strict=True))
    servers = [
        Server(program, folder, name, ports[size + i], ports[2 * size + i], peers) for i, name in enumerate(names)
    ]
    forwarders = [Forwarder(net, s.name, s.peer_port, peers[s.name]) for s in servers]
    made = Cluster(servers, forwarders, net)
    try:
        for forwarder in forwarders:
            await forwarder.start()
        for server in servers:
            server.start()
        store = await made.open()
        members = await store._link.call("MemberList", m.MemberListRequest())
        net.names.update({f"{member.ID:x}": member.name for member in members.members})
        await store.close()
        yield made
    finally:
        for forwarder in forwarders:
            await forwarder.stop()
        for server in servers:
            server.stop()
