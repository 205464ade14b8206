"""The scheduling queue on the virtual clock (S46 to S50)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dashpot.model.placement.hints import Event
from dashpot.model.placement.shape import Pod
from dashpot.runtime.clock import Clock
from dashpot.runtime.loop import run_virtual, virtual_clock
from dashpot.runtime.scheduler.queue import SchedulingQueue, Waiting
from tests.plane.kit import Object

NODE = Event("Node", frozenset({"add"}), None, {"metadata": {"name": "n", "uid": "n"}})
FIT = frozenset({"NodeResourcesFit"})


def named(name: str, priority: int = 0, **spec: object) -> Object:
    return {"metadata": {"uid": name, "name": name}, "spec": {"priority": priority, **spec}}


def queued(
    test: Callable[[SchedulingQueue, Clock], Awaitable[None]],
    helps: Callable[[str], bool] = lambda plugin: True,
    **how: object,
) -> None:
    """Runs a test with a queue; `helps`: whether an event undoes a plugin's rejection."""

    async def main() -> None:
        clock = virtual_clock()

        def asked(plugin: str, pod: Pod, event: Event) -> bool:
            return helps(plugin)

        await test(SchedulingQueue(clock.now, asked, **how), clock)  # type: ignore[arg-type]

    run_virtual(main(), seed=1)


def test_priority_first_then_who_came_first() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        for name, priority in (("low", 0), ("high", 10), ("late", 0), ("middle", 5)):
            queue.add(name, named(name, priority))
        assert [(await queue.pop()).key for _ in range(4)] == ["high", "middle", "low", "late"]

    queued(test)


@pytest.mark.parametrize("early", [False, True])
def test_errors_back_off_by_whole_seconds(early: bool) -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p"))
        delays = []
        one = await queue.pop()
        for _ in range(6):
            begun = clock.now()
            queue.fail(one)
            assert queue.counts()["backoff"] == 1
            assert await queue.pop() is one
            delays.append(clock.now() - begun)
        # the second in which a back-off ends is part of it
        for delay, least in zip(delays, [1, 2, 4, 8, 10, 10], strict=True):
            assert least <= delay <= least + 1.01

    queued(test, early=early)


def test_a_rejected_pod_waits_for_an_event_that_helps_who_rejected_it() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        for name, plugins in (("a", FIT), ("b", frozenset({"NodeAffinity"}))):
            queue.add(name, named(name))
            queue.reject(await queue.pop(), plugins)
        assert queue.counts()["unschedulable"] == 2
        await asyncio.sleep(20)
        queue.tell(NODE)
        one = await queue.pop()
        assert (one.key, one.attempts, queue.counts()["unschedulable"]) == ("a", 2, 1)
        begun = clock.now()
        assert (await queue.pop()).key == "b"
        # five minutes, looked at every thirty seconds
        assert 280 - 1 <= clock.now() - begun <= 310

    queued(test, lambda plugin: plugin == "NodeResourcesFit")


def test_who_backs_off_from_a_rejection_is_taken_early_where_nobody_is_active() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p"))
        one = await queue.pop()
        queue.reject(one, FIT)
        queue.tell(NODE)
        begun = clock.now()
        assert queue.counts()["backoff"] == 1
        assert await queue.pop() is one
        assert clock.now() - begun < 0.1 if queue.early else 1 <= clock.now() - begun <= 2.01

    queued(test)
    queued(test, early=False)


def test_what_happened_while_a_pod_was_placed_is_not_missed() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p"))
        queue.add("q", named("q"))
        one, other = await queue.pop(), await queue.pop()
        queue.tell(NODE)
        queue.reject(one, FIT)
        assert queue.counts() == {"active": 0, "backoff": 1, "unschedulable": 0, "gated": 0}
        queue.reject(other, frozenset({"NodeAffinity"}))
        assert queue.counts() == {"active": 0, "backoff": 1, "unschedulable": 1, "gated": 0}

    queued(test, lambda plugin: plugin == "NodeResourcesFit")


def test_a_pod_that_changed_while_it_was_placed_is_tried_again() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p"))
        one = await queue.pop()
        queue.add("p", named("p", tolerations=[{}]), Event("Pod", frozenset({"toleration"}), None, None))
        queue.reject(one, frozenset({"TaintToleration"}))
        assert queue.counts()["backoff"] == 1

    queued(test, lambda plugin: False)


def test_gated_pods_wait_until_their_gates_are_gone() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p", schedulingGates=[{"name": "x"}]))
        queue.add("q", named("q"))
        assert queue.counts()["gated"] == 1
        assert (await queue.pop()).key == "q"
        queue.add("p", named("p"), Event("Pod", frozenset({"gates"}), None, None))
        assert (await queue.pop()).key == "p"

    queued(test)


def test_a_pod_that_is_held_is_not_looked_at() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p"))
        one = await queue.pop()
        queue.hold(one)
        queue.reject(one, FIT)
        queue.tell(NODE)
        waiting = asyncio.ensure_future(queue.pop())
        await asyncio.sleep(60)
        assert not waiting.done()
        queue.release(one)
        assert await waiting is one

    queued(test)


def test_another_pod_of_the_name_begins_anew() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p"))
        old = await queue.pop()
        queue.add("p", {**named("p"), "metadata": {"uid": "other", "name": "p"}})
        queue.fail(old)  # nobody's any more
        queue.reject(old, FIT)
        new = await queue.pop()
        assert new is not old and (new.attempts, len(queue)) == (1, 1)
        queue.remove("p")
        assert len(queue) == 0 and queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}

    queued(test)


def test_a_rejection_by_nobody_is_an_error() -> None:
    async def test(queue: SchedulingQueue, clock: Clock) -> None:
        queue.add("p", named("p"))
        one: Waiting = await queue.pop()
        queue.reject(one, frozenset())
        begun = clock.now()
        assert await queue.pop() is one
        assert 1 <= clock.now() - begun <= 2.01

    queued(test)
