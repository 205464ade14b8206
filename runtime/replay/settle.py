"""Settling: everybody does what is to be done, in turn, until nothing changes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Any

from attrs import frozen

from dashpot.model.kernel.clock import durations
from dashpot.model.schedule import Moment, ScheduleStep
from dashpot.runtime.controller.body import Outcome
from dashpot.runtime.controller.controller import Running
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.paths import put
from dashpot.runtime.controller.process import Candidate, RunningProcess
from dashpot.runtime.replay.collector import collect, due
from dashpot.runtime.replay.driver import Driver
from dashpot.runtime.replay.passes import Pass

ROUNDS = 200
CALLS = 1000
"""Rounds of a settling, and calls of one pass, at most."""


LASTING = ("uid", "labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp")
Object = dict[str, Any]
Waived = Set[tuple[str, str]]


@frozen
class Settled:
    """How a settling ended: whether nothing changes any more; calls that changed something; rounds."""

    calm: bool
    changes: int
    rounds: int


async def settle(driver: Driver, *, rounds: int = ROUNDS, waived: Waived = frozenset()) -> Settled:
    """Lets everybody go on in turn. Users and faults have stopped; time passes when nothing else happens.

    waived   fields that may be written for ever: (kind, path)
    """
    longest = max(durations([driver.stage.program], driver.stage.views.constants), default=0) / 1000
    changes, idle, first = 0, 0, True
    for number in range(1, rounds + 1):
        before = _versions(driver, waived)
        await _round(driver)
        same = _versions(driver, waived) == before
        changes += not same
        idle = idle + 1 if same else 0
        if idle >= 2 and not _waiting(driver):
            if longest and first:  # once more, when all that waits for a time has had it
                first, idle = False, 0
                await asyncio.sleep(longest * 2 + 1)
                continue
            return Settled(True, changes, number)
        if idle >= 2:
            await asyncio.sleep(max(longest, 1.0))
            if idle > 6:
                return Settled(True, changes, number)
        first = first or not same
    return Settled(False, changes, rounds)


def _versions(driver: Driver, waived: Waived) -> dict[tuple[str, str], str]:
    """What tells whether the store has changed."""
    kinds = {kind for kind, _ in waived}
    return {
        key: _without(obj, waived) if obj.view.kind in kinds else f"{obj.uid}/{obj.version}"
        for key, obj in driver.world.items()
    }


def _without(obj: Obj, waived: Waived) -> str:
    """An object without the fields that are waived."""
    json: Object = {**obj.json, "metadata": {k: v for k, v in obj.meta.items() if k in LASTING}}
    for kind, path in waived:
        if kind == obj.view.kind and path.count(".") == 1:
            json = put(json, obj.view.path(*path.split(".")), None)
    return repr(json)


def _waiting(driver: Driver) -> bool:
    """Whether a key waits for its time."""
    return any(isinstance(i, Running) and i.queue.delayed for i in driver.stage.instances.values())


async def _round(driver: Driver) -> None:
    for one in list(driver.passes):
        await through(driver, one)
    _open(driver)
    for instance in list(driver.stage.instances.values()):
        if isinstance(instance, Running):
            for key in instance.queue.waiting():
                if instance.own.seen(key) and instance.queue.take(key):
                    subject = f"{instance.actor.kind} {driver.names.model(instance.actor.kind, key.name)}"
                    await through(driver, driver.of_key(instance, key, subject))
        elif fair(driver, instance):
            for candidate in instance.candidates():
                begun_now = begun(driver, instance, candidate)
                if begun_now is not None:
                    await through(driver, begun_now)
        _open(driver)
    for obj in due(driver.world):
        if await collect(driver.stage, obj):
            await driver.look()
    _open(driver)


def _open(driver: Driver) -> None:
    for gate in driver.gates.values():
        gate.open()


def fair(driver: Driver, instance: RunningProcess) -> bool:
    """Whether an actor goes on without being asked: a process does, users do not."""
    environments = {e.name for e in driver.stage.program.environments}
    return instance.actor.name not in environments


def begun(driver: Driver, instance: RunningProcess, candidate: Candidate) -> Pass | None:
    """A pass of a candidate, if its guard holds."""
    frame = instance.ready(candidate)
    if frame is None:
        return None
    ready = instance.actions[candidate.action]
    params = {name: frame.locals[name] for name, _ in ready.action.params}
    one = Pass(instance, ready.body, candidate, str(candidate), candidate.action, frame.namespace, params)
    driver.passes.append(one)
    return one


async def through(driver: Driver, one: Pass) -> None:
    """Takes a pass to its end, in whatever way comes first."""
    for _ in range(CALLS):
        found, _ok = await one.ahead(lambda it: True)
        await driver.go(one, found, FREE)
        if isinstance(found, Outcome):
            return
    driver.finish(one, Outcome("error", message=f"a pass makes more than {CALLS} calls"))


FREE = ScheduleStep(0, "", "", "", "", "", (), "step", (), 0, 0, "", Moment(()))
"""A step that nobody prescribes."""
