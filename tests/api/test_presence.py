"""The endpoints of the Service `kubernetes`: the servers that are alive, of one store, by address and port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.conftest import tool
from tests.store.conftest import running
from tests.store.servers import connected

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.presence import EVERY_S, LEASE_S, Presence, advertised
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.clock import LoopClock
from dashpot.runtime.loop import EPOCH, run_virtual

Object = dict[str, Any]

ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICE = "/api/v1/namespaces/default/services/kubernetes"


async def nothing() -> None:
    return None


class Cluster:
    """One server in memory, and others that only say that they are there."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api

    def other(self, address: str, port: int = 6443, service: Callable[[], Awaitable[None]] = nothing) -> Presence:
        return Presence(self.api.stores.default, self.api.local, address, port, service, pytest.fail)

    async def told(self) -> list[tuple[int, list[str]]]:
        """Endpoints, by port; the slices have to say the same."""
        subsets = (await self.api.local.call("GET", ENDPOINTS))["subsets"]
        found = [(one["ports"][0]["port"], [a["ip"] for a in one["addresses"]]) for one in subsets]
        sliced: dict[int, list[str]] = {}
        for one in (await self.api.local.call("GET", SLICES))["items"]:
            assert one["metadata"]["labels"]["kubernetes.io/service-name"] == "kubernetes"
            for place in one["endpoints"]:
                assert (":" in place["addresses"][0]) == (one["addressType"] == "IPv6")
                assert place["conditions"]["ready"] is True
                sliced.setdefault(one["ports"][0]["port"], []).extend(place["addresses"])
        assert {port: sorted(addresses) for port, addresses in sliced.items()} == dict(found)
        return found


def clustered(test: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = Settings(store="memory", authorization=("AlwaysAllow",))
        clock = LoopClock(EPOCH)
        api = await ApiServer.start(settings, listen=False, complain=pytest.fail, clock=clock, seed=1)
        try:
            await test(Cluster(api))
        finally:
            await api.stop()

    run_virtual(main())


def test_the_living_are_told_and_the_dead_are_not() -> None:
    async def test(at: Cluster) -> None:
        one, two, three = at.other("10.0.0.1"), at.other("10.0.0.2"), at.other("10.0.0.3", 7443)
        for server in (one, two, three):
            await server.begin()
        assert await at.told() == [(6443, ["10.0.0.1", "10.0.0.2"]), (7443, ["10.0.0.3"])]
        await asyncio.sleep(10 * LEASE_S)
        assert await at.told() == [(6443, ["10.0.0.1", "10.0.0.2"]), (7443, ["10.0.0.3"])]
        assert two._following is not None
        two._following.cancel()  # dies without a word
        await asyncio.sleep(LEASE_S + EVERY_S + 1)
        assert await at.told() == [(6443, ["10.0.0.1"]), (7443, ["10.0.0.3"])]
        await three.end()
        assert await at.told() == [(6443, ["10.0.0.1"])], "who leaves in order is not told any more at once"
        await one.end()
        assert await at.told() == [(6443, ["10.0.0.1"])], "the last address is never taken out"

    clustered(test)


def test_a_server_that_comes_back_after_its_lease_is_told_again() -> None:
    async def test(at: Cluster) -> None:
        one, two = at.other("10.0.0.1"), at.other("10.0.0.2")
        await one.begin()
        await two.begin()
        await at.api.stores.default.revoke(two._lease)
        await asyncio.sleep(EVERY_S + 1)
        assert await at.told() == [(6443, ["10.0.0.1", "10.0.0.2"])]
        again = at.other("10.0.0.2")
        await again.begin()  # started anew at once: the old lease must not take the new key with it
        assert two._following is not None
        two._following.cancel()
        await asyncio.sleep(2 * LEASE_S)
        assert await at.told() == [(6443, ["10.0.0.1", "10.0.0.2"])]
        for server in (one, again):
            await server.end()

    clustered(test)


def test_what_others_change_is_put_right_and_what_is_theirs_stays() -> None:
    async def test(at: Cluster) -> None:
        asked: list[str] = []

        async def service() -> None:
            asked.append("service")

        one = at.other("10.0.0.1", service=service)
        await one.begin()
        found = await at.api.local.call("GET", ENDPOINTS)
        found["metadata"]["labels"] = {"mine": "yes"}
        found["subsets"] = []
        await at.api.local.call("PUT", ENDPOINTS, found)
        await at.api.local.call("DELETE", f"{SLICES}/kubernetes")
        await asyncio.sleep(EVERY_S + 1)
        assert await at.told() == [(6443, ["10.0.0.1"])] and asked
        found = await at.api.local.call("GET", ENDPOINTS)
        assert found["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true", "mine": "yes"}
        await asyncio.sleep(10 * EVERY_S)
        later = await at.api.local.call("GET", ENDPOINTS)
        assert later["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], "no writes without need"
        await one.end()

    clustered(test)


def test_both_families() -> None:
    async def test(at: Cluster) -> None:
        four, six = at.other("10.0.0.1"), at.other("fd00::1")
        await four.begin()
        await six.begin()
        assert await at.told() == [(6443, ["10.0.0.1", "fd00::1"])]
        await four.end()
        assert await at.told() == [(6443, ["fd00::1"])]
        names = [one["metadata"]["name"] for one in (await at.api.local.call("GET", SLICES))["items"]]
        assert names == ["kubernetes"], "the address type of a slice cannot change: it was made anew"
        await six.end()

    clustered(test)


@pytest.mark.parametrize(
    ("bound", "told"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("10.1.2.3", "10.1.2.3"), ("localhost", "localhost")],
)
def test_what_is_advertised(bound: str, told: str) -> None:
    assert advertised(bound) == told


def test_bound_to_all_is_told_by_an_address() -> None:
    assert advertised("0.0.0.0") not in ("0.0.0.0", "")
    assert advertised("::") not in ("::", "")


async def two_servers(etcd: str) -> None:
    await (await connected([etcd])).close()
    settings = Settings(store=f"etcd://{etcd}", authorization=("AlwaysAllow",), port=0)
    one = await ApiServer.start(settings, complain=pytest.fail)
    two = await ApiServer.start(settings, complain=pytest.fail)
    at = Cluster(one)
    ports = [server.front.port for server in (one, two) if server.front is not None]
    try:
        assert await at.told() == [(port, ["127.0.0.1"]) for port in sorted(ports)]
    finally:
        await two.stop()
    try:
        assert await at.told() == [(ports[0], ["127.0.0.1"])]
    finally:
        await one.stop()


def test_two_servers_on_one_etcd_are_both_told() -> None:
    with running(tool("etcd")) as endpoint:
        asyncio.run(two_servers(endpoint))


def test_another_network_renumbers_the_service_of_the_api_and_names_the_others(tmp_path: Any) -> None:
    async def main() -> None:
        def settings(network: str) -> Settings:
            return Settings(data=tmp_path, port=0, authorization=("AlwaysAllow",), service_network=network)

        told: list[str] = []
        services = "/api/v1/namespaces/default/services"
        spec = {"ports": [{"port": 80}]}
        api = await ApiServer.start(settings("10.96.0.0/24"), complain=told.append)
        await api.local.call(
            "POST", services, {"metadata": {"name": "old"}, "spec": {**spec, "clusterIP": "10.96.0.9"}}
        )
        inside = {"metadata": {"name": "in"}, "spec": {**spec, "clusterIP": "10.96.0.201"}}
        await api.local.call("POST", services, inside)
        await api.stop()
        assert not told
        api = await ApiServer.start(settings("10.96.0.192/28"), complain=told.append)
        try:
            assert (await api.local.call("GET", SERVICE))["spec"]["clusterIP"] == "10.96.0.193"
            assert "10.96.0.1 is 10.96.0.193 now" in told[0]
            assert "default/old (10.96.0.9)" in told[1] and len(told) == 2
            taken = [
                (await api.local.call("POST", services, {"metadata": {"name": f"s{i}"}, "spec": spec}))["spec"][
                    "clusterIP"
                ]
                for i in range(12)
            ]
            assert "10.96.0.201" not in taken, "an address that a Service has is held, in the new range too"
            assert len(set(taken)) == 12
        finally:
            await api.stop()
        told.clear()
        api = await ApiServer.start(settings("10.96.0.192/28"), complain=told.append)
        await api.stop()
        assert len(told) == 1 and "default/old" in told[0]

    asyncio.run(main())
