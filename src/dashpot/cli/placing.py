"""What each node says of one pod: `dashpot schedule --why POD`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.problem import HOLDS, VIOLATED, choose

if TYPE_CHECKING:
    from dashpot.checker.feasibility.instance import Instance
    from dashpot.model.placement.shape import Pod

NOT_READ = "network policies, quotas and the readiness of other pods never keep the scheduler from placing a pod"


def why(question: Instance, name: str, as_json: bool) -> int:
    """Prints the verdict and the points of every node; 0 if some node takes the pod, else 1."""
    from dashpot.model.placement.cycle import Refused, Unfit, admitted, prepare, rated
    from dashpot.model.placement.message import NO_NODES
    from dashpot.model.placement.message import why as told
    from dashpot.model.placement.preempt import attempted
    from dashpot.model.placement.shape import Status

    pod = _pod(question, name)
    cluster, profile = question.cluster, question.profile
    ready = prepare(pod, cluster, profile.filters)
    if isinstance(ready, Refused):
        said: dict[str, Status] = {node.name: ready.status for node in cluster.nodes}
    else:
        said = {node.name: admitted(pod, node, ready.states) for node in cluster.nodes}
    feasible = [node for node in cluster.nodes if said[node.name].ok]
    points = rated(pod, feasible, cluster, profile) if feasible else {}
    if as_json:
        _json(pod, said, points)
    else:
        for node in cluster.nodes:
            status = said[node.name]
            if status.ok:
                parts = points[node.name]
                sums = " + ".join(f"{plugin} {value}" for plugin, value in parts.items() if value)
                console.out(f"{node.name}  fits  {sum(parts.values())}{f' = {sums}' if sums else ''}")
            else:
                console.out(f"{node.name}  {status.plugin}: {', '.join(status.reasons)}")
        if not said:
            console.out(NO_NODES)
        elif not feasible:
            outcome = Unfit(said, len(said), ready.status if isinstance(ready, Refused) else None)
            room, tail = attempted(pod, cluster, profile.filters, outcome, now=time.time())
            console.out(told(outcome, tail))
            for one in room.values():
                victims = ", ".join(f"{victim.namespace}/{victim.name}" for victim in one.victims)
                console.out(f"{one.node} would take it without {victims}: they matter less")
        console.out(f"not the cause: {NOT_READ}")
    return HOLDS if feasible else VIOLATED


def _pod(question: Instance, name: str) -> Pod:
    pods = question.pods
    for pod in pods:
        if name in (pod.name, f"{pod.namespace}/{pod.name}"):
            return pod
    raise choose("pod that waits for a node", name, [pod.name for pod in pods[:50]])


def _json(pod: Pod, said: Any, points: Any) -> None:
    import msgspec

    rows = [
        {
            "node": name,
            "fits": status.ok,
            "plugin": status.plugin,
            "reasons": list(status.reasons),
            "points": points.get(name, {}),
        }
        for name, status in said.items()
    ]
    answer = {"pod": pod.name, "namespace": pod.namespace, "nodes": rows}
    console.out(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
