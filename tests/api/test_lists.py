"""Lists: versions, pages and their tokens, refusals, forms."""

from __future__ import annotations

import asyncio
import base64
import gzip
from typing import Any

import msgspec
import pytest
import yaml
from tests.api.shelf import PODS, content, exchange, listed, names, shelf, thing

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import continuation, lists
from dashpot.runtime.api.continuation import Continuation
from dashpot.runtime.api.history import Limits
from dashpot.runtime.api.storage import Storage

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def filled(storage: Storage, count: int = 5, **labels: str) -> list[int]:
    """Creates x0, x1 …; the versions."""
    return [
        (await storage.create("n", f"x{i}", thing(f"x{i}", kind=storage.resource.kind, **labels))).revision
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("query", "code", "told"),
    [
        (
            "resourceVersionMatch=Exact",
            422,
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden '
            "unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Newest",
            422,
            'resourceVersionMatch: Unsupported value: "Newest": supported values: "Exact", "NotOlderThan", ""',
        ),
        ("sendInitialEvents=true", 422, "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        (
            "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
            422,
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        ("resourceVersion=5&continue=abc", 400, "specifying resource version is not allowed when using continue"),
        ("resourceVersion=-1", 400, 'invalid resource version: resourceVersion: Invalid value: "-1"'),
        ("resourceVersion=99999999999999999999", 400, "value out of range"),
        ("continue=nonsense", 400, "continue key is not valid: "),
        ("continue=%", 400, "continue key is not valid: "),
        ("limit=many", 400, "limit"),
        ("labelSelector=a in b", 400, ""),
        ("fieldSelector=spec.zzz=1", 400, '"spec.zzz" is not a known field selector: only "metadata.name"'),
    ],
)
def test_wrong_options_are_refused_in_kubernetes_words(query: str, code: int, told: str) -> None:
    async def main() -> None:
        storage = shelf()
        with pytest.raises(StatusError) as refused:
            await listed(storage, query)
        assert refused.value.code == code
        assert told in refused.value.message
        await storage.cache.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (base64.urlsafe_b64encode(b'{"v":"v9","rv":1,"start":"a"}').decode(), "does not recognize"),
        (Continuation(0, "a").token(), "incorrect encoded start resourceVersion"),
        (Continuation(-2, "a").token(), "incorrect encoded start resourceVersion"),
        (Continuation(5, "").token(), "encoded start key empty"),
        ("x" * 5000, "too long"),
        ("é", "no token"),
    ],
)
def test_tokens_of_others_are_refused(token: str, told: str) -> None:
    with pytest.raises(StatusError) as refused:
        continuation.parse(token)
    assert refused.value.code == 400
    assert refused.value.message.startswith("continue key is not valid: ")
    assert told in refused.value.message


def test_a_version_that_does_not_exist_yet_is_waited_for_and_refused() -> None:
    async def main() -> None:
        storage = shelf()
        last = (await filled(storage))[-1]
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(StatusError) as refused:
            await listed(storage, "resourceVersion=99999")
        assert 2.9 < loop.time() - begun < 6
        status = refused.value.status()
        assert (status["code"], status["reason"]) == (504, "Timeout")
        assert status["message"] == f"Timeout: Too large resource version: 99999, current: {last}"
        assert status["details"] == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }
        waiting = asyncio.ensure_future(listed(storage, f"resourceVersion={last + 1}"))
        await asyncio.sleep(0.01)
        await storage.create("n", "y", thing("y"))
        assert "y" in names(await waiting)
        await storage.cache.close()

    asyncio.run(main())


def test_pages_outlive_a_restart_and_expire_with_the_revision() -> None:
    async def main() -> None:
        storage = shelf()
        await filled(storage)
        first = await listed(storage, "limit=2")
        assert names(first) == ["x0", "x1"]
        assert first["metadata"]["remainingItemCount"] == 3
        token = first["metadata"]["continue"]
        await storage.delete("n", "x3")
        await storage.create("n", "x5", thing("x5"))
        await storage.cache.close()
        late = shelf(store=storage.store, limits=Limits(least=1, most=1), replay=0)
        second = await listed(late, {"limit": "2", "continue": token})
        assert names(second) == ["x2", "x3"]
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        await late.store.compact(await late.store.revision())
        with pytest.raises(StatusError) as expired:
            await listed(late, {"limit": "2", "continue": token})
        status = expired.value.status()
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"].startswith("The provided continue parameter is too old")
        rest = await listed(late, {"continue": status["metadata"]["continue"]})
        assert names(rest) == ["x2", "x4", "x5"]
        with pytest.raises(StatusError) as old:
            await listed(late, "resourceVersion=2&resourceVersionMatch=Exact")
        assert (old.value.code, old.value.reason) == (410, "Expired")
        await late.cache.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("resourceVersion={1}&resourceVersionMatch=Exact", ["x0", "x1"]),
        ("resourceVersion={1}&limit=5", ["x0", "x1"]),
        ("resourceVersion={1}", ["x0", "x1", "x2"]),
        ("resourceVersion={1}&resourceVersionMatch=NotOlderThan&limit=5", ["x0", "x1", "x2"]),
        ("resourceVersion=0", ["x0", "x1", "x2"]),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", ["x0", "x1", "x2"]),
        ("labelSelector=app=web", ["x0", "x1", "x2"]),
        ("labelSelector=app!=web", []),
        ("fieldSelector=metadata.name=x1", ["x1"]),
        ("fieldSelector=metadata.name=none", []),
        ("fieldSelector=metadata.name=x1,metadata.namespace=n", ["x1"]),
        ("limit=1&fieldSelector=metadata.name=x1", ["x1"]),
    ],
)
def test_versions_and_selectors_choose_what_is_shown(query: str, found: list[str]) -> None:
    async def main() -> None:
        storage = shelf()
        versions = await filled(storage, 3, app="web")
        query_ = query.replace("{1}", str(versions[1]))
        pairs = dict(part.split("=", 1) for part in query_.split("&"))
        assert names(await listed(storage, pairs)) == found
        await storage.cache.close()

    asyncio.run(main())


def test_a_prefix_of_a_namespace_is_another_namespace() -> None:
    async def main() -> None:
        storage = shelf()
        for space in ("n", "nn", "n-1"):
            await storage.create(space, "a", thing("a", space))
        assert names(await listed(storage)) == ["a"]
        assert names(await listed(storage, namespace="")) == ["n-1/a", "a", "nn/a"], "in order of bytes"
        await storage.cache.close()

    asyncio.run(main())


def test_forms_of_a_list() -> None:
    async def main() -> None:
        storage = shelf(PODS)
        await filled(storage, 2)
        table = await listed(storage, accept=TABLE)
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert table["columnDefinitions"][0]["name"] == "Name"
        assert [row["cells"][0] for row in table["rows"]] == ["x0", "x1"]
        assert {row["object"]["kind"] for row in table["rows"]} == {"PartialObjectMetadata"}
        whole = await listed(storage, "includeObject=Object", accept=TABLE)
        assert {row["object"]["kind"] for row in whole["rows"]} == {"Pod"}
        bare = await listed(storage, "includeObject=None", accept=TABLE)
        assert all("object" not in row for row in bare["rows"])
        partial = await listed(storage, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        assert partial["kind"] == "PartialObjectMetadataList"
        assert [set(item) for item in partial["items"]] == [{"kind", "apiVersion", "metadata"}] * 2
        plain = await listed(storage, "limit=1")
        assert list(plain) == ["kind", "apiVersion", "metadata", "items"]
        assert (plain["kind"], plain["apiVersion"]) == ("PodList", "v1")
        response = await lists.list_response(exchange(accept="application/yaml"), PODS, storage)
        read: Any = yaml.safe_load(content(response))
        assert read == await listed(storage)
        empty = await lists.list_response(exchange(accept="application/yaml", namespace="m"), PODS, storage)
        assert yaml.safe_load(content(empty))["items"] == []
        with pytest.raises(StatusError) as wrong:
            await listed(storage, "includeObject=All", accept=TABLE)
        assert wrong.value.code == 400
        await storage.cache.close()

    asyncio.run(main())


def test_long_lists_are_zipped_for_those_who_ask() -> None:
    async def main() -> None:
        storage = shelf()
        await filled(storage, 3000)
        asked = {"accept-encoding": "gzip"}
        response = await lists.list_response(exchange(headers=asked), storage.resource, storage)
        assert response.headers["Content-Encoding"] == "gzip"
        plain = await lists.list_response(exchange(), storage.resource, storage)
        assert gzip.decompress(content(response)) == content(plain)
        assert len(msgspec.json.decode(content(plain))["items"]) == 3000
        short = await lists.list_response(exchange("limit=2", headers=asked), storage.resource, storage)
        assert not short.headers
        await storage.cache.close()

    asyncio.run(main())
