"""What the schema of a place says of its JSON, where the language's type leaves it open: a time with microseconds, a
number that is a quantity, a truth that is a text."""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.runtime.controller.paths import Path

Object = dict[str, Any]


def form_at(resource: Resource, path: Path) -> str:
    """ "microtime", "quantity", "string" or "" for a path of a built-in kind; "" where no schema is known, but a
    condition's status is a text everywhere."""
    if not builtin().has(resource.group, resource.version, resource.kind):
        condition = len(path) > 2 and path[-3:-2] == ("conditions",) and path[-1] == "status"
        return "string" if condition else ""
    schema: Object | None = builtin().schema(resource.group, resource.version, resource.kind)
    name = ""
    for step in path:
        schema, _ = _resolved(schema)
        if schema is None:
            return ""
        if isinstance(step, str):
            schema = (schema.get("properties") or {}).get(step) or schema.get("additionalProperties")
        else:
            schema = schema.get("items")
        if not isinstance(schema, dict):
            return ""
    schema, name = _resolved(schema)
    if name.endswith(".MicroTime"):
        return "microtime"
    if name.endswith(".Quantity"):
        return "quantity"
    return "string" if schema is not None and schema.get("type") == "string" else ""


def _resolved(schema: Object | None) -> tuple[Object | None, str]:
    """A schema without its references, and the name of the last definition."""
    name = ""
    while schema is not None:
        ref = schema.get("$ref")
        parts = schema.get("allOf")
        if ref is None and isinstance(parts, list) and len(parts) == 1:
            ref = parts[0].get("$ref")
        if ref is None:
            return schema, name
        name = str(ref)
        schema = builtin().definition(name) if builtin().defines(name.removeprefix("#/components/schemas/")) else None
    return schema, name
