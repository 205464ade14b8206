"""Virtual time."""

from __future__ import annotations

import asyncio
import time

import pytest

from dashpot.runtime.clock import LoopClock
from dashpot.runtime.loop import EPOCH, Deadlock, run_virtual, virtual_clock


def test_a_day_of_renewals_takes_no_time() -> None:
    """8,640 kubelet renewals: nobody waits, and the clock says what the loop's time says."""

    async def main() -> tuple[int, float]:
        clock, renewals = virtual_clock(), 0
        assert clock.now() == LoopClock(EPOCH).now()
        while clock.now() < EPOCH + 24 * 3600:
            async with asyncio.timeout(5):
                await asyncio.sleep(1)
            renewals += 1
            await asyncio.sleep(9)
        return renewals, asyncio.get_running_loop().time()

    begun = time.perf_counter()
    assert run_virtual(main()) == (8640, 86400)
    assert time.perf_counter() - begun < 5


def test_deadlock_is_told_with_who_waits() -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.Event().wait(), name="the waiter")
        await asyncio.sleep(100)
        await task

    with pytest.raises(Deadlock, match=r"2 tasks wait for ever:(?s:.*)the waiter"):
        run_virtual(main())


def test_seeds_draw_the_order_of_ties_and_nothing_else() -> None:
    def order(seed: int | None) -> tuple[str, ...]:
        async def main() -> tuple[str, ...]:
            found: list[str] = []

            async def one(name: str) -> None:
                await asyncio.sleep(1)
                found.append(name)

            await asyncio.gather(*(one(name) for name in "abcde"))
            assert asyncio.get_running_loop().time() == pytest.approx(1, abs=1e-5)
            return tuple(found)

        return run_virtual(main(), seed=seed)

    assert order(None) == order(None)
    orders = [order(seed) for seed in range(20)]
    assert orders == [order(seed) for seed in range(20)] and len(set(orders)) > 10


def test_what_would_take_a_thread_is_done_at_once() -> None:
    async def main() -> int:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(sum, [1, 2])

    assert run_virtual(main()) == 3


def test_a_real_loop_is_no_virtual_one() -> None:
    async def main() -> None:
        virtual_clock()

    with pytest.raises(RuntimeError, match="this is no virtual loop"):
        asyncio.run(main())


def test_the_day_begins_when_told() -> None:
    async def main() -> float:
        await asyncio.sleep(10)
        return virtual_clock().now()

    assert run_virtual(main(), start=1000.0) == 1010.0


def test_exceptions_and_results_pass() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_virtual(main())
