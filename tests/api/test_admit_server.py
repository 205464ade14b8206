"""Admission behind a real API server: quotas under a crowd, and writes that fail after admission."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.api.admit_kit import Object, named

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.api.settings import Settings

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def limited(server: Internal, hard: str) -> None:
    """A quota on ConfigMaps, with the status that its controller would write."""
    limit = {"count/configmaps": hard}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", **named("q"), "spec": {"hard": limit}}
    made = await server.call("POST", QUOTAS, quota)
    made["status"] = {"hard": limit, "used": {"count/configmaps": "0"}}
    await server.call("PUT", f"{QUOTAS}/q/status", made)


async def create(server: Internal, name: str) -> int:
    """The code of the answer to a new ConfigMap."""
    one: Object = {"apiVersion": "v1", "kind": "ConfigMap", **named(name)}
    try:
        await server.call("POST", CONFIGMAPS, one)
    except StatusError as error:
        return error.code
    return 201


async def used(server: Internal) -> str:
    found = await server.call("GET", f"{QUOTAS}/q")
    return str(found["status"]["used"]["count/configmaps"])


def test_quota_holds_under_a_crowd_and_gets_back_what_failed() -> None:
    async def main() -> None:
        server = await ApiServer.start(Settings(store="memory", port=0))
        try:
            await limited(server.local, "20")
            codes = await asyncio.gather(*(create(server.local, f"c{number % 15}") for number in range(60)))
            # 15 names: each is made once, every other write of it fails in the store and gives its place back.
            assert Counter(codes)[201] == 15
            assert await used(server.local) == "15"
            codes = await asyncio.gather(*(create(server.local, f"d{number}") for number in range(30)))
            assert Counter(codes) == {201: 5, 403: 25}
            assert await used(server.local) == "20"
        finally:
            await server.stop()

    asyncio.run(main())
