"""Events: combined, counted, limited, and written when the server is back."""

from __future__ import annotations

import asyncio

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.correlate import Recent
from dashpot.runtime.client.events import EVENTS, Recorder
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import Answer, Call, Transport, TransportError
from dashpot.runtime.clock import LoopClock
from dashpot.runtime.loop import EPOCH
from tests.client.serving import Object, config_map, on_server


async def _object(client: Client) -> Object:
    return await client.create("configmaps", config_map("a"))


async def _told(client: Client) -> list[tuple[str, int]]:
    items = (await client.list(EVENTS)).items
    return sorted((item["message"], item["count"]) for item in items)


def test_equal_events_are_counted() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        about = await _object(client)
        recorder = Recorder(client, "tester", LoopClock(EPOCH), host="n1")
        recorder.start()
        for _number in range(3):
            recorder.event(about, "Normal", "Began", "it began")
            await asyncio.sleep(60)
        recorder.event(about, "Normal", "Began", "otherwise")
        await recorder.flush()
        assert await _told(client) == [("it began", 3), ("otherwise", 1)]
        (event,) = (await client.list(EVENTS, fields="involvedObject.name=a,reason=Began", page=1)).items[:1]
        assert event["involvedObject"]["uid"] == about["metadata"]["uid"]
        assert event["source"] == {"component": "tester", "host": "n1"} and event["metadata"]["name"].startswith("a.")
        counted = next(e for e in (await client.list(EVENTS)).items if e["count"] == 3)
        assert (counted["firstTimestamp"], counted["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z")
        await client.delete(EVENTS, counted["metadata"]["name"])
        recorder.event(about, "Normal", "Began", "it began")
        await recorder.flush()
        assert ("it began", 4) in await _told(client)
        await recorder.stop()

    on_server(main)


def test_similar_events_are_combined() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        about = await _object(client)
        recorder = Recorder(client, "tester", LoopClock(EPOCH))
        recorder.start()
        for number in range(15):
            recorder.event(about, "Warning", "Failed", f"pod {number:02} failed")
        await recorder.flush()
        told = await _told(client)
        assert told == [
            ("(combined from similar events): pod 14 failed", 6),
            *((f"pod {number:02} failed", 1) for number in range(9)),
        ]
        await asyncio.sleep(700)
        recorder.event(about, "Warning", "Failed", "pod 99 failed")
        await recorder.flush()
        assert ("pod 99 failed", 1) in await _told(client)
        await recorder.stop()

    on_server(main)


def test_floods_about_one_object_are_stopped() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        about = await _object(client)
        recorder = Recorder(client, "tester", LoopClock(EPOCH))
        recorder.start()
        for _number in range(100):
            recorder.event(about, "Warning", "Failed", "again")
        await recorder.flush()
        assert (await _told(client), recorder.dropped) == ([("again", 25)], 75)
        await asyncio.sleep(301)
        recorder.event(about, "Warning", "Failed", "again")
        await recorder.flush()
        assert await _told(client) == [("again", 101)]
        for number in range(1500):
            recorder.event(config_map(f"b{number}"), "Normal", "Many", "at once")
        assert recorder.dropped == 75 + 500
        await recorder.stop()

    on_server(main)


class Away:
    """A server that is away until a moment."""

    def __init__(self, inner: Transport, until: float) -> None:
        self.inner = inner
        self.until = until

    async def send(self, call: Call) -> Answer:
        if asyncio.get_running_loop().time() < self.until:
            raise TransportError("refused", sent=False)
        return await self.inner.send(call)

    async def close(self) -> None:
        return


def test_events_outlive_an_outage_and_refusals_are_told() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        about, told = await _object(client), list[str]()
        recorder = Recorder(Client(Away(client.transport, 60)), "tester", LoopClock(EPOCH), complain=told.append)
        recorder.start()
        recorder.event(about, "Normal", "Began", "x" * 5000)
        await recorder.flush()
        assert await _told(client) == [("x" * 1024, 1)] and asyncio.get_running_loop().time() > 60
        recorder.event(config_map("b", "nowhere"), "Normal", "Began", "it began")
        await recorder.flush()
        assert (told, recorder.dropped) == (['event Began was refused: namespaces "nowhere" not found'], 1)
        await recorder.stop()
        recorder = Recorder(Client(Away(client.transport, 1e9)), "tester", LoopClock(EPOCH), complain=told.append)
        recorder.start()
        recorder.event(about, "Normal", "Began", "x")
        await recorder.flush()
        assert told[1:] == ["event Began was not written: refused"]
        await recorder.stop()

    on_server(main)


def test_what_was_not_used_lately_is_forgotten() -> None:
    recent = Recent[int](2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)
