"""What the autoscalers of nodes and of pods' sizes compute."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.extern import autoscaler, vpa
from dashpot.model.extern.workloads import written
from dashpot.runtime.fleet.groups import shape_of

Object = dict[str, Any]
NOW = 1_700_000_000_000
UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


@frozen(eq=False)
class Kept:
    json: Object


def group(name: str, size: int = 0, most: int = 9, cpu: str = "4", **template: Any) -> Kept:
    spec = {"minSize": 0, "maxSize": most, "size": size, "template": {"capacity": {"cpu": cpu}, **template}}
    return Kept({"metadata": {"name": name}, "spec": spec})


def node(name: str, of: Kept, *, ready: bool = True, age_s: int = 3600, **meta: Any) -> Kept:
    made = autoscaler.template(of.json, name)
    made["metadata"] |= {"creationTimestamp": written(NOW - 1000 * age_s), **meta}
    made["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return Kept(made)


def pod(name: str, cpu: str = "1", at: str = "", owner: str = "ReplicaSet", **more: Any) -> Kept:
    """A pod on a node, or one that waits."""
    spec: Object = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **more.pop("spec", {})}
    status: Object = {"phase": "Running"} if at else {"phase": "Pending", "conditions": UNSCHEDULABLE}
    if at:
        spec["nodeName"] = at
    meta: Object = {"name": name, "namespace": "default", "uid": name, **more}
    if owner:
        meta["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    return Kept({"metadata": meta, "spec": spec, "status": status})


# ---------------------------------------------------------------- growing
@pytest.mark.parametrize(
    ("pods", "nodes"),
    [((), 0), (("1",), 1), (("1",) * 4, 1), (("1",) * 5, 2), (("3", "3", "1", "1"), 2), (("5",), 0), (("3",) * 20, 9)],
)
def test_as_many_nodes_as_pods_fill(pods: tuple[str, ...], nodes: int) -> None:
    g = group("g")
    waiting = [pod(f"p{at:02}", cpu) for at, cpu in enumerate(pods)]
    assert autoscaler.growth(g, [g], [], waiting, NOW) == nodes


def test_what_is_there_or_comes_is_counted() -> None:
    g = group("g", size=2)
    waiting = [pod(f"p{at}", "3") for at in range(3)]
    full = [pod("other", "3", at="n0")]
    assert autoscaler.growth(g, [g], [node("n0", g), node("n1", g)], waiting, NOW) == 1
    assert autoscaler.growth(g, [g], [node("n0", g), node("n1", g)], [*waiting, *full], NOW) == 2
    assert autoscaler.growth(g, [g], [], waiting, NOW) == 1
    fresh = node("n0", g, ready=False, age_s=60)
    assert autoscaler.growth(g, [g], [fresh, node("n1", g)], waiting, NOW) == 1
    lost = node("n0", g, ready=False, age_s=1000)
    assert autoscaler.growth(g, [g], [lost, node("n1", g)], waiting, NOW) == 2
    doomed = Kept({**node("n0", g).json, "spec": {"taints": autoscaler.marked(node("n0", g), NOW)}})
    assert autoscaler.is_marked(doomed) and autoscaler.unmarked(doomed) == []
    assert autoscaler.growth(g, [g], [doomed, node("n1", g)], waiting, NOW) == 2


def test_only_pods_that_the_scheduler_gave_up_on_count() -> None:
    g = group("g")
    for change in (
        {"status": {"phase": "Pending"}},
        {"status": {"phase": "Running", "conditions": UNSCHEDULABLE}},
        {"metadata": {"name": "p", "deletionTimestamp": written(NOW)}},
    ):
        assert autoscaler.growth(g, [g], [], [Kept({**pod("p").json, **change})], NOW) == 0


def test_the_group_that_takes_most_and_wastes_least_grows() -> None:
    small, large, full = group("small", cpu="2"), group("large", cpu="16"), group("full", size=3, most=3, cpu="2")
    every = [small, large, full]
    nodes = [node(f"f{at}", full) for at in range(3)]
    stuck = [pod(f"f{at}-pod", "2", at=f"f{at}") for at in range(3)]
    one = [pod("a", "1"), *stuck]
    assert [autoscaler.growth(g, every, nodes, one, NOW) for g in every] == [1, 0, 0]
    both = [pod("a", "1"), pod("b", "8"), *stuck]
    assert [autoscaler.growth(g, every, nodes, both, NOW) for g in every] == [0, 1, 0]
    assert {p.json["metadata"]["name"] for p in autoscaler.helped(large, every, nodes, both, NOW)} == {"a", "b"}
    assert autoscaler.helped(small, every, nodes, both, NOW) == []


def test_pods_that_nothing_helps_are_told_once() -> None:
    first, second = group("a", cpu="1"), group("b", size=2, most=2, cpu="64")
    huge = pod("huge", "32")
    nodes = [node(f"b{at}", second) for at in range(2)]
    filled = [pod(f"b{at}", "60", at=f"b{at}") for at in range(2)]
    groups = [second, first]
    assert autoscaler.hopeless(first, groups, nodes, [huge, *filled], NOW) == [huge]
    assert autoscaler.hopeless(second, groups, nodes, [huge, *filled], NOW) == []
    text = "pod didn't trigger scale-up: 1 Insufficient cpu, 1 max node group size reached"
    assert autoscaler.why_not(huge, groups) == text


# ---------------------------------------------------------------- shrinking
@pytest.mark.parametrize(
    ("row", "spare"),
    [
        (pod("p", "1", at="n0"), True),
        (pod("p", "2", at="n0"), False),  # half of it is used
        (pod("p", "1", at="n0", owner=""), False),
        (pod("p", "1", at="n0", owner="", annotations={autoscaler.SAFE: "true"}), True),
        (pod("p", "1", at="n0", annotations={autoscaler.SAFE: "false"}), False),
        (pod("p", "1", at="n0", owner="DaemonSet"), True),
        (pod("p", "1", at="n0", namespace="kube-system"), False),
        (pod("p", "1", at="n0", spec={"volumes": [{"name": "v", "emptyDir": {}}]}), False),
        (pod("p", "1", at="n0", spec={"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}), True),
        (pod("p", "1", at="n0", spec={"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), False),
        (pod("p", "1", at="n0", spec={"nodeSelector": {"kubernetes.io/hostname": "n0"}}), False),
    ],
)
def test_which_nodes_are_not_needed(row: Kept, spare: bool) -> None:
    g = group("g", size=2)
    nodes = [node("n0", g), node("n1", g)]
    assert (autoscaler.spares(nodes, nodes, [row])[:1] == nodes[:1]) is spare


def test_pods_have_to_fit_elsewhere() -> None:
    g = group("g", size=2)
    nodes = [node("n0", g), node("n1", g)]
    pods = [pod("p", "1", at="n0"), pod("q", "3500m", at="n1")]
    assert autoscaler.spares(nodes, nodes, pods) == []
    assert autoscaler.spares(nodes[:1], nodes[:1], pods[:1]) == []
    keep = node("n0", g, annotations={autoscaler.KEEP: "true"})
    assert autoscaler.spares([keep, nodes[1]], [keep, nodes[1]], []) == nodes[1:]
    assert [n.json["metadata"]["name"] for n in autoscaler.idlest(nodes, pods)] == ["n0", "n1"]
    assert [p.json["metadata"]["name"] for p in autoscaler.movers(nodes[0], pods)] == ["p"]


def test_machines_are_of_the_groups_shape() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    shape = shape_of(group("g", cpu="2", labels={"x": "y"}, taints=[taint]).json)
    assert (shape.cpu, shape.memory, shape.pods, shape.taints) == ("2", "32Gi", 110, (taint,))
    assert shape.labels["x"] == "y" and shape.labels[autoscaler.GROUP] == "g"
    with pytest.raises(ValueError, match="quantities must match"):
        shape_of(group("g", cpu="two").json)


# ---------------------------------------------------------------- sizes of pods
def sample(value: int, at: int = NOW, container: str = "c", resource: str = "cpu", name: str = "p") -> Object:
    return {"pod": name, "container": container, "resource": resource, "at": at, "value": value}


def answer(at: int, **used: str) -> Kept:
    row = {"metadata": {"name": "p"}, "timestamp": written(at), "containers": [{"name": "c", "usage": used}]}
    return Kept({"items": [row]})


def sizer(**spec: Any) -> Kept:
    return Kept({"metadata": {"name": "a", "namespace": "n"}, "spec": spec})


def test_each_measurement_is_known_once() -> None:
    first = vpa.observed([], answer(NOW, cpu="100m", memory="1Mi"))
    assert {(s["resource"], s["value"]) for s in first} == {("cpu", 100), ("memory", 1048576000)}
    assert vpa.observed(first, answer(NOW, cpu="100m", memory="1Mi")) == first
    later = vpa.observed(first, answer(NOW + vpa.KEPT_MS + 1000, cpu="1"))
    assert [s["value"] for s in later] == [1000]
    assert vpa.observed(first, None) == first == vpa.observed(first, Kept({"kind": "Status"}))


def test_recommendations_have_a_margin_and_limits() -> None:
    samples = [sample(100 * step) for step in range(1, 11)]
    (row,) = vpa.recommended(sizer(), samples)
    assert row == {
        "containerName": "c",
        "target": {"cpu": "1035m"},
        "lowerBound": {"cpu": "575m"},
        "upperBound": {"cpu": "1150m"},
    }
    (row,) = vpa.recommended(sizer(minAllowed={"cpu": "700m"}, maxAllowed={"cpu": "1"}), samples)
    assert (row["target"], row["lowerBound"], row["upperBound"]) == ({"cpu": "1"}, {"cpu": "700m"}, {"cpu": "1"})
    (row,) = vpa.recommended(sizer(), [sample(1), sample(1, resource="memory")])
    assert row["target"] == {"cpu": "25m", "memory": "250Mi"}
    assert vpa.recommended(sizer(), []) == []
    assert not vpa.mature(samples) and vpa.mature([*samples, sample(1, NOW - vpa.MATURE_MS)])


@given(st.lists(st.integers(0, 10_000), min_size=1), st.floats(0.01, 1.0))
def test_percentiles(values: list[int], share: float) -> None:
    found = vpa.percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values)


def running(requests: Object, limits: Object | None = None) -> Kept:
    resources: Object = {"requests": requests, **({"limits": limits} if limits else {})}
    return Kept({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": resources}, {"name": "d"}]},
        "status": {"phase": "Running"},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("requests", "limits", "made"),
    [
        ({"cpu": "100m"}, None, {"requests": {"cpu": "500m"}}),
        ({"cpu": "100m", "memory": "1Gi"}, {"cpu": "300m"}, {
            "requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1500m"}
        }),
        ({"cpu": "2"}, {"cpu": "2"}, {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}),
        ({"cpu": "450m"}, None, None),
        ({"memory": "1Gi"}, None, None),
    ],
)  # fmt: skip
def test_only_what_is_outside_of_the_bounds_changes(
    requests: Object, limits: Object | None, made: Object | None
) -> None:
    row = {
        "containerName": "c",
        "target": {"cpu": "500m"},
        "lowerBound": {"cpu": "400m"},
        "upperBound": {"cpu": "600m"},
    }
    one = running(requests, limits)
    assert vpa.misfits([one], [row]) == ([one] if made else [])
    first, second = vpa.resized(one, [row])
    assert first["resources"] == (made or one.json["spec"]["containers"][0]["resources"])
    assert second == {"name": "d"}
