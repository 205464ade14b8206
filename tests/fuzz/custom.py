"""Custom resources for random requests: a definition with everything that a schema can say."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

SPEC: Object = {
    "size": 1,
    "rows": [{"name": "a"}],
    "tags": ["a"],
    "port": "http",
    "fixed": "x",
    "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
}
"""What an object has that the definition accepts."""
_SPEC: Object = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [
        {"rule": "self.size < 100 || has(self.note)", "messageExpression": "'size: ' + string(self.size)"},
        {"rule": "!has(oldSelf.fixed) || self.fixed == oldSelf.fixed", "fieldPath": ".fixed"},
    ],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 1, "multipleOf": 1},
        "share": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "note": {"type": "string", "pattern": "^[a-z ]*$", "maxLength": 40, "nullable": True},
        "fixed": {"type": "string", "maxLength": 40, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        "when": {"type": "string", "format": "date-time"},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 9, "items": {"type": "string"}},
        "rows": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "port"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "port": {"type": "integer", "default": 80},
                    "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
                },
            },
        },
    },
    "anyOf": [{"required": ["size"]}, {"required": ["free"]}],
}
_STATUS: Object = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
}


def definition(group: str, plural: str, kind: str, *, scope: str = "Namespaced") -> Object:
    """A CustomResourceDefinition with two versions, status, scale, columns and selectable fields."""
    schema = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
    version: Object = {
        "served": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "selectableFields": [{"jsonPath": ".spec.mode"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Rows", "type": "string", "jsonPath": ".spec.rows[*].name"},
            {"name": "When", "type": "date", "jsonPath": ".spec.when"},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "categories": ["all"]},
            "versions": [
                {"name": "v1", "storage": True, **version},
                {"name": "v1alpha1", "storage": False, **version},
            ],
        },
    }
