"""DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or out of reach.

Source: kubernetes plugin/pkg/admission/defaulttolerationseconds, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Plugin

SECONDS = 300
KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Plugin):
    """Adds the two tolerations that a pod does not have."""

    name = "DefaultTolerationSeconds"

    def __init__(self, seconds: int = SECONDS) -> None:
        self._seconds = seconds

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Pods that are made or changed."""
        return operation in (CREATE, UPDATE) and resource.group == "" and resource.plural == "pods" and not subresource

    async def mutate(self, attributes: Attributes) -> None:
        """Adds what is missing; an empty key or effect tolerates all keys or effects."""
        spec = (attributes.object or {}).get("spec")
        if spec is None:
            return
        tolerations = spec.get("tolerations") or []
        covered = {t.get("key") or "" for t in tolerations if t.get("effect") in (None, "", "NoExecute")}
        if "" in covered:
            return
        missing = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": self._seconds}
            for key in KEYS
            if key not in covered
        ]
        if missing:
            spec["tolerations"] = [*tolerations, *missing]
