"""Seats and queues of priority levels: who gets one, who waits, who is refused, and that nobody is forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.runtime.api.flow_levels import Level, Pool, Refused, Shape, Ticket, Waiter, deal


def pool(total: int, **shapes: Shape) -> Pool:
    """Levels of those names and shapes."""
    made = Pool(total)
    made.share((name, f"uid-{name}", shape) for name, shape in shapes.items())
    return made


def one(total: int, shape: Shape) -> Level:
    """A level that has all seats."""
    return pool(total, only=shape).levels["only"]


def queued(length: int = 50, queues: int = 8, hand: int = 2, **more: int) -> Shape:
    return Shape(queues=queues, hand=hand, length=length, **more)  # type: ignore[arg-type]


def waits(taken: Ticket | Waiter) -> Waiter:
    assert isinstance(taken, Waiter)
    return taken


def runs(taken: Ticket | Waiter) -> Ticket:
    assert isinstance(taken, Ticket)
    return taken


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_seats_are_divided_by_shares_rounded_up() -> None:
    made = pool(600, a=Shape(shares=5), b=Shape(shares=30), c=Shape(shares=210), free=Shape(exempt=True, shares=0))
    assert {name: level.nominal for name, level in made.levels.items()} == {"a": 13, "b": 74, "c": 515, "free": 0}


def test_a_level_without_queues_refuses_what_finds_no_seat() -> None:
    level = one(2, Shape())
    first, second = runs(level.take("x", 1)), runs(level.take("x", 1))
    with pytest.raises(Refused, match="concurrency-limit"):
        level.take("x", 1)
    first.done()
    first.done()  # twice is once
    runs(level.take("x", 1))
    second.done()
    assert level.used == 1


def test_an_exempt_level_never_refuses() -> None:
    level = one(1, Shape(exempt=True))
    for _ in range(100):
        runs(level.take("x", 1))
    assert level.used == level.executing == 100


def test_who_waits_begins_when_a_seat_is_free_and_a_full_queue_refuses() -> None:
    async def main() -> None:
        level = one(1, queued(length=2, queues=1, hand=1))
        running = runs(level.take("x", 1))
        waiters = [waits(level.take("x", 1)) for _ in range(2)]
        with pytest.raises(Refused, match="queue-full"):
            level.take("x", 1)
        tasks = [asyncio.create_task(level.wait(waiter, 10.0)) for waiter in waiters]
        await settle()
        assert level.waiting == 2 and not any(task.done() for task in tasks)
        running.done()
        await settle()
        assert [task.done() for task in tasks] == [True, False], "first come, first served"
        (await tasks[0]).done()
        (await tasks[1]).done()
        assert (level.used, level.waiting, level.waiting_seats, level.executing) == (0, 0, 0, 0)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["time-out", "cancelled", "cancelled as it was let in"])
def test_who_gives_up_leaves_nothing_behind(how: str) -> None:
    async def main() -> None:
        level = one(1, queued())
        running = runs(level.take("x", 1))
        waiting = asyncio.create_task(level.wait(waits(level.take("x", 1)), 0.0 if how == "time-out" else 10.0))
        behind = asyncio.create_task(level.wait(waits(level.take("x", 1)), 10.0))
        await settle()
        if how == "time-out":
            with pytest.raises(Refused, match="time-out"):
                await waiting
        else:
            if "let in" in how:
                running.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        running.done()
        (await behind).done()
        assert (level.used, level.waiting, level.waiting_seats, level.executing) == (0, 0, 0, 0)

    asyncio.run(main())


def test_a_small_flow_is_not_behind_a_flood() -> None:
    """A hundred requests of one flow wait; one of another begins as one of the first few."""

    async def main() -> None:
        level = one(1, queued(queues=64, hand=4, length=200))
        running = runs(level.take("elephant", 1))
        order: list[str] = []

        async def ask(flow: str) -> None:
            ticket = await level.wait(waits(level.take(flow, 1)), 60.0)
            order.append(flow)
            await asyncio.sleep(0)
            ticket.done()

        tasks = [asyncio.create_task(ask("elephant")) for _ in range(100)]
        await settle()
        tasks.append(asyncio.create_task(ask("mouse")))
        await settle()
        running.done()
        await asyncio.gather(*tasks)
        assert order.index("mouse") <= 6, "at most behind one of each queue of the elephant's hand"

    asyncio.run(main())


def test_a_wide_request_is_not_passed_by_narrow_ones_for_ever() -> None:
    async def main() -> None:
        level = one(4, queued(queues=1, hand=1))
        running = [runs(level.take("x", 1)) for _ in range(4)]
        wide = asyncio.create_task(level.wait(waits(level.take("x", 3)), 60.0))
        narrow = asyncio.create_task(level.wait(waits(level.take("x", 1)), 60.0))
        await settle()
        running.pop().done()
        await settle()
        assert not narrow.done() and not wide.done(), "the seat is kept for who came first"
        running.pop().done()
        running.pop().done()
        await settle()
        assert wide.done() and not narrow.done()
        for ticket in (*running, await wide):
            ticket.done()
        (await narrow).done()
        assert level.used == 0

    asyncio.run(main())


def test_what_a_level_does_not_lend_is_there_at_any_time() -> None:
    """`low` takes all that it can; `leases`, which lends nothing, still has every seat of its own."""
    leasing = queued(shares=10)

    async def main() -> None:
        made = pool(100, low=queued(shares=50, lendable=90), leases=leasing, other=queued(shares=40, lendable=50))
        low, leases = made.levels["low"], made.levels["leases"]
        taken = 0
        while isinstance(low.take("flood", 1), Ticket):
            taken += 1
        assert low.nominal < taken == 100 - leases.nominal - made.levels["other"].lower
        for _ in range(leases.nominal):
            runs(leases.take("lease", 1))

    asyncio.run(main())


def test_a_seat_that_comes_back_goes_to_whoever_waits_for_it() -> None:
    async def main() -> None:
        made = pool(10, a=queued(shares=50, lendable=100), b=queued(shares=50, lendable=100))
        a, b = made.levels["a"], made.levels["b"]
        borrowed = [runs(a.take("a", 1)) for _ in range(10)]
        waiting = asyncio.create_task(b.wait(waits(b.take("b", 1)), 60.0))
        await settle()
        assert not waiting.done()
        borrowed.pop().done()
        await settle()
        assert waiting.done()
        for ticket in (*borrowed, await waiting):
            ticket.done()
        assert a.used == b.used == 0 and not made.hungry

    asyncio.run(main())


def test_a_new_configuration_forgets_nobody() -> None:
    async def main() -> None:
        made = pool(1, only=queued(queues=8))
        level = made.levels["only"]
        running = runs(level.take("x", 1))
        tasks = [asyncio.create_task(level.wait(waits(level.take(f"{i}", 1)), 60.0)) for i in range(6)]
        await settle()
        made.share([("only", "u", queued(queues=2)), ("new", "v", queued())])
        assert level.waiting == 6
        running.done()
        for ready in asyncio.as_completed(tasks):
            (await ready).done()
        assert (level.used, level.waiting) == (0, 0)
        made.share([("new", "v", queued())])
        assert set(made.levels) == {"new"}

    asyncio.run(main())


@given(st.text(max_size=20), st.integers(1, 200), st.integers(1, 12))
def test_a_hand_is_of_different_cards_and_always_the_same(flow: str, deck: int, hand: int) -> None:
    cards = deal(flow, deck, hand)
    assert len(set(cards)) == len(cards) == min(deck, hand)
    assert all(0 <= card < deck for card in cards)
    assert deal(flow, deck, hand) == cards


def test_hands_are_spread_evenly() -> None:
    count = Counter(card for i in range(2_000) for card in deal(f"flow-{i}", 64, 6))
    assert min(count.values()) > 130 and max(count.values()) < 250  # 187.5 on average


SHAPES = st.builds(
    lambda shares, lendable, queues: Shape(shares=shares, lendable=lendable, queues=queues, hand=2, length=5),
    st.integers(0, 50),
    st.sampled_from([0, 50, 100]),
    st.sampled_from([0, 1, 8]),
)
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 4)), max_size=60)


@given(st.lists(SHAPES, min_size=3, max_size=3), STEPS, st.integers(1, 30))
def test_whatever_happens_seats_are_counted_right(
    shapes: list[Shape], steps: list[tuple[int, int, int]], total: int
) -> None:
    """Requests of any width come and go: no level exceeds what it may, all seats come back, all who wait begin."""

    async def main() -> None:
        made = pool(total, **{f"l{i}": shape for i, shape in enumerate(shapes)})
        promised = max(total, sum(level.nominal for level in made.levels.values()))
        running: list[Ticket] = []
        tasks: list[asyncio.Task[Ticket]] = []
        for which, act, seats in steps:
            level = made.levels[f"l{which}"]
            if act == 0 and running:
                running.pop(0).done()
            elif act == 1 and tasks:
                tasks.pop(0).cancel()
            else:
                try:
                    taken = level.take(f"flow-{act}", min(seats, level.widest))
                except Refused:
                    continue
                if isinstance(taken, Ticket):
                    running.append(taken)
                else:
                    tasks.append(asyncio.create_task(level.wait(taken, 60.0)))
            await settle()
            # a level that has no shares may still have one request
            assert sum(one.used for one in made.levels.values() if one.nominal) <= promised
        while running or tasks:
            for task in [task for task in tasks if task.done()]:
                tasks.remove(task)
                running.append(await task)
            assert running, "somebody waits though nobody runs"
            running.pop(0).done()
            await settle()
        assert all((one.used, one.waiting_seats, one.executing) == (0, 0, 0) for one in made.levels.values())

    asyncio.run(main())
