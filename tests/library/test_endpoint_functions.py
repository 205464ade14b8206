"""What kubernetes.endpoints computes, case by case (upstream: endpointslice reconciler_test.go, utils_test.go;
endpoints util_test.go, endpoints_controller_test.go)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.extern import endpoints, endpointslices
from dashpot.model.extern.endpointslices import PER_SLICE, plan

Object = dict[str, Any]


@frozen
class Kept:
    """An object as externs see it."""

    json: Object


def service(**spec: Any) -> Object:
    """A service with one port."""
    base = {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}
    meta = {"name": "web", "namespace": "n", "uid": "s", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": meta, "spec": {**base, **spec}}


def pod(number: int, ready: bool = True, addresses: Sequence[str] = (), going: bool = False, **spec: Any) -> Object:
    """A running pod with an address."""
    meta: Object = {"name": f"p{number:04}", "namespace": "n", "uid": f"u{number:04}", "labels": {"app": "web"}}
    if going:
        meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    ips = addresses or [f"10.1.{number // 250}.{number % 250 + 1}"]
    stamp = f"2026-01-01T00:00:{number % 60:02}Z"
    row = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": stamp}
    return {
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Running", "podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips], "conditions": [row]},
    }


class World:
    """Slices that a plan is carried out on, as the controller does it. `writes`: of the last plan."""

    def __init__(self) -> None:
        self.slices: dict[str, Object] = {}
        self.writes = 0
        self._number = 0

    def settle(self, of: Object, pods: Sequence[Object], zones: dict[str, str] | None = None) -> None:
        """Plans once, and does it."""
        made = plan(of, pods, zones or {}, list(self.slices.values()))
        self.writes = len(made.create) + len(made.update) + len(made.delete)
        labels = endpointslices.slice_labels(of)
        for draft in made.create:
            self._number += 1
            self._put(f"web-{self._number:03}", draft, labels)
        for draft in made.update:
            assert draft.before is not None
            self._put(draft.before["metadata"]["name"], draft, labels)
        for one in made.delete:
            del self.slices[one["metadata"]["name"]]

    def _put(self, name: str, draft: endpointslices.Draft, labels: Object) -> None:
        meta = {"name": name, "labels": labels}
        self.slices[name] = {
            "metadata": meta, "addressType": draft.kind, "ports": draft.ports, "endpoints": list(draft.endpoints)
        }  # fmt: skip

    def sizes(self) -> list[int]:
        """How many endpoints the slices have, the most first."""
        return sorted((len(one["endpoints"]) for one in self.slices.values()), reverse=True)

    def names(self) -> list[str]:
        """The pods of all endpoints."""
        return sorted(row["targetRef"]["name"] for one in self.slices.values() for row in one["endpoints"])


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])])
def test_new_endpoints_fill_slices(count: int, sizes: list[int]) -> None:
    world, pods = World(), [pod(n) for n in range(count)]
    world.settle(service(), pods)
    assert world.sizes() == sizes
    world.settle(service(), pods)
    assert world.writes == 0


def filled(*sizes: int) -> tuple[World, list[Object]]:
    """Slices of these sizes, and the pods in them."""
    world, pods = World(), [pod(n) for n in range(sum(sizes))]
    at = 0
    for number, size in enumerate(sizes):
        rows = [endpointslices.endpoint(service(), p, None, "IPv4") for p in pods[at : at + size]]
        draft = endpointslices.Draft("IPv4", [{"name": "", "port": 80, "protocol": "TCP"}], [r for r in rows if r])
        world._put(f"old-{number}", draft, endpointslices.slice_labels(service()))
        at += size
    return world, pods


@pytest.mark.parametrize(
    ("sizes", "more", "after", "writes"),
    [
        ((90, 80), 10, [100, 80], 1),  # one slice takes them all: the one that is then fullest
        ((90, 80), 15, [95, 90], 1),
        ((90, 90), 15, [90, 90, 15], 1),  # none has room for all: a new slice, rather than two writes
        ((50,), 110, [100, 60], 2),  # a new full slice, and the rest fits into the other
    ],
)
def test_what_is_new_goes_where_one_write_does(
    sizes: tuple[int, ...], more: int, after: list[int], writes: int
) -> None:
    world, pods = filled(*sizes)
    world.settle(service(), [*pods, *(pod(n) for n in range(1000, 1000 + more))])
    assert (world.sizes(), world.writes) == (after, writes)


def test_slices_that_change_anyway_are_filled_first() -> None:
    world, pods = filled(90, 40)
    # one pod of the small slice goes, two come: the small slice changes anyway
    world.settle(service(), [*pods[:90], *pods[91:], pod(1000), pod(1001)])
    assert (world.sizes(), world.writes) == ([90, 41], 1)


def test_a_change_of_one_pod_is_one_write_and_the_others_stay() -> None:
    world, pods = filled(100, 100)
    before = {name: one["endpoints"] for name, one in world.slices.items()}
    pods[5] = pod(5, ready=False)
    world.settle(service(), pods)
    assert world.writes == 1 and world.slices["old-1"]["endpoints"] == before["old-1"]


def test_slices_that_would_go_are_used_for_what_is_new() -> None:
    world, pods = filled(30)
    world.settle(service(ports=[{"port": 81}]), pods)
    assert (list(world.slices), world.writes) == (["old-0"], 1)
    assert world.slices["old-0"]["ports"] == [{"name": "", "port": 81, "protocol": "TCP"}]


def test_the_last_pod_leaves_one_empty_slice() -> None:
    world, _ = filled(30, 20)
    world.settle(service(), [])
    assert world.sizes() == [0]
    (one,) = world.slices.values()
    assert one["ports"] == []
    world.settle(service(), [])
    assert world.writes == 0


def test_labels_of_the_service_are_those_of_its_slices() -> None:
    world, pods = filled(3)
    of = service()
    of["metadata"]["labels"] = {"team": "a", endpointslices.MANAGED_BY: "me"}
    world.settle(of, pods)
    assert world.writes == 1
    (one,) = world.slices.values()
    assert one["metadata"]["labels"] == {
        "team": "a",
        endpointslices.SERVICE_NAME: "web",
        endpointslices.MANAGED_BY: "endpointslice-controller.k8s.io",
    }


def test_two_families_are_two_slices() -> None:
    of = service(ipFamilies=["IPv4", "IPv6"])
    world, pods = World(), [pod(0, addresses=["10.0.0.1", "fd00:0:0:0::1"]), pod(1)]
    world.settle(of, pods)
    found = {one["addressType"]: [row["addresses"] for row in one["endpoints"]] for one in world.slices.values()}
    assert found == {"IPv4": [["10.0.0.1"], ["10.1.0.2"]], "IPv6": [["fd00::1"]]}
    world.settle(service(ipFamilies=["IPv6"]), pods)
    assert [one["addressType"] for one in world.slices.values()] == ["IPv6"]


@pytest.mark.parametrize(
    ("ready", "going", "anyway", "conditions"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (True, True, False, (False, True, True)),
        (False, True, False, (False, False, True)),
        (False, False, True, (True, False, False)),
        (True, True, True, (True, True, True)),
    ],
)
def test_conditions(ready: bool, going: bool, anyway: bool, conditions: tuple[bool, bool, bool]) -> None:
    row = endpointslices.endpoint(service(publishNotReadyAddresses=anyway), pod(0, ready, going=going), None, "IPv4")
    assert row is not None
    assert tuple(row["conditions"][name] for name in ("ready", "serving", "terminating")) == conditions


def test_where_a_pod_stands() -> None:
    of = service(trafficDistribution="PreferSameNode")
    world = World()
    world.settle(of, [pod(0, nodeName="east", hostname="a", subdomain="web"), pod(1, nodeName="lost")], {"east": "z1"})
    (one,) = world.slices.values()
    (row,) = one["endpoints"]  # the other one's node is not known
    assert (row["nodeName"], row["zone"], row["hostname"]) == ("east", "z1", "a")
    assert row["hints"] == {"forZones": [{"name": "z1"}], "forNodes": [{"name": "east"}]}
    made = plan(of, [pod(1, nodeName="lost")], {}, [])
    assert made.unplaced == ["p0001"]
    assert plan(service(publishNotReadyAddresses=True), [pod(1, nodeName="lost")], {}, []).unplaced == []


def container(name: str, number: int, protocol: str = "TCP", **more: Any) -> Object:
    """A container with one named port."""
    return {"ports": [{"name": name, "containerPort": number, "protocol": protocol}], **more}


@pytest.mark.parametrize(
    ("port", "spec", "found"),
    [
        ({"port": 80}, {}, 80),
        ({"port": 80, "targetPort": 8080}, {}, 8080),
        ({"port": 80, "targetPort": "web"}, {"containers": [container("web", 81)]}, 81),
        ({"port": 80, "targetPort": "web", "protocol": "UDP"}, {"containers": [container("web", 81)]}, None),
        ({"port": 80, "targetPort": "web"}, {"initContainers": [container("web", 81)]}, None),
        ({"port": 80, "targetPort": "web"}, {"initContainers": [container("web", 81, restartPolicy="Always")]}, 81),
        ({"port": 80, "targetPort": "nope"}, {"containers": [container("web", 81)]}, None),
    ],
)
def test_port_numbers(port: Object, spec: Object, found: int | None) -> None:
    assert endpointslices.port_number({"spec": spec}, port) == found


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 320), max_size=320), st.sets(st.integers(0, 320), max_size=20)),
        min_size=1,
        max_size=4,
    )
)
def test_any_course_ends_with_each_pod_once_in_slices_that_are_not_too_large(
    course: list[tuple[set[int], set[int]]],
) -> None:
    world = World()
    for there, unready in course:
        pods = [pod(n, ready=n not in unready) for n in sorted(there)]
        world.settle(service(), pods)
        assert world.names() == [p["metadata"]["name"] for p in pods]
        assert all(size <= PER_SLICE for size in world.sizes())
        assert len(world.slices) <= 1 + 2 * (len(pods) // PER_SLICE + 1) + 4
        world.settle(service(), pods)
        assert world.writes == 0


# ---------------------------------------------------------------- what the spec is given
def test_the_time_of_the_change_is_that_of_the_pod_that_changed() -> None:
    world, pods = filled(3)
    pods[2] = pod(2, ready=False)
    made = endpoints.planned(Kept(service()), [Kept(p) for p in pods], [], [Kept(s) for s in world.slices.values()])
    assert made["update"]["old-0"]["annotations"] == {endpoints.TRIGGER: "2026-01-01T00:00:02Z"}
    made = endpoints.planned(Kept(service()), [Kept(p) for p in pods], [], [])
    assert made["create"][0]["annotations"] == {endpoints.TRIGGER: "2026-01-01T00:00:00Z"}
    gone = endpoints.planned(Kept(service()), [Kept(pods[0])], [], [Kept(s) for s in world.slices.values()])
    assert gone["update"]["old-0"]["annotations"] == {}


def subsets(of: Object, *pods: Object) -> list[Object]:
    """The subsets of a service's Endpoints."""
    return endpoints.subsets(Kept(of), [Kept(p) for p in pods])


def shape(rows: list[Object]) -> list[tuple[list[str], list[str], list[int]]]:
    """Addresses that are ready, those that are not, and ports."""
    return [
        (
            [a["ip"] for a in row.get("addresses") or ()],
            [a["ip"] for a in row.get("notReadyAddresses") or ()],
            [p["port"] for p in row.get("ports") or ()],
        )
        for row in rows
    ]


def test_subsets_have_the_same_ports() -> None:
    of = service(ports=[{"name": "a", "port": 80, "targetPort": "web"}, {"name": "b", "port": 90}])
    spec: dict[str, Any] = {"containers": [container("web", 81)]}
    assert shape(subsets(of, pod(0, **spec), pod(1, False, **spec))) == [(["10.1.0.1"], ["10.1.0.2"], [81, 90])]
    # the second pod does not know the name: its address has the other port alone
    found = shape(subsets(of, pod(0, **spec), pod(1)))
    assert sorted(found) == [(["10.1.0.1"], [], [81]), (["10.1.0.1", "10.1.0.2"], [], [90])]


def test_endpoints_leave_out_what_terminates_or_has_ended() -> None:
    done = pod(2)
    done["status"]["phase"] = "Succeeded"
    assert shape(subsets(service(), pod(0), pod(1, going=True), done)) == [(["10.1.0.1"], [], [80])]
    anyway = service(publishNotReadyAddresses=True)
    assert shape(subsets(anyway, pod(0, False), pod(1, going=True))) == [(["10.1.0.1", "10.1.0.2"], [], [80])]


def test_headless_without_ports() -> None:
    assert shape(subsets(service(clusterIP="None", ports=[]), pod(0))) == [(["10.1.0.1"], [], [])]
    assert subsets(service(ports=[]), pod(0)) == []


@pytest.mark.parametrize(
    ("ready", "waiting", "left"), [(900, 50, (900, 50)), (900, 300, (900, 100)), (1200, 300, (1000, 0))]
)
def test_at_most_a_thousand_addresses(ready: int, waiting: int, left: tuple[int, int]) -> None:
    pods = [Kept(pod(n, n < ready)) for n in range(ready + waiting)]
    (row,) = endpoints.subsets(Kept(service()), pods)
    assert (len(row["addresses"]), len(row.get("notReadyAddresses") or ())) == left
    made = endpoints.endpoint_annotations(Kept(service()), pods, None)
    assert made.get(endpoints.OVER_CAPACITY) == ("truncated" if ready + waiting > 1000 else None)


def test_endpoints_are_outdated_only_by_what_they_say() -> None:
    of, pods = Kept(service()), [Kept(pod(0)), Kept(pod(1))]
    meta = {"labels": endpoints.endpoint_labels(of), "annotations": {endpoints.TRIGGER: "2025-01-01T00:00:00Z"}}
    current = Kept({"metadata": meta, "subsets": endpoints.subsets(of, pods)})
    assert not endpoints.outdated(of, pods, current)
    assert endpoints.outdated(of, pods[:1], current)
    assert endpoints.outdated(of, [Kept(pod(0, False)), pods[1]], current)
    assert endpoints.endpoint_annotations(of, [Kept(pod(0, False)), pods[1]], current) == {
        endpoints.TRIGGER: "2026-01-01T00:00:00Z"
    }
    other = Kept(service())
    other.json["metadata"]["labels"] = {"team": "b"}
    assert endpoints.outdated(other, pods, current)
