"""Where the events of one watch pass when faults are on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from attrs import frozen

from dashpot.runtime.api.faults_rules import BETWEEN, DELAY, DISCONNECT, DROP, WITHIN, Rule

WAITING = 10_000
"""Events of one watch that may be on their way late; then no more are taken from its source."""
_LATE = (DELAY, BETWEEN)


@frozen
class _Event:
    """A line of a watch, when it may pass (time of the loop), and whether it is lost, or the watch ends before it."""

    line: bytes
    due: float
    cut: bool
    dropped: bool


class Tap:
    """Where the events of one watch pass: late, not at all, out of order, until it is cut."""

    def __init__(
        self,
        who: tuple[str, str, str],
        rules: Sequence[Rule],
        chance: random.Random,
        closed: Callable[[Tap], None],
    ) -> None:
        self.who = who
        self.cut = False
        self.held = False
        self.waiting = False
        self._rules = rules
        self._chance = chance
        self._closed = closed
        self._credit = 0
        self._changed = asyncio.Event()

    def hold(self) -> None:
        """No event passes from now on."""
        self.held = True

    def release(self) -> None:
        """All pass again."""
        self.held = False
        self._credit = 0
        self._changed.set()

    def step(self, count: int) -> None:
        """So many events pass while it is held."""
        self._credit += count
        self._changed.set()

    def disconnect(self) -> None:
        """The watch ends before its next event, or now if one is held."""
        self.cut = True
        self._changed.set()

    async def _pass(self) -> bool:
        """Waits until the next event may pass; False if the watch is cut."""
        while self.held and not self._credit and not self.cut:
            self.waiting = True
            self._changed.clear()
            await self._changed.wait()
        self.waiting = False
        if self.held:
            self._credit -= 1
        return not self.cut

    async def through(self, source: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
        """The lines of a watch as its client gets them, one by one: each as much later as its own delay, in order."""
        loop = asyncio.get_running_loop()
        struck = self._struck(source)
        events = self._early(struck) if any(rule.action in _LATE for rule in self._rules) else struck
        try:
            async for event in events:
                if event.due > loop.time():
                    await asyncio.sleep(event.due - loop.time())
                if not await self._pass() or event.cut:
                    self.cut = True
                    return
                if not event.dropped:
                    yield event.line
        finally:
            self._closed(self)
            await events.aclose()
            await struck.aclose()
            await source.aclose()

    async def _struck(self, source: AsyncGenerator[bytes]) -> AsyncGenerator[_Event]:
        """What the rules do to each line, in the order of the lines: a seed gives the same however late they are."""
        loop = asyncio.get_running_loop()
        async for lines in source:
            arrived = loop.time()
            for line in self._order(lines.splitlines(keepends=True)):
                delay = sum(
                    self._chance.uniform(rule.low, rule.high)
                    for rule in self._rules
                    if rule.action in _LATE and rule.strikes(self._chance)
                )
                cut = self._strikes(DISCONNECT)
                yield _Event(line, arrived + delay, cut, not cut and self._strikes(DROP))
                if cut:
                    return

    @staticmethod
    async def _early(struck: AsyncGenerator[_Event]) -> AsyncGenerator[_Event]:
        """The same, taken from the source while the ones before still wait: delays must not add up."""
        waiting: asyncio.Queue[_Event | Exception | None] = asyncio.Queue(WAITING)

        async def take() -> None:
            try:
                async for event in struck:
                    await waiting.put(event)
            except Exception as error:
                await waiting.put(error)
            else:
                await waiting.put(None)

        taking = asyncio.ensure_future(take())
        try:
            while (event := await waiting.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            taking.cancel()
            await asyncio.wait((taking,))

    def _strikes(self, action: str) -> bool:
        return any(rule.action == action and rule.strikes(self._chance) for rule in self._rules)

    def _order(self, lines: list[bytes]) -> list[bytes]:
        if len(lines) > 1 and self._strikes(WITHIN):
            self._chance.shuffle(lines)
        return lines
