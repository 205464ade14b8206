"""How much of the past is kept: of the store an hour, of each cache a number of changes and of bytes."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.serving import Serving, run

from dashpot.runtime.api.history import MODIFIED, Change, History, Limits
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.store.base import Compacted


def change(index: int, size: int, at: float, previous: int = 0) -> Change:
    def stored(revision: int, length: int) -> Stored:
        return Stored("k", "n", "k", revision, 1, b"x" * length)

    return Change(MODIFIED, stored(index, size), stored(index - 1, previous) if previous else None, at)


def held(history: History) -> int:
    """Bytes that the history really holds, each object once."""
    changes = history.since(history.start, history.end)
    found = {id(one): len(one.raw) for c in changes for one in (c.stored, c.previous) if one is not None}
    return sum(found.values())


def test_a_history_of_large_objects_is_bounded_in_bytes() -> None:
    """Old and new objects count, and what is over the bound goes at once, not when it is twice as much."""
    limits = Limits(size=10_000_000, small=1_000_000)
    history = History(0, limits)
    for index in range(1, 121):
        history.append(change(index, 800_000, 0.0, previous=800_000))
        history.trim(1.0)
        assert held(history) <= limits.size + limits.small // 8
        assert history.size >= held(history)
    assert history.end == 120 and history.floor == history.start > 100


def test_large_old_changes_go_though_they_are_few_and_small_ones_stay() -> None:
    for size, kept in ((100_000, 10), (100, 120)):
        history = History(0, Limits(age_s=60.0, small=1_000_000))
        for index in range(120):
            history.append(change(index + 1, size, float(index)))
            history.trim(float(index))
        history.trim(500.0)
        assert history.end - history.start <= kept + 2 if kept == 10 else history.start == 0


def test_a_large_object_is_not_kept_decoded_when_there_is_a_newer_one() -> None:
    raw = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"k"},"data":{"k":"' + b"x" * 100_000 + b'"}}'
    history = History(0)
    old = Stored("k", "n", "k", 1, 1, raw)
    first = old.object
    assert old.object is first
    history.append(Change(MODIFIED, Stored("k", "n", "k", 2, 1, raw), old, 0.0))
    assert old.object is not first and old.object == first


def test_old_versions_are_compacted_and_young_ones_are_kept() -> None:
    """A history of 0.6 seconds: what is a second old is gone, what was just written is there."""

    async def test(at: Serving) -> None:
        path = "/api/v1/namespaces/n/configmaps"
        first = await at.done("POST", path, {"metadata": {"name": "a"}})
        old = int(first["metadata"]["resourceVersion"])
        store = at.server.stores.default
        second = first
        while (await store.status()).compacted < old:
            second = await at.done("PATCH", f"{path}/a", {"data": {"x": "1"}}, media="application/merge-patch+json")
            await asyncio.sleep(0)
        with pytest.raises(Compacted):
            await store.range("/registry/configmaps/", revision=old - 1)
        young = await at.done("GET", f"{path}/a")
        assert young["data"] == second["data"]

    run(test, history_s=0.6)
