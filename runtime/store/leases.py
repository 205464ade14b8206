"""Leases: keys that are deleted when nobody says in time that they are still meant. Time is the event loop's."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from attrs import define, field

LONGEST_S = 9_000_000_000.0
"""The longest time to live; as etcd's."""


@define(eq=False)
class Lease:
    """One lease: seconds to live, when it ends (loop time), its keys."""

    id: int
    ttl: float
    deadline: float
    keys: set[str] = field(factory=set)


class Leases:
    """The leases of one store; `expire` is called with each that was not kept alive."""

    def __init__(self, expire: Callable[[Lease], None]) -> None:
        self._expire = expire
        self._leases: dict[int, Lease] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, lease: int) -> bool:
        return lease in self._leases

    def find(self, lease: int) -> Lease | None:
        """The lease of that number."""
        return self._leases.get(lease)

    def fresh(self) -> int:
        """A number that no lease has: positive, 63 bits, not to be guessed."""
        while True:
            number = secrets.randbits(62) + 1
            if number not in self._leases:
                return number

    def add(self, number: int, ttl: float) -> Lease:
        """A lease whose time begins now."""
        lease = Lease(number, ttl, asyncio.get_running_loop().time() + ttl)
        self._leases[number] = lease
        self._arm(lease.deadline)
        return lease

    def renew(self, lease: Lease) -> None:
        """Its time begins anew; the timer finds out when it fires."""
        lease.deadline = asyncio.get_running_loop().time() + lease.ttl

    def remove(self, number: int) -> Lease | None:
        """Forgets a lease."""
        return self._leases.pop(number, None)

    def move(self, key: str, old: int, new: int) -> None:
        """A key goes from one lease to another (0: none)."""
        if old and old in self._leases:
            self._leases[old].keys.discard(key)
        if new:
            self._leases[new].keys.add(key)

    def stop(self) -> None:
        """No lease ends any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            if deadline >= self._next:
                return
            self._timer.cancel()
        self._next = deadline
        self._timer = asyncio.get_running_loop().call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for lease in [lease for lease in self._leases.values() if lease.deadline <= now]:
            self._expire(lease)
        if self._leases:
            self._arm(min(lease.deadline for lease in self._leases.values()))
