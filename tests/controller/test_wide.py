"""Kinds of one's own that are in no namespace."""

from __future__ import annotations

from dashpot.grammar.format import format_text
from dashpot.grammar.load import load_text
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.definition import definitions
from dashpot.runtime.controller.views import Views
from dashpot.runtime.plane.definitions import define
from tests.client.serving import on_server
from tests.controller.running import managed, until

COUNTS = """resource Total "example.com/v1" {
  cluster wide
  spec   { wide: Name? }
  status { found: 0..9 = 0 }
}

resource ConfigMap "v1" {
  spec { mark: Name? at "metadata.labels.mark" }
}

controller Totals for Total {
  watches ConfigMap as c -> Total

  reconcile t {
    let all = list cached ConfigMap where c -> c.spec.mark == t.spec.wide
    update t.status { found: all.size() } if changed on Conflict { requeue }
  }
}
"""


def test_it_is_defined_for_the_cluster_and_laid_out() -> None:
    program = load_text(COUNTS, "counts.loop")
    views = Views(program)
    assert not views["Total"].namespaced and views["ConfigMap"].namespaced
    (made,) = definitions(program)
    assert made.json["spec"]["scope"] == "Cluster"
    assert format_text(COUNTS, "counts.loop") == COUNTS


def test_its_passes_see_all_namespaces() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        program = load_text(COUNTS, "counts.loop")
        await define([("", program)], [client])
        await client.create("namespaces", {"metadata": {"name": "other"}})
        for space in ("default", "other"):
            await client.create("configmaps", {"metadata": {"name": "c", "labels": {"mark": "m"}}}, space)
        total = {"apiVersion": "example.com/v1", "kind": "Total", "metadata": {"name": "t"}, "spec": {"wide": "m"}}
        await client.create("totals.example.com", total)

        async def counted() -> bool:
            found = await client.get("totals.example.com", "t")
            return bool((found.get("status") or {}).get("found") == 2)

        async with managed(program, client):
            await until(counted)

    on_server(main)
