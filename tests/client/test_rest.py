"""The REST client against the server in process, and against a scripted transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.history import Limits
from dashpot.runtime.client.discovery import NoMatch
from dashpot.runtime.client.rest import Client, Delete, Write
from dashpot.runtime.client.retrying import warnings
from dashpot.runtime.client.tokenbucket import TokenBucket
from dashpot.runtime.client.transport import Answer, Call, TransportError
from dashpot.runtime.loop import run_virtual
from tests.client.serving import client_of, config_map, on_server


def test_one_object_through_every_verb() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        made = await client.create("cm", config_map("a", x="1"))
        assert (await client.get("configmaps", "a"))["metadata"]["uid"] == made["metadata"]["uid"]
        made["data"]["x"] = "2"
        assert (await client.update("configmaps", made))["data"] == {"x": "2"}
        with pytest.raises(StatusError) as caught:
            await client.update("configmaps", made)
        assert caught.value.reason == "Conflict"
        for kind, patch in (
            ("merge", {"data": {"m": "1"}}),
            ("strategic", {"data": {"s": "1"}}),
            ("json", [{"op": "add", "path": "/data/j", "value": "1"}]),
        ):
            await client.patch("configmaps", "a", patch, kind=kind)  # type: ignore[arg-type]
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"p": "1"}}
        found = await client.apply("configmaps", applied, manager="me")
        assert found["data"] == {"x": "2", "m": "1", "s": "1", "j": "1", "p": "1"}
        assert any(row["manager"] == "me" for row in found["metadata"]["managedFields"])
        with pytest.raises(StatusError) as caught:
            await client.apply("configmaps", {**applied, "data": {"x": "3"}}, manager="me")
        assert caught.value.details["causes"][0]["field"] == ".data.x"
        tried = await client.apply("configmaps", {**applied, "data": {"x": "3"}}, manager="me", force=True)
        assert tried["data"]["x"] == "3"
        with pytest.raises(StatusError) as caught:
            await client.delete("configmaps", "a", how=Delete(uid="other"))
        assert caught.value.reason == "Conflict"
        assert (await client.delete("configmaps", "a"))["status"] == "Success"
        with pytest.raises(StatusError, match='configmaps "a" not found'):
            await client.get("configmaps", "a")

    on_server(main)


def test_dry_run_and_field_validation() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await client.create("configmaps", config_map("a"), how=Write(dry_run=True))
        assert (await client.list("configmaps", "default")).items == []
        with pytest.raises(StatusError, match="unknown field"):
            await client.create("configmaps", {**config_map("a"), "spec": 1}, how=Write(validation="Strict"))
        told: list[str] = []
        await client_of(server, warn=told.append).create(
            "configmaps", {**config_map("a"), "spec": 1}, how=Write(validation="Warn")
        )
        assert told == ['unknown field "spec"']

    on_server(main)


def test_lists_are_read_page_by_page() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        for number in range(7):
            obj = config_map(f"a{number}")
            obj["metadata"]["labels"] = {"odd": str(number % 2)}
            await client.create("configmaps", obj)
        found = await client.list("configmaps", page=3)
        assert [item["metadata"]["name"] for item in found.items] == [f"a{n}" for n in range(7)]
        assert found.items[0]["kind"] == "ConfigMap" and found.items[0]["apiVersion"] == "v1"
        first = await client.page("configmaps", "default", labels="odd=1", limit=2)
        assert (len(first.items), bool(first.more)) == (2, True)
        assert [len(part.items) async for part in client.pages("configmaps", limit=4)] == [4, 3]
        await client.delete_collection("configmaps", "default", labels="odd=1")
        assert len((await client.list("configmaps", "default")).items) == 4

    on_server(main)


def test_a_list_whose_version_is_forgotten_on_the_way_is_read_at_once() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        for number in range(5):
            await client.create("configmaps", config_map(f"a{number}"))
        pages: list[int] = []

        class Forgetful:
            """Compacts the store between the first page and the second."""

            async def send(self, call: Call) -> Answer:
                pages.append(int(dict(call.query).get("limit", 0)))
                if len(pages) == 2:
                    await client.patch("configmaps", "a4", {"data": {"x": "1"}})
                    for store in server.stores.all():
                        await store.compact(await store.revision())
                    history = server.storages.made()[("", "configmaps")].cache.history
                    history._limits = Limits(1, 1, 0.0, 1)
                    for number in range(3):
                        await client.patch("configmaps", "a4", {"data": {"x": f"y{number}"}})
                        await client.page("configmaps")
                return await client.transport.send(call)

            async def close(self) -> None:
                return

        found = await Client(Forgetful()).list(await client.resource("configmaps"), "default", page=2)
        assert pages == [2, 2, 0]
        assert [obj["metadata"]["name"] for obj in found.items] == [f"a{n}" for n in range(5)]
        assert found.items[4]["data"] == {"x": "y2"}

    on_server(main)


def test_watch_tells_events_and_refusals() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        start = (await client.list("configmaps")).version
        await client.create("configmaps", config_map("a"))
        await client.patch("configmaps", "a", {"data": {"x": "1"}})
        await client.delete("configmaps", "a")
        async with client.watch("configmaps", "default", version=start, seconds=5) as events:
            told = [event.change async for event in events]
        assert told == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
        await client.create("configmaps", config_map("b"))
        async with client.watch("configmaps", "default", initial=True) as events:
            first, second = await anext(events), await anext(events)
        assert (first.object["metadata"]["name"], second.ends_initial) == ("b", True)
        with pytest.raises(StatusError):
            async with client.watch("configmaps", version="none"):
                pass

    on_server(main)


@pytest.mark.parametrize(
    ("name", "qualified"),
    [
        ("po", "pods"),
        ("Pod", "pods"),
        ("deployment", "deployments.apps"),
        ("deployments.apps", "deployments.apps"),
        ("deployments.v1.apps", "deployments.apps"),
        ("apps/v1/Deployment", "deployments.apps"),
        ("v1/pods", "pods"),
        ("events", "events"),
        ("events.events.k8s.io", "events.events.k8s.io"),
    ],
)
def test_resources_are_found_by_their_names(name: str, qualified: str) -> None:
    async def main(_: ApiServer, client: Client) -> None:
        assert (await client.resource(name)).qualified == qualified

    on_server(main)


def test_plain_discovery_finds_the_same_as_aggregated() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        aggregated = await client.discovery.resources()
        fetch = client.discovery._fetch
        client.discovery._fetch = lambda path, accept: fetch(path, "application/json")
        plain = await client.discovery.resources(fresh=True)
        assert {_shown(r) for r in plain} == {_shown(r) for r in aggregated}
        with pytest.raises(NoMatch, match='the server doesn\'t have a resource type "nonsense"'):
            await client.resource("nonsense")

    on_server(main)


def _shown(resource: object) -> str:
    names = ("api_version", "kind", "plural", "singular", "namespaced", "short_names", "categories")
    verbs = sorted(resource.verbs)  # type: ignore[attr-defined]
    subs = sorted((sub.name, sub.kind, tuple(sorted(sub.verbs))) for sub in resource.subresources)  # type: ignore[attr-defined]
    return repr(([getattr(resource, name) for name in names], verbs, subs))


def test_subresources() -> None:
    async def main(_: ApiServer, client: Client) -> None:
        await client.create("namespaces", {"metadata": {"name": "n"}})
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create("deploy", {"metadata": {"name": "d", "namespace": "n"}, "spec": spec})
        await client.patch("deploy", "d", {"spec": {"replicas": 3}}, "n", subresource="scale")
        assert (await client.get("deploy", "d", "n", subresource="scale"))["spec"]["replicas"] == 3
        await client.patch("deploy", "d", {"status": {"replicas": 2}}, "n", subresource="status")
        assert (await client.get("deploy", "d", "n"))["status"]["replicas"] == 2
        await client.create("sa", {"metadata": {"name": "default"}})
        token = await client.create("sa", {"spec": {}}, "default", subresource="token", name="default")
        assert token["status"]["token"]

    on_server(main)


# -- a transport that answers by a script ---------------------------------------------------------------------------


class Scripted:
    """Answers one after another: a code with headers, or an error to raise."""

    def __init__(self, *answers: tuple[int, dict[str, str]] | TransportError) -> None:
        self.answers = list(answers)
        self.times: list[float] = []

    async def send(self, call: Call) -> Answer:
        self.times.append(round(asyncio.get_running_loop().time(), 3))
        found = self.answers.pop(0)
        if isinstance(found, TransportError):
            raise found

        async def body() -> AsyncIterator[bytes]:
            yield b"{}"

        return Answer(found[0], found[1], body())

    async def close(self) -> None:
        return


def _sent(method: str, *answers: tuple[int, dict[str, str]] | TransportError) -> tuple[str, Sequence[float]]:
    script = Scripted(*answers)

    async def main() -> str:
        client = Client(script)
        try:
            await client.raw(method, "/x")
        except (StatusError, TransportError) as error:
            return str(error).partition(":")[0]
        return "answered"

    return run_virtual(main()), script.times


OK: tuple[int, dict[str, str]] = (200, {})
BUSY = (429, {"retry-after": "3"})
DOWN = TransportError("refused", sent=False)
CUT = TransportError("reset")


@pytest.mark.parametrize(
    ("method", "answers", "end", "count"),
    [
        ("GET", (OK,), "answered", 1),
        ("POST", (BUSY, (503, {"retry-after": "1"}), OK), "answered", 3),
        ("GET", ((503, {}),), "the server is currently unable to handle the request", 1),
        ("GET", ((404, {"retry-after": "1"}),), "the server could not find the requested resource", 1),
        ("GET", (CUT, CUT, OK), "answered", 3),
        ("POST", (CUT,), "reset", 1),
        ("POST", (DOWN, OK), "answered", 2),
        ("POST", (DOWN,) * 4, "refused", 4),
        ("GET", (BUSY,) * 11, "the server has received too many requests and has asked us to try again later", 11),
    ],
)
def test_what_is_sent_again(
    method: str, answers: tuple[tuple[int, dict[str, str]] | TransportError, ...], end: str, count: int
) -> None:
    told, times = _sent(method, *answers)
    assert (told, len(times)) == (end, count)


def test_retry_after_is_waited_for() -> None:
    assert _sent("GET", BUSY, BUSY, OK)[1] == [0.0, 3.0, 6.0]


def test_requests_are_limited() -> None:
    script = Scripted(*(OK for _ in range(10)))

    async def main() -> None:
        client = Client(script, limiter=TokenBucket(2, 3))
        await asyncio.gather(*(client.raw("GET", "/x") for _ in range(7)))

    run_virtual(main())
    assert script.times == [0, 0, 0, 0.5, 1, 1.5, 2]


def test_a_silent_server_is_given_up() -> None:
    class Silent(Scripted):
        async def send(self, call: Call) -> Answer:
            await asyncio.sleep(1000)
            raise AssertionError

    async def main() -> float:
        with pytest.raises(TransportError, match="no answer within 60s"):
            await Client(Silent()).raw("GET", "/x")
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 60


def test_warning_headers() -> None:
    assert warnings('299 - "a, \\"b\\"", 299 - "c"') == ['a, "b"', "c"]
