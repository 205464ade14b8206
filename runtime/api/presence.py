"""Where the API is: each server says that it is alive, and all publish the living as the endpoints of `kubernetes`.

A server keeps a key under /registry/masterleases/ that ends with its lease, so that a dead one is found out by the
store. Every ten seconds each makes Service, Endpoints and EndpointSlices be what the keys say.

Source: pkg/controlplane/reconcilers/lease.go, endpointsadapter.go, pkg/controlplane/controller/kubernetesservice,
release 1.34 (15 s to live, every 10 s, the last address is never taken out). There servers are told apart by address
alone; here by address and port, since several may run on one machine: those on another port are a subset, and an
EndpointSlice, of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.store.base import NoLease, Put, Store, StoreError

Object = dict[str, Any]

PREFIX = "/registry/masterleases/"
LEASE_S, EVERY_S = 15.0, 10.0
_LEAVING_S = 2.0
_TRIES = 5
_ENDPOINTS = "/api/v1/namespaces/default/endpoints"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_OTHER_SLICE = re.compile(r"kubernetes-ipv[46]-\d+")


def advertised(bound: str) -> str:
    """The address under which a server is told: the one that it is bound to, or, bound to all, the one with which this
    machine speaks to others (nothing is sent to find out). A name stays as it is."""
    try:
        address = ipaddress.ip_address(bound.partition("%")[0])
    except ValueError:
        return bound
    if not address.is_unspecified:
        return str(address)
    family, elsewhere = (socket.AF_INET, "192.0.2.1") if address.version == 4 else (socket.AF_INET6, "2001:db8::1")
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((elsewhere, 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1" if address.version == 4 else "::1"


class Presence:
    """One server among those on a store. `service` makes the Service be there."""

    def __init__(
        self,
        store: Store,
        internal: Internal,
        address: str,
        port: int,
        service: Callable[[], Awaitable[None]],
        complain: Callable[[str], None],
    ) -> None:
        self._store = store
        self._internal = internal
        self._key = f"{PREFIX}{address}:{port}"
        self._service = service
        self._complain = complain
        self._lease = 0
        self._following: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Is there from now on; StatusError or StoreError where that cannot be said."""
        await self._stay()
        await self._publish()
        self._following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._stay()
                await self._service()
                await self._publish()
            except (StatusError, StoreError) as error:
                self._complain(f"the endpoints of the Service kubernetes: {error}")

    async def end(self) -> None:
        """Is there no more; what cannot be said in two seconds, the lease says later."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))
        with contextlib.suppress(StatusError, StoreError, TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                if self._lease:
                    lease, self._lease = self._lease, 0
                    await self._store.revoke(lease)
                    await self._publish()

    async def _stay(self) -> None:
        if self._lease:
            with contextlib.suppress(NoLease):
                await self._store.keep_alive(self._lease)
                found = await self._store.get(self._key)
                if found is not None and found.lease == self._lease:
                    return
        self._lease = await self._store.grant(LEASE_S)
        await self._store.put(Put(self._key, b"", lease=self._lease))

    # -- what all of them say ---------------------------------------------------------------------------------------

    async def _publish(self) -> None:
        """Makes the objects be what the keys say; another server may do the same at the same time."""
        for left in reversed(range(_TRIES)):
            try:
                await self._reconcile()
                return
            except StatusError as error:
                if error.reason not in ("Conflict", "AlreadyExists", "NotFound") or not left:
                    raise

    async def _reconcile(self) -> None:
        endpoints = await self._found(f"{_ENDPOINTS}/kubernetes")
        answer = await self._internal.call(
            "GET", _SLICES, query={"labelSelector": "kubernetes.io/service-name=kubernetes"}
        )
        slices = {one["metadata"]["name"]: one for one in answer["items"]}
        # after the objects: whoever writes them in between makes our writes fail, and we look again
        places = await self._alive()
        if not places:
            return  # the last one has gone: clients may still wait for it to come back
        await self._set(_ENDPOINTS, endpoints, _endpoints(places))
        wanted = _slices(places)
        for name, one in wanted.items():
            before = slices.get(name)
            if before is not None and before["addressType"] != one["addressType"]:
                await self._internal.call("DELETE", f"{_SLICES}/{name}")
                before = None
            await self._set(_SLICES, before, one)
        for name in slices:
            if name not in wanted and _OTHER_SLICE.fullmatch(name):
                await self._internal.call("DELETE", f"{_SLICES}/{name}")

    async def _alive(self) -> dict[int, list[str]]:
        """Ports, and the addresses of the servers that have them, in order."""
        places: dict[int, list[str]] = {}
        for entry in (await self._store.range(PREFIX)).entries:
            address, _, port = entry.key[len(PREFIX) :].rpartition(":")
            places.setdefault(int(port), []).append(address)
        return dict(sorted(places.items()))

    async def _found(self, path: str) -> Object | None:
        try:
            return await self._internal.call("GET", path)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            return None

    async def _set(self, place: str, before: Object | None, wanted: Object) -> None:
        """Writes what differs; labels of others stay."""
        if before is None:
            await self._internal.call("POST", place, wanted)
            return
        own = {key: value for key, value in wanted.items() if key != "metadata"}
        labels = before["metadata"].get("labels") or {}
        whole = {**labels, **wanted["metadata"]["labels"]}
        if whole == labels and all(before.get(key) == value for key, value in own.items()):
            return
        meta = {**before["metadata"], "labels": whole}
        await self._internal.call("PUT", f"{place}/{wanted['metadata']['name']}", {**before, **own, "metadata": meta})


def _port(port: int) -> Object:
    return {"name": "https", "port": port, "protocol": "TCP"}


def _endpoints(places: dict[int, list[str]]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            # the slices are published as well: nobody is to make them out of this once more
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [
            {"addresses": [{"ip": address} for address in addresses], "ports": [_port(port)]}
            for port, addresses in places.items()
        ],
    }


def _slices(places: dict[int, list[str]]) -> dict[str, Object]:
    """By name: `kubernetes`, and one more for each further port or family, which no slice can mix."""
    made: dict[str, Object] = {}
    for port, addresses in places.items():
        for family in ("IPv4", "IPv6"):
            here = [address for address in addresses if (":" in address) == (family == "IPv6")]
            if not here:
                continue
            name = f"kubernetes-{family.lower()}-{port}" if made else "kubernetes"
            made[name] = {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {"kubernetes.io/service-name": "kubernetes"},
                },
                "addressType": family,
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in here],
                "ports": [_port(port)],
            }
    return made
