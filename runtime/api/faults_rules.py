"""Rules of faults: whom they concern, what they do, how often."""

from __future__ import annotations

import random
from fnmatch import fnmatchcase

from attrs import define, field, frozen

WATCH, READ = "watch", "read"
DELAY, DROP, DISCONNECT, BETWEEN, WITHIN, STALE = "delay", "drop", "disconnect", "between", "within", "stale"


class FaultsError(ValueError):
    """The file is not as it should be; the text says where and what to write instead."""


@frozen
class Who:
    """Which watches or reads are meant: patterns (`*`, `?`) for `pods` or `deployments.apps`, User-Agent and user.

    A pattern for the User-Agent may also fit what stands before its first slash: `kubectl` for `kubectl/v1.34.0 …`.
    """

    resource: str = "*"
    user_agent: str = "*"
    user: str = "*"

    def matches(self, resource: str, user_agent: str, user: str) -> bool:
        """Whether one is meant."""
        return (
            fnmatchcase(resource, self.resource)
            and (fnmatchcase(user_agent, self.user_agent) or fnmatchcase(user_agent.partition("/")[0], self.user_agent))
            and fnmatchcase(user, self.user)
        )


@define(eq=False)
class Rule:
    """One kind of fault. `low` and `high` bound a delay in seconds; `revisions` how far back a stale read looks;
    `after` events or reads pass first, then each is hit with `chance`, at most `times` (0: without limit) in all."""

    action: str
    who: Who = field(factory=Who)
    on: str = WATCH
    chance: float = 1.0
    low: float = 0.0
    high: float = 0.0
    revisions: int = 0
    after: int = 0
    times: int = 0
    seen: int = 0
    hits: int = 0

    def strikes(self, chance: random.Random) -> bool:
        """Whether the next event or read is hit; counts it."""
        self.seen += 1
        if self.seen <= self.after or (self.times and self.hits >= self.times):
            return False
        if self.chance < 1.0 and chance.random() >= self.chance:
            return False
        self.hits += 1
        return True
