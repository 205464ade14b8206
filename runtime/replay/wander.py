"""A walk of the real thing, recorded whole: what each actor read, what it did, what was delivered, in one order.

    trace = wander(actors, lagging, lag, seed=7, steps=80)

Whatever may happen next is drawn: a key that waits is reconciled, a pass makes its next call, a change is delivered, a
process or a user acts, an actor crashes. The walk knows nothing of the model, but for which caches may lag, and how
far.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from attrs import evolve, field, frozen

from dashpot.runtime.controller.body import Outcome
from dashpot.runtime.controller.controller import Running
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.process import Candidate, RunningProcess
from dashpot.runtime.controller.wakes import Key
from dashpot.runtime.loop import run_virtual
from dashpot.runtime.replay.collector import collect, due
from dashpot.runtime.replay.driver import Driver
from dashpot.runtime.replay.passes import Pass
from dashpot.runtime.replay.replay import Actors
from dashpot.runtime.replay.settle import FREE, begun, fair
from dashpot.runtime.replay.stage import staged

USER_SHARE, CRASH_SHARE = 0.2, 0.04
"""How often a user acts, and an actor crashes, where there is a choice."""


@frozen
class Snapshot:
    """All that could be seen after a step: the objects of the store, those of each cache, passes under way by actor."""

    truth: tuple[Obj, ...]
    caches: Mapping[tuple[str, str], tuple[Obj, ...]]
    busy: Mapping[str, int]


@frozen
class Happening:
    """One step.

    actor    as the runtime calls it (`Kubelet@east`); `kubernetes` for the garbage collector
    verb     a call, `end` of a pass, `deliver`, `collect`, `finalize`, `crash`
    action   `reconcile`, `gone`, or the action of a process or environment
    subject  whom a pass is for: parameter → (kind, name) of an object, or the text of a value; "" is the key's
    kind, name  of the object that was called for, or delivered; the name that a create was answered with
    error    how the call failed, as handlers name it
    line, column  of the call in the spec
    """

    actor: str
    verb: str
    action: str
    subject: Mapping[str, tuple[str, str] | str]
    kind: str
    name: str
    error: str
    line: int
    column: int
    after: Snapshot


@frozen
class Trace:
    """A walk: where it began, and all that happened."""

    start: Snapshot
    happenings: tuple[Happening, ...]
    notes: tuple[str, ...] = field(default=())


Lagging = Collection[tuple[str, str]]
"""Actor and kind of the caches that may be behind."""


def wander(
    actors: Actors,
    kinds: set[str],
    lagging: Lagging,
    lag: int,
    *,
    seed: int,
    steps: int,
    crashes: int = 0,
    users: int = 4,
    collects: bool = True,
) -> Trace:
    """A walk of so many steps, or until nothing can happen any more. CannotReplay.

    kinds    what the walk records of the store
    lag      undelivered changes of a cache at most; what is more is delivered at once
    crashes, users  how often an actor crashes, and a user acts, at most
    collects  whether there is a garbage collector beside the actors
    """
    walk = _Walk(actors, kinds, lagging, lag, random.Random(seed), collects)
    return run_virtual(walk.run(steps, crashes, users), seed=seed)


class _Walk:
    def __init__(
        self, actors: Actors, kinds: set[str], lagging: Lagging, lag: int, chance: random.Random, collects: bool
    ) -> None:
        self.collects = collects
        self.actors, self.kinds, self.lagging, self.lag, self.chance = actors, kinds, lagging, lag, chance
        self.happenings: list[Happening] = []
        self.acted: Counter[tuple[str, str]] = Counter()
        self.driver: Driver

    async def run(self, steps: int, crashes: int, users: int) -> Trace:
        actors = self.actors
        async with staged(actors.program, actors.names, actors.given, actors.constants, self.kinds) as stage:
            self.driver = Driver(stage)
            await self.driver.begin()
            self._sort()
            start = self._snapshot()
            left = {"crash": crashes, "user": users}
            while len(self.happenings) < steps and await self._step(left):
                pass
            return Trace(start, tuple(self.happenings), tuple(stage.notes))

    # -- choosing -----------------------------------------------------------------------------------------------

    async def _step(self, left: dict[str, int]) -> bool:
        driver = self.driver
        names = [name for name, one in driver.stage.instances.items() if isinstance(one, Running)]
        if left["crash"] and names and self.chance.random() < CRASH_SHARE:
            left["crash"] -= 1
            await self._crash(self.chance.choice(names))
            return True
        users = self._candidates(users=True) if left["user"] else []
        if users and self.chance.random() < USER_SHARE:
            left["user"] -= 1
            await self._act(*self.chance.choice(users))
            return True
        choices: list[tuple[str, Any]] = [("pass", one) for one in driver.passes]
        choices += [("deliver", gate) for gate in driver.gates.values() if gate.groups]
        choices += [("key", pair) for pair in self._keys()]
        choices += [("act", pair) for pair in self._candidates(users=False)]
        choices += [("collect", obj) for obj in due(driver.world) if self.collects]
        if not choices:
            if users:
                left["user"] -= 1
                await self._act(*self.chance.choice(users))
            return bool(users)
        kind, what = self.chance.choice(choices)
        if kind == "pass":
            await self._on(what)
        elif kind == "deliver":
            gate = what
            name = gate.groups[0].name
            gate.deliver()
            self._note(gate.actor, "deliver", "", {}, gate.kind, name)
        elif kind == "key":
            instance, key = what
            instance.queue.take(key)
            await self._on(driver.of_key(instance, key, f"{instance.actor.kind} {key.name}"))
        elif kind == "act":
            await self._act(*what)
        else:
            await collect(driver.stage, what)
            await driver.look()
            verb = "finalize" if what.meta.get("deletionTimestamp") else "collect"
            self._note("kubernetes", verb, "", {}, what.view.kind, what.name)
        return True

    def _keys(self) -> list[tuple[Running, Key]]:
        """Keys that wait, of controllers that have a worker for them."""
        found = []
        for instance in self.driver.stage.instances.values():
            if isinstance(instance, Running):
                working = [one.key for one in self.driver.passes if one.instance is instance]
                if len(working) < instance.actor.workers:
                    cache = instance.caches[instance.actor.kind]
                    for key in instance.queue.waiting():
                        obj = cache.get(key.namespace, key.name)
                        if instance.own.seen(key) and (obj is None or obj.uid not in self.driver.stage.before):
                            found.append((instance, key))
        return found

    def _candidates(self, *, users: bool) -> list[tuple[RunningProcess, Candidate]]:
        """What processes, or users, could do now. A process does one thing at a time."""
        found = []
        for instance in self.driver.stage.instances.values():
            if isinstance(instance, RunningProcess) and fair(self.driver, instance) is not users:
                if not any(one.instance is instance for one in self.driver.passes):
                    found += [(instance, one) for one in instance.candidates() if self._allowed(instance, one)]
        return found

    def _allowed(self, instance: RunningProcess, candidate: Candidate) -> bool:
        """Whether an action that happens `at most` so often may happen again."""
        limit = instance.actions[candidate.action].action.limit
        return limit is None or self.acted[instance.name, candidate.action] < limit

    # -- doing --------------------------------------------------------------------------------------------------

    async def _act(self, instance: RunningProcess, candidate: Candidate) -> None:
        one = begun(self.driver, instance, candidate)
        if one is not None:
            self.acted[instance.name, candidate.action] += 1
            await self._on(one)

    async def _on(self, one: Pass) -> None:
        """The next call of a pass, or its end."""
        await self.driver.later(one)
        found, _ = await one.ahead(lambda it: True)
        name = one.instance.name
        if isinstance(found, Outcome):
            self.driver.finish(one, found)
            self._note(name, "end", one.action, _subject(one))
            return
        await self.driver.go(one, found, FREE)
        answer = one.told[-1].answer
        error = self.driver.history[-1].error
        called = answer.name if isinstance(answer, Obj) else found.name
        span = found.span
        self._note(name, found.verb, one.action, _subject(one), found.kind, called, error, span.line, span.column)

    async def _crash(self, name: str) -> None:
        await self.driver.fault(evolve(FREE, actor=name, verb="crash"))
        await self.driver.look()
        self._note(name, "crash", "", {})

    def _note(
        self,
        actor: str,
        verb: str,
        action: str,
        subject: Mapping[str, tuple[str, str] | str],
        kind: str = "",
        name: str = "",
        error: str = "",
        line: int = 0,
        column: int = 0,
    ) -> None:
        self._sort()
        after = self._snapshot()
        self.happenings.append(Happening(actor, verb, action, subject, kind, name, error, line, column, after))

    def _sort(self) -> None:
        """Holds back what may lag, up to the lag; the rest is delivered."""
        for gate in self.driver.gates.values():
            if (gate.actor, gate.kind) not in self.lagging:
                gate.open()
                continue
            gate.queue(self.driver.names)
            while len(gate.groups) > self.lag:
                gate.deliver()

    def _snapshot(self) -> Snapshot:
        driver = self.driver
        caches = {
            key: tuple(obj for obj in gate.cache.all() if obj.uid not in driver.stage.before)
            for key, gate in driver.gates.items()
        }
        busy: dict[str, int] = {}
        for one in driver.passes:
            busy[one.instance.name] = busy.get(one.instance.name, 0) + 1
        return Snapshot(tuple(driver.world.values()), caches, busy)


def _subject(one: Pass) -> dict[str, tuple[str, str] | str]:
    """Whom a pass is for."""
    found: dict[str, tuple[str, str] | str] = {}
    if isinstance(one.key, Key):
        return {"": (one.instance.actor.kind, one.key.name)}  # type: ignore[union-attr]
    for name, value in one.params.items():
        found[name] = (value.view.kind, value.name) if isinstance(value, Obj) else _text(value)
    return found


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
