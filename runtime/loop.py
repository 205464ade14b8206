"""An asyncio loop on virtual time: when nothing is ready, its time jumps to the next timer. Nobody waits, and the same
program takes the same course every time.

There are no sockets, processes and threads here: what waits for one of those would wait for the real world.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_767_225_600.0
"""2026-01-01T00:00:00Z: when virtual days begin, unless told otherwise."""
TIE_S = 1e-6
"""With a seed, timers fire up to this much later: those due at the same moment in an order of the seed's."""
_TOLD = 10


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: nobody would ever go on. The text says who waits, and where."""


class _Selector:
    """Where the loop waits: time passes by as much as it wanted to wait, at once."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock(_waiting(self._loop))
        if timeout > 0:
            self._loop.advance(timeout)
        return []

    def close(self) -> None:
        return


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop, which is also its clock: `time()` begins at 0, `now()` at `start` (seconds since 1970). `chance` is
    drawn from the seed, for whoever needs it."""

    def __init__(self, seed: int | None = None, start: float = EPOCH) -> None:
        super().__init__()
        self._start = start
        self._now = 0.0
        self._ties = None if seed is None else random.Random(f"{seed}/ties")
        self.chance = random.Random(f"{seed}/loop")
        self._selector = _Selector(self)
        # A timer counts as due within this much: floating point may leave one a hair ahead of the time jumped to.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Seconds since the loop was made; virtual."""
        return self._now

    def now(self) -> float:
        """What the day is: seconds since 1970."""
        return self._start + self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._now += seconds

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Sets a timer; with a seed, ties are drawn."""
        if self._ties is not None:
            when += self._ties.random() * TIE_S
        return super().call_at(when, callback, *args, context=context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As call_soon: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Runs it here and now: a thread would take real time, and its end would come at any moment."""
        found: asyncio.Future[T] = self.create_future()
        try:
            found.set_result(func(*args))
        except Exception as error:
            found.set_exception(error)
        return found

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


def run_virtual(
    main: Coroutine[Any, Any, T], *, seed: int | None = None, start: float = EPOCH, debug: bool = False
) -> T:
    """Runs it to its end on a virtual loop. Deadlock where it would wait for ever.

    `virtual_clock()` says inside what the day is, which begins at `start`. With a seed, timers that are due at the same
    moment fire in an order drawn from it: other seeds, other courses; the same seed, the same course.
    """
    with asyncio.Runner(debug=debug, loop_factory=lambda: VirtualLoop(seed, start)) as runner:
        return runner.run(main)


def virtual_clock() -> VirtualLoop:
    """The clock of the virtual loop that runs; RuntimeError on another loop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError("this is no virtual loop: use run_virtual, or LoopClock on a real one")
    return loop


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    """Which tasks wait, and on which line."""
    lines = []
    for task in asyncio.all_tasks(loop):
        frames = task.get_stack(limit=8)
        where = ""
        if frames:
            code = frames[-1].f_code
            where = f" at {code.co_filename}:{frames[-1].f_lineno} ({code.co_qualname})"
        lines.append(f"{task.get_name()}{where}")
    lines.sort()
    more = f"\n  … and {len(lines) - _TOLD} more" if len(lines) > _TOLD else ""
    told = "".join(f"\n  {line}" for line in lines[:_TOLD])
    return f"nothing is ready and no timer is set; {len(lines)} tasks wait for ever:{told}{more}"
