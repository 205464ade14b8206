"""Clusters of etcd that fall in two, with an API server on each side; and servers that etcd does not hear, or does not
reach. Where no majority answers nothing is acknowledged and watches end; on the other side all goes on; and when the
parts are together again nothing is lost, nothing happened twice, and the history is one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from attrs import define, field
from tests.clients.running import Running
from tests.histories.clients import LOST, Client, context_of, run
from tests.histories.kit import expect_sound, told
from tests.histories.record import DONE, Write
from tests.histories.traffic import Traffic
from tests.store.cluster import Cluster, cluster

SEED = int(os.environ.get("DASHPOT_SEED", "1"))
SECRETS = "/api/v1/namespaces/default/secrets"
WITHIN_S = 40.0
"""For something to happen: a dead connection is noticed after 13 s, and a watch cache tries every five."""


@define(eq=False)
class Scene:
    """Two API servers, each with doors of its own to all members: `a` and `b`; traffic at both."""

    members: Cluster
    traffic: Traffic
    urls: dict[str, str]
    clients: dict[str, Client]
    log: list[str] = field(factory=list)

    async def until(self, what: str, test: Callable[[], bool]) -> None:
        """Waits for something to happen."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while not test():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never: {what}; before: {'; '.join(self.log)}") from None

    def done(self, side: str, since: float) -> int:
        """Writes that were acknowledged by a server, of those that began after a moment."""
        url = self.urls[side]
        return sum(write.began >= since and write.outcome == DONE for write in self._late(since) if write.at == url)

    def failed(self, side: str, since: float) -> int:
        """Writes that a server answered with a failure, of those that began after a moment and before others."""
        url = self.urls[side]
        return sum(write.began >= since and write.outcome != DONE for write in self._late(since) if write.at == url)

    def _late(self, since: float) -> Iterator[Write]:
        """The newest writes: they are recorded in the order in which they begin, or nearly so."""
        for write in reversed(self.traffic.record.writes):
            if write.began < since - 60:
                return
            yield write

    def ended(self, side: str, since: float) -> bool:
        """Whether each of the watches that stay open at a server has ended since."""
        url = self.urls[side]
        again = {
            watch.name.partition(",")[0]
            for watch in reversed(self.traffic.record.watches)
            if watch.began >= since and watch.at == url and ", on from " in watch.name
        }
        kept = {
            watch.name.partition(",")[0]
            for watch in self.traffic.record.watches
            if watch.at == url and watch.name.endswith(", kept")
        }
        return again >= kept

    async def ready(self, side: str) -> bool:
        """What /readyz of a server says."""
        try:
            return (await self.clients[side].ask("GET", "/readyz"))[0] == 200
        except LOST:
            return False

    async def lost(self, side: str, other: str = "") -> None:
        """One server has no majority: nothing is acknowledged, watches end, clients are told so; the other goes on."""
        cut = time.monotonic()
        await self.until(f"{side} refuses", lambda: self.failed(side, cut) >= 3)
        if other:
            await self.until(f"{other} goes on", lambda: self.done(other, cut) >= 30)
        await self.until(f"watches at {side} end", lambda: self.ended(side, cut))
        assert not await self.ready(side)
        code, answer = await self.clients[side].ask("POST", SECRETS, {"metadata": {"name": f"lost{cut}"}})
        assert code in (500, 504) and answer["kind"] == "Status", answer
        if code == 500:
            assert answer["message"].startswith("etcdserver: "), answer
        assert self.done(side, cut) == 0, "a write was acknowledged without a majority"

    async def together(self, what: str) -> None:
        """All hear each other: writes go on at both, and the watches come to the newest write."""
        self.members.heal()
        healed = time.monotonic()
        for side in self.urls:
            await self.until(f"{side} writes again after {what}", lambda side=side: self.done(side, healed) >= 10)  # type: ignore[misc]
        newest = max(
            int(write.answer["metadata"]["resourceVersion"])
            for write in self._late(healed)
            if write.outcome == DONE and write.verb != "delete"
        )
        await self.until(
            f"watches come to {newest} after {what}",
            lambda: all(
                watch.last >= newest
                for watch in self.traffic._following.values()
                if not (watch.namespace or watch.label)
            ),
        )
        self.log.append(what)


@asynccontextmanager
async def staged(program: str, folder: Path, size: int, seed: int) -> AsyncIterator[Scene]:
    """Two servers and traffic; afterwards all that was seen is judged, against what etcd itself tells."""
    async with cluster(program, folder / "etcd", size) as members:
        servers: dict[str, Running] = {}
        leading = members.names.index(await members.leader())
        for name in ("a", "b"):
            ways = await members.doors(name)
            # a server talks to the first that answers: `a` to the one that leads, `b` to another
            ahead = [ways.pop(leading)]
            doors = ",".join(ahead + ways if name == "a" else ways + ahead)
            way_in = folder / f"kubeconfig-{name}"
            server = Running(folder / "data", "--store", f"etcd://{doors}?timeout=1.5", "--kubeconfig", str(way_in))
            servers[name] = server
            await asyncio.to_thread(server.wait)
            server.kubeconfig = way_in
        clients = {name: Client(server.url, context_of(server.kubeconfig)) for name, server in servers.items()}
        traffic = Traffic(list(clients.values()), seed)
        scene = Scene(members, traffic, {name: server.url for name, server in servers.items()}, clients)
        work: asyncio.Task[None] | None = None
        try:
            await traffic.prepare()
            for client in clients.values():
                for namespace, label in (("", ""), ("a", "x")):
                    traffic.keep(client, namespace, label)
            work = asyncio.create_task(traffic.run(3600, writers=4, watchers=2))
            await scene.until("writes at the start", lambda: all(scene.done(name, 0) >= 10 for name in servers))
            yield scene
            traffic.quiet = True
            await work
            traffic.quiet = False
            await traffic.settle(clients["a"], 30)
        finally:
            members.heal()
            traffic.quiet = True
            if work is not None:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            await traffic.finish()
            for client in clients.values():
                await client.close()
            for server in servers.values():
                said = server.errors()
                status = await asyncio.to_thread(server.stop)
                assert "mistake" not in said, said
                assert status == 0, said
        store = await members.open()
        print(expect_sound(traffic.record, seed, await told(store)))
        await store.close()


async def fall_in_two(scene: Scene, few: list[str]) -> None:
    """The smaller part of the members with server `a`, the larger one with `b`."""
    many = [name for name in scene.members.names if name not in few]
    scene.members.split([*few, "a"], [*many, "b"])
    await scene.lost("a", "b")
    await scene.together(f"{'+'.join(few)} | {'+'.join(many)}")


async def all_apart(scene: Scene) -> None:
    """No two members hear each other: no majority for anybody."""
    scene.members.isolate(scene.members.names)
    await asyncio.gather(scene.lost("a"), scene.lost("b"))
    await scene.together("all apart")


async def one_way(scene: Scene, deaf: bool) -> None:
    """Server `a` is heard by all members and hears none; or the reverse."""
    (scene.members.hold_answers if deaf else scene.members.hold_requests)("a")
    await scene.lost("a", "b")
    await scene.together("a is deaf" if deaf else "a is not heard")


def test_three_members_fall_in_two(etcd_program: str, tmp_path: Path) -> None:
    """The one that leads is cut off, with a server that has its clients."""

    async def main() -> None:
        async with staged(etcd_program, tmp_path, 3, SEED) as scene:
            await fall_in_two(scene, [await scene.members.leader()])

    run(main())


@pytest.mark.soak
@pytest.mark.parametrize(("size", "seed"), [(3, 500), (5, 501)])
def test_many_splits(etcd_program: str, tmp_path: Path, size: int, seed: int) -> None:
    """Ten rounds: the clusters fall 1|2 or 2|3, at times all apart, and the way to one server is cut one way."""

    async def main() -> None:
        random = Random(seed)
        async with staged(etcd_program, tmp_path, size, seed) as scene:
            for number in range(10):
                few = random.sample(scene.members.names, size // 2)
                if number % 2 and (leader := await scene.members.leader()) not in few:
                    few[0] = leader
                await fall_in_two(scene, few)
                await (all_apart(scene) if number % 3 == 2 else one_way(scene, number % 3 == 0))
            print(f"size {size}, seed {seed}: {'; '.join(scene.log)}")

    run(main())
