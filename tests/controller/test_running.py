"""Controllers and processes at work, on virtual time: modes of caches, indexes, places, guards of time, back-off."""

from __future__ import annotations

import asyncio
import itertools
import random
from functools import partial
from typing import Any

import pytest

from dashpot.grammar.load import load_text
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.calls import Answer, ApiError, Caller
from dashpot.runtime.controller.manager import Manager
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest
from tests.client.serving import on_server
from tests.controller.running import managed, until

COUNTER = """
resource ConfigMap "v1" { spec { want: opaque? at "data" } }
resource Secret "v1" { }
controller Counter for ConfigMap {
  owns Secret
  cache Secret MODE
  reconcile m {
    let made = list cached Secret where s -> s.owner == m
    if m.spec.want != null && made.size() < 3 {
      create Secret { generateName: m.name + "-", owner: m }
      requeue
    }
  }
}
"""


async def maps(client: Client, *names: str, **data: str) -> None:
    """Makes ConfigMaps in the namespace `default`."""
    for name in names:
        await client.create("configmaps", {"metadata": {"name": name}, "data": data}, "default")


async def data_of(client: Client, name: str) -> dict[str, str]:
    """The data of a ConfigMap."""
    found: dict[str, str] = (await client.get("configmaps", name, "default")).get("data") or {}
    return found


def counted(mode: str) -> int:
    """How many Secrets a counter makes that wants three, while its cache of them is held back for a minute."""
    found: list[int] = []

    async def main(server: ApiServer, client: Client) -> None:
        await maps(client, "three", want="3")
        async with managed(load_text(COUNTER.replace("MODE", mode)), client, private=True) as manager:
            assert manager.site is not None
            manager.site.caches.hold("Secret", "Counter")
            await client.patch("configmaps", "three", {"metadata": {"labels": {"go": ""}}}, "default")
            await asyncio.sleep(60)
            manager.site.caches.release("Secret", "Counter")
            await asyncio.sleep(60)
            rows = (await client.list("secrets", "default")).items
            found.append(sum(1 for row in rows if row["metadata"]["name"].startswith("three-")))

    on_server(main)
    return found[0]


def test_a_lagging_cache_makes_too_many_and_one_with_its_own_writes_does_not() -> None:
    assert counted("lagging") > 3
    assert counted("read_own_writes") == 3
    assert counted("live") == 3


INDEXED = """
resource ConfigMap "v1" { spec { home: Name? at "data.home", seen: Name? at "data.seen" } }
resource Secret "v1" { spec { home: Name? at "metadata.labels.home" } }
controller Census for ConfigMap {
  watches Secret as s -> s.spec.home
  index people: map[Name]Name? = {} on Secret {
    add s { people[s.name] = s.spec.home }
    update before -> after { people[after.name] = after.spec.home }
    delete s { people[s.name] = null }
  }
  reconcile m {
    let names = people.keys().filter(n, people[n] == m.name).sortBy(n, n)
    update m.spec { seen: names.isEmpty() ? "nobody" : names.first() } if changed on Conflict { requeue }
  }
}
"""


def test_an_index_follows_what_comes_changes_and_goes() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await maps(client, "here", "there", home="x")

        async def seen(here: str, there: str) -> bool:
            return [(await data_of(client, name)).get("seen") for name in ("here", "there")] == [here, there]

        async def secret(name: str, home: str) -> None:
            await client.create("secrets", {"metadata": {"name": name, "labels": {"home": home}}}, "default")

        async with managed(load_text(INDEXED), client):
            await secret("b", "here")
            await secret("a", "here")
            await until(lambda: seen("a", "nobody"))
            await client.patch("secrets", "a", {"metadata": {"labels": {"home": "there"}}}, "default")
            await until(lambda: seen("b", "a"))
            await client.delete("secrets", "b", "default")
            await until(lambda: seen("nobody", "a"))

    on_server(main)


PLACED = """
resource Node "v1" { }
resource ConfigMap "v1" { spec { by: Name? at "data.by" } }
process Agent at me in Node {
  action sign(m: ConfigMap) when m.name == me && m.spec.by == null { update m.spec { by: me } on Conflict { } }
}
"""


def test_an_actor_stands_where_its_objects_are() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await client.create("nodes", {"metadata": {"name": "a"}})
        async with managed(load_text(PLACED), client) as manager:
            assert list(manager.instances) == ["Agent@a"]
            await client.create("nodes", {"metadata": {"name": "b"}})
            await maps(client, "a", "b", "c", x="y")

            async def signed() -> bool:
                return [(await data_of(client, name)).get("by") for name in "abc"] == ["a", "b", None]

            await until(signed)
            await client.delete("nodes", "a")

            async def left() -> bool:
                return list(manager.instances) == ["Agent@b"]

            await until(left)

    on_server(main)


TIMED = """
const WAIT = 40s
resource ConfigMap "v1" { spec { at_: Time? at "data.at" , late: Name? at "data.late" } }
process Bell {
  action ring(m: ConfigMap) when m.spec.at_ != null && m.spec.late == null && since(m.spec.at_) >= WAIT {
    update m.spec { late: "yes" } on Conflict { }
  }
  action start(m: ConfigMap) when m.spec.at_ == null { update m.spec { at_: now() } on Conflict { } }
}
"""


def test_a_guard_of_time_opens_when_it_is_due_and_not_before() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await maps(client, "m", x="y")
        async with managed(load_text(TIMED), client) as manager:
            begun = asyncio.get_running_loop().time()

            async def rung() -> bool:
                return (await data_of(client, "m")).get("late") == "yes"

            await until(rung)
            assert 39 <= asyncio.get_running_loop().time() - begun <= 42
            assert [instance.passes for instance in manager.instances.values()] == [2]

    on_server(main)


REMEMBERING = """
resource ConfigMap "v1" { spec { passes: Name? at "data.passes", go: Name? at "data.go" } }
controller Memo for ConfigMap {
  memory passes: 0..9 = 0
  reconcile m {
    passes = passes + 1
    update m.spec { passes: "n" + string(passes) } if changed on Conflict { requeue }
  }
}
"""


def test_memory_is_lost_in_a_crash_alone() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await maps(client, "m", go="0")
        async with managed(load_text(REMEMBERING), client, private=True, workers=False) as manager:
            running: Any = manager.instances["Memo"]
            key = await running.queue.get()
            running.queue.done(key)
            for count in (1, 2, 3):
                await running.reconcile(key)
                assert (await data_of(client, "m"))["passes"] == f"n{count}"
                await until(partial(_holds, manager, "m", f"n{count}"))
            await manager.crash("Memo")
            assert manager.site is not None
            await manager.site.caches.synced()
            fresh: Any = manager.instances["Memo"]
            assert fresh is not running
            await fresh.reconcile(key)
            assert (await data_of(client, "m"))["passes"] == "n1"

    on_server(main)


async def _holds(manager: Manager, name: str, passes: str) -> bool:
    assert manager.site is not None
    found = manager.site.caches.of("Memo", "ConfigMap").get("default", name)
    return found is not None and found.json["data"].get("passes") == passes


COPYING = """
resource ConfigMap "v1" { spec { passes: Name? at "data.passes", go: Name? at "data.go" } }
controller Memo for ConfigMap { reconcile m { update m.spec { passes: m.spec.go } if changed on Conflict { requeue } } }
"""


class Failing:
    """A caller whose writes the API answers with 500 while `down`; when it was asked, by the loop's clock."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.down = True
        self.asked: list[tuple[str, float]] = []

    async def perform(self, request: ApiRequest) -> Answer:
        """One call."""
        self.asked.append((request.name, asyncio.get_running_loop().time()))
        if self.down:
            raise ApiError("", StatusError("InternalError", "the store is away"))
        return await self.caller.perform(request)

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        """Passed on."""
        self.caller.note(about, kind, reason, message)


def test_retries_back_off_to_a_thousand_seconds_and_begin_anew_after_a_success() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        failing: list[Failing] = []

        def caller(actor: str, key: str, inner: Caller) -> Caller:
            if not failing:
                failing.append(Failing(inner))
            failing[0].caller = inner
            return failing[0]

        await maps(client, "m", go="0")
        async with managed(load_text(COPYING), client, wrap=caller, complaints=complaints) as manager:
            await asyncio.sleep(5_000)
            times = [at for _, at in failing[0].asked]
            waits = [after - before for before, after in itertools.pairwise(times)]
            expected = [min(0.005 * 2**n, 1000.0) for n in range(len(waits))]
            assert len(waits) == 21
            assert waits == pytest.approx(expected, rel=1e-3, abs=1e-3)
            assert "Memo default/m" in complaints[0] and "the store is away" in complaints[0]
            failing[0].down = False

            async def written() -> bool:
                return "passes" in await data_of(client, "m")

            await until(written, 1100)
            failing[0].down = True
            before = len(failing[0].asked)
            await client.patch("configmaps", "m", {"data": {"go": "1"}}, "default")
            await asyncio.sleep(1)
            again = [at for _, at in failing[0].asked[before:]]
            assert again[1] - again[0] == pytest.approx(0.005, abs=1e-3)
            text = manager.metrics.text().decode()
            assert 'controller_runtime_reconcile_errors_total{controller="Memo"}' in text
            assert 'workqueue_retries_total{controller="Memo",name="Memo"}' in text

    on_server(main)


def test_many_failing_keys_share_ten_retries_a_second_after_a_hundred() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        failing: list[Failing] = []

        def caller(actor: str, key: str, inner: Caller) -> Caller:
            if not failing:
                failing.append(Failing(inner))
            failing[0].caller = inner
            return failing[0]

        await maps(client, *(f"m{n}" for n in range(40)), go="0")
        async with managed(load_text(COPYING), client, wrap=caller):
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(30)
            retries = [at - begun for _, at in failing[0].asked][40:]
            assert 100 + 8 * 28 <= len(retries) <= 100 + 10 * 30 + 1
            assert sum(1 for at in retries if at <= 2.0) <= 100 + 10 * 2 + 1
            failing[0].down = False

            async def written() -> bool:
                rows = (await client.list("configmaps", "default")).items
                return sum("passes" in (row.get("data") or {}) for row in rows) == 40

            await until(written, 1100)

    on_server(main)


def test_a_key_is_in_work_once_at_a_time() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        working: dict[str, int] = {}
        most: list[int] = []

        class Slow:
            def __init__(self, key: str, inner: Caller) -> None:
                self.key, self.inner = key, inner

            async def perform(self, request: ApiRequest) -> Answer:
                working[self.key] = working.get(self.key, 0) + 1
                most.append(sum(working.values()))
                assert working[self.key] == 1
                await asyncio.sleep(0.5)
                working[self.key] -= 1
                return await self.inner.perform(request)

            def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
                self.inner.note(about, kind, reason, message)

        await maps(client, *(f"m{n}" for n in range(12)), go="0")
        text = COPYING.replace("{ reconcile", "{\n  workers 4\n  reconcile", 1)

        def wrap(actor: str, key: str, inner: Caller) -> Caller:
            return Slow(key, inner)

        async with managed(load_text(text), client, wrap=wrap, chance=random.Random(3)):
            for turn in range(10):
                for n in range(12):
                    await client.patch("configmaps", f"m{n}", {"data": {"go": str(turn)}}, "default")
                await asyncio.sleep(0.2)
            await asyncio.sleep(30)
        assert max(most) == 4

    on_server(main)


def test_a_worker_survives_what_nothing_expects() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        broken = [True]

        class Breaking:
            def __init__(self, inner: Caller) -> None:
                self.inner = inner

            async def perform(self, request: ApiRequest) -> Answer:
                if broken.pop() if broken else False:
                    raise AttributeError("no such thing")
                return await self.inner.perform(request)

            def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
                self.inner.note(about, kind, reason, message)

        def wrap(actor: str, key: str, inner: Caller) -> Caller:
            return Breaking(inner)

        await maps(client, "m", go="0")
        async with managed(load_text(COPYING), client, wrap=wrap, complaints=complaints):

            async def written() -> bool:
                return "passes" in await data_of(client, "m")

            await until(written)
        assert complaints == ["Memo default/m: AttributeError: no such thing"]

    on_server(main)
