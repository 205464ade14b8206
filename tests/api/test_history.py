"""How long versions are kept: an hour, looked at every five minutes."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.serving import Serving, run

from dashpot.runtime.store.base import Compacted


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
