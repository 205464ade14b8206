"""Definitions and schemas that the tests of custom resources share."""

from __future__ import annotations

from typing import Any

from dashpot.model.objects import defaults
from dashpot.runtime.api.crd.custom import CustomType
from dashpot.runtime.api.crd.structural import validate_definition, validate_definition_update

Object = dict[str, Any]
INT: Object = {"type": "integer"}
TEXT: Object = {"type": "string"}


def of(properties: Object, **more: Any) -> Object:
    return {"type": "object", "properties": properties, **more}


def definition(schema: Object | None = None, **version: Any) -> Object:
    """A valid definition with a schema, or with other keys of its version."""
    schema = of({"spec": of({"a": INT})}) if schema is None else schema
    made: Object = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
            ],
        },
    }
    defaults.definition(made)
    return made


def told(made: Object, old: Object | None = None) -> list[str]:
    return [str(c) for c in (validate_definition(made) if old is None else validate_definition_update(made, old))]


def custom(schema: Object) -> CustomType:
    """The compiled version of a schema, after a look that the schema is accepted."""
    made = definition(schema)
    assert told(made) == []
    return CustomType(made["spec"]["versions"][0])


META: Object = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "n", "labels": {"x": "y"}}}
LIST: Object = {"type": "array", "items": TEXT}
