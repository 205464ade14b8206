"""ClusterIPs and node ports: given once, given back, and refused in Kubernetes' words when there are none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.serving import Object, Serving, run

from dashpot.runtime.api.addresses import static_ports

SERVICES = "/api/v1/namespaces/n/services"
MERGE = "application/merge-patch+json"


def service(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_each_service_has_an_address_of_its_own() -> None:
    async def test(at: Serving) -> None:
        made = await asyncio.gather(*(at.done("POST", SERVICES, service(f"s{i}")) for i in range(20)))
        addresses = [found["spec"]["clusterIP"] for found in made]
        assert len(set(addresses)) == 20
        for found in made:
            spec = found["spec"]
            assert spec["clusterIPs"] == [spec["clusterIP"]]
            assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")

    run(test)


def test_a_full_range_says_so_and_a_deleted_service_makes_room() -> None:
    async def test(at: Serving) -> None:
        # 10.0.0.0/29 has six addresses; the API's own service has the first
        for index in range(5):
            await at.done("POST", SERVICES, service(f"s{index}"))
        code, status = await at.told("POST", SERVICES, service("late"))
        assert (code, status["reason"]) == (500, "InternalError")
        assert status["message"] == "Internal error occurred: failed to allocate a serviceIP: range is full"
        gone = (await at.done("GET", f"{SERVICES}/s2"))["spec"]["clusterIP"]
        await at.done("DELETE", f"{SERVICES}/s2")
        assert (await at.done("POST", SERVICES, service("late")))["spec"]["clusterIP"] == gone

    run(test, service_network="10.0.0.0/29")


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort"])
def test_a_full_store_says_so(kind: str) -> None:
    async def test(at: Serving) -> None:
        for index in range(100):
            data = {"metadata": {"name": f"c{index}"}, "data": {"k": "x" * 100_000}}
            if (await at.told("POST", "/api/v1/namespaces/n/configmaps", data))[0] == 500:
                break
        code, status = await at.told("POST", SERVICES, service("late", type=kind))
        assert (code, status["message"]) == (500, "etcdserver: mvcc: database space exceeded")

    run(test, quota=3_000_000)


def test_an_address_can_be_asked_for_once() -> None:
    async def test(at: Serving) -> None:
        await at.done("POST", SERVICES, service("a", clusterIP="10.96.0.99"))
        cases = {
            "10.96.0.99": "failed to allocate IP 10.96.0.99: provided IP is already allocated",
            "192.168.0.1": "failed to allocate IP 192.168.0.1: the provided IP (192.168.0.1) is not in the valid "
            "range. The range of valid IPs is 10.96.0.0/12",
        }
        for address, text in cases.items():
            code, status = await at.told("POST", SERVICES, service("b", clusterIP=address))
            assert code == 422
            assert status["message"] == f'Service "b" is invalid: spec.clusterIPs: Invalid value: ["{address}"]: {text}'
        assert (await at.told("POST", SERVICES, service("b", clusterIP="nonsense")))[0] == 422
        headless = await at.done("POST", SERVICES, service("h", clusterIP="None"))
        assert headless["spec"]["clusterIPs"] == ["None"]

    run(test)


def test_a_refused_create_takes_no_address() -> None:
    async def test(at: Serving) -> None:
        await at.done("POST", SERVICES, service("a", clusterIP="10.96.0.50"))
        for _ in range(3):
            assert (await at.told("POST", SERVICES, service("a", clusterIP="10.96.0.51")))[0] == 409
        await at.done("POST", SERVICES, service("b", clusterIP="10.96.0.51"))

    run(test)


def test_node_ports() -> None:
    async def test(at: Serving) -> None:
        first = await at.done("POST", SERVICES, service("a", type="NodePort"))
        port = first["spec"]["ports"][0]["nodePort"]
        assert port in (30000, 30001)
        await at.done("POST", SERVICES, service("b", type="NodePort"))
        code, status = await at.told("POST", SERVICES, service("c", type="NodePort"))
        assert code == 500
        assert status["message"] == "Internal error occurred: failed to allocate a nodePort: range is full"
        asked = service("d", type="NodePort", ports=[{"port": 80, "nodePort": port}])
        code, status = await at.told("POST", SERVICES, asked)
        assert code == 422 and "provided port is already allocated" in status["message"]
        asked["spec"]["ports"][0]["nodePort"] = 8080
        code, status = await at.told("POST", SERVICES, asked)
        assert code == 422 and "The range of valid ports is 30000-30001" in status["message"]
        inner = await at.done("PATCH", f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}, media=MERGE)
        assert "nodePort" not in inner["spec"]["ports"][0]
        assert inner["spec"]["clusterIP"] == first["spec"]["clusterIP"]
        again = await at.done("POST", SERVICES, service("c", type="NodePort"))
        assert again["spec"]["ports"][0]["nodePort"] == port

    run(test, node_ports=(30000, 30001))


@pytest.mark.parametrize(("size", "kept"), [(2, 0), (16, 0), (17, 16), (512, 16), (2768, 86), (65535, 128)])
def test_the_lower_node_ports_are_for_those_who_name_them(size: int, kept: int) -> None:
    assert static_ports(size) == kept


def test_chance_gives_node_ports_of_the_upper_part() -> None:
    async def test(at: Serving) -> None:
        made = [await at.done("POST", SERVICES, service(f"a{n}", type="NodePort")) for n in range(24)]
        given = {one["spec"]["ports"][0]["nodePort"] for one in made}
        assert given == set(range(30016, 30040))
        last = await at.done("POST", SERVICES, service("last", type="NodePort"))
        assert last["spec"]["ports"][0]["nodePort"] in range(30000, 30016)

    run(test, node_ports=(30000, 30039))


def test_an_external_name_has_no_address() -> None:
    async def test(at: Serving) -> None:
        made = await at.done("POST", SERVICES, service("a"))
        gone = {"clusterIP": None, "clusterIPs": None}
        change = {"spec": {"type": "ExternalName", "externalName": "example.com", **gone}}
        moved = await at.done("PATCH", f"{SERVICES}/a", change, media=MERGE)
        assert "clusterIP" not in moved["spec"]
        await at.done("POST", SERVICES, service("b", clusterIP=made["spec"]["clusterIP"]))

    run(test)
