"""FEASIBLE and INFEASIBLE are what they say: against every placement of small clusters, and for the known dead ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot import cli
from dashpot.checker.feasibility.dump import BadInput
from dashpot.checker.feasibility.instance import Instance
from dashpot.checker.feasibility.reach import Scheduler, reached, trap
from dashpot.checker.feasibility.repair import repairs
from dashpot.checker.feasibility.verdict import Feasible, Infeasible, decide
from tests.feasibility.kit import ZONE, Object, apart, node, placements, pod, question, spread

TAINT = "dedicated=x"
TOLERATION = {"key": "dedicated", "operator": "Exists"}


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Up to three nodes and four pods in all, placed ones among them."""
    nodes = [
        node(
            f"n{at}",
            draw(st.sampled_from(["1", "2", "3"])),
            draw(st.sampled_from("ab")),
            draw(st.sampled_from(["", "", TAINT])),
        )
        for at in range(draw(st.integers(1, 3)))
    ]
    rules: list[Object] = []
    for _ in range(draw(st.integers(1, 2))):
        rule: Object = {}
        kind = draw(st.sampled_from(["", "spread", "apart", "tolerates", "selects", "port"]))
        if kind == "spread":
            policy = draw(st.sampled_from(["Ignore", "Honor"]))
            rule["topologySpreadConstraints"] = [spread(draw(st.integers(1, 2)), nodeTaintsPolicy=policy)]
        elif kind == "apart":
            rule["affinity"] = apart(draw(st.sampled_from([ZONE, "kubernetes.io/hostname"])))
        elif kind == "tolerates":
            rule["tolerations"] = [TOLERATION]
        elif kind == "selects":
            rule["nodeSelector"] = {ZONE: draw(st.sampled_from("ab"))}
        elif kind == "port":
            rule["container"] = {"ports": [{"hostPort": 80, "containerPort": 80}]}
        rules.append(rule)
    pods = []
    for at in range(draw(st.integers(1, 4))):
        rule = draw(st.sampled_from(rules))
        on = draw(st.sampled_from(["", "", "", "n0"]))
        pods.append(
            pod(f"p{at}", draw(st.sampled_from(["500m", "1", "2"])), on, draw(st.sampled_from(["web", "db"])), **rule)
        )
    return question(*nodes, *pods)


@settings(max_examples=150)
@given(instances())
def test_a_verdict_is_true(asked: Instance) -> None:
    verdict = decide(asked)
    if isinstance(verdict, Infeasible):
        assert not placements(asked)
    elif isinstance(verdict, Feasible):
        assert set(verdict.placement) == {one.uid for one in asked.pods}
    walk = reached(asked)
    if walk is not None:
        assert not isinstance(verdict, Infeasible)


def dead_end(**more: Any) -> list[Object]:
    """Nine nodes in three zones, one of them tainted, and pods that spread over the zones."""
    nodes = [node(f"n{at}", "8", "abc"[at % 3], TAINT if at % 3 == 2 else "") for at in range(9)]
    return [*nodes, *(pod(f"web-{at}", topologySpreadConstraints=[spread(**more)]) for at in range(6))]


def core(*objects: Object) -> list[str]:
    """The labels of the core."""
    verdict = decide(question(*objects))
    assert isinstance(verdict, Infeasible), verdict
    return [fact.label for fact in verdict.core]


def test_the_spread_over_a_tainted_zone_is_told_with_all_that_makes_it() -> None:
    found = core(*dead_end())
    assert "3 node(s) had untolerated taint {dedicated: x}" in found
    assert any(text.startswith("node(s) didn't match pod topology spread constraints (maxSkew 1)") for text in found)
    assert any("zone c" in text for text in found)
    asked = question(*dead_end())
    verdict = decide(asked)
    assert isinstance(verdict, Infeasible)
    texts = [one.text for one in repairs(asked, verdict.core)]
    assert f"nodeTaintsPolicy: Honor in 6 pods like web-0's spread over {ZONE}" in texts
    for one in repairs(asked, verdict.core):
        assert isinstance(decide(one.instance), Feasible)
    assert isinstance(decide(question(*dead_end(nodeTaintsPolicy="Honor"))), Feasible)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([node("a"), pod("p", "5")], "Insufficient cpu"),
        ([node("a"), node("b"), *(pod(f"p{n}", affinity=apart()) for n in range(3))], "anti-affinity rules"),
        ([node("a"), pod("p", nodeSelector={"disk": "ssd"})], "1 node(s) didn't match Pod's node affinity/selector"),
        ([node("a", taint=TAINT), pod("p")], "1 node(s) had untolerated taint {dedicated: x}"),
        ([node("a", "3"), node("b", "3"), *(pod(f"p{n}", "2") for n in range(3))], "ask for 2 cpu or more"),
        (
            [node("a"), *(pod(f"p{n}", container={"ports": [{"hostPort": 80, "containerPort": 80}]}) for n in "xy")],
            "didn't have free ports",
        ),
    ],
)
def test_a_core_names_what_is_in_the_way(objects: list[Object], words: str) -> None:
    found = core(*objects)
    assert any(words in text for text in found), found
    assert len(found) <= 3


def test_a_gpu_that_no_node_has_has_no_repair_and_one_more_node_like_the_last_is_told() -> None:
    gpu = pod("p", container={"resources": {"requests": {"nvidia.com/gpu": "1"}}})
    asked = question(node("a"), gpu)
    verdict = decide(asked)
    assert isinstance(verdict, Infeasible)
    assert repairs(asked, verdict.core) == []
    full = question(node("a", "2"), pod("x", "2", "a"), pod("p", "2"))
    verdict = decide(full)
    assert isinstance(verdict, Infeasible)
    assert [one.text for one in repairs(full, verdict.core)] == ["1 more node like a"]


def test_an_order_that_leaves_a_pod_pending_is_shrunk() -> None:
    nodes = [node(f"n{at}", "4") for at in range(4)]
    small = [pod(f"s{at}", "1", app="s") for at in range(8)]
    large = [pod(f"l{at}", "3", app="l") for at in range(2)]
    asked = question(*nodes, *small, *large)
    good = reached(asked)
    assert good is not None
    found = trap(asked, good)
    assert found is not None
    assert len(found.bad.pending) == 1 and not found.good.pending
    again = Scheduler.over(asked, [one for one in asked.cluster.nodes if one.name in found.nodes]).walk(found.bad.order)
    assert again.pending.keys() == found.bad.pending.keys()
    for left in range(len(found.bad.order)):
        fewer = [*found.bad.order[:left], *found.bad.order[left + 1 :]]
        rows = [one for one in asked.cluster.nodes if one.name in found.nodes]
        assert not Scheduler.over(asked, rows).walk(fewer).pending


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (
            [{"kind": "Node", "metadata": {"name": "a"}, "status": {}}, pod("p")],
            "line 1: Node a has no status.allocatable",
        ),
        ([node("a", "-4"), pod("p")], "line 1: Node a: status.allocatable.cpu '-4' is negative"),
        ([node("a"), pod("p", "1e400")], "line 2: Pod p: spec.containers[0].resources.requests.cpu '1e400'"),
        ([pod("p")], "the input has no nodes"),
    ],
)
def test_what_is_wrong_with_the_input_is_named_with_its_place(objects: list[Object], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        question(*objects)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("priority", "said"),
    [
        (9, "n would take it without x/a: they matter less"),
        (1, "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
    ],
)
def test_why_says_what_preemption_would_do(
    priority: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}
    things = [
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}},
        {"kind": "Pod", "metadata": {"name": "a", "namespace": "x"}, "spec": {**one, "nodeName": "n", "priority": 1}},
        {"kind": "Pod", "metadata": {"name": "b", "namespace": "x"}, "spec": {**one, "priority": priority}},
    ]
    path = tmp_path / "cluster.json"
    items = [{"apiVersion": "v1", **thing} for thing in things]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert cli.main(["schedule", "-f", str(path), "--why", "b"]) == 1
    assert said in capsys.readouterr().out
