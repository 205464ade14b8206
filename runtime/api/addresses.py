"""ClusterIPs and node ports of Services: each is a key of the store, taken by compare-and-swap.

Because the store decides, two API servers on one etcd never give the same address away. A key holds the Service that
took it; what belongs to no Service any more (a crash between two writes) is given back when it is next in the way.
Ranges and texts: pkg/registry/core/service/ipallocator and portallocator, release 1.34; KEP-3070 and KEP-3668 (the
first part of a range is kept for what users name).
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from dashpot.model.objects.status import Cause, StatusError, internal, invalid, invalid_value
from dashpot.runtime.api.admit.base import CREATE, Attributes
from dashpot.runtime.api.failing import failure
from dashpot.runtime.api.site import Site
from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.verbs.hooks import Hook
from dashpot.runtime.clock import Clock
from dashpot.runtime.store.base import Delete, Put, Store, StoreError, Written

Object = dict[str, Any]

_ADDRESSES, _ADDRESS_ERRORS = (
    tally(f"kube_apiserver_clusterip_allocator_allocation_{what}") for what in ("total", "errors_total")
)
_PORTS, _PORT_ERRORS = (
    tally(f"kube_apiserver_nodeport_allocator_allocation_{what}") for what in ("total", "errors_total")
)
_MAKING_S = 120.0
"""Longer than any request takes."""
_LOOKS = 64
"""Random tries before the range is walked: with a range half full, a free number is found at once."""


class Pool:
    """Numbers `0 … size-1` under a prefix of the store."""

    def __init__(
        self, store: Store, prefix: str, size: int, reserved: int, chance: random.Random, clock: Clock
    ) -> None:
        self._clock = clock
        self._store = store
        self._prefix = prefix
        self._size = size
        self._reserved = reserved
        self._chance = chance

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self._size

    async def used(self) -> int:
        """How many of them are taken."""
        return await self._store.count(self._prefix)

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number:010d}"

    async def take(self, number: int, owner: str, alive: Callable[[str], Awaitable[bool]]) -> bool:
        """Takes one number for an owner; False if another one that lives has it."""
        value = f"{self._clock.now():.0f} {owner}".encode()
        written = await self._put(number, value, 0)
        if written.ok:
            return True
        current = written.current
        if current is None:
            return False
        since, _, other = current.value.decode().partition(" ")
        if other == owner:
            return True
        # a Service that is being made has taken its numbers before it can be seen
        if self._clock.now() - float(since) < _MAKING_S or await alive(other):
            return False
        return (await self._put(number, value, current.modified)).ok

    async def _put(self, number: int, value: bytes, expect: int) -> Written:
        try:
            return await self._store.put(Put(self._key(number), value, expect=expect))
        except StoreError as error:
            raise failure(error) from None

    async def take_any(self, owner: str, alive: Callable[[str], Awaitable[bool]]) -> int | None:
        """Takes a free number, from the upper part of the range first; None if there is none."""
        for low, high in ((self._reserved, self._size), (0, self._reserved)):
            if high <= low:
                continue
            for _ in range(_LOOKS):
                number = self._chance.randrange(low, high)
                if await self.take(number, owner, alive):
                    return number
            for number in await self._free(low, high):
                if await self.take(number, owner, alive):
                    return number
        return await self._abandoned(owner, alive)

    async def _free(self, low: int, high: int) -> list[int]:
        taken = {int(e.key[len(self._prefix) :]) for e in (await self._store.range(self._prefix)).entries}
        return [number for number in range(low, high) if number not in taken]

    async def _abandoned(self, owner: str, alive: Callable[[str], Awaitable[bool]]) -> int | None:
        for entry in (await self._store.range(self._prefix)).entries:
            number = int(entry.key[len(self._prefix) :])
            if await self.take(number, owner, alive):
                return number
        return None

    async def give_back(self, number: int, owner: str) -> None:
        """Frees a number if the owner has it."""
        entry = await self._store.get(self._key(number))
        if entry is not None and entry.value.decode().partition(" ")[2] == owner:
            await self._store.delete(Delete(self._key(number), entry.modified))

    async def settle(self, owners: Mapping[int, str], displaced: Collection[str]) -> None:
        """Makes the keys be what the Services say that are there: `owners` of numbers. What another owner holds stays
        for a while, since it may be just being made; but not for those who hold numbers of another range."""
        entries = {int(e.key[len(self._prefix) :]): e for e in (await self._store.range(self._prefix)).entries}
        now = self._clock.now()
        for number, entry in entries.items():
            since, _, owner = entry.value.decode().partition(" ")
            if number not in owners and (owner in displaced or now - float(since) >= _MAKING_S):
                await self._store.delete(Delete(entry.key, entry.modified))
        for number, owner in owners.items():
            held = entries.get(number)
            if held is None or held.value.decode().partition(" ")[2] != owner:
                expect = 0 if held is None else held.modified
                await self._store.put(Put(self._key(number), f"{now:.0f} {owner}".encode(), expect=expect))


def static_ports(size: int) -> int:
    """How many node ports at the lower end of a range are given by chance only when the others are used up, so that
    users can name them (KEP-3668; portallocator, calculateRangeOffset)."""
    return 0 if size <= 16 else min(max(16, size // 32), 128)


class Services(Hook):
    """Gives a Service its addresses and ports before it is stored, and takes them back when it is gone."""

    follows = True

    def __init__(self, store: Store, network: str, ports: tuple[int, int], chance: random.Random, clock: Clock) -> None:
        self._network = ipaddress.ip_network(network)
        usable = max(min(self._network.num_addresses - 2, 2**20), 1)
        reserved = min(max(16, usable // 16), 256, usable)
        self._addresses = Pool(store, "/ranges/serviceips/", usable, reserved, chance, clock)
        size = ports[1] - ports[0] + 1
        self._ports = Pool(store, "/ranges/servicenodeports/", size, static_ports(size), chance, clock)
        self._low, self._high = ports

    @property
    def pools(self) -> tuple[str, Pool, Pool]:
        """The network, its addresses and the node ports, for the metrics."""
        return str(self._network), self._addresses, self._ports

    async def repair(self, services: Sequence[Object]) -> list[str]:
        """Makes addresses and ports be held by those that have them; the Services with one that is outside of the
        ranges: they were changed. Source: pkg/registry/core/service/ipallocator/controller/repair.go."""
        outside: list[str] = []
        displaced: set[str] = set()
        addresses: dict[int, str] = {}
        ports: dict[int, str] = {}
        for service in services:
            owner, meta = _owner(service), service["metadata"]
            for address in _addresses(service):
                number = self._number(address)
                if number is None:
                    outside.append(f"{meta['namespace']}/{meta['name']} ({address})")
                    displaced.add(owner)
                else:
                    addresses[number] = owner
            for port in _node_ports(service):
                if self._low <= port <= self._high:
                    ports[port - self._low] = owner
                else:
                    outside.append(f"{meta['namespace']}/{meta['name']} (node port {port})")
                    displaced.add(owner)
        await self._addresses.settle(addresses, displaced)
        await self._ports.settle(ports, displaced)
        return outside

    async def before_create(self, site: Site, write: Attributes) -> None:
        """Addresses and ports for a new Service."""
        await self._allocate(site, write, None)

    async def before_update(self, site: Site, write: Attributes) -> None:
        """What a changed type or port list needs, or needs no more."""
        if write.old is not None and write.object is not None:
            _drop_what_the_type_had(write.object, write.old)
        await self._allocate(site, write, write.old)

    async def after_delete(self, site: Site, last: Object) -> None:
        """Gives everything back."""
        owner = _owner(last)
        for address in _addresses(last):
            number = self._number(address)
            if number is not None:
                await self._addresses.give_back(number, owner)
        for port in _node_ports(last):
            if self._low <= port <= self._high:
                await self._ports.give_back(port - self._low, owner)

    async def after(self, site: Site, write: Attributes, stored: Object) -> None:
        """Gives back what an update let go."""
        if write.old is None:
            return
        owner = _owner(stored)
        for port in set(_node_ports(write.old)) - set(_node_ports(stored)):
            if self._low <= port <= self._high:
                await self._ports.give_back(port - self._low, owner)
        for address in set(_addresses(write.old)) - set(_addresses(stored)):
            number = self._number(address)
            if number is not None:
                await self._addresses.give_back(number, owner)

    def _number(self, address: str) -> int | None:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return None
        if found not in self._network:
            return None
        number = int(found) - int(self._network.network_address) - 1
        return number if 0 <= number < self._addresses.size else None

    async def _allocate(self, site: Site, write: Attributes, old: Object | None) -> None:
        assert write.object is not None
        spec = write.object.get("spec")
        if not isinstance(spec, dict):
            return
        owner = _owner(write.object)

        async def alive(other: str) -> bool:
            namespace, _, rest = other.partition("/")
            name, _, uid = rest.partition("/")
            found = await site.view.fresh("", "services", namespace, name)
            return found is not None and found["metadata"].get("uid") == uid

        if write.dry_run:
            self._pretend(spec)
            return
        kind = spec.get("type") or "ClusterIP"
        if kind == "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                spec.pop(field, None)
        else:
            await self._address(write, spec, owner, alive, old)
        await self._node_ports_of(write, spec, kind, owner, alive, old)

    def _pretend(self, spec: Object) -> None:
        """A dry run uses no address: the object shows none that could be another's."""
        if spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = str(self._network.network_address + 1)
            spec["clusterIPs"] = [spec["clusterIP"]]

    async def _address(
        self,
        write: Attributes,
        spec: Object,
        owner: str,
        alive: Callable[[str], Awaitable[bool]],
        old: Object | None,
    ) -> None:
        listed = spec.get("clusterIPs") or ()
        wanted = spec.get("clusterIP") or (listed[0] if listed else "")
        before = ((old or {}).get("spec") or {}).get("clusterIP")
        if not wanted and before:
            wanted = before
        if wanted != "None" and wanted != before:
            about = (str(self._network), "static" if wanted else "dynamic")
            number = self._number(wanted) if wanted else await self._addresses.take_any(owner, alive)
            if number is None:
                _ADDRESS_ERRORS.cell(*about).value += 1
                raise self._refused(write, wanted)
            if wanted and not await self._addresses.take(number, owner, alive):
                _ADDRESS_ERRORS.cell(*about).value += 1
                raise _taken(
                    write,
                    "spec.clusterIPs",
                    [wanted],
                    f"failed to allocate IP {wanted}: provided IP is already allocated",
                )
            _ADDRESSES.cell(*about).value += 1
            write.undo.append(lambda: self._addresses.give_back(number, owner))
            wanted = str(self._network.network_address + 1 + number)
        spec["clusterIP"] = wanted
        spec["clusterIPs"] = [wanted]
        spec.setdefault("ipFamilies", ["IPv6" if self._network.version == 6 else "IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _refused(self, write: Attributes, wanted: str) -> StatusError:
        if not wanted:
            return internal("failed to allocate a serviceIP: range is full")
        try:
            ipaddress.ip_address(wanted)
        except ValueError:
            return _taken(
                write, "spec.clusterIPs[0]", wanted, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            )
        return _taken(
            write,
            "spec.clusterIPs",
            [wanted],
            f"failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range. "
            f"The range of valid IPs is {self._network}",
        )

    async def _node_ports_of(
        self,
        write: Attributes,
        spec: Object,
        kind: str,
        owner: str,
        alive: Callable[[str], Awaitable[bool]],
        old: Object | None,
    ) -> None:
        ports = [port for port in spec.get("ports") or () if isinstance(port, dict)]
        wants = kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True))
        if not wants:
            if write.operation != CREATE or kind == "ClusterIP":
                for port in ports:
                    port.pop("nodePort", None)
            return
        before = set(_node_ports(old or {}))
        for index, port in enumerate(ports):
            wanted = port.get("nodePort")
            if not wanted:
                wanted = port["nodePort"] = self._same(old, port) or 0
            if wanted in before:
                continue
            if wanted:
                await self._named(write, index, wanted, owner, alive)
                _PORTS.cell("static").value += 1
                number: int | None = wanted - self._low
            else:
                number = await self._ports.take_any(owner, alive)
                if number is None:
                    _PORT_ERRORS.cell("dynamic").value += 1
                    raise internal("failed to allocate a nodePort: range is full")
                _PORTS.cell("dynamic").value += 1
                port["nodePort"] = self._low + number
            write.undo.append(lambda number=number: self._ports.give_back(number, owner))

    @staticmethod
    def _same(old: Object | None, port: Object) -> int | None:
        """The node port that the same port had before."""
        for other in ((old or {}).get("spec") or {}).get("ports") or ():
            same = other.get("port") == port.get("port") and other.get("protocol") == port.get("protocol", "TCP")
            if same and other.get("nodePort"):
                found: int = other["nodePort"]
                return found
        return None

    async def _named(
        self, write: Attributes, index: int, wanted: Any, owner: str, alive: Callable[[str], Awaitable[bool]]
    ) -> None:
        path = f"spec.ports[{index}].nodePort"
        if not isinstance(wanted, int) or not self._low <= wanted <= self._high:
            _PORT_ERRORS.cell("static").value += 1
            text = f"provided port is not in the valid range. The range of valid ports is {self._low}-{self._high}"
            raise _taken(write, path, wanted, text)
        if not await self._ports.take(wanted - self._low, owner, alive):
            _PORT_ERRORS.cell("static").value += 1
            raise _taken(write, path, wanted, "provided port is already allocated")


_OF_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort")


def _drop_what_the_type_had(new: Object, old: Object) -> None:
    """Fields that only the old type could have go with it where they were left as they were: a client that changes the
    type need not know them all. Source: pkg/registry/core/service/strategy.go (dropTypeDependentFields)."""
    spec, before = new.get("spec"), old.get("spec") or {}
    if not isinstance(spec, dict):
        return
    kind = spec.get("type", "ClusterIP")
    outside = kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs")
    dropped = () if kind == "LoadBalancer" else _OF_BALANCERS
    for field in dropped if outside else (*dropped, "externalTrafficPolicy"):
        if field in spec and spec[field] == before.get(field):
            del spec[field]


def _owner(service: Object) -> str:
    meta = service["metadata"]
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}/{meta.get('uid', '')}"


def _addresses(service: Object) -> list[str]:
    spec = service.get("spec") or {}
    listed = spec.get("clusterIPs") or [spec.get("clusterIP")]
    return [address for address in listed if address and address != "None"]


def _node_ports(service: Object) -> list[int]:
    ports = (service.get("spec") or {}).get("ports") or ()
    return [port["nodePort"] for port in ports if port.get("nodePort")]


def _taken(write: Attributes, path: str, value: Any, detail: str) -> StatusError:
    cause: Cause = invalid_value(path, value, detail)
    return invalid(
        "", "Service", write.name or write.object["metadata"].get("name", "") if write.object else "", [cause]
    )
