"""Writes into each FlowSchema whether its priority level exists: the condition Dangling, which kubectl shows.

Source: k8s.io/apiserver pkg/util/flowcontrol/apf_controller.go, release 1.34.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.flow_bootstrap import GROUP
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.api.view import View
from dashpot.runtime.clock import Clock, rfc3339

Object = dict[str, Any]

EVERY_S = 1.0
_SCHEMAS, _LEVELS = "flowschemas", "prioritylevelconfigurations"


class FlowStatus:
    """Keeps the conditions of all schemas right."""

    def __init__(self, view: View, internal: Internal, clock: Clock) -> None:
        self._view = view
        self._internal = internal
        self._clock = clock
        self._seen = (-1, -1)

    async def follow(self) -> None:
        """Looks at what has changed, once a second."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.settle()

    async def begin(self) -> None:
        """The first time, of all that has been written so far."""
        for plural in (_SCHEMAS, _LEVELS):
            await self._view.fresh(GROUP, plural, "", "")
        await self.settle()

    async def settle(self) -> None:
        """Writes the conditions that are wrong; what fails is tried again in the next round."""
        version = self._view.version
        versions = (version(GROUP, _SCHEMAS), version(GROUP, _LEVELS))
        if versions == self._seen:
            return
        wrong = list(self._wrong())
        self._seen = versions if not wrong else (-1, -1)
        for name, condition in wrong:
            try:
                await self._write(name, condition)
            except StatusError:
                continue  # gone, changed since, or the store is away

    def _wrong(self) -> Iterator[tuple[str, Object]]:
        levels = {obj["metadata"]["name"] for obj in self._view.list(GROUP, _LEVELS)}
        for obj in self._view.list(GROUP, _SCHEMAS):
            level = ((obj.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name", "")
            conditions = (obj.get("status") or {}).get("conditions") or ()
            told = next((one.get("status") for one in conditions if one.get("type") == "Dangling"), None)
            wanted = "False" if level in levels else "True"
            if told != wanted:
                yield obj["metadata"]["name"], self._condition(level, wanted)

    def _condition(self, level: str, status: str) -> Object:
        ends = "and it exists" if status == "False" else "but there is no such object"
        return {
            "type": "Dangling",
            "status": status,
            "lastTransitionTime": rfc3339(self._clock.now()),
            "reason": "Found" if status == "False" else "NotFound",
            "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {ends}',
        }

    async def _write(self, name: str, condition: Object) -> None:
        place = f"/apis/{GROUP}/v1/{_SCHEMAS}/{name}"
        found = await self._internal.call("GET", place)
        kept = [one for one in (found.get("status") or {}).get("conditions") or () if one.get("type") != "Dangling"]
        found["status"] = {**(found.get("status") or {}), "conditions": [*kept, condition]}
        await self._internal.call("PUT", f"{place}/status", found)
