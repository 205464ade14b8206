"""The filters and scores against facts of kube-scheduler v1.34, where the set of facts is at hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashpot.model.placement import score, static
from dashpot.model.placement.allocation import BalancedAllocation, FitScore
from dashpot.model.placement.shape import NodeView, Pod
from dashpot.model.placement.snapshot import Snapshot

FACTS = Path(__file__).parents[3] / "shared" / "cases" / "scheduler"
FILTERS = {
    "unschedulable": static.unschedulable,
    "taint-filter": static.taints,
    "nodeaffinity-filter": static.affinity,
    "ports": static.ports,
    "fit": static.fit,
}
SCORES: dict[str, Callable[[Pod, list[NodeView]], Any]] = {
    "least": lambda pod, nodes: FitScore().rate(pod, nodes, Snapshot(nodes)),
    "balanced": lambda pod, nodes: BalancedAllocation().rate(pod, nodes, Snapshot(nodes)),
    "taint-score": lambda pod, nodes: score.soft_taints(pod, nodes),
    "nodeaffinity-score": lambda pod, nodes: score.preferences(pod, nodes),
}
CODES = ("Success", "Unschedulable", "UnschedulableAndUnresolvable")
Object = dict[str, Any]


def _cases(names: list[str]) -> list[Any]:
    if not FACTS.is_dir():
        return [pytest.param("", {}, marks=pytest.mark.skip(reason=f"{FACTS.name}: the facts are not here"))]
    found = []
    for name in names:
        for case in json.loads((FACTS / f"{name}.json").read_text())["cases"]:
            if _asked(case):
                found.append(pytest.param(name, case, id=case["id"]))
    return found


PLAIN = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
DEFAULTS: tuple[Object, ...] = (
    {},
    {"resources": PLAIN},
    {"scoringStrategy": {"type": "LeastAllocated", "resources": PLAIN}},
)


def _asked(case: Object) -> bool:
    """Whether it is about a plugin with its default arguments, in a cycle in which v1.34 asks the plugin at all."""
    return (case.get("config") or {}) in DEFAULTS and not case.get("v134_prescore_skips")


def _view(case: Object) -> tuple[Pod, list[NodeView]]:
    def named(obj: Object, at: int) -> Object:
        meta = {"name": f"x-{at}", **(obj.get("metadata") or {})}
        return {**obj, "metadata": {"uid": f"{meta['name']}-{at}", **meta}}

    placed = [named(one, at) for at, one in enumerate(case.get("pods") or ())]
    nodes = [
        NodeView.of(
            one,
            [Pod.of(pod) for pod in placed if (pod.get("spec") or {}).get("nodeName") == one["metadata"]["name"]],
        )
        for one in case["nodes"]
    ]
    return Pod.of(named(case["pod"], 1000)), nodes


@pytest.mark.parametrize(("name", "case"), _cases(list(FILTERS)))
def test_a_filter_answers_as_the_scheduler_does(name: str, case: Object) -> None:
    pod, nodes = _view(case)
    said = {node.name: FILTERS[name](pod, node) for node in nodes}
    assert {node: CODES[status.code] for node, status in said.items()} == case["expect"]["codes"]
    for node, reasons in (case["expect"].get("reasons") or {}).items():
        assert sorted(said[node].reasons) == reasons


@pytest.mark.parametrize(("name", "case"), _cases(list(SCORES)))
def test_a_score_is_what_the_scheduler_gives(name: str, case: Object) -> None:
    pod, nodes = _view(case)
    assert dict(zip([node.name for node in nodes], SCORES[name](pod, nodes), strict=True)) == case["expect"]["scores"]
