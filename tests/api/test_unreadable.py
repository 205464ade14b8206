"""A value in the store that nobody can decode: lists name it and the cure, watches go on, it can be removed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.api.serving import Serving, run
from tests.api.shelf import listed, names, shelf, thing, watched

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import User
from dashpot.runtime.store.base import Put

KEY = "/registry/configmaps/n/bad"
PATH = "/api/v1/namespaces/n/configmaps"
OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
START = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{'
VALUES = [
    pytest.param(b"\x00\xff nonsense", id="bytes"),
    pytest.param(START + b'"name":"bad"', id="cut short"),
    pytest.param(START + b'"name":"bad"},"data":{"a":nonsense}}', id="damaged behind the metadata"),
    pytest.param(b"", id="empty"),
]


async def refused(storage: Any, *asked: str, namespace: str = "n") -> StatusError:
    """The answer to a list that fails."""
    with pytest.raises(StatusError) as caught:
        await listed(storage, *asked, namespace=namespace)
    return caught.value


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("early", [True, False], ids=["before the start", "while it runs"])
def test_lists_name_it_and_watches_go_on(value: bytes, early: bool) -> None:
    async def main() -> None:
        storage = shelf()
        if early:
            await storage.store.put(Put(KEY, value))
        first = await storage.create("n", "a", thing("a"))
        await storage.create("m", "x", thing("x", "m"))
        watch = await watched(storage, f"resourceVersion={first.revision}")
        if not early:
            await storage.create("n", "bad", thing("bad"))
            assert [event[:2] for event in await watch.take(1)] == [("ADDED", "bad")]
            await storage.store.put(Put(KEY, value))
        restarts = storage.cache.restarts
        for query in ("", "resourceVersion=0", "limit=1"):
            error = await refused(storage, query)
            assert (error.code, error.reason) == (500, "StorageReadError")
            assert KEY in error.message and OPTION in error.message
            assert error.details["causes"][0]["field"] == KEY
        assert (await refused(storage, namespace="")).details["causes"][0]["field"] == KEY
        assert names(await listed(storage, namespace="m")) == ["m/x"], "another namespace is served"
        for version in ("", "0"):
            with pytest.raises(StatusError, match=KEY):
                await storage.get("n", "bad", version=version)
        made = await storage.create("n", "b", thing("b"))
        assert await watch.take(1) == [("ADDED", "b", made.revision)]
        assert await storage.remove_unreadable("n", "bad")
        assert names(await listed(storage)) == ["a", "b"]
        told = await watch.take(0 if early else 1)
        assert [event[:2] for event in told] == ([] if early else [("DELETED", "bad")])
        assert storage.cache.restarts == restarts and storage.cache.live
        await storage.cache.close()

    asyncio.run(main())


def test_it_is_read_again_when_it_is_mended() -> None:
    async def main() -> None:
        storage = shelf()
        made = await storage.create("n", "bad", thing("bad"))
        watch = await watched(storage, f"resourceVersion={made.revision}")
        good = (await storage.store.get(KEY)).value  # type: ignore[union-attr]
        await storage.store.put(Put(KEY, b"{"))
        await refused(storage)
        mended = await storage.store.put(Put(KEY, good))
        assert names(await listed(storage)) == ["bad"]
        assert await watch.take(1) == [("MODIFIED", "bad", mended.revision)]
        await storage.cache.close()

    asyncio.run(main())


def test_many_are_named_up_to_a_hundred() -> None:
    async def main() -> None:
        storage = shelf()
        for number in range(120):
            await storage.store.put(Put(f"/registry/configmaps/n/{number:03}", b"?"))
        error = await refused(storage)
        assert "/n/004 and 115 more" in error.message and len(error.details["causes"]) == 100
        await storage.cache.close()

    asyncio.run(main())


def test_delete_with_the_option() -> None:
    """It takes a right of its own, is for what cannot be read alone, and can be tried dry."""

    async def check(api: Serving) -> None:
        store = api.server.stores.default
        await api.done("POST", PATH, {"metadata": {"name": "good"}})
        await store.put(Put(KEY, b"nonsense"))
        code, told = await api.told("GET", PATH)
        assert (code, told["reason"]) == (500, "StorageReadError") and KEY in told["message"]
        assert (await api.told("DELETE", f"{PATH}/bad"))[0] == 500
        body = {"kind": "DeleteOptions", "apiVersion": "v1", OPTION: True}
        role: dict[str, Any] = {"metadata": {"name": "r"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}]}  # fmt: skip
        await api.done("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        binding = {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}],
        }
        await api.done("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        code, told = await api.told("DELETE", f"{PATH}/bad", body, user=User("u", ("system:authenticated",)))
        assert code == 403 and "unsafe-delete-ignore-read-errors" in told["message"]
        code, told = await api.told("DELETE", f"{PATH}/good", body)
        assert code == 422 and "is exclusively used to delete corrupt object(s)" in told["message"]
        assert (await api.told("DELETE", f"{PATH}/none", body))[0] == 404
        assert (await api.told("DELETE", f"{PATH}/bad", {**body, OPTION: "yes"}))[0] == 400
        assert (await api.told("DELETE", f"{PATH}/bad?dryRun=All", body))[0] == 200
        assert await store.get(KEY) is not None
        told = await api.done("DELETE", f"{PATH}/bad?{OPTION}=true")
        assert (told["status"], told["details"]["name"]) == ("Success", "bad")
        found = msgspec.json.decode((await api.ask("GET", PATH)).body)
        assert [item["metadata"]["name"] for item in found["items"]] == ["good"]

    run(check)
