"""One version of a custom resource, compiled: decodes, defaults and validates its objects."""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.status import Cause
from dashpot.runtime.api.crd.celrules import compile_rules
from dashpot.runtime.api.crd.default import defaulter
from dashpot.runtime.api.crd.numbers import normalise
from dashpot.runtime.api.crd.prune import pruner
from dashpot.runtime.api.crd.validate import MISSING, Node

Object = dict[str, Any]
ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class CustomType:
    """What happens to the objects of one version of a CustomResourceDefinition.

    `version` is an item of the definition's spec.versions; `preserve` its spec.preserveUnknownFields. Metadata is not
    this class's business: it is that of every object.
    """

    def __init__(self, version: Object, *, preserve: bool = False) -> None:
        self.version = version
        self.name: str = version["name"]
        self.schema: Object = (version.get("schema") or {}).get("openAPIV3Schema") or ANYTHING
        subresources = version.get("subresources") or {}
        self.status = "status" in subresources
        self.scale: Object | None = subresources.get("scale")
        self._prune = None if preserve else pruner(self.schema, root=True)
        self._default = defaulter(self.schema)
        self._node = Node(self.schema, root=True)
        self._rules, _ = compile_rules(self.schema, "")

    def decode(self, obj: Object) -> list[str]:
        """Drops unknown fields in place, and reads numbers as Go does; the paths of the dropped, `spec.zzz`."""
        unknown: list[str] = []
        normalise(obj)
        if self._prune is not None:
            self._prune(obj, "", unknown)
        return unknown

    def default(self, obj: Object) -> None:
        """Fills in defaults in place."""
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: Object, old: Object | None = None) -> list[Cause]:
        """What is wrong with an object: by its schema first; if nothing, by its rules. `old` is None on create."""
        before = MISSING if old is None else old
        causes: list[Cause] = []
        try:
            if not self._node.fine(obj):
                self._node.explain(obj, before, "", causes)
            if causes:
                return [Cause(cause.field or "<nil>", cause.message, cause.reason) for cause in causes]
            return [] if self._rules is None else self._rules.validate(obj, before)
        except RecursionError:
            return [Cause("<nil>", 'Invalid value: "": the object is nested too deeply')]

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        """The same for a write to the status subresource: the rest of the object has not changed."""
        return self.validate(obj, old)
