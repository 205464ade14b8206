"""The informer's copy equals the server's state whatever becomes of its watches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.faults import Faults
from dashpot.runtime.api.history import Limits
from dashpot.runtime.client.indexer import Indexer, key_of, split_key
from dashpot.runtime.client.informer import Handler, Informer, Informers, Tombstone
from dashpot.runtime.client.reflector import Regression
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import Answer, Call, Transport, TransportError
from dashpot.runtime.loop import run_virtual
from tests.client.serving import client_of, config_map, on_server, serving

Object = dict[str, Any]


class Record:
    """What a handler was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def handler(self, **options: Any) -> Handler:
        def name(obj: Object | Tombstone) -> str:
            return f"tombstone {obj.key}" if isinstance(obj, Tombstone) else obj["metadata"]["name"]

        return Handler(
            lambda obj: self.told.append(f"+{name(obj)}"),
            lambda old, new: self.told.append(f"={name(new)}" if old is new else f"~{name(new)}"),
            lambda obj: self.told.append(f"-{name(obj)}"),
            **options,
        )


async def quiet(informer: Informer, client: Client) -> None:
    """Waits until the informer has seen the server's newest version of it."""
    newest = (await client.list("configmaps")).items
    async with asyncio.timeout(3600):
        while {key_of(o): o["metadata"]["resourceVersion"] for o in newest} != {
            key_of(o): o["metadata"]["resourceVersion"] for o in informer.indexer
        }:
            await asyncio.sleep(1)


@pytest.mark.parametrize("streaming", [True, False])
def test_handlers_are_told_each_change(streaming: bool) -> None:
    async def main(_: ApiServer, client: Client) -> None:
        await client.create("configmaps", config_map("a"))
        informer, record = Informer(client, "configmaps", streaming=streaming), Record()
        informer.add_handler(record.handler())
        assert not informer.has_synced
        informer.start()
        await informer.synced()
        assert record.told == ["+a"]
        await client.create("configmaps", config_map("b"))
        await client.patch("configmaps", "a", {"data": {"x": "1"}})
        await client.delete("configmaps", "b")
        await quiet(informer, client)
        assert record.told == ["+a", "+b", "~a", "-b"]
        late = Record()
        assert informer.add_handler(late.handler()).synced and late.told == ["+a"]
        assert informer.lister.get("a", "default") == await client.get("configmaps", "a")
        await informer.stop()

    on_server(main)


def forget(server: ApiServer) -> None:
    """From the next write on the server remembers nothing but the last change: older versions are 410."""
    history = server.storages.made()[("", "configmaps")].cache.history
    history._limits = Limits(1, 1, 0.0, 1)


def test_a_missed_deletion_is_a_tombstone_and_a_forgotten_version_is_listed_anew() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        for name in "ab":
            await client.create("configmaps", config_map(name))
        gate = Gate(client.transport)
        informer, record = Informer(Client(gate), "configmaps"), Record()
        informer.add_handler(record.handler())
        informer.start()
        await informer.synced()
        gate.cut()
        forget(server)
        await client.delete("configmaps", "a")
        for name in "cd":
            await client.create("configmaps", config_map(name))
        gate.open()
        await quiet(informer, client)
        assert record.told[2:] == ["+c", "+d", "-tombstone default/a"]
        assert informer.reflector.lists == 2 and not informer.regressions
        await informer.stop()

    on_server(main)


def test_resync_tells_everything_again() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        await client.create("configmaps", config_map("a"))
        informer, record, other = Informer(client, "configmaps"), Record(), Record()
        informer.add_handler(record.handler(resync_s=60))
        informer.add_handler(other.handler())
        informer.start()
        await asyncio.sleep(200)
        assert (record.told, other.told) == (["+a", "=a", "=a", "=a"], ["+a"])
        await informer.stop()

    on_server(main)


def test_a_failing_handler_harms_nobody() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        told: list[str] = []
        informer, record = Informer(client, "configmaps", complain=told.append), Record()
        informer.add_handler(Handler(added=lambda obj: obj["nothing"]))
        informer.add_handler(record.handler())
        informer.start()
        await client.create("configmaps", config_map("a"))
        await quiet(informer, client)
        assert (record.told, told) == (["+a"], ["a handler failed: KeyError: 'nothing'"])
        await informer.stop()

    on_server(main)


def test_an_informer_follows_for_a_day() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        informer = Informer(client, "configmaps")
        informer.start()
        await asyncio.sleep(24 * 3600)
        await client.create("configmaps", config_map("a"))
        await quiet(informer, client)
        assert informer.reflector.lists == 1 and informer.reflector.watches > 100
        await informer.stop()

    on_server(main)


def test_informers_are_shared() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        shared = Informers(client)
        informer = await shared.informer("cm", "default")
        assert await shared.informer("configmaps", "default") is informer
        assert await shared.informer("configmaps") is not informer
        shared.start()
        await shared.synced()
        assert informer.has_synced
        await shared.stop()

    on_server(main)


def test_a_server_that_goes_back_in_time_is_recorded() -> None:
    class Old:
        """Lists at version 9, then at 5; its watches are refused as too old."""

        def __init__(self) -> None:
            self.versions = ["9", "5"]

        async def send(self, call: Call) -> Answer:
            if ("watch", "true") in call.query:
                body, code = b'{"kind":"Status","reason":"Expired","code":410}', 410
            else:
                version = self.versions.pop(0) if len(self.versions) > 1 else self.versions[0]
                body, code = b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"%s"}}' % version.encode(), 200

            async def chunks() -> AsyncIterator[bytes]:
                yield body

            return Answer(code, {}, chunks())

        async def close(self) -> None:
            return

    async def main() -> None:
        told: list[str] = []
        resource = builtin().find("", "v1", "configmaps")
        assert resource is not None
        informer = Informer(Client(Old()), resource, streaming=False, complain=told.append)
        informer.start()
        await asyncio.sleep(5)
        assert informer.regressions[0] == Regression("", "9", "5")
        assert "configmaps: the server went back in time from version 9 to 5" in told
        await informer.stop()

    run_virtual(main())


class Switch:
    """A transport to one server, and later to another."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    async def send(self, call: Call) -> Answer:
        return await self.inner.send(call)

    async def close(self) -> None:
        return


def test_a_server_that_was_restored_from_a_backup() -> None:
    """It does not know the version that the informer has seen: after a while it is taken as it is, on the record."""

    async def main(server: ApiServer, client: Client) -> None:
        for number in range(20):
            await client.create("configmaps", config_map(f"a{number}"))
        gate = Gate(client.transport)
        switch = Switch(gate)
        informer, record = Informer(Client(switch), "configmaps", streaming=False), Record()
        informer.add_handler(record.handler())
        informer.start()
        await informer.synced()
        async with serving() as restored:
            other = client_of(restored)
            await other.create("configmaps", config_map("a3"))
            switch.inner = other.transport
            gate.cut()
            await asyncio.sleep(200)
            assert [key_of(obj) for obj in informer.indexer] == ["default/a3"]
            names = sorted(f"default/a{n}" for n in range(20))
            assert record.told[20:] == ["~a3", *(f"-tombstone {key}" for key in names if key != "default/a3")]
            (regression,) = informer.regressions
            assert int(regression.new) < int(regression.old)
            await informer.stop()

    on_server(main)


def test_a_server_without_streaming_lists_is_listed() -> None:
    class Old:
        """Refuses sendInitialEvents as servers before 1.27 do."""

        def __init__(self, inner: Transport) -> None:
            self.inner = inner

        async def send(self, call: Call) -> Answer:
            if ("sendInitialEvents", "true") in call.query:
                call = evolve(call, query=[*call.query, ("resourceVersionMatch", "Nonsense")][::-1])
            return await self.inner.send(call)

        async def close(self) -> None:
            return

    async def main(_: ApiServer, client: Client) -> None:
        await client.create("configmaps", config_map("a"))
        informer = Informer(Client(Old(client.transport)), "configmaps")
        informer.start()
        await informer.synced()
        assert len(informer.indexer) == 1 and not informer.reflector.streaming
        await informer.stop()

    on_server(main)


def test_reordered_events_are_recorded() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        server.storages.faults = Faults.parse("rules: [{resource: configmaps, reorder: within}]")
        informer = Informer(client, "configmaps")
        informer.start()
        await informer.synced()
        for number in range(20):
            await client.create("configmaps", config_map(f"a{number}"))
        await asyncio.sleep(20)
        assert informer.regressions and all(int(r.new) < int(r.old) for r in informer.regressions)
        await informer.stop()

    on_server(main)


STEPS = st.one_of(
    st.tuples(st.sampled_from(["create", "patch", "delete"]), st.sampled_from("abcd")),
    st.tuples(st.sampled_from(["cut", "open", "disconnect", "forget"]), st.just("")),
    st.tuples(st.just("wait"), st.sampled_from(["0", "0.5", "3", "400"])),
)


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=25), streaming=st.booleans(), seed=st.integers(0, 3))
def test_the_copy_equals_the_server_after_all(steps: list[tuple[str, str]], streaming: bool, seed: int) -> None:
    """Whatever is cut, forgotten or late: in the end the copy, and what handlers were told, is the server's state."""

    async def main(server: ApiServer, client: Client) -> None:
        server.storages.faults = faults = Faults()
        gate = Gate(client.transport)
        informer = Informer(Client(gate), "configmaps", streaming=streaming, chance=random.Random(seed))
        mirror: dict[str, Object] = {}

        def gone(obj: Object | Tombstone) -> None:
            del mirror[obj.key if isinstance(obj, Tombstone) else key_of(obj)]

        def came(obj: Object) -> None:
            assert key_of(obj) not in mirror
            mirror[key_of(obj)] = obj

        def changed(old: Object, new: Object) -> None:
            assert mirror[key_of(new)] == old
            mirror[key_of(new)] = new

        informer.add_handler(Handler(came, changed, gone))
        informer.start()
        for count, (step, what) in enumerate(steps):
            await take(step, what, count, server, client, gate, faults)
        gate.open()
        await quiet(informer, client)
        await asyncio.sleep(60)
        state = {key_of(obj): obj for obj in (await client.list("configmaps")).items}
        assert {key_of(obj): obj for obj in informer.indexer} == state == mirror
        assert not informer.regressions
        await informer.stop()

    on_server(main, seed=seed)


async def take(step: str, what: str, count: int, server: ApiServer, client: Client, gate: Gate, faults: Faults) -> None:
    """One step of a history; writes that make no sense are refused."""
    if step == "wait":
        await asyncio.sleep(float(what))
    elif step in ("cut", "open"):
        gate.cut() if step == "cut" else gate.open()
    elif step == "disconnect":
        faults.disconnect()
    elif step == "forget":
        await client.list("configmaps")
        forget(server)
    else:
        try:
            if step == "create":
                await client.create("configmaps", config_map(what))
            elif step == "patch":
                await client.patch("configmaps", what, {"data": {"count": str(count)}})
            else:
                await client.delete("configmaps", what)
        except StatusError as error:
            assert error.reason in ("NotFound", "AlreadyExists")


def test_indices() -> None:
    def colours(obj: Object) -> list[str]:
        return str(obj["data"].get("colours", "")).split()

    indexer = Indexer({"colour": colours})
    for name, told in (("a", "red blue"), ("b", "blue"), ("c", "")):
        obj = config_map(name, colours=told)
        indexer.put(key_of(obj), obj)
    assert [o["metadata"]["name"] for o in indexer.by_index("colour", "blue")] == ["a", "b"]
    indexer.put("default/a", config_map("a", colours="green"))
    indexer.remove("default/b")
    assert indexer.index_values("colour") == ["green"]
    indexer.add_index("size", lambda obj: [str(len(obj["data"]["colours"]))])
    assert [o["metadata"]["name"] for o in indexer.by_index("size", "5")] == ["a"]
    assert indexer.by_index("namespace", "default") and split_key("n/a") == ("n", "a") and split_key("a") == ("", "a")


class Gate:
    """A transport that can be cut: open answers break off, new requests do not get through."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.shut = False
        self.ends: set[asyncio.Event] = set()

    async def send(self, call: Call) -> Answer:
        if self.shut:
            raise TransportError("connection refused", sent=False)
        answer = await self.inner.send(call)
        end = asyncio.Event()
        self.ends.add(end)
        chunks = answer.chunks

        async def through() -> AsyncGenerator[bytes, None]:
            stop = asyncio.ensure_future(end.wait())
            try:
                while True:
                    piece = asyncio.ensure_future(anext(chunks, None))
                    await asyncio.wait({piece, stop}, return_when=asyncio.FIRST_COMPLETED)
                    if not piece.done():
                        piece.cancel()
                        await asyncio.gather(piece, return_exceptions=True)
                        raise TransportError("connection reset")
                    if (found := piece.result()) is None:
                        return
                    yield found
            finally:
                stop.cancel()
                self.ends.discard(end)

        body = through()

        async def close() -> None:
            await body.aclose()
            await answer.close()

        return Answer(answer.code, answer.headers, body, close)

    def cut(self) -> None:
        self.shut = True
        for end in list(self.ends):
            end.set()

    def open(self) -> None:
        self.shut = False

    async def close(self) -> None:
        return
