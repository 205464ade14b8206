"""Objects one by one: what is stored, conflicts, versions of reads, failures of the store."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.api.shelf import CONFIGMAPS, NODES, listed, names, shelf, thing, watched

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.cacheview import CacheView
from dashpot.runtime.api.failing import failure
from dashpot.runtime.api.keys import Keys
from dashpot.runtime.api.stored import encode, restamp, stamp
from dashpot.runtime.store import base

WIDGETS = Resource(
    "e.io", "v1", "Widget", "widgets", "widget", True, storage_group="e.io", storage_version="v1", custom=True
)
EVENTS = Resource("events.k8s.io", "v1", "Event", "events", "event", True, storage_group="", storage_version="v1")


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "key"),
    [
        (CONFIGMAPS, "n", "a", "/registry/configmaps/n/a"),
        (NODES, "", "a", "/registry/nodes/a"),
        (WIDGETS, "n", "a", "/registry/e.io/widgets/n/a"),
        (EVENTS, "n", "a", "/registry/events/n/a"),
    ],
)
def test_where_objects_lie(resource: Resource, namespace: str, name: str, key: str) -> None:
    keys = Keys(resource)
    assert keys.key(namespace, name) == key
    assert keys.parts(key) == (namespace, name)


def test_the_version_is_spliced_into_what_is_stored() -> None:
    obj: dict[str, Any] = {
        "metadata": {"resourceVersion": "7", "name": "a"},
        "data": {"x": '"metadata":{'},
        "kind": "ConfigMap",
    }
    value = encode(obj, "v1", "ConfigMap")
    assert value.startswith(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}')
    assert obj["metadata"]["resourceVersion"] == "7", "the caller's object stays as it was"
    raw = stamp("k", value, 12)
    assert msgspec.json.decode(raw)["metadata"] == {"resourceVersion": "12", "name": "a"}
    assert msgspec.json.decode(restamp(raw, 123)) == {
        **obj,
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "123", "name": "a"},
    }


@pytest.mark.parametrize("value", [b"", b"nonsense", b'{"kind":"x"}', b"k8s\x00\x01", b'{"apiVersion":"v1"}'])
def test_a_value_of_another_form_is_never_served(value: bytes) -> None:
    with pytest.raises(StatusError) as refused:
        stamp("/registry/x/a", value, 1)
    assert refused.value.code == 500


def test_create_update_delete_and_their_conflicts() -> None:
    async def main() -> None:
        storage = shelf()
        made = await storage.create("n", "a", thing("a"))
        assert made.object["metadata"]["resourceVersion"] == str(made.revision)
        with pytest.raises(StatusError, match='configmaps "a" already exists'):
            await storage.create("n", "a", thing("a"))
        changed = await storage.update("n", "a", thing("a", x="1"), expect=made.revision)
        assert (changed.created, changed.labels) == (made.revision, {"x": "1"})
        for stale in (storage.update("n", "a", thing("a"), expect=made.revision), storage.delete("n", "a", expect=1)):
            with pytest.raises(StatusError) as conflict:
                await stale
            assert (conflict.value.code, conflict.value.reason) == (409, "Conflict")
            assert "the object has been modified" in conflict.value.message
        gone = await storage.delete("n", "a", expect=changed.revision)
        assert gone.revision > changed.revision and gone.labels == {"x": "1"}
        for missing in (
            storage.get("n", "a"),
            storage.delete("n", "a"),
            storage.update("n", "a", thing("a"), expect=3),
        ):
            with pytest.raises(StatusError, match='configmaps "a" not found'):
                await missing
        with pytest.raises(StatusError, match="not found"):
            await storage.get("n", "x/../../secrets/a")
        await storage.cache.close()

    asyncio.run(main())


def test_reads_are_as_new_as_they_ask_to_be() -> None:
    async def main() -> None:
        storage = shelf()
        made = await storage.create("n", "a", thing("a"))
        for version in ("", "0", str(made.revision)):
            assert (await storage.get("n", "a", version=version)).raw == made.raw
        with pytest.raises(StatusError, match="Too large resource version"):
            await storage.get("n", "a", version="99")
        with pytest.raises(StatusError, match="invalid resource version"):
            await storage.get("n", "a", version="x")
        await storage.cache.close()

    asyncio.run(main())


def test_objects_with_a_time_to_live_share_a_lease_and_expire() -> None:
    async def main() -> None:
        storage = shelf()
        for name in ("a", "b"):
            await storage.create("n", name, thing(name), ttl_s=0.2)
        await storage.create("n", "stays", thing("stays"))
        assert (await storage.store.status()).leases == 1
        loop = asyncio.get_running_loop()
        end = loop.time() + 10  # a lease lives a second longer, for others to share it
        while await storage.store.count("/registry/configmaps/") > 1 and loop.time() < end:
            await asyncio.sleep(0.05)
        assert (await storage.get("n", "stays")).name == "stays"
        with pytest.raises(StatusError, match="not found"):
            await storage.get("n", "a")
        await storage.cache.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "code", "reason", "told"),
    [
        (base.NoSpace(), 500, "", "etcdserver: mvcc: database space exceeded"),
        (base.Unavailable("etcdserver: request timed out"), 500, "", "etcdserver: request timed out"),
        (base.Unavailable("etcdserver: leader changed", maybe=True), 500, "", "etcdserver: leader changed"),
        (base.Compacted(7), 410, "Expired", "The resourceVersion for the provided list is too old."),
        (base.FutureRevision("x"), 504, "Timeout", "Timeout: x"),
        (base.Corrupt("row 7"), 500, "InternalError", "Internal error occurred: row 7"),
    ],
)
def test_failures_of_the_store_are_told_as_kubernetes_tells_them(
    error: base.StoreError, code: int, reason: str, told: str
) -> None:
    status = failure(error)
    assert (status.code, status.reason, status.message) == (code, reason, told)


def test_the_view_is_what_was_seen_and_fresh_is_not_older_than_the_call() -> None:
    async def main() -> None:
        storage, nodes = shelf(), shelf(NODES)
        made = {("", "configmaps"): storage, ("", "nodes"): nodes}

        def find(group: str, plural: str) -> Any:
            return made[group, plural]

        view = CacheView(find)
        assert view.get("", "pods", "n", "a") is None and view.version("", "pods") == 0
        assert await view.fresh("", "pods", "n", "a") is None
        before = view.version("", "configmaps")
        a = await storage.create("n", "a", thing("a"))
        await storage.create("m", "b", thing("b", "m"))
        found = await view.fresh("", "configmaps", "n", "a")
        assert found is not None and found["metadata"]["resourceVersion"] == str(a.revision)
        assert view.get("", "configmaps", "n", "a") is found
        assert [o["metadata"]["name"] for o in view.list("", "configmaps")] == ["b", "a"]
        assert [o["metadata"]["name"] for o in view.list("", "configmaps", "n")] == ["a"]
        assert view.version("", "configmaps") > before
        await storage.cache.close()
        await nodes.cache.close()

    asyncio.run(main())


def test_reads_go_to_the_store_while_the_cache_is_lost() -> None:
    async def main() -> None:
        storage = shelf()
        await storage.create("n", "a", thing("a"))
        await storage.cache.close()
        made = await storage.create("n", "b", thing("b"))
        assert (await storage.get("n", "b", version=str(made.revision))).name == "b"

    asyncio.run(main())


def test_a_damaged_value_harms_its_resource_alone_and_until_it_is_gone() -> None:
    async def main() -> None:
        storage = shelf()
        nodes = shelf(NODES, store=storage.store)
        await storage.create("n", "a", thing("a"))
        await storage.store.put(base.Put("/registry/configmaps/n/bad", b"\x00nonsense"))
        await nodes.create("", "x", {"metadata": {"name": "x"}})
        assert (await storage.get("n", "a")).name == "a"
        for read in (listed(storage), storage.get("n", "bad")):
            with pytest.raises(StatusError) as refused:
                await read
            assert refused.value.code == 500 and "/registry/configmaps/n/bad" in refused.value.message
        assert names(await listed(nodes, namespace="")) == ["x"]
        await storage.store.delete(base.Delete("/registry/configmaps/n/bad"))
        assert names(await listed(storage)) == ["a"]
        loop = asyncio.get_running_loop()
        end = loop.time() + 10
        while not storage.cache.live and loop.time() < end:
            await asyncio.sleep(0.01)
        made = await storage.create("n", "b", thing("b"))
        watch = await watched(storage, f"resourceVersion={made.revision - 1}")
        assert await watch.take(1) == [("ADDED", "b", made.revision)]
        await storage.cache.close()
        await nodes.cache.close()

    asyncio.run(main())
