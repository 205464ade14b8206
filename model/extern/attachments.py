"""What kubernetes.attachments computes.

Sources: pkg/controller/volume/attachdetach, pkg/volume/csi/csi_attacher.go, pkg/volume/util (util.go, attachutil).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from dashpot.model.extern.volumes import claims_of
from dashpot.model.extern.workloads import Kept, at

__all__ = ["attachment_name", "claims_of", "exclusive", "remaining", "told_users", "unique"]

SHARED = ("ReadWriteMany", "ReadOnlyMany")


def exclusive(volume: Kept) -> bool:
    """Whether a volume may be attached to one node only. One without access modes says nothing about that."""
    modes = at(volume.json, "spec", "accessModes") or ()
    return bool(modes) and not any(mode in SHARED for mode in modes)


def unique(volume: Kept) -> str:
    """What nodes call a volume in `volumesAttached` and `volumesInUse`."""
    source = at(volume.json, "spec", "csi") or {}
    return f"kubernetes.io/csi/{source.get('driver', '')}^{source.get('volumeHandle', '')}"


def attachment_name(volume: Kept, node: str) -> str:
    """What the VolumeAttachment of a volume and a node is called."""
    source = at(volume.json, "spec", "csi") or {}
    text = f"{source.get('volumeHandle', '')}{source.get('driver', '')}{node}"
    return f"csi-{hashlib.sha256(text.encode()).hexdigest()}"


def told_users(pods: Iterable[Kept]) -> str:
    """Why a volume cannot be attached to a second node, in upstream's words."""
    names = sorted(str(at(p.json, "metadata", "name")) for p in pods)
    if not names:
        return "Volume is already exclusively attached to one node and can't be attached to another"
    return f"Volume is already used by pod(s) {', '.join(names)}"


def remaining(begun: int, most: int, moment: int) -> int:
    """Milliseconds until something that began is older than `most`; at least 1 s."""
    return max(1000, begun + most - moment)
