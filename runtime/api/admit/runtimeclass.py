"""RuntimeClass: what a sandbox costs (overhead) and where it can run is copied from the class into the pod.

Source: kubernetes plugin/pkg/admission/runtimeclass, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects import quantity
from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.view import View


class RuntimeClass(Plugin):
    """Copies overhead, node selector and tolerations of a pod's runtime class."""

    name = "RuntimeClass"

    def __init__(self, view: View) -> None:
        self._view = view

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """New pods."""
        return operation == CREATE and resource.group == "" and resource.plural == "pods" and not subresource

    async def mutate(self, attributes: Attributes) -> None:
        """Fills in; a pod that says something else is refused."""
        spec = (attributes.object or {}).get("spec") or {}
        found = await self._found(attributes, spec)
        if found is None:
            return
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead:
            if not spec.get("overhead"):
                spec["overhead"] = dict(overhead)
            elif not _same(spec["overhead"], overhead):
                raise refuse(attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        scheduling = found.get("scheduling")
        if scheduling:
            _schedule(attributes, spec, scheduling)

    async def validate(self, attributes: Attributes) -> None:
        """Refuses an overhead that no class defines."""
        spec = (attributes.object or {}).get("spec") or {}
        if not spec.get("overhead"):
            return
        found = await self._found(attributes, spec)
        overhead = ((found or {}).get("overhead") or {}).get("podFixed")
        if not overhead:
            raise refuse(
                attributes, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        if not _same(spec["overhead"], overhead):
            raise refuse(attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

    async def _found(self, attributes: Attributes, spec: Object) -> Object | None:
        name = spec.get("runtimeClassName")
        if not name:
            return None
        found = self._view.get("node.k8s.io", "runtimeclasses", "", name)
        if found is None:
            found = await self._view.fresh("node.k8s.io", "runtimeclasses", "", name)
        if found is None:
            raise refuse(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _same(left: Object, right: Object) -> bool:
    if left.keys() != right.keys():
        return False
    return all(quantity.parse(str(left[key])) == quantity.parse(str(right[key])) for key in left)


def _schedule(attributes: Attributes, spec: Object, scheduling: Object) -> None:
    wanted = scheduling.get("nodeSelector")
    if wanted:
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in wanted.items():
            if selector.get(key, value) != value:
                raise refuse(
                    attributes,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
            selector[key] = value
        spec["nodeSelector"] = selector
    tolerations = spec.get("tolerations") or []
    added = [dict(t) for t in scheduling.get("tolerations") or () if t not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]
