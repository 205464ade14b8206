"""What holds of every plane, whatever its specs claim: asked of each write of the plane."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from attrs import define, field

from dashpot.model.span import NOWHERE, Span
from dashpot.runtime.sim.claims import LAG_S, Broken
from dashpot.runtime.sim.deed import CLIENT
from dashpot.runtime.sim.truth import Commit, Truth

Object = dict[str, Any]
MODULE = "every plane"
BOUND_ONCE = "bound_once"
WITHIN_SURGE = "within_surge"
STAYS_AVAILABLE = "stays_available"
LINES = {
    BOUND_ONCE: "a pod that is bound to a node is never bound to another one",
    WITHIN_SURGE: "a rollout never asks for more pods than replicas and surge allow",
    STAYS_AVAILABLE: "a rollout never takes more pods away than may be unavailable",
}
DEPLOYER = "DeploymentController"
DISTURBED_S = 30.0
"""For so long after a fault the figures of a rollout are explained by that."""


@define(eq=False)
class Laws:
    """The laws of a run. `fault_at`: when the last fault fired."""

    truth: Truth
    told: Callable[[Broken], None]
    fault_at: Callable[[], float]
    _sizes: dict[str, list[tuple[float, int]]] = field(factory=dict)
    """Deployment's uid → its replicas, and since when."""
    _taken: dict[str, float] = field(factory=dict)
    """uid of a set → when a client last took a pod of it away."""

    def before(self, commit: Commit) -> None:
        """One write, about to count."""
        if commit.kind == "Pod":
            self._bound(commit)
            if commit.deed.actor == CLIENT:
                self._taken[str(_owner(commit.object).get("uid"))] = commit.at
        elif commit.kind == "Deployment" and commit.new is not None:
            self._sizes.setdefault(commit.new["metadata"]["uid"], []).append((commit.at, _replicas(commit.new)))
        elif commit.kind == "ReplicaSet" and commit.deed.actor == DEPLOYER and commit.new is not None:
            self._rollout(commit)

    def _bound(self, commit: Commit) -> None:
        if commit.old is None or commit.new is None:
            return
        was, now = ((one.get("spec") or {}).get("nodeName") for one in (commit.old, commit.new))
        if was and was != now:
            self._break(BOUND_ONCE, f"Pod {commit.key}", f"it was bound to {was} and then to {now}", commit)

    def _rollout(self, commit: Commit) -> None:
        """A write of the deployment controller that changes how many pods a set asks for."""
        assert commit.new is not None
        more = _replicas(commit.new) - (_replicas(commit.old) if commit.old is not None else 0)
        owner = _owner(commit.new)
        space = commit.new["metadata"].get("namespace", "")
        deployment = self.truth.get("Deployment", f"{space}/{owner.get('name')}")
        if not more or deployment is None or deployment["metadata"]["uid"] != owner.get("uid"):
            return
        sets = [
            one
            for one in self.truth.of("ReplicaSet")
            if _owner(one).get("uid") == owner.get("uid") and one["metadata"]["uid"] != commit.new["metadata"]["uid"]
        ]
        total = sum(map(_replicas, sets)) + _replicas(commit.new)
        wanted = _replicas(deployment)
        known = self._known(owner["uid"], commit.at)
        rolling = ((deployment.get("spec") or {}).get("strategy") or {}).get("rollingUpdate") or {}
        name = f"Deployment {space}/{owner['name']}"
        if self.fault_at() + DISTURBED_S >= commit.at:
            return
        if more > 0 and total > max(known) + share(rolling.get("maxSurge", 0), max(known), up=True):
            self._break(WITHIN_SURGE, name, f"its sets ask for {total} pods, replicas are {wanted}", commit)
        calm = all(self._taken.get(one["metadata"]["uid"], -LAG_S) + LAG_S < commit.at for one in (*sets, commit.new))
        if more < 0 and calm and rolling:
            self._available(name, commit, sets, min(known), rolling)

    def _known(self, uid: str, at: float) -> list[int]:
        """How many replicas a controller may believe that a deployment has: those of the last seconds."""
        rows = self._sizes[uid]
        ends = [until for until, _ in rows[1:]] + [at]
        return [size for (_, size), until in zip(rows, ends, strict=True) if until >= at - LAG_S]

    def _available(self, name: str, commit: Commit, sets: list[Object], wanted: int, rolling: Object) -> None:
        """Of an old set that is made smaller, the pods that serve go last: more than that must not go."""
        assert commit.new is not None and commit.old is not None
        status = commit.old.get("status") or {}
        unhealthy = _replicas(commit.old) - int(status.get("availableReplicas", 0))
        taken = max(0, _replicas(commit.old) - _replicas(commit.new) - max(0, unhealthy))
        serving = sum(int((one.get("status") or {}).get("availableReplicas", 0)) for one in [*sets, commit.old])
        surge = share(rolling.get("maxSurge", 0), wanted, up=True)
        unavailable = share(rolling.get("maxUnavailable", 0), wanted, up=False)
        least = wanted - (unavailable or (0 if surge else 1))
        if taken > 0 and serving - taken < min(least, serving):
            self._break(STAYS_AVAILABLE, name, f"{serving - taken} serve of {wanted}, {least} have to", commit)

    def _break(self, law: str, about: str, why: str, commit: Commit) -> None:
        line: Span = commit.deed.span
        text = f"{LINES[law]}: {about}: {why}"
        self.told(Broken(law, MODULE, "safety", about, text, commit.at, line, NOWHERE, commit.deed))


def share(value: Any, of: int, *, up: bool) -> int:
    """A number, or a percentage of `of` rounded up or down (upstream: intstr.GetScaledValueFromIntOrPercent)."""
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * of / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value or 0)


def _replicas(obj: Object) -> int:
    found = (obj.get("spec") or {}).get("replicas", 1)
    return 1 if found is None else int(found)


def _owner(obj: Object) -> Object:
    for one in obj["metadata"].get("ownerReferences") or ():
        if one.get("controller"):
            found: Object = one
            return found
    return {}
