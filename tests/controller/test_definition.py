"""The definitions that `dashpot crd` prints are accepted, and their rules hold."""

from __future__ import annotations

import asyncio

import pytest

from dashpot.grammar.load import load_text
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.definition import definitions
from tests.client.serving import on_server
from tests.controller.running import Object, managed, until

SPEC = """
resource Site "example.com/v1" {
  spec   { pods: 0..5 = 1, host: Name?, tier: 0..3 = 1 immutable, look: opaque? }
  status { ready: 0..5 = 0 monotone }
  rule self.spec.host == null || self.spec.pods > 0 else "a host needs pods"
  columns pods, ready
}
controller SiteController for Site {
  reconcile s { update s.status { ready: s.spec.pods } on Conflict { requeue } }
}
"""


def site(name: str, **spec: object) -> Object:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Site", "metadata": meta, "spec": spec}


async def define(client: Client) -> None:
    (found,) = definitions(load_text(SPEC))
    assert found.untold == ()
    await client.create("customresourcedefinitions", found.json)
    async with asyncio.timeout(60):
        while True:
            made = await client.get("customresourcedefinitions", "sites.example.com")
            rows = {row["type"]: row["status"] for row in (made.get("status") or {}).get("conditions", ())}
            if rows.get("Established") == "True":
                return
            await asyncio.sleep(0.1)


def test_the_server_takes_the_definition_and_holds_to_it() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await define(client)
        await client.discovery.resources(fresh=True)
        await client.create("sites.example.com", site("a", host="x", look=[1, {"b": None}]))
        found = await client.get("sites.example.com", "a")
        assert found["spec"]["pods"] == 1 and found["spec"]["tier"] == 1
        for bad in (site("b", pods=6), site("b", host="x", pods=0)):
            with pytest.raises(StatusError, match="pods"):
                await client.create("sites.example.com", bad)
        with pytest.raises(StatusError, match="tier is immutable"):
            await client.patch("sites.example.com", "a", {"spec": {"tier": 2}})
        await client.create("sites.example.com", site("c", host=None, pods=0))

    on_server(main)


def test_a_controller_of_a_custom_kind_runs() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await define(client)
        async with managed(load_text(SPEC), client):
            await client.create("sites.example.com", site("a", pods=3))

            async def ready() -> bool:
                found = await client.get("sites.example.com", "a")
                return (found.get("status") or {}).get("ready") == 3

            await until(ready)

    on_server(main)
