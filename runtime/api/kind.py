"""How the objects of one resource in one version are read, filled in and checked: built in, or by a CRD."""

from __future__ import annotations

from typing import Any, Protocol

from dashpot.model.objects import defaults
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema import Shape
from dashpot.model.objects.status import Cause
from dashpot.model.objects.structure import Structure

Object = dict[str, Any]


class Kind(Protocol):
    """One kind in one version."""

    @property
    def resource(self) -> Resource:
        """What is asked for."""
        ...

    @property
    def structure(self) -> Structure:
        """How its fields merge and who may own them."""
        ...

    def decode(self, obj: Object) -> list[str]:
        """Checks types, drops unknown fields in place and tells them (`unknown field "spec.x"`)."""
        ...

    def default(self, obj: Object, old: Object | None) -> None:
        """Fills in what was left out, in place."""
        ...

    def causes(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        """What is wrong with the object, and with its change from `old`."""
        ...


class Checks(Protocol):
    """The rules that Kubernetes has beyond its schemas."""

    def check(self, resource: Resource, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        """What is wrong with an object that fits its schema."""
        ...


class Builtin:
    """A kind of Kubernetes itself."""

    def __init__(self, resource: Resource, shape: Shape, structure: Structure, rules: Checks) -> None:
        self.resource = resource
        self.structure = structure
        self._rules = rules
        self._shape = shape
        self.decode = shape.decode

    def default(self, obj: Object, old: Object | None) -> None:
        """Kubernetes' defaults for the kind."""
        defaults.fill(self.resource, obj, old)

    def causes(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        """Those of the schema, and those of the kind's rules about places that fit it."""
        told = self._shape.validate(obj)
        more = self._rules.check(self.resource, obj, old, subresource)
        if not told:
            return more
        places = {cause.field for cause in told} | {"<nil>"}
        return told + [cause for cause in more if cause.field not in places]
