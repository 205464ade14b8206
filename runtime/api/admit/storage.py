"""StorageObjectInUseProtection and PersistentVolumeClaimResize: volumes in use stay, and grow only where they can.

Sources: kubernetes plugin/pkg/admission/storage/{storageobjectinuseprotection,persistentvolume/resize}, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects import quantity
from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.view import View

FINALIZERS = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    """Adds the finalizers that keep volumes, claims and attribute classes while somebody uses them."""

    name = "StorageObjectInUseProtection"

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """New volumes, claims and attribute classes."""
        return operation == CREATE and (resource.group, resource.plural) in FINALIZERS and not subresource

    async def mutate(self, attributes: Attributes) -> None:
        """Adds the finalizer unless it is there."""
        wanted = FINALIZERS[attributes.resource.group, attributes.resource.plural]
        metadata = (attributes.object or {})["metadata"]
        present = metadata.get("finalizers") or []
        if wanted not in present:
            metadata["finalizers"] = [*present, wanted]


class PersistentVolumeClaimResize(Plugin):
    """A claim grows only if it is bound and its class allows that."""

    name = "PersistentVolumeClaimResize"

    def __init__(self, view: View) -> None:
        self._view = view

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Changed claims."""
        claims = resource.group == "" and resource.plural == "persistentvolumeclaims"
        return operation == UPDATE and claims and not subresource

    async def validate(self, attributes: Attributes) -> None:
        """Refuses growth that no driver would do."""
        old, new = attributes.old or {}, attributes.object or {}
        before, after = _storage(old), _storage(new)
        if before is None or after is None or quantity.parse(after) <= quantity.parse(before):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refuse(attributes, "Only bound persistent volume claims can be expanded")
        annotations = (new.get("metadata") or {}).get("annotations") or {}
        name = annotations.get("volume.beta.kubernetes.io/storage-class") or new["spec"].get("storageClassName") or ""
        found = self._view.get("storage.k8s.io", "storageclasses", "", name) if name else None
        if found is None or not found.get("allowVolumeExpansion"):
            raise refuse(
                attributes,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
                "must support resize",
            )


def _storage(claim: Object) -> str | None:
    resources = (claim.get("spec") or {}).get("resources") or {}
    found = (resources.get("requests") or {}).get("storage")
    return None if found is None else str(found)
