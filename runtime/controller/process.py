"""A process at work: its actions run when their guards hold, one body at a time.

A candidate is an action with its parameters. Each is looked at when an object changes that its guard can see, and,
where the guard reads the time, when that is due; a candidate whose body ran is looked at again once the caches have
passed what it wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

from attrs import frozen

from dashpot.model import types as t
from dashpot.model.program import Action, Process
from dashpot.runtime.client.queue import WorkQueue
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.body import Body, Outcome
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.manifold import Manifold
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.site import Site, Standing
from dashpot.runtime.controller.terms import Term
from dashpot.runtime.controller.timers import next_look
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.uses import kinds_in
from dashpot.runtime.controller.wakes import Key

MODES = ("read_own_writes", "live")
"""A live cache is an informer here that has passed the process' own writes."""


class Candidate(NamedTuple):
    """An action and its parameters: keys of objects, and values."""

    action: str
    params: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.action}({', '.join(map(str, self.params))})"


@frozen(eq=False)
class _Ready:
    """An action, compiled. `watches`: kinds that its guard reads beside its parameters; `due`: see next_look."""

    action: Action
    body: Body
    when: Term | None
    watches: frozenset[str]
    due: Any


class RunningProcess(Standing):
    """One instance of a process."""

    actor: Process

    def __init__(self, process: Process, site: Site, me: Any = None) -> None:
        super().__init__(process, site, me)
        whole = {kind: "lagging" if isinstance(site.views[kind], Manifold) else "live" for kind in self.kinds}
        self.modes = {**whole, **self.modes}
        self.queue: WorkQueue[Candidate] = WorkQueue(metrics=site.metrics.queue(self.name))
        self.actions = {action.name: self._ready(action) for action in process.actions}
        self._counts: dict[str, int] = {}
        self._parked: dict[Candidate, None] = {}
        self._ends: list[Callable[[], None]] = []
        self._worker: asyncio.Task[None] | None = None
        self._stopping = False
        self.passes = 0

    def _ready(self, action: Action) -> _Ready:
        site = self.site
        guard = action.when
        return _Ready(
            action,
            Body(action.body, site.views, site.externs),
            self.terms.term(guard) if guard is not None else None,
            frozenset(kinds_in(guard)) if guard is not None else frozenset(),
            next_look(guard, self.terms) if guard is not None else None,
        )

    def begin(self, *, workers: bool = True) -> None:
        """Looks at every candidate and begins to act; without workers a driver says what is done."""
        for kind, cache in self.caches.items():
            self._ends.append(cache.subscribe(self._teller(kind)))
            self._ends.append(cache.on_advance(self._unpark))
        for name, ready in self.actions.items():
            if not any(isinstance(ty, t.Object) for _, ty in ready.action.params):
                self._add(name, {})
        self.site.metrics.most.labels(self.name).set(1)
        self.site.metrics.running(self.name, lambda: self.queue.longest_running)
        if workers:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name=self.name)

    async def end(self, *, now: bool = False) -> None:
        """Stops after the body in work; `now` cuts it short. Idempotent."""
        self._stopping = True
        ends, self._ends = self._ends, []
        for unsubscribe in ends:
            unsubscribe()
        self.queue.shut_down()
        worker, self._worker = self._worker, None
        if worker is not None:
            if now:
                worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    # -- candidates ---------------------------------------------------------------------------------------------

    def _teller(self, kind: str) -> Callable[[Obj | None, Obj | None], None]:
        def told(old: Obj | None, new: Obj | None) -> None:
            self.told(kind, old, new)
            for name, ready in self.actions.items():
                if kind in ready.watches:
                    self._add(name, {})
                    continue
                for index, (_, ty) in enumerate(ready.action.params):
                    if new is not None and isinstance(ty, t.Object) and ty.kind == kind:
                        self._add(name, {index: new})

        return told

    def _add(self, name: str, fixed: dict[int, Obj]) -> None:
        for params in self._products(self.actions[name].action, fixed):
            self.queue.add(Candidate(name, params))

    def _products(self, action: Action, fixed: dict[int, Obj]) -> Iterator[tuple[Any, ...]]:
        """The parameters, with some given; objects of one candidate are in one namespace."""
        domains: list[Iterable[Any]] = []
        for index, (_, ty) in enumerate(action.params):
            if isinstance(ty, t.Object):
                rows = [fixed[index]] if index in fixed else self.caches[ty.kind].all()
                domains.append([Key(obj.namespace, obj.key_name) for obj in rows])
            else:
                domains.append(wide.elements(ty, self.site.views.constants))
        for params in product(*domains):
            if len({p.namespace for p in params if isinstance(p, Key) and p.namespace}) <= 1:
                yield params

    def candidates(self) -> list[Candidate]:
        """All candidates whose guard holds now."""
        return [
            found
            for name, ready in self.actions.items()
            for found in (Candidate(name, params) for params in self._products(ready.action, {}))
            if self._holds(found) is not None
        ]

    def ready(self, candidate: Candidate) -> Frame | None:
        """The frame in which the guard of a candidate holds; None: it does not, or an object is gone."""
        frame: Frame | None = self._holds(candidate)
        return frame

    def _holds(self, candidate: Candidate) -> Any:
        """The frame in which a candidate's guard holds; None: it does not, or an object is gone."""
        ready = self.actions[candidate.action]
        frame = self._bound(candidate)
        if frame is None:
            return None
        limit = ready.action.limit
        if limit is not None and self._counts.get(candidate.action, 0) >= limit:
            return None
        try:
            if ready.when is None or ready.when(frame):
                return frame
        except Undefined:
            pass  # what is undefined is false
        if ready.due is not None:
            wait = ready.due(frame)
            if wait is not None:
                self.queue.add_after(candidate, wait / 1000)
        return None

    def _bound(self, candidate: Candidate) -> Any:
        action = self.actions[candidate.action].action
        keys = [param for param in candidate.params if isinstance(param, Key)]
        frame = self.frame(next((key.namespace for key in keys if key.namespace), ""))
        for (name, ty), value in zip(action.params, candidate.params, strict=True):
            if isinstance(ty, t.Object):
                obj = self.caches[ty.kind].get(value.namespace, value.name)
                if obj is None:
                    return None
                value = obj
            frame.locals[name] = value
        return frame

    def _unpark(self) -> None:
        for candidate in [candidate for candidate in self._parked if self.own.seen(candidate)]:
            del self._parked[candidate]
            self.queue.add(candidate)

    # -- acting -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while (candidate := await self.queue.get()) is not None:
            try:
                if not self._stopping:
                    await self._one(candidate)
            finally:
                self.queue.done(candidate)

    async def _one(self, candidate: Candidate) -> None:
        if not self.own.seen(candidate):
            self._parked[candidate] = None
            return
        frame = self._holds(candidate)
        if frame is None:
            self.queue.forget(candidate)
            return
        outcome, writes = await self._run(candidate, frame)
        match outcome.how:
            case "after":
                self.queue.forget(candidate)
                self.queue.add_after(candidate, outcome.delay_ms / 1000)
            case "done" if writes:
                self.queue.forget(candidate)
                self.queue.add(candidate)
            case "done" | "requeue":
                # the guard may still hold, although the body did nothing about it
                self.queue.add_rate_limited(candidate)
            case _:
                where = f"{outcome.span}: " if outcome.span.file else ""
                self.site.complain(f"{self.name} {candidate}: {where}{outcome.message}")
                self.queue.add_rate_limited(candidate)

    async def _run(self, candidate: Candidate, frame: Any) -> tuple[Outcome, int]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self.passes += 1
        self._counts[candidate.action] = self._counts.get(candidate.action, 0) + 1
        caller = self.pass_caller(candidate, MODES)
        try:
            outcome = await self.actions[candidate.action].body.run(frame, caller)
        except Exception as problem:  # an object of a shape that nothing expects ends a body, never the process
            outcome = Outcome("panic", message=f"{type(problem).__name__}: {problem}")
        self.site.metrics.passed(self.name, outcome.how, loop.time() - begun)
        return outcome, caller.writes

    async def perform(self, action: str, params: tuple[Any, ...]) -> Outcome | None:
        """An action on demand, with keys of objects and values as parameters; None: its guard does not hold."""
        candidate = Candidate(action, params)
        frame = self._holds(candidate)
        return None if frame is None else (await self._run(candidate, frame))[0]
