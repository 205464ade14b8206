"""Endpoints that people write, shown as slices: the controller run from its spec, and what it computes."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from dashpot.model.extern import mirroring
from tests.controller.running import until
from tests.plane.kit import Object, World, run

CONTROLLERS = ("endpointslice-mirroring-controller", "endpoints-controller", "endpointslice-controller")
NAME, MANAGED = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"


def written(*subsets: Object, **labels: str) -> Object:
    """Endpoints of the service `db`."""
    return {"metadata": {"name": "db", "namespace": "default", "labels": labels}, "subsets": list(subsets)}


def subset(*ready: str, waiting: tuple[str, ...] = (), port: int = 5432) -> Object:
    """One subset."""
    made: Object = {"addresses": [{"ip": ip} for ip in ready], "ports": [{"name": "sql", "port": port}]}
    if waiting:
        made["notReadyAddresses"] = [{"ip": ip} for ip in waiting]
    return made


async def becomes(at: World, wanted: dict[tuple[str, int], dict[str, bool]]) -> list[Object]:
    """Waits until the mirrored slices say so: by address type and port, the addresses and whether they are ready."""
    mine: list[Object] = []

    async def so() -> bool:
        found = (await at.client.list("endpointslices.discovery.k8s.io", "default", labels=f"{NAME}=db")).items
        mine[:] = found
        said = {
            (one["addressType"], one["ports"][0]["port"]): {
                row["addresses"][0]: row["conditions"]["ready"] for row in one["endpoints"]
            }
            for one in found
        }
        return said == wanted and len(found) == len(wanted)

    await until(so)
    return mine


def test_what_people_write_is_shown_as_long_as_it_should() -> None:
    async def test(at: World) -> None:
        await at.client.create("services", {"metadata": {"name": "db"}, "spec": {"ports": [{"port": 5432}]}}, "default")
        first = written(subset("192.0.2.1", "2001:db8::1", waiting=("192.0.2.2",)), team="a")
        made = await at.client.create("endpoints", first, "default")
        v4 = {"192.0.2.1": True, "192.0.2.2": False}
        found = await becomes(at, {("IPv4", 5432): v4, ("IPv6", 5432): {"2001:db8::1": True}})
        for one in found:
            labels = one["metadata"]["labels"]
            assert labels == {"team": "a", NAME: "db", MANAGED: "endpointslicemirroring-controller.k8s.io"}
            (owner,) = one["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"]) == ("Endpoints", made["metadata"]["uid"])

        change = {"subsets": [subset("192.0.2.3", port=5433)]}
        await at.client.patch("endpoints", "db", change, "default")
        await becomes(at, {("IPv4", 5433): {"192.0.2.3": True}})
        await at.client.patch("endpoints", "db", {"metadata": {"labels": {mirroring.SKIP: "true"}}}, "default")
        await becomes(at, {})
        await at.client.patch("endpoints", "db", {"metadata": {"labels": {mirroring.SKIP: None}}}, "default")
        await becomes(at, {("IPv4", 5433): {"192.0.2.3": True}})
        await at.client.delete("endpoints", "db", "default")
        await becomes(at, {})

    run(test, controllers=CONTROLLERS)


def test_endpoints_of_a_selector_are_not_mirrored() -> None:
    async def test(at: World) -> None:
        spec: Object = {"ports": [{"port": 5432}]}
        await at.client.create("services", {"metadata": {"name": "db"}, "spec": spec}, "default")
        await at.client.create("endpoints", written(subset("192.0.2.1")), "default")
        await becomes(at, {("IPv4", 5432): {"192.0.2.1": True}})
        await at.client.patch("services", "db", {"spec": {"selector": {"app": "db"}}}, "default")

        async def handed_over() -> bool:
            found = (await at.client.list("endpointslices.discovery.k8s.io", "default", labels=f"{NAME}=db")).items
            return [one["metadata"]["labels"][MANAGED] for one in found] == ["endpointslice-controller.k8s.io"]

        await until(handed_over)

    run(test, controllers=CONTROLLERS)


@frozen
class Kept:
    """An object as externs see it."""

    json: Object


@pytest.mark.parametrize(
    ("subsets", "invalid", "skipped"),
    [
        ([subset("192.0.2.1")], 0, 0),
        ([subset("192.0.2.1", "nowhere")], 1, 1),
        ([subset(*(f"10.0.{n // 250}.{n % 250}" for n in range(1200)))], 0, 200),
        ([subset(*(f"10.0.{n // 250}.{n % 250}" for n in range(999)), waiting=("192.0.2.1", "192.0.2.2"))], 0, 1),
    ],
)
def test_what_is_not_shown(subsets: list[Object], invalid: int, skipped: int) -> None:
    plan: Any = mirroring.planned(Kept(written(*subsets)), [])
    assert (mirroring.invalid(plan), mirroring.skipped(plan)) == (invalid, skipped)
    assert all(len(one["endpoints"]) <= mirroring.PER_SUBSET for one in plan["create"])


def test_the_order_of_addresses_is_no_change() -> None:
    one = Kept(written(subset("192.0.2.1", "192.0.2.2")))
    (made,) = mirroring.planned(one, [])["create"]
    turned = Kept({**made, "metadata": {"name": "s"}, "endpoints": made["endpoints"][::-1]})
    again = mirroring.planned(one, [turned])
    assert again["create"] == again["delete"] == []
    assert mirroring.content(again, turned, one) == turned.json["endpoints"]
