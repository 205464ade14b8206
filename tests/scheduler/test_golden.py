"""Plugins against facts of kube-scheduler v1.34: our own in `facts/`, and those in the folder that SCHED_GOLDEN names.

SCHED_GOLDEN=DIR pytest tests -k golden
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashpot.model.placement.cycle import wanted_nodes
from dashpot.model.placement.plugin import SKIP, Only
from dashpot.model.placement.preempt import Candidate, candidates, picks
from dashpot.model.placement.profile import plugin
from dashpot.model.placement.shape import OK, Pod, Status
from dashpot.model.placement.snapshot import Snapshot

Object = dict[str, Any]
OWN = Path(__file__).parent / "facts"
SHARED = Path(__file__).parents[3] / "shared" / "cases" / "scheduler"
CODES = ("Success", "Unschedulable", "UnschedulableAndUnresolvable")
NOW_S = 1_800_000_000
"""When a pod without a start time is taken to have started."""


def folders() -> list[Path]:
    """Where facts are."""
    named = os.environ.get("SCHED_GOLDEN")
    return [OWN, Path(named) if named else SHARED]


def cases() -> Iterator[Any]:
    """All facts, each with its id."""
    for folder in folders():
        if not folder.is_dir():
            yield pytest.param({}, marks=pytest.mark.skip(reason=f"{folder.name}: the facts are not here"))
            continue
        for path in sorted(folder.glob("*.json")):
            for case in json.loads(path.read_text())["cases"]:
                yield pytest.param(case, id=case["id"])


def snapshot(case: Object) -> Snapshot:
    """The cluster of a case; the order of its nodes is the order of the snapshot."""
    rows = [*case["nodes"], *(case.get("infeasible_nodes") or ())]
    found = Snapshot.of(rows, (), case.get("namespaces"), {"PodDisruptionBudget": case.get("pdbs") or []})
    found.nodes.sort(key=lambda view: [node["metadata"]["name"] for node in rows].index(view.name))
    for at, pod in enumerate(case.get("pods") or ()):
        where = (pod.get("spec") or {}).get("nodeName")
        if where in found.by_name:
            found.by_name[where].add(Pod.of(named(pod, at)))
    return found


def named(pod: Object, at: int) -> Object:
    """A pod with a uid, and a start time as objects have it."""
    meta = {"name": f"x-{at}", **(pod.get("metadata") or {})}
    made = {**pod, "metadata": {"uid": f"{meta['name']}-{at}", **meta}}
    start = (pod.get("status") or {}).get("startTime")
    if isinstance(start, int):
        made["status"] = {**made["status"], "startTime": start}
    return made


def filtered(case: Object) -> dict[str, Status]:
    """Every node's status, by one plugin alone."""
    cluster, pod = snapshot(case), Pod.of(named(case["pod"], 1000))
    one = plugin(case["plugin"], case.get("config") or {})
    state = one.prepare(pod, cluster)
    if state is SKIP:
        return {node.name: OK for node in cluster.nodes}
    if isinstance(state, Status):
        return {node.name: state for node in cluster.nodes}
    if isinstance(state, Only):
        state = state.state
    return {node.name: one.admits(pod, node, state) for node in cluster.nodes}


@pytest.mark.parametrize("case", list(cases()))
def test_golden(case: Object) -> None:
    point, expected = case["point"], case["expect"]
    if point == "filter":
        said = filtered(case)
        assert {name: CODES[status.code] for name, status in said.items()} == expected["codes"]
        for name, reasons in (expected.get("reasons") or {}).items():
            assert sorted(said[name].reasons) == reasons
    elif point == "score":
        scored(case)
    elif point == "numFeasibleNodesToFind":
        assert wanted_nodes(case["input"]["nodes"], case["config"]["percentageOfNodesToScore"]) == expected
    else:
        preempted(case)


def scored(case: Object) -> None:
    cluster, pod = snapshot(case), Pod.of(named(case["pod"], 1000))
    without = {node["metadata"]["name"] for node in case.get("infeasible_nodes") or ()}
    nodes = [node for node in cluster.nodes if node.name not in without]
    rated = plugin(case["plugin"], case.get("config") or {}).rate(pod, nodes, cluster)
    if case.get("v134_prescore_skips"):
        assert rated is SKIP
        return
    found = [0] * len(nodes) if rated is SKIP else rated
    assert {node.name: value for node, value in zip(nodes, found, strict=True)} == case["expect"]["scores"]


def preempted(case: Object) -> None:
    cluster, pod = snapshot(case), Pod.of(named(case["pod"], 1000))
    filters = [plugin(name, {}) for name in case["config"]["filters"]]
    found: dict[str, Candidate] = candidates(pod, cluster, filters, now=NOW_S)
    if case["point"] == "dryrun":
        said = {
            name: {"victims": {victim.name for victim in one.victims}, "pdbViolations": one.violations}
            for name, one in found.items()
        }
        wanted = case["expect"]["candidates"]
        assert said == {name: {**one, "victims": set(one["victims"])} for name, one in wanted.items()}
    else:
        assert sorted(picks(found, now=NOW_S)) == sorted(case["expect"]["any_of"])
