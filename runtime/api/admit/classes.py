"""DefaultStorageClass and DefaultIngressClass: who names no class gets the newest that is marked as default.

Sources: kubernetes plugin/pkg/admission/storage/storageclass/setdefault and defaultingressclass, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, Attributes, Object, Plugin
from dashpot.runtime.api.view import View

STORAGE_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
STORAGE_OLD = "volume.beta.kubernetes.io/storage-class"
INGRESS_DEFAULT = ("ingressclass.kubernetes.io/is-default-class",)
INGRESS_OLD = "kubernetes.io/ingress.class"


class _Defaults:
    """The class of one kind that is marked as default, looked for again only when one has changed."""

    def __init__(self, view: View, group: str, plural: str, marks: tuple[str, ...]) -> None:
        self._view, self._group, self._plural, self._marks = view, group, plural, marks
        self._version = -1
        self._name = ""

    def name(self) -> str:
        """The newest class marked as default (of the same second the first by name); empty if none is."""
        version = self._view.version(self._group, self._plural)
        if version != self._version:
            marked = [c["metadata"] for c in self._view.list(self._group, self._plural) if self._is_default(c)]
            marked.sort(key=lambda m: str(m["name"]))
            newest = max((str(m.get("creationTimestamp") or "") for m in marked), default="")
            self._name = next((m["name"] for m in marked if str(m.get("creationTimestamp") or "") == newest), "")
            self._version = version
        return self._name

    def _is_default(self, one: Object) -> bool:
        annotations = one["metadata"].get("annotations") or {}
        return any(annotations.get(mark) == "true" for mark in self._marks)


class DefaultStorageClass(Plugin):
    """Gives a claim without class the default one."""

    name = "DefaultStorageClass"

    def __init__(self, view: View) -> None:
        self._defaults = _Defaults(view, "storage.k8s.io", "storageclasses", STORAGE_DEFAULT)

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """New claims."""
        claims = resource.group == "" and resource.plural == "persistentvolumeclaims"
        return operation == CREATE and claims and not subresource

    async def mutate(self, attributes: Attributes) -> None:
        """Sets the class; an empty name says "none" and stays."""
        claim = attributes.object or {}
        spec = claim.get("spec")
        old_way = STORAGE_OLD in (claim["metadata"].get("annotations") or {})
        if spec is None or spec.get("storageClassName") is not None or old_way:
            return
        if name := self._defaults.name():
            spec["storageClassName"] = name


class DefaultIngressClass(Plugin):
    """Gives an ingress without class the default one."""

    name = "DefaultIngressClass"

    def __init__(self, view: View) -> None:
        self._defaults = _Defaults(view, "networking.k8s.io", "ingressclasses", INGRESS_DEFAULT)

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """New ingresses."""
        ingresses = resource.group == "networking.k8s.io" and resource.plural == "ingresses"
        return operation == CREATE and ingresses and not subresource

    async def mutate(self, attributes: Attributes) -> None:
        """Sets the class."""
        ingress = attributes.object or {}
        old_way = INGRESS_OLD in (ingress["metadata"].get("annotations") or {})
        spec = ingress.get("spec") or {}
        if spec.get("ingressClassName") is not None or old_way:
            return
        if name := self._defaults.name():
            spec["ingressClassName"] = name
            ingress["spec"] = spec
