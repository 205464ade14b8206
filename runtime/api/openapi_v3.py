"""One OpenAPI v3 document: the paths of a group version, and every component that they reach.

Components of custom resources are named after their group, backwards (`com.example.v1.CronTab`), as upstream does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dashpot.model.objects.registry import COMPONENTS, Registry
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema_enums import ENUMS
from dashpot.runtime.api.catalog import META, Catalog, whole
from dashpot.runtime.api.openapi_paths import Paths, reference

Object = dict[str, Any]

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
DEEPEST = 200
"""A custom schema nested deeper is published as one that takes any object: writing it out recurses."""
TOKENS = {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer token."}


def document_v3(catalog: Catalog, group: str, version: str) -> Object:
    """The document of a group version that the catalog serves."""
    paths = Paths(catalog, group, version, namer(catalog))
    schemas: Object = {}
    for resource in catalog.of(group, version):
        if resource.custom:
            schemas.update(custom_components(catalog, resource))
    registry = catalog.registry
    paths.used.update(registry.type_name(*kind) for kind in registry.kinds() if kind[:2] == (group, version))
    for name in reached(registry, paths.used - set(schemas), schemas.values()):
        schemas[name] = published(name, registry.definition(name))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v{registry.release}.0"},
        "paths": dict(sorted(paths.paths.items())),
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": {"BearerToken": TOKENS}},
    }


def namer(catalog: Catalog) -> Callable[[str, str, str], str]:
    """Names the component of a kind, list kinds of custom resources among them; empty if it has none."""
    registry = catalog.registry

    def named(group: str, version: str, kind: str) -> str:
        for tail in ("", "List"):
            resource = catalog.by_kind(group, version, kind.removesuffix(tail))
            if resource is not None and resource.custom:
                return component_name(resource) + (tail if kind != resource.kind else "")
        return registry.type_name(group, version, kind) if registry.has(group, version, kind) else ""

    return named


def component_name(resource: Resource) -> str:
    """`com.example.stable.v1.CronTab` of stable.example.com/v1."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def custom_components(catalog: Catalog, resource: Resource) -> Object:
    """The component of a custom kind and that of its list."""
    name = component_name(resource)
    schema = catalog.schema(resource.group, resource.version, resource.kind)
    if deeper(schema, DEEPEST):
        schema = whole(None)
    names = {key: schema["properties"][key] for key in ("apiVersion", "kind")}
    items = {"description": f"List of {resource.plural}.", "type": "array", "items": reference(name)}
    metadata = {**reference(f"{META}ListMeta"), "description": "Standard list metadata."}
    several: Object = {
        "description": f"{resource.kind}List is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {**names, "items": items, "metadata": metadata},
    }
    return {
        name: {**published(name, schema), KINDS: [_kind(resource, resource.kind)]},
        f"{name}List": {**published(name, several), KINDS: [_kind(resource, f"{resource.kind}List")]},
    }


KINDS = "x-kubernetes-group-version-kind"


def deeper(schema: Any, limit: int) -> bool:
    """Whether a schema is nested deeper than so many levels; found without recursion."""
    level = [schema]
    for _ in range(limit):
        level = [part for outer in level for part in (outer.values() if isinstance(outer, dict) else outer)]
        level = [part for part in level if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _kind(resource: Resource, kind: str) -> Object:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def reached(registry: Registry, names: Iterable[str], schemas: Iterable[Object]) -> list[str]:
    """All built-in definitions that the names and schemas refer to, directly or not."""
    todo = list(names)
    for schema in schemas:
        todo += references(schema)
    seen: dict[str, None] = {}
    while todo:
        name = todo.pop()
        if name not in seen and registry.defines(name):
            seen[name] = None
            todo += references(registry.definition(name))
    return list(seen)


def references(schema: Any) -> list[str]:
    """The components that a schema names; without recursion, custom schemas may be deep."""
    found: list[str] = []
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            target = part.get("$ref")
            if isinstance(target, str):
                found.append(target.removeprefix(COMPONENTS))
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return found


def published(name: str, schema: Object) -> Object:
    """A schema as v3 readers want it: what stands beside a `$ref` is lost to them, so the reference goes into allOf."""
    found: Object = _wrapped(schema)
    struct = name.rpartition(".")[2]
    for field, property_schema in found.get("properties", {}).items():
        if (values := ENUMS.get(f"{struct}.{field}")) and property_schema.get("type") == "string":
            property_schema["enum"] = sorted(values)
    if name == QUANTITY:
        found.pop("format")
    return found


def _wrapped(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_wrapped(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str) and len(schema) > 1:
        rest = {key: _wrapped(value) for key, value in schema.items() if key != "$ref"}
        return {"allOf": [{"$ref": schema["$ref"]}], **rest}
    return {key: _wrapped(value) for key, value in schema.items()}
