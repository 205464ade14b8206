"""TaintNodesByCondition: a new node takes no pods until its controller has seen that it is ready.

Source: kubernetes plugin/pkg/admission/nodetaint, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, Attributes, Plugin

NOT_READY = "node.kubernetes.io/not-ready"


class TaintNodesByCondition(Plugin):
    """Adds the taint `not-ready:NoSchedule` to new nodes."""

    name = "TaintNodesByCondition"

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """New nodes."""
        return operation == CREATE and resource.group == "" and resource.plural == "nodes" and not subresource

    async def mutate(self, attributes: Attributes) -> None:
        """Adds the taint unless the node came with it."""
        node = attributes.object or {}
        spec = node.get("spec")
        if spec is None:
            spec = node["spec"] = {}
        taints = spec.get("taints") or []
        if not any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
