"""ImageLocality (S45): nodes that have the pod's images already, less so the rarer an image is. v1.34."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from dashpot.model.placement.plugin import MOST, Skip
from dashpot.model.placement.shape import NodeView, Pod
from dashpot.model.placement.snapshot import Snapshot

Object = dict[str, Any]
MIB = 1024 * 1024
LEAST, EACH = 23 * MIB, 1000 * MIB


@frozen
class ImageLocality:
    """The score."""

    name: str = "ImageLocality"

    def rate(self, pod: Pod, nodes: Sequence[NodeView], cluster: Snapshot) -> list[int] | Skip:
        """By the bytes of the pod's images that a node has, each scaled by the share of nodes that have it."""
        spec = pod.spec
        wanted = [
            _tagged(str(c.get("image", ""))) for c in (*spec.get("initContainers", ()), *spec.get("containers", ()))
        ]
        here = {node.name: images(node.object) for node in cluster.nodes}
        holders: dict[str, int] = {}
        for image in set(wanted):
            holders[image] = sum(1 for rows in here.values() if image in rows)
        most = EACH * len(wanted)
        found = []
        for node in nodes:
            rows = here.get(node.name) or images(node.object)
            total = sum(int(rows[image] * (holders[image] / len(here))) for image in wanted if image in rows)
            total = min(max(total, LEAST), most)
            found.append(MOST * (total - LEAST) // (most - LEAST) if most > LEAST else 0)
        return found


def images(node: Object) -> dict[str, int]:
    """Bytes of each image of a node, by every name that it has."""
    found: dict[str, int] = {}
    for image in (node.get("status") or {}).get("images") or ():
        for name in image.get("names") or ():
            found[_tagged(str(name))] = int(image.get("sizeBytes") or 0)
    return found


def _tagged(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
