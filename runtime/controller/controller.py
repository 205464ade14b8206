"""A controller at work: its queue, its workers, its memory.

    running = Running(controller, site); running.begin(); … await running.end()

Each key is in work once at a time; a pass ends well, asks for another, or fails and comes again after its back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.model.program import Controller
from dashpot.runtime.client.queue import WorkQueue
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.controller.body import Body, Outcome
from dashpot.runtime.controller.calls import error_name
from dashpot.runtime.controller.metrics import RESULTS
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.site import Site, Standing
from dashpot.runtime.controller.wakes import Key, Wakes


class Running(Standing):
    """One instance of a controller."""

    actor: Controller

    def __init__(self, controller: Controller, site: Site, me: Any = None) -> None:
        super().__init__(controller, site, me)
        self.queue: WorkQueue[Key] = WorkQueue(metrics=site.metrics.queue(self.name))
        self.reconcile_body = Body(controller.reconcile, site.views, site.externs)
        self.gone_body = Body(controller.gone, site.views, site.externs) if controller.gone is not None else None
        self._wakes = Wakes(controller, site.views, self.terms, self.caches[controller.kind])
        self._parked: dict[Key, None] = {}
        """Keys that wait until the caches have passed the controller's own writes."""
        self._ends: list[Callable[[], None]] = []
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False
        self.passes = 0

    def begin(self, *, workers: bool = True) -> None:
        """Listens to the caches, which have synced, and starts the workers; without workers a driver says when a key is
        reconciled."""
        site, controller = self.site, self.actor
        for kind in dict.fromkeys([controller.kind, *self.kinds]):
            cache = self.caches[kind]
            self._ends.append(cache.subscribe(self._teller(kind)))
            if self.modes.get(kind) == "read_own_writes":
                self._ends.append(cache.on_advance(self._unpark))
        site.metrics.most.labels(self.name).set(controller.workers)
        site.metrics.running(self.name, lambda: self.queue.longest_running)
        if workers:
            loop = asyncio.get_running_loop()
            self._workers = [loop.create_task(self._work(), name=f"{self.name} {n}") for n in range(controller.workers)]

    async def end(self, *, now: bool = False) -> None:
        """Stops after the passes in flight; `now` cuts them short. Idempotent."""
        self._stopping = True
        ends, self._ends = self._ends, []
        for unsubscribe in ends:
            unsubscribe()
        self.queue.shut_down()
        workers, self._workers = self._workers, []
        if now:
            for worker in workers:
                worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self.site.metrics.ended(self.name)

    # -- waking -------------------------------------------------------------------------------------------------

    def _teller(self, kind: str) -> Callable[[Obj | None, Obj | None], None]:
        def told(old: Obj | None, new: Obj | None) -> None:
            keys = self._wakes.keys(kind, old, new, self.frame)
            self.told(kind, old, new)
            for key in keys:
                self.queue.add(key)

        return told

    def _unpark(self) -> None:
        for key in [key for key in self._parked if self.own.seen(key)]:
            del self._parked[key]
            self.queue.add(key)

    # -- working ------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        active = self.site.metrics.active.labels(self.name)
        while (key := await self.queue.get()) is not None:
            active.inc()
            try:
                if not self._stopping:
                    await self._one(key)
            finally:
                active.dec()
                self.queue.done(key)

    async def _one(self, key: Key) -> None:
        if not self.own.seen(key):
            self._parked[key] = None
            return
        outcome = await self.reconcile(key)
        self._tell(key, outcome)
        match outcome.how:
            case "done":
                self.queue.forget(key)
            case "after":
                self.queue.forget(key)
                self.queue.add_after(key, outcome.delay_ms / 1000)
            case "requeue":
                self.queue.add_rate_limited(key)
            case _:
                where = f"{outcome.span}: " if outcome.span.file else ""
                self.site.complain(f"{self.name} {key}: {where}{outcome.message}")
                if outcome.retry_after_ms:
                    self.queue.add_after(key, outcome.retry_after_ms / 1000)
                else:
                    self.queue.add_rate_limited(key)

    def _tell(self, key: Key, outcome: Outcome) -> None:
        """Keeps what /metrics says of keys that fail."""
        if outcome.how in RESULTS:
            self.site.metrics.settled(self.name, key)
        else:
            self.site.metrics.failed(self.name, key, outcome.message, self.site.clock.now())

    async def reconcile(self, key: Key) -> Outcome:
        """One pass for a key, now; what it ends with is the caller's business."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self.passes += 1
        try:
            outcome = await self._pass(key)
        except Exception as problem:  # an object of a shape that nothing expects ends a pass, never a worker
            outcome = Outcome("panic", message=f"{type(problem).__name__}: {problem}")
        self.site.metrics.passed(self.name, outcome.how, loop.time() - begun)
        return outcome

    async def _pass(self, key: Key) -> Outcome:
        try:
            fresh = await self.fresh(key.namespace)
        except (StatusError, TransportError) as error:
            return Outcome("error", error=error_name(error), message=str(error))
        frame = self.frame(key.namespace, fresh)
        obj = self.caches[self.actor.kind].get(key.namespace, key.name)
        body: Body | None = self.reconcile_body
        value: Obj | str | None = obj
        if obj is None:
            body, value = self.gone_body, key.name
        if body is None:
            return Outcome("done")
        for param in body.automaton.params:
            frame.locals[param] = value
        return await body.run(frame, self.pass_caller(key))
