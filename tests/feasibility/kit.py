"""Small clusters as objects, and a brute force that tries every placement."""

from __future__ import annotations

from itertools import product
from typing import Any

from dashpot.checker.feasibility.dump import Dump, Item
from dashpot.checker.feasibility.greedy import Placement
from dashpot.checker.feasibility.instance import Instance, instance
from dashpot.checker.feasibility.verdict import unaccepted

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def node(name: str, cpu: str = "4", zone: str = "a", taint: str = "", **labels: str) -> Object:
    """A node of 110 pods; `taint`: `key=value`, NoSchedule."""
    spec: Object = {}
    if taint:
        key, _, value = taint.partition("=")
        spec["taints"] = [{"key": key, "value": value, "effect": "NoSchedule"}]
    told = {HOST: name, ZONE: zone, **labels}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": told},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }


def pod(name: str, cpu: str = "1", on: str = "", app: str = "web", **spec: Any) -> Object:
    """A pod of one container."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}, **spec.pop("container", {})}
    made: Object = {"containers": [container], **spec}
    if on:
        made["nodeName"] = on
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": app}}, "spec": made}


def spread(skew: int = 1, key: str = ZONE, app: str = "web", **more: Any) -> Object:
    """A hard constraint."""
    selector = {"matchLabels": {"app": app}}
    return {
        "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more,
    }  # fmt: skip


def apart(key: str = HOST, app: str = "web") -> Object:
    """Required anti-affinity to pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def question(*objects: Object, **options: Any) -> Instance:
    """The question that these objects ask."""
    return instance(Dump([Item(one, f"line {at}") for at, one in enumerate(objects, 1)]), **options)


def placements(asked: Instance) -> bool:
    """Whether any placement at all is accepted, by trying every one."""
    names = [one.name for one in asked.cluster.nodes]
    pods = asked.pods
    for choice in product(names, repeat=len(pods)):
        found = Placement({one.uid: name for one, name in zip(pods, choice, strict=True)})
        if not unaccepted(asked, found):
            return True
    return False
