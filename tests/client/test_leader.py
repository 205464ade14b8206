"""Leader election: never two at once, under lost, late and refused requests, clocks that differ, and slow ends."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.leader import LEASES, Elector, Leadership, Terms
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import Answer, Call, Transport, TransportError
from dashpot.runtime.clock import LoopClock
from dashpot.runtime.loop import EPOCH
from tests.client.serving import on_server


class Lossy:
    """A network that delays requests and answers, loses either, and is cut for a while now and then."""

    def __init__(self, inner: Transport, chance: random.Random, slow_s: float, loss: float) -> None:
        self.inner = inner
        self.chance = chance
        self.slow_s = slow_s
        self.loss = loss
        self.cut_until = 0.0

    async def _way(self) -> None:
        loop = asyncio.get_running_loop()
        if self.chance.random() < self.loss / 10:
            self.cut_until = loop.time() + self.chance.uniform(5, 40)
        await asyncio.sleep(self.chance.random() ** 4 * self.slow_s)
        if loop.time() < self.cut_until or self.chance.random() < self.loss:
            await asyncio.sleep(3)
            raise TransportError("lost")

    async def send(self, call: Call) -> Answer:
        await self._way()
        # what has been sent arrives, whether or not its sender still waits
        answer = await asyncio.shield(asyncio.ensure_future(self.inner.send(call)))
        await self._way()
        return answer

    async def close(self) -> None:
        return


class Stage:
    """Where candidates lead, and how many at once."""

    def __init__(self, slow_end_s: float = 0.0) -> None:
        self.leading: list[str] = []
        self.reigns: list[tuple[str, int]] = []
        self.worst = 0
        self.slow_end_s = slow_end_s

    async def reign(self, identity: str, leadership: Leadership, seconds: float) -> None:
        self.leading.append(identity)
        self.reigns.append((identity, leadership.token))
        self.worst = max(self.worst, len(self.leading))
        try:
            await asyncio.sleep(seconds)
        finally:
            try:
                await asyncio.sleep(self.slow_end_s)
            finally:
                self.leading.remove(identity)


async def compete(
    stage: Stage, client: Client, identity: str, seed: int, slow_s: float, loss: float, skew_s: float
) -> None:
    """One candidate, for ever."""
    chance = random.Random(f"{seed}/{identity}")
    network = Lossy(client.transport, chance, slow_s, loss)

    async def lead(leadership: Leadership) -> None:
        await stage.reign(identity, leadership, chance.uniform(10, 200))

    while True:
        elector = Elector(
            Client(network, retries=0), "l", "default", identity, lead, LoopClock(EPOCH + skew_s), chance=chance
        )
        await elector.run()


@settings(max_examples=8)
@given(
    seed=st.integers(0, 1000),
    slow_s=st.sampled_from([0.0, 1.0, 20.0]),
    loss=st.sampled_from([0.0, 0.02, 0.2]),
)
def test_never_two_at_once(seed: int, slow_s: float, loss: float) -> None:
    async def main(_: ApiServer, client: Client) -> None:
        stage = Stage(slow_end_s=4.5)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(compete(stage, client, name, seed, slow_s, loss, skew))
                for name, skew in (("a", 0), ("b", 5000), ("c", -5000))
            ]
            await asyncio.sleep(1500)
            for task in tasks:
                task.cancel()
        assert stage.worst == 1 and len(stage.reigns) >= 3
        tokens = [token for _, token in stage.reigns]
        assert tokens == sorted(set(tokens)), "each reign has a higher token than the one before"

    on_server(main, seed=seed)


def test_the_lease_of_one_who_stays_silent_is_over_after_its_duration() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        clock, loop = LoopClock(EPOCH), asyncio.get_running_loop()
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
        await client.create(LEASES, {"metadata": {"name": "l"}, "spec": spec})
        told: list[str] = []

        async def lead(leadership: Leadership) -> float:
            return loop.time()

        elector = Elector(client, "l", "default", "me", lead, clock, observed=told.append)
        begun = loop.time()
        await elector.run()
        # its renewTime is years old, yet whose clock is right nobody knows: 15 s without a change are what counts
        assert 15 <= loop.time() - begun < 20
        assert told == ["gone", "me", ""]
        lease = await client.get(LEASES, "l")
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("", 1)

    on_server(main)


def test_a_lease_that_is_given_back_is_taken_soon_and_one_that_is_not_later() -> None:
    async def handover(client: Client, release: bool) -> float:
        loop = asyncio.get_running_loop()
        began: dict[str, float] = {}

        def candidate(identity: str) -> Elector:
            async def lead(_: Leadership) -> None:
                began[identity] = loop.time()
                await asyncio.sleep(30 if identity == "a" else 0)

            return Elector(client, f"l-{release}".lower(), "default", identity, lead, LoopClock(EPOCH), release=release)

        first = asyncio.create_task(candidate("a").run())
        await asyncio.sleep(1)
        await asyncio.gather(first, candidate("b").run())
        return began["b"] - began["a"] - 30

    async def main(_: ApiServer, client: Client) -> None:
        assert await handover(client, True) < 5
        assert 13 <= await handover(client, False) < 21

    on_server(main)


def test_a_leader_stops_in_time_when_it_is_cut_off() -> None:
    class Cut:
        def __init__(self, inner: Transport) -> None:
            self.inner = inner
            self.hangs = False

        async def send(self, call: Call) -> Answer:
            if self.hangs:
                await asyncio.sleep(10_000)
            return await self.inner.send(call)

        async def close(self) -> None:
            return

    async def main(_: ApiServer, client: Client) -> None:
        loop = asyncio.get_running_loop()
        network = Cut(client.transport)
        ended: list[float] = []
        held: list[Leadership] = []

        async def lead(leadership: Leadership) -> None:
            held.append(leadership)
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(loop.time())

        elector = Elector(Client(network), "l", "default", "a", lead, LoopClock(EPOCH))
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(61)
        assert elector.leads and held[0].valid
        network.hangs = True
        cut = loop.time()
        await task
        assert ended[0] - cut <= 10.001 and not elector.leads and not held[0].valid

    on_server(main)


def test_a_leader_whose_lease_another_has_taken_stops_at_once() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        loop = asyncio.get_running_loop()

        async def lead(_: Leadership) -> None:
            await asyncio.sleep(1000)

        task = asyncio.create_task(Elector(client, "l", "default", "a", lead, LoopClock(EPOCH)).run())
        await asyncio.sleep(10)
        await client.patch(LEASES, "l", {"spec": {"holderIdentity": "thief"}})
        stolen = loop.time()
        await task
        assert loop.time() - stolen <= 2.01

    on_server(main)


def test_what_the_leader_raises_is_raised_and_the_lease_is_free() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        async def lead(_: Leadership) -> None:
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await Elector(client, "l", "default", "a", lead, LoopClock(EPOCH)).run()
        assert (await client.get(LEASES, "l"))["spec"]["holderIdentity"] == ""

    on_server(main)


def test_a_refusal_is_told() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        told: list[str] = []

        async def lead(_: Leadership) -> None:
            raise AssertionError

        elector = Elector(client, "l", "no-such-namespace", "a", lead, LoopClock(EPOCH), complain=told.append)
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert told[0].endswith('namespaces "no-such-namespace" not found')
        with pytest.raises(StatusError):
            await client.get(LEASES, "l", "no-such-namespace")

    on_server(main)


@pytest.mark.parametrize("terms", [(10, 10, 2), (15, 2, 2), (15.5, 10, 2)])
def test_terms_that_are_not_safe(terms: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError):
        Terms(*terms)
