"""Kinds that are what the server answers at paths, run."""

from __future__ import annotations

from typing import Any

from dashpot.grammar.load import load_text
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.definition import definitions
from dashpot.runtime.controller.uses import rights_of
from dashpot.runtime.controller.views import Views
from tests.client.serving import on_server
from tests.controller.running import managed, until

Object = dict[str, Any]

ASKS = """
resource Answer "/api/v1" {
  spec { marked: Name? at "metadata.labels.mark", items: []opaque at "items", message: Name? at "message" }
}
resource ConfigMap "v1" { spec { path: Name? at "data.path", seen: Name? at "metadata.annotations.seen" } }
controller Asks for ConfigMap as c when c.spec.path != old.spec.path {
  reconcile c {
    if c.spec.path == null { return }
    let a = get live Answer c.spec.path
    if a == null { return }
    if a.spec.message != null { patch c.spec { seen: a.spec.message } } else {
      patch c.spec { seen: a.spec.marked == null ? string(a.spec.items.size()) : a.spec.marked }
    }
  }
}
"""


def seen(path: str) -> str:
    """What the controller writes of the answer at a path."""
    found: list[str] = []

    async def main(server: ApiServer, client: Client) -> None:
        await client.create("secrets", {"metadata": {"name": "s", "labels": {"mark": "x"}}}, "default")
        await client.create("secrets", {"metadata": {"name": "t"}}, "default")
        await client.create("configmaps", {"metadata": {"name": "c"}, "data": {"path": path}}, "default")

        async def written() -> bool:
            told = (await client.get("configmaps", "c", "default"))["metadata"].get("annotations") or {}
            found.extend([told["seen"]] if "seen" in told else [])
            return bool(found)

        async with managed(load_text(ASKS, "asks.loop"), client):
            await until(written)

    on_server(main)
    return found[0]


def test_an_object_a_list_and_a_refusal_are_read_by_their_paths() -> None:
    assert seen("namespaces/default/secrets/s") == "x"
    assert seen("namespaces/default/secrets?labelSelector=mark%3Dx") == "1"
    assert seen("namespaces/default/secrets/nosuch") == 'secrets "nosuch" not found'


def test_it_needs_no_cache_no_definition_and_no_right_that_could_be_told() -> None:
    program = load_text(ASKS, "asks.loop")
    rights = rights_of(program.controllers[0], program, Views(program))
    assert {right.resource for right in rights} == {"configmaps"}
    assert definitions(program) == []
