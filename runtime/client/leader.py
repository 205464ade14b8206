"""Leader election on a Lease: of several candidates one leads, and it has stopped before another may begin.

Source: client-go tools/leaderelection, release 1.34. As there, a candidate compares no clocks: a lease is over when the
candidate itself has seen no change of it for its duration. Beyond upstream, what the leader does is cancelled
`renew_deadline` after the *sending* of its last successful renewal, whatever the network does, so that
`lease - renew_deadline` seconds are left to stop in.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field, frozen

from dashpot.model.objects.resource import ALL_VERBS, Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.clock import Clock, rfc3339_micro

Object = dict[str, Any]

GROUP, VERSION = "coordination.k8s.io", "v1"
LEASES = Resource(
    GROUP, VERSION, "Lease", "leases", "lease", True, ALL_VERBS, storage_group=GROUP, storage_version=VERSION
)
JITTER = 1.2
"""Candidates that wait try again after retry_period and up to this much more of it."""


@frozen
class Terms:
    """How long a lease lasts without renewal, how long its holder tries to renew it before it stops, and how often each
    tries; seconds."""

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __attrs_post_init__(self) -> None:
        if not self.lease > self.renew_deadline > self.retry_period * JITTER > 0:
            raise ValueError(f"a lease needs lease > renew_deadline > {JITTER:g} x retry_period > 0")
        if self.lease != int(self.lease):
            raise ValueError("a lease lasts whole seconds")


class Leadership:
    """What a leader holds. `token` rises with each change of leader: stores can refuse writes with an older one."""

    def __init__(self, token: int, until: float) -> None:
        self.token = token
        self._until = until

    @property
    def valid(self) -> bool:
        """Whether no other may lead yet: ask it right before a write that nothing else protects."""
        return asyncio.get_running_loop().time() < self._until

    @property
    def until(self) -> float:
        """When it ends unless it is renewed; loop time."""
        return self._until


@define(eq=False)
class Elector:
    """One candidate. `lead` runs while it leads, and is cancelled when it must not any more; it should end quickly."""

    client: Client
    name: str
    namespace: str
    identity: str
    lead: Callable[[Leadership], Awaitable[object]]
    clock: Clock
    terms: Terms = Terms()
    release: bool = True
    """Gives the lease back when it ends of its own accord: the next one need not wait."""
    chance: random.Random = field(factory=lambda: random.Random(0), repr=False)
    complain: Callable[[str], None] = field(default=lambda text: None, repr=False)
    observed: Callable[[str], None] = field(default=lambda identity: None, repr=False)
    """Told the identity of each new leader."""
    leadership: Leadership | None = field(default=None, init=False)
    _lease: Object | None = field(default=None, init=False, repr=False)
    """The lease as it was seen last."""
    _seen: float = field(default=0.0, init=False)
    """When that changed; loop time."""
    _reported: str = field(default="", init=False)

    @property
    def leads(self) -> bool:
        """Whether this candidate is the leader."""
        return self.leadership is not None and self.leadership.valid

    @property
    def leader(self) -> str:
        """Who leads, as far as this candidate knows; empty: nobody."""
        return str(_spec(self._lease).get("holderIdentity") or "")

    async def run(self) -> None:
        """Waits until it may lead, leads, and returns when that is over: the lease was lost, or `lead` has ended or
        failed (its exception is raised). To be a candidate again, run again."""
        while not await self._try():
            await asyncio.sleep(self.terms.retry_period * (1.0 + JITTER * self.chance.random()))
        leadership = self.leadership
        assert leadership is not None
        work = asyncio.ensure_future(self.lead(leadership))
        renewing = asyncio.get_running_loop().create_task(self._renew(leadership))
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost = renewing.done()
            renewing.cancel()
            ended = work.done()
            if not ended:
                work.cancel()
            # nothing is released while anything still leads
            await asyncio.gather(work, renewing, return_exceptions=True)
            self.leadership = None
            if self.release and not lost:
                await self._release()
        if ended and not work.cancelled():
            work.result()

    async def _renew(self, leadership: Leadership) -> None:
        """Renews until that has failed for too long."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(leadership.until):
                    await asyncio.sleep(self.terms.retry_period)
                    if not await self._try() and self.leader not in ("", self.identity):
                        self.complain(f"{self._named()}: {self.leader} leads now")
                        return
            except TimeoutError:
                self.complain(f"{self._named()}: not renewed within {self.terms.renew_deadline:g}s")
                return
            if loop.time() >= leadership.until:
                return

    # -- one attempt --------------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        """Acquires or renews; whether that has worked."""
        try:
            return await self._acquire()
        except (StatusError, TransportError) as error:
            if not (isinstance(error, StatusError) and error.reason in ("Conflict", "AlreadyExists")):
                self.complain(f"{self._named()}: {error}")
            return False

    async def _acquire(self) -> bool:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        if self.leads and self._lease is not None and self.leader == self.identity:
            # nobody may have changed it meanwhile: the version says whether that is so
            try:
                return await self._write(self._lease, begun)
            except StatusError as error:
                if error.reason not in ("Conflict", "NotFound"):
                    raise
        try:
            lease = await self.client.get(LEASES, self.name, self.namespace)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            lease = {"metadata": {"name": self.name, "namespace": self.namespace}}
            begun = loop.time()
            return await self._write(lease, begun)
        self._observe(lease)
        spec = _spec(lease)
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self.identity:
            duration = float(spec.get("leaseDurationSeconds") or 0)
            if loop.time() < self._seen + duration:
                return False
        elif holder == self.identity and not self.leads and self._foreign(spec):
            return False
        return await self._write(lease, loop.time())

    def _foreign(self, spec: Object) -> bool:
        """Whether the lease is held under this identity from an earlier life that may still lead: wait for its end."""
        return asyncio.get_running_loop().time() < self._seen + float(spec.get("leaseDurationSeconds") or 0)

    async def _write(self, known: Object, begun: float) -> bool:
        """Takes or renews the lease, if it is still as it is known."""
        now = rfc3339_micro(self.clock.now())
        old = _spec(known)
        leads = self.leads and old.get("holderIdentity") == self.identity
        first = "resourceVersion" not in known["metadata"]
        transitions = int(old.get("leaseTransitions") or 0)
        spec = {
            **old,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self.terms.lease),
            "renewTime": now,
            "acquireTime": old.get("acquireTime") or now if leads else now,
            "leaseTransitions": transitions if leads or first else transitions + 1,
        }
        lease = {**known, "spec": spec}
        found = await (self.client.create(LEASES, lease) if first else self.client.update(LEASES, lease))
        self._observe(found)
        until = begun + self.terms.renew_deadline
        if leads and self.leadership is not None:
            self.leadership._until = until
        else:
            self.leadership = Leadership(spec["leaseTransitions"], until)
        return self.leadership.valid

    async def _release(self) -> None:
        lease = self._lease
        if lease is None or self.leader != self.identity:
            return
        now = rfc3339_micro(self.clock.now())
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "leaseTransitions": _spec(lease).get("leaseTransitions") or 0,
            "acquireTime": now,
            "renewTime": now,
        }
        try:
            async with asyncio.timeout(self.terms.renew_deadline):
                self._observe(await self.client.update(LEASES, {**lease, "spec": spec}))
        except (StatusError, TransportError, TimeoutError) as error:
            self.complain(f"{self._named()}: not released: {error}")

    def _observe(self, lease: Object) -> None:
        if self._lease is None or _spec(lease) != _spec(self._lease):
            self._seen = asyncio.get_running_loop().time()
        self._lease = lease
        if self.leader != self._reported:
            self._reported = self.leader
            self.observed(self.leader)

    def _named(self) -> str:
        return f"lease {self.namespace}/{self.name}, candidate {self.identity}"


def _spec(lease: Object | None) -> Object:
    return (lease or {}).get("spec") or {}
