"""The work queue against a model, and its times on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.runtime.client.queue import Exponential, Figures, Overall, Slowest, WorkQueue, work
from dashpot.runtime.client.tokenbucket import TokenBucket
from dashpot.runtime.loop import run_virtual

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "get", "done", "after1", "after3", "wait"]), st.sampled_from("abc")), max_size=60
)


class Model:
    """What the queue shall do, said plainly: a list of keys that wait, those in hand, those in hand that come again,
    and when keys are due."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.hands: list[str] = []
        self.again: set[str] = set()
        self.due: dict[str, float] = {}
        self.now = 0

    def add(self, key: str) -> None:
        if key in self.hands:
            self.again.add(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    def done(self, key: str) -> None:
        if key in self.hands:
            self.hands.remove(key)
            if key in self.again:
                self.again.remove(key)
                self.waiting.append(key)

    def wait(self) -> None:
        self.now += 1
        for key in sorted(self.due, key=self.due.__getitem__):
            if self.due[key] > self.now:
                break
            del self.due[key]
            self.add(key)


@given(steps=STEPS)
def test_queue_does_what_the_model_does(steps: list[tuple[str, str]]) -> None:
    async def main() -> None:
        queue, model = WorkQueue[str](), Model()
        for step, key in steps:
            if step == "add":
                queue.add(key)
                model.add(key)
            elif step == "get" and model.waiting:
                assert await queue.get() == model.waiting[0]
                model.hands.append(model.waiting.pop(0))
            elif step == "done":
                queue.done(key)
                model.done(key)
            elif step.startswith("after"):
                # the order of keys that are due at once is nobody's promise: each key has its own moment
                seconds = int(step[5:]) - "abc".index(key) / 10
                queue.add_after(key, seconds)
                model.due[key] = min(model.due.get(key, 1e9), model.now + seconds)
            elif step == "wait":
                await asyncio.sleep(1)
                model.wait()
            await asyncio.sleep(0)
            assert (len(queue), queue.delayed) == (len(model.waiting), len(model.due))
        queue.shut_down()
        left = [key async for key in _rest(queue)]
        assert left == model.waiting

    run_virtual(main())


async def _rest(queue: WorkQueue[str]) -> AsyncIterator[str | None]:
    while len(queue):
        yield await queue.get()


@given(keys=st.lists(st.sampled_from("abcde"), max_size=40), workers=st.integers(1, 4))
def test_no_key_is_in_two_hands_and_none_is_lost(keys: list[str], workers: int) -> None:
    async def main() -> None:
        queue = WorkQueue[str]()
        hands: set[str] = set()
        seen: dict[str, int] = {}
        wanted: dict[str, int] = {}

        async def one(key: str) -> None:
            assert key not in hands
            hands.add(key)
            version = wanted[key]
            await asyncio.sleep(0.3)
            seen[key] = version
            hands.discard(key)

        task = asyncio.create_task(work(queue, one, workers=workers))
        for number, key in enumerate(keys):
            wanted[key] = number
            queue.add(key)
            await asyncio.sleep(0.1)
        await queue.drain()
        await task
        # each key was worked on after its last addition
        assert seen == wanted

    run_virtual(main())


def test_back_off_of_one_key() -> None:
    limiter = Exponential[str]()
    waits = [limiter.when("a") for _ in range(20)]
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04] and waits[-1] == 1000.0
    assert limiter.when("b") == 0.005
    assert (limiter.requeues("a"), limiter.requeues("b")) == (20, 1)
    for _ in range(2000):
        assert limiter.when("a") == 1000.0
    limiter.forget("a")
    assert (limiter.requeues("a"), limiter.when("a")) == (0, 0.005)


def test_overall_rate() -> None:
    async def main() -> list[float]:
        limiter = Slowest[str](Exponential(), Overall(10, 3))
        return [round(limiter.when(str(n)), 3) for n in range(6)]

    assert run_virtual(main()) == [0.005, 0.005, 0.005, 0.1, 0.2, 0.3]


def test_failing_keys_come_again_later_and_later() -> None:
    async def main() -> None:
        loop, times = asyncio.get_running_loop(), list[float]()
        queue = WorkQueue[str]()

        async def one(key: str) -> None:
            times.append(round(loop.time(), 4))
            if len(times) < 5:
                raise ValueError

        task = asyncio.create_task(work(queue, one))
        queue.add("a")
        await asyncio.sleep(10)
        assert times == [0, 0.005, 0.015, 0.035, 0.075] and queue.requeues("a") == 0
        await queue.drain()
        await task

    run_virtual(main())


def test_the_earliest_of_several_times_counts() -> None:
    async def main() -> None:
        queue, loop = WorkQueue[str](), asyncio.get_running_loop()
        for seconds in (5, 2, 9):
            queue.add_after("a", seconds)
        assert (await queue.get(), loop.time()) == ("a", 2)
        queue.done("a")
        await asyncio.sleep(20)
        assert len(queue) == 0
        queue.add_after("b", 0)
        assert await queue.get() == "b"

    run_virtual(main())


def test_drain_waits_for_what_is_in_hand() -> None:
    async def main() -> None:
        queue, loop = WorkQueue[str](), asyncio.get_running_loop()
        for key in "ab":
            queue.add(key)
        queue.add_after("c", 1)

        async def one(key: str) -> None:
            await asyncio.sleep(4)
            queue.add("late")

        task = asyncio.create_task(work(queue, one))
        await queue.drain()
        await task
        assert loop.time() == 8 and queue.ending and await queue.get() is None

    run_virtual(main())


def test_a_worker_that_gives_up_passes_its_key_on() -> None:
    async def main() -> None:
        queue = WorkQueue[str]()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    run_virtual(main())


def test_figures() -> None:
    async def main() -> Figures:
        figures = Figures()
        queue = WorkQueue[str](metrics=figures)
        for key in "aab":
            queue.add(key)
        assert figures.length == 2
        await asyncio.sleep(3)
        await queue.get()
        await asyncio.sleep(2)
        assert queue.longest_running == 2
        queue.done("a")
        queue.add_after("a", 1)
        return figures

    found = run_virtual(main())
    assert (found.adds, found.retries, found.takes, found.waited, found.worked, found.length) == (2, 1, 1, 3, 2, 1)


def test_token_bucket() -> None:
    time = 0.0
    bucket = TokenBucket(2, 3, lambda: time)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    time = 0.5
    assert [bucket.take(), bucket.take()] == [True, False]
    time = 100.0
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    with pytest.raises(ValueError):
        TokenBucket(0, 1)
