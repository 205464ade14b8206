"""The kinds of the library that are nobody else's: a plane defines those that its controllers are for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.model.program import Program
from dashpot.runtime.client.discovery import NoMatch
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.definition import definitions

Object = dict[str, Any]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
PAUSE_S = 0.1


async def define(programs: Iterable[tuple[str, Program]], clients: Sequence[Client]) -> None:
    """Makes the definitions of the custom kinds of modules, by the first client, and waits until each client sees them
    served; StatusError, TransportError. A definition that is there already stays as it is."""
    made = [one.json for module, program in programs for one in definitions(program, module=module)]
    for json in made:
        try:
            await clients[0].create(CRDS, json)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
    for client in clients:
        for json in made:
            await _served(json, client)


async def _served(json: Object, client: Client) -> None:
    spec = json["spec"]
    version = f"{spec['group']}/{spec['versions'][0]['name']}"
    while True:
        try:
            await client.discovery.resources(fresh=True)
            await client.discovery.by_kind(version, spec["names"]["kind"])
            return
        except NoMatch:
            await asyncio.sleep(PAUSE_S)
