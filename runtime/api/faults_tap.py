"""Where the events of one watch pass when faults are on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from dashpot.runtime.api.faults_rules import BETWEEN, DELAY, DISCONNECT, DROP, WITHIN, Rule


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
        """The lines of a watch as its client gets them, one by one."""
        try:
            async for lines in source:
                for line in self._order(lines.splitlines(keepends=True)):
                    for rule in self._rules:
                        if rule.action in (DELAY, BETWEEN) and rule.strikes(self._chance):
                            await asyncio.sleep(self._chance.uniform(rule.low, rule.high))
                    if not await self._pass() or self._strikes(DISCONNECT):
                        self.cut = True
                        return
                    if not self._strikes(DROP):
                        yield line
        finally:
            self._closed(self)
            await source.aclose()

    def _strikes(self, action: str) -> bool:
        return any(rule.action == action and rule.strikes(self._chance) for rule in self._rules)

    def _order(self, lines: list[bytes]) -> list[bytes]:
        if len(lines) > 1 and self._strikes(WITHIN):
            self._chance.shuffle(lines)
        return lines
