"""Events: what a controller tells people about an object, written behind its back and never at its cost.

    recorder = Recorder(client, "my-controller", clock); recorder.start()
    recorder.event(pod, "Warning", "Failed", "cannot pull the image")

Source: client-go tools/record, release 1.34 (core/v1 events).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Literal
from zlib import crc32

from dashpot.model.objects.resource import ALL_VERBS, Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.correlate import Correlated, Correlator
from dashpot.runtime.client.failures import namespace_ends
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.clock import Clock, rfc3339

Object = dict[str, Any]

EVENTS = Resource("", "v1", "Event", "events", "event", True, ALL_VERBS, storage_group="", storage_version="v1")
QUEUE_MOST = 1000
"""Events that wait to be written; those beyond are dropped."""
TRIES, TRY_S = 12, 10.0
"""How often a server that cannot be reached is tried, and how many seconds lie between."""
MESSAGE_MOST = 1024
"""Characters of a message; the API takes no more."""


class Recorder:
    """One component's events. `host` is the node where it runs."""

    def __init__(
        self,
        client: Client,
        component: str,
        clock: Clock,
        *,
        host: str = "",
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._chance = chance or random.Random(0)
        self._complain = complain
        self._correlator = Correlator(clock.now)
        self._queue: asyncio.Queue[Object] = asyncio.Queue(QUEUE_MOST)
        self._task: asyncio.Task[None] | None = None
        self._last = 0
        self.dropped = 0
        """Events that were not written: of floods, refused, or too many at once."""

    def start(self) -> None:
        """Begins to write."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="events")

    async def flush(self) -> None:
        """Waits until everything is written or given up."""
        await self._queue.join()

    async def stop(self) -> None:
        """Writes no more; idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def event(
        self,
        about: Object,
        kind: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        field_path: str = "",
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Tells something about an object (with apiVersion, kind and metadata); never waits, never raises for what the
        server does."""
        event = self._made(about, kind, reason, message[:MESSAGE_MOST], field_path, annotations)
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1

    def _made(
        self,
        about: Object,
        kind: str,
        reason: str,
        message: str,
        field_path: str,
        annotations: dict[str, str] | None,
    ) -> Object:
        now = self._clock.now()
        meta = about.get("metadata") or {}
        space = meta.get("namespace") or "default"
        involved = {
            "apiVersion": about.get("apiVersion"),
            "kind": about.get("kind"),
            "namespace": meta.get("namespace"),
            "name": meta.get("name"),
            "uid": meta.get("uid"),
            "resourceVersion": meta.get("resourceVersion"),
            "fieldPath": field_path,
        }
        # a name for each, also of several in one moment, and of several components
        self._last = max(self._last + 1, int(now * 1e6) * 1000 + crc32(self._component.encode()) % 1000)
        made: Object = {"name": f"{meta.get('name')}.{self._last:x}", "namespace": space}
        if annotations:
            made["annotations"] = annotations
        source = {"component": self._component, **({"host": self._host} if self._host else {})}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": made,
            "involvedObject": {name: value for name, value in involved.items() if value},
            "reason": reason,
            "message": message,
            "type": kind,
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
            "count": 1,
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
        }

    async def _write_all(self) -> None:
        while True:
            event = await self._queue.get()
            try:
                found = self._correlator.correlate(event)
                if found is None:
                    self.dropped += 1
                else:
                    await self._record(found)
            finally:
                self._queue.task_done()

    async def _record(self, found: Correlated) -> None:
        problem = ""
        for number in range(TRIES):
            try:
                self._correlator.written(found.key, await self._write(found))
                return
            except TransportError as error:
                problem = str(error)
            except StatusError as error:
                # the server has judged: it will not change its mind
                if error.reason != "AlreadyExists":
                    # that a namespace ends with what is in it is no trouble to anybody
                    if not namespace_ends(error):
                        self._complain(f"event {found.event['reason']} was refused: {error}")
                    self.dropped += 1
                return
            # the first time at a random moment: many components lose the same server at once
            await asyncio.sleep(TRY_S * (self._chance.random() if number == 0 else 1.0))
        self.dropped += 1
        self._complain(f"event {found.event['reason']} was not written: {problem}")

    async def _write(self, found: Correlated) -> Object:
        event = found.event
        meta = event["metadata"]
        if found.patch is not None:
            try:
                return await self._client.patch(EVENTS, meta["name"], found.patch, meta["namespace"], kind="strategic")
            except StatusError as error:
                if error.reason != "NotFound":
                    raise
        fresh = {name: value for name, value in meta.items() if name != "resourceVersion"}
        return await self._client.create(EVENTS, {**event, "metadata": fresh})
