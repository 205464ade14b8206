"""NamespaceLifecycle: nothing is made in a namespace that does not exist or is being deleted; three are immortal.

Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Subject, forbidden, not_found
from dashpot.runtime.api.admit.base import CREATE, DELETE, UPDATE, Attributes, Plugin
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.view import View

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
NAMESPACES = Subject("", "namespaces")


class NamespaceLifecycle(Plugin):
    """Refuses writes in namespaces that are missing (404) or terminating (403)."""

    name = "NamespaceLifecycle"

    def __init__(self, view: View) -> None:
        self._view = view

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Creates and updates of namespaced objects, and deletes of namespaces.

        Access reviews are left out: "not found" would tell anybody which namespaces exist.
        """
        if resource.group == "" and resource.plural == "namespaces":
            return operation == DELETE and not subresource
        if resource.group == "authorization.k8s.io" and resource.plural == "localsubjectaccessreviews":
            return False
        return resource.namespaced and operation in (CREATE, UPDATE)

    async def mutate(self, attributes: Attributes) -> None:
        """Looks the namespace up: in the cache, then in the store."""
        if attributes.operation == DELETE:
            if attributes.name in IMMORTAL:
                raise forbidden(NAMESPACES, attributes.name, "this namespace may not be deleted")
            return
        name = attributes.namespace
        found = self._view.get("", "namespaces", "", name)
        if found is None:
            found = await self._view.fresh("", "namespaces", "", name)
        if found is None:
            raise not_found(NAMESPACES, name)
        if attributes.operation != CREATE:
            return
        status = found.get("status")
        if "deletionTimestamp" in found["metadata"] or (status and status.get("phase") == "Terminating"):
            error = refuse(
                attributes, f"unable to create new content in namespace {name} because it is being terminated"
            )
            error.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {name} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise error
