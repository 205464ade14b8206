"""What kubernetes.node and kubernetes.podgc compute: taints by conditions, tolerations, zones, who goes first."""

from __future__ import annotations

import pytest
from attrs import frozen

from dashpot.model.extern import node, podgc

Object = dict[str, object]
NOON = 1_800_014_400_000
"""2027-01-15T12:00:00Z"""
THEN = "2027-01-15T11:00:00Z"


@frozen
class Kept:
    """An object as a spec has it."""

    json: Object


def a_node(*taints: str, labels: Object | None = None, cordoned: bool = False, **conditions: str) -> Kept:
    """A node. Taints as `key:effect`, without the usual domain."""
    rows = []
    for text in taints:
        key, _, effect = text.partition(":")
        rows.append({"key": f"node.kubernetes.io/{key}", "effect": effect, "timeAdded": THEN})
    said = [{"type": type_, "status": status} for type_, status in conditions.items()]
    return Kept(
        {
            "metadata": {"name": "n", "labels": labels or {}, "creationTimestamp": THEN},
            "spec": {"taints": rows, "unschedulable": cordoned},
            "status": {"conditions": said},
        }
    )


def told(taints: list[dict[str, object]]) -> list[str]:
    """Taints as `a_node` takes them, `!` behind those that are new."""
    found = []
    for taint in taints:
        new = "" if taint["timeAdded"] == THEN else "!"
        found.append(f"{str(taint['key']).removeprefix('node.kubernetes.io/')}:{taint['effect']}{new}")
    return found


S, X = "NoSchedule", "NoExecute"


@pytest.mark.parametrize(
    ("before", "may", "calm", "after"),
    [
        (a_node(f"not-ready:{S}", Ready="True"), False, False, []),
        (a_node(Ready="Unknown"), False, False, [f"unreachable:{S}!"]),
        (a_node(Ready="Unknown"), True, False, [f"unreachable:{S}!", f"unreachable:{X}!"]),
        (a_node(Ready="False"), True, False, [f"not-ready:{S}!", f"not-ready:{X}!"]),
        # One of the two is replaced by the other at once.
        (
            a_node(f"not-ready:{S}", f"not-ready:{X}", Ready="Unknown"),
            False,
            False,
            [f"unreachable:{S}!", f"unreachable:{X}!"],
        ),
        (
            a_node(f"unreachable:{S}", f"unreachable:{X}", Ready="Unknown"),
            False,
            False,
            [f"unreachable:{S}", f"unreachable:{X}"],
        ),
        (a_node(f"unreachable:{S}", f"unreachable:{X}", Ready="Unknown"), False, True, [f"unreachable:{S}"]),
        (a_node(f"unreachable:{S}", f"unreachable:{X}", Ready="True"), True, False, []),
        (
            a_node(
                Ready="True",
                MemoryPressure="True",
                DiskPressure="Unknown",
                PIDPressure="True",
                NetworkUnavailable="True",
            ),
            True,
            False,
            [f"memory-pressure:{S}!", f"network-unavailable:{S}!", f"pid-pressure:{S}!"],
        ),
        (a_node(Ready="True", cordoned=True), True, False, [f"unschedulable:{S}!"]),
        # What others have set stays, whatever it says.
        (
            a_node(f"out-of-service:{X}", f"memory-pressure:{X}", Ready="True"),
            True,
            False,
            [f"out-of-service:{X}", f"memory-pressure:{X}"],
        ),
        (a_node(f"not-ready:{S}"), True, False, []),
    ],
)
def test_taints_follow_conditions(before: Kept, may: bool, calm: bool, after: list[str]) -> None:
    assert told(node.retainted(before, may, calm, NOON)) == after


def toleration(key: str = "", seconds: int | None = None, effect: str = X, operator: str = "Exists") -> Object:
    """A toleration of a taint of the usual domain; without a key of all."""
    made: Object = {"effect": effect, "operator": operator}
    if key:
        made["key"] = f"node.kubernetes.io/{key}"
    return made if seconds is None else {**made, "tolerationSeconds": seconds}


@pytest.mark.parametrize(
    ("tolerations", "taints", "bears"),
    [
        ([], [], None),
        ([], [f"unreachable:{S}"], None),
        ([], [f"unreachable:{X}"], 0),
        ([toleration("unreachable", 300)], [f"unreachable:{X}"], 300_000),
        ([toleration("unreachable")], [f"unreachable:{X}"], None),
        ([toleration("unreachable", -5)], [f"unreachable:{X}"], 0),
        ([toleration("unreachable", 300)], [f"unreachable:{X}", f"mine:{X}"], 0),
        ([toleration("unreachable", 300), toleration("mine", 20)], [f"unreachable:{X}", f"mine:{X}"], 20_000),
        ([toleration("unreachable", 300), toleration("mine")], [f"unreachable:{X}", f"mine:{X}"], 300_000),
        # The first that fits counts.
        ([toleration("", 10), toleration("unreachable")], [f"unreachable:{X}"], 10_000),
        ([toleration("unreachable", 10, effect=S), toleration()], [f"unreachable:{X}"], None),
        ([toleration("unreachable", 10, effect="")], [f"unreachable:{X}"], 10_000),
        ([toleration("unreachable", operator="Equal")], [f"unreachable:{X}"], None),
    ],
)
def test_a_pod_bears_a_taint_as_long_as_it_says(
    tolerations: list[Object], taints: list[str], bears: int | None
) -> None:
    assert node.patience(Kept({"spec": {"tolerations": tolerations}}), a_node(*taints)) == bears


def test_zones_are_regions_and_zones() -> None:
    assert node.zone(a_node()) == ""
    assert node.zone(a_node(labels={node.ZONE: "a"})) == "/a"
    assert node.zone(a_node(labels={node.ZONE: "a", node.REGION: "r"})) == "r/a"
    assert not node.counts(a_node(labels={node.EXCLUDED: ""})) and node.counts(a_node())


def test_what_is_not_heard_of_becomes_unknown() -> None:
    found = {row["type"]: row for row in node.lost(a_node(Ready="True", DiskPressure="Unknown", Other="True"), NOON)}
    assert [row["status"] for row in found.values()] == ["Unknown", "Unknown", "True", "Unknown", "Unknown"]
    assert found["Ready"]["reason"] == "NodeStatusUnknown" and "reason" not in found["DiskPressure"]
    assert found["PIDPressure"]["reason"] == "NodeStatusNeverUpdated"
    assert found["PIDPressure"]["lastHeartbeatTime"] == THEN
    assert found["PIDPressure"]["lastTransitionTime"] == "2027-01-15T12:00:00Z"


def test_a_heartbeat_stirs_nobody() -> None:
    before = a_node(Ready="True")
    beat = {**before.json, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": THEN}]}}
    assert not node.stirred(before, Kept(beat))
    for after in (
        a_node(Ready="False"),
        a_node(f"mine:{X}", Ready="True"),
        a_node(Ready="True", cordoned=True),
        a_node(Ready="True", labels={node.ZONE: "a"}),
    ):
        assert node.stirred(before, after)


def test_evicted_pods_go_first_then_the_oldest() -> None:
    def pod(name: str, hour: int, **status: str) -> Kept:
        meta = {"name": name, "creationTimestamp": f"2027-01-15T{hour:02}:00:00Z"}
        return Kept({"metadata": meta, "status": {"phase": "Failed", **status}})

    pods = [pod("new", 9), pod("b", 7), pod("evicted", 10, reason="Evicted"), pod("a", 7), pod("old", 6)]
    assert [p.json["metadata"]["name"] for p in podgc.oldest(pods, 4)] == ["evicted", "old", "a", "b"]


def test_out_of_service_is_a_taint_of_a_node_that_is_not_ready() -> None:
    assert podgc.out_of_service(a_node(f"out-of-service:{X}", Ready="Unknown"))
    assert podgc.out_of_service(a_node(f"out-of-service:{S}"))
    assert not podgc.out_of_service(a_node(f"out-of-service:{X}", Ready="True"))
    assert not podgc.out_of_service(a_node(f"unreachable:{X}", Ready="Unknown"))
