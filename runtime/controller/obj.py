"""An object of a kind as a spec sees it: its JSON, which nobody changes, and the view that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dashpot.runtime.controller.views import View

Object = dict[str, Any]


class Obj:
    """One version of an object. Two are equal if they are versions of the same incarnation (uid)."""

    __slots__ = ("json", "view")

    def __init__(self, view: View, json: Object) -> None:
        self.view = view
        self.json = json

    @property
    def meta(self) -> Object:
        """The metadata; empty where there are none."""
        found: Object = self.json.get("metadata") or {}
        return found

    @property
    def name(self) -> str:
        """metadata.name"""
        return str(self.meta.get("name") or "")

    @property
    def namespace(self) -> str:
        """metadata.namespace; "" of cluster-wide objects."""
        return str(self.meta.get("namespace") or "")

    @property
    def uid(self) -> str:
        """metadata.uid"""
        return str(self.meta.get("uid") or "")

    @property
    def version(self) -> str:
        """metadata.resourceVersion"""
        return str(self.meta.get("resourceVersion") or "")

    @property
    def key_name(self) -> str:
        """What names it, in its namespace, among the objects of its kind: its name, where the kind is one."""
        return self.view.key_name(self.name)

    @property
    def identity(self) -> object:
        """What makes it the object that it is."""
        return self.uid or (self.view.kind, self.namespace, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Obj) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        space = f"{self.namespace}/" if self.namespace else ""
        return f"{self.view.resource.kind} {space}{self.name}"

    def reference(self, *, controller: bool) -> Object:
        """The ownerReference that names it."""
        made: Object = {
            "apiVersion": self.view.resource.api_version,
            "kind": self.view.resource.kind,
            "name": self.name,
            "uid": self.uid,
        }
        return {**made, "controller": True, "blockOwnerDeletion": True} if controller else made


def uid_of(value: Any) -> str | None:
    """The uid of an object, a reference or null."""
    if value is None:
        return None
    if isinstance(value, Obj):
        return value.uid or None
    found = value.get("uid") if isinstance(value, dict) else None
    return str(found) if found else None
