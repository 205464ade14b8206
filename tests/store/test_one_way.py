"""The way between a store and its etcd, cut in one direction: nothing is acknowledged, nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.store.cluster import Cluster, Forwarder, Net
from tests.store.servers import Server, connected, free_ports

from dashpot.runtime.store import etcd_link
from dashpot.runtime.store.base import Put, Unavailable
from dashpot.runtime.store.etcd import EtcdStore

PULSE_MS = 200
QUIET_S = 4.0
"""Longer than three pulses (gRPC sends one a second at the most): it sends two without data, unless told otherwise."""


@pytest.fixture(autouse=True)
def fast_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead connection is noticed after half a second instead of 13."""
    quick = {
        "grpc.keepalive_time_ms": PULSE_MS,
        "grpc.keepalive_timeout_ms": PULSE_MS,
        "grpc.http2.ping_timeout_ms": PULSE_MS,
    }
    options = [(name, quick.get(name, value)) for name, value in etcd_link._OPTIONS]
    monkeypatch.setattr(etcd_link, "_OPTIONS", options)


@asynccontextmanager
async def behind_a_door(program: str, folder: Path) -> AsyncIterator[tuple[Cluster, EtcdStore, EtcdStore]]:
    """One member, a store that reaches it through a forwarder (client `a`), and one that reaches it directly."""
    server = Server(program, folder, more=("--grpc-keepalive-min-time=10ms",))
    server.start()
    made = Cluster([server], [], Net())
    try:
        direct = await connected([server.endpoint])
        store = await connected(await made.doors("a"), options={"timeout": "1"})
        try:
            yield made, store, direct
        finally:
            made.heal()
            await store.close()
            await direct.close()
    finally:
        for forwarder in made.forwarders:
            await forwarder.stop()
        server.stop()


@pytest.mark.parametrize("deaf", [True, False])
def test_a_watch_and_writes(etcd_program: str, tmp_path: Path, deaf: bool) -> None:
    """A pulse without an answer ends the watch, whichever way it was lost: its reader goes on from what it has."""

    async def main() -> None:
        async with behind_a_door(etcd_program, tmp_path) as (made, store, direct), asyncio.timeout(30):
            first = await store.put(Put("/a", b"1"))
            told = asyncio.Event()

            async def watch() -> None:
                async for _ in store.watch("/", first.revision):
                    told.set()

            watching = asyncio.create_task(watch())
            await direct.put(Put("/a", b"2"))
            await told.wait()
            await asyncio.sleep(QUIET_S)  # nothing is sent meanwhile, as in a quiet night
            (made.hold_answers if deaf else made.hold_requests)("a")
            with pytest.raises(Unavailable):
                await watching
            with pytest.raises(Unavailable) as refused:
                await store.put(Put("/a", b"3", expect=first.revision + 1))
            assert refused.value.client.startswith("etcdserver: ")
            made.heal()
            entry = await direct.get("/a")
            assert entry is not None and entry.value in (b"2", b"3"), "it may have been done: nobody knows"
            while True:
                try:
                    assert (await store.put(Put("/c", b"5"))).ok
                    break
                except Unavailable:
                    await asyncio.sleep(0.05)

    asyncio.run(main())


def test_a_write_without_an_answer_may_have_been_done(etcd_program: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with behind_a_door(etcd_program, tmp_path) as (made, store, direct), asyncio.timeout(30):
            await store.put(Put("/a", b"1"))
            made.hold_answers("a")
            with pytest.raises(Unavailable) as refused:
                await store.put(Put("/a", b"2"))
            assert refused.value.maybe and refused.value.client == etcd_link.TIMED_OUT
            entry = await direct.get("/a")
            assert entry is not None and entry.value == b"2", "it was heard"

    asyncio.run(main())


def test_doors_are_cut_for_one_client_alone() -> None:
    net = Net()
    made = Cluster([Server("etcd", Path(), name) for name in ("m0", "m1", "m2")], [], net)
    made.split(["m0", "a"], ["m1", "m2", "b"])
    assert ("a", "m1") in net.cut and ("m2", "a") in net.cut and ("m0", "b") in net.cut
    assert not {("a", "m0"), ("m0", "a"), ("b", "m1"), ("m1", "m2")} & net.cut
    made.hold_answers("a")
    assert net.cut == {("m0", "a"), ("m1", "a"), ("m2", "a")}
    made.hold_requests("a")
    assert net.cut == {("a", "m0"), ("a", "m1"), ("a", "m2")}
    assert Forwarder(net, "m0", 1, free_ports(1)[0], "a").client == "a"
