"""The way to the API server: what is lost, late, stale or contended there, each fault alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from dashpot.model.objects.status import StatusError
from dashpot.model.span import Span
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import Answer, Call, Transport, TransportTimeout
from dashpot.runtime.loop import run_virtual, virtual_clock
from dashpot.runtime.sim.deed import DEED, Deed
from dashpot.runtime.sim.truth import Truth
from dashpot.runtime.sim.weather import Snare, Stale, Weather

PATH = "/api/v1/namespaces/default/configmaps"
HERE = Deed("C", "default/a", "update", "ConfigMap", "default/a", Span("c.loop", 3, 1, 3, 9))


class Scene:
    """A server, the weather before it, and a client behind that."""

    def __init__(self, server: ApiServer, truth: Truth) -> None:
        self.log: list[str] = []
        self.truth = truth
        self.weather = Weather(truth, asyncio.get_running_loop().time, self.log.append)
        self.weather.controllers = lambda part: True
        self.plain = Client(InProcess(server.local))
        self.way: Transport = self.weather.way("part", InProcess(server.local))
        self.client = Client(self.way, retries=0)

    async def make(self, name: str) -> dict[str, Any]:
        return await self.plain.create("configmaps", {"metadata": {"name": name}}, "default")

    async def mark(self, obj: dict[str, Any]) -> dict[str, Any]:
        """A write of the controller C."""
        token = DEED.set(HERE)
        try:
            return await self.client.update("configmaps", {**obj, "data": {"k": "v"}}, "default")
        finally:
            DEED.reset(token)

    async def data(self, name: str) -> Any:
        return (await self.plain.get("configmaps", name, "default")).get("data")

    async def watch(self, **query: str) -> Answer:
        asked = {"watch": "true", "allowWatchBookmarks": "true", **query}
        return await self.way.send(Call("GET", PATH, list(asked.items()), [("accept", "application/json")]))


def run(test: Callable[[Scene], Awaitable[None]]) -> None:
    """Runs a test before a server of its own, on virtual time."""

    async def main() -> None:
        server = await ApiServer.start(Settings(store="memory"), listen=False, seed=1, clock=virtual_clock())
        try:
            truth = Truth(asyncio.get_running_loop().time)
            for store in server.stores.all():
                await truth.join(store)
            await test(Scene(server, truth))
        finally:
            await server.stop()

    run_virtual(main(), seed=1)


@pytest.mark.parametrize(("what", "done"), [("lost_before", False), ("lost_after", True)])
def test_an_answer_is_lost_before_or_after_the_effect(what: str, done: bool) -> None:
    async def test(scene: Scene) -> None:
        made = await scene.make("a")
        scene.weather.snares.append(Snare(4, what, 0))
        with pytest.raises(TransportTimeout):
            await scene.mark(made)
        assert (await scene.data("a") == {"k": "v"}) == done
        assert scene.weather.counts("C") == {"timeout": 1}
        assert [one.item for one in scene.weather.fired] == [4]
        await scene.mark(await scene.plain.get("configmaps", "a", "default"))

    run(test)


def test_a_broken_server_answers_500_as_often_as_it_is_told() -> None:
    async def test(scene: Scene) -> None:
        made = await scene.make("a")
        scene.weather.snares.append(Snare(0, "broken", 1, 2))
        made = await scene.mark(made)  # the first one is let through
        for _ in range(2):
            with pytest.raises(StatusError) as error:
                await scene.mark(made)
            assert error.value.code == 500
        assert scene.weather.snares == []
        assert scene.weather.counts("C") == {}  # no check has such a fault: nothing is excused by it

    run(test)


def test_somebody_else_is_faster() -> None:
    async def test(scene: Scene) -> None:
        made = await scene.make("a")

        async def meddle(deed: Deed) -> None:
            assert deed == HERE
            await scene.plain.patch("configmaps", "a", {"metadata": {"labels": {"x": "y"}}}, "default")

        scene.weather.meddle = meddle
        scene.weather.snares.append(Snare(0, "contended", 0))
        with pytest.raises(StatusError) as error:
            await scene.mark(made)
        assert error.value.reason == "Conflict"

    run(test)


def test_a_crash_takes_the_call_with_it() -> None:
    async def test(scene: Scene) -> None:
        made = await scene.make("a")
        crashed: list[str] = []

        async def crash(actor: str) -> None:
            crashed.append(actor)
            passing.cancel()

        scene.weather.crash = crash
        scene.weather.snares.append(Snare(0, "crash_after", 0))
        passing = asyncio.ensure_future(scene.mark(made))
        with pytest.raises(asyncio.CancelledError):
            await passing
        assert (crashed, await scene.data("a")) == (["C"], {"k": "v"})
        assert scene.truth.commits[-1].deed == HERE

    run(test)


def test_a_stale_list_shows_the_past_and_then_what_came_since() -> None:
    async def test(scene: Scene) -> None:
        first = await scene.make("a")
        await scene.make("b")
        now = asyncio.get_running_loop().time
        scene.weather.stale = Stale(int(first["metadata"]["resourceVersion"]), now() + 5)
        answer = await scene.watch(sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        seen: list[tuple[str, str, bool]] = []
        async for line in answer.lines():
            event = msgspec.json.decode(line)
            seen.append((event["type"], event["object"]["metadata"].get("name", ""), now() >= 5))
            if len(seen) == 4:
                break
        await answer.close()
        assert ("ADDED", "b", True) in seen
        early = [(kind, name) for kind, name, late in seen if not late]
        assert early == [("ADDED", "a"), ("BOOKMARK", "")]

    run(test)


def test_an_expired_watch_is_told_so_once() -> None:
    async def test(scene: Scene) -> None:
        made = await scene.make("a")
        version = made["metadata"]["resourceVersion"]
        answer = await scene.watch(resourceVersion=version)
        assert answer.code == 200
        (pipe,) = scene.weather.pipes
        scene.weather.expire(pipe)
        await answer.close()
        assert (await scene.watch(resourceVersion=version)).code == 410
        again = await scene.watch(resourceVersion=version)
        assert again.code == 200
        await again.close()

    run(test)


def test_peace_lets_go_of_everything_and_lists_what_lost_an_event_anew() -> None:
    async def test(scene: Scene) -> None:
        await scene.make("a")
        held, lossy = await scene.watch(), await scene.watch()
        one, other = scene.weather.pipes
        one.hold()
        other.lossy = True
        scene.weather.snares.append(Snare(0, "broken", 0))
        scene.weather.heal()
        assert scene.weather.snares == []
        assert scene.weather.expired == {("part", "configmaps")}
        await held.close()
        await lossy.close()

    run(test)
