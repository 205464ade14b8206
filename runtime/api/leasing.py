"""Leases shared by objects that expire together: one grant a minute, not one an event.

Source: k8s.io/apiserver pkg/storage/etcd3/lease_manager.go: leases are reused for 60 s and for 1,000 objects; the time
of reuse is added to their life, at least a twentieth of it.
"""

from __future__ import annotations

from dashpot.runtime.api.tally import tally
from dashpot.runtime.clock import Clock
from dashpot.runtime.store.base import Store

REUSE_S = 60.0
OBJECTS = 1000
_COUNTS = tally("etcd_lease_object_counts").hist()


class Leases:
    """Gives each object with a time to live a lease that lives at least so long."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._current: dict[float, tuple[int, float, int]] = {}

    async def lease(self, ttl_s: float) -> int:
        """The id of a lease that ends not before `ttl_s` from now; 0 for objects that stay."""
        if ttl_s <= 0:
            return 0
        now = self._clock.now()
        found = self._current.get(ttl_s)
        if found is not None and found[1] > now and found[2] < OBJECTS:
            lease, until, count = found
            self._current[ttl_s] = (lease, until, count + 1)
            return lease
        reuse = min(max(ttl_s * 0.05, 1.0), REUSE_S)
        if found is not None:
            _COUNTS.observe(found[2])
        lease = await self._store.grant(ttl_s + reuse)
        self._current[ttl_s] = (lease, now + reuse, 1)
        return lease

    def forget(self, ttl_s: float) -> None:
        """The lease is gone: the next object gets a new one."""
        self._current.pop(ttl_s, None)
