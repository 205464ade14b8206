"""What a schema of a custom resource must be: structural, and of the keywords that are supported.

Sources: k8s.io/apiextensions-apiserver pkg/apiserver/schema/validation.go and
pkg/apis/apiextensions/validation/validation.go (ValidateCustomResourceDefinitionOpenAPISchema), release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.status import Cause, forbidden_field, invalid_value, not_supported, required
from dashpot.runtime.api.cel import CelError
from dashpot.runtime.api.cel.functions import regex
from dashpot.runtime.api.crd.default import copied
from dashpot.runtime.api.crd.prune import pruner
from dashpot.runtime.api.crd.validate import MISSING, Node

Object = dict[str, Any]
ROOT, ITEM, FIELD = "at the root", "for specified array items", "for specified object fields"
TYPES = ("array", "boolean", "integer", "number", "object", "string")
UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
NESTED = ("allOf", "anyOf", "oneOf")
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
META = ("metadata", "kind", "apiVersion")
MAX_DEPTH = 64
EMPTY = {
    "type": "must be empty to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "additionalProperties": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}


def validate_schema(schema: Object, path: str) -> list[Cause]:
    """What is wrong with a schema; `path` is its place in the definition."""
    checks = _Checks()
    if checks.deep(schema, path, MAX_DEPTH):
        return checks.causes
    checks.structural(schema, ROOT, path)
    checks.complete(schema, schema, path)
    if not checks.causes:
        checks.defaults(schema, path, root=True)
    checks.keywords(schema, path, allow=not checks.causes, root=True)
    return sorted(checks.causes, key=lambda cause: (cause.field, cause.message))


class _Checks:
    def __init__(self) -> None:
        self.causes: list[Cause] = []

    def forbid(self, path: str, text: str) -> None:
        """Adds a Forbidden."""
        self.causes.append(forbidden_field(path, text))

    def need(self, path: str, text: str) -> None:
        """Adds a Required."""
        self.causes.append(required(path, text))

    def wrong(self, path: str, value: Any, text: str) -> None:
        """Adds an Invalid."""
        self.causes.append(invalid_value(path, value, text))

    def deep(self, schema: Any, path: str, left: int) -> bool:
        """Whether a schema is nested too deeply, or is no object where it has to be one."""
        if not isinstance(schema, dict):
            self.wrong(path, schema, "must be an object")
            return True
        if not left:
            self.wrong(path, "", f"must not be nested deeper than {MAX_DEPTH} levels")
            return True
        for name, kinds in (("items", (dict, list)), ("additionalProperties", (dict, bool))):
            if schema.get(name) is not None and not isinstance(schema[name], kinds):
                self.wrong(f"{path}.{name}", schema[name], "must be a schema")
                return True
        return any(self.deep(child, where, left - 1) for child, where in _below(schema, path))

    def structural(self, schema: Object, level: str, path: str) -> None:
        """The invariants of a structural schema."""
        kind = schema.get("type") or ""
        extra, items = schema.get("additionalProperties"), schema.get("items")
        if kind == "array" and items is None:
            self.need(f"{path}.items", "must be specified")
        if isinstance(items, dict):
            self.structural(items, ITEM, f"{path}.items")
        for name, child in (schema.get("properties") or {}).items():
            self.structural(child, FIELD, f"{path}.properties[{name}]")
        if extra:
            if level == ROOT:
                self.forbid(f"{path}.additionalProperties", "must not be used at the root")
            if isinstance(extra, dict):
                self.structural(extra, FIELD, f"{path}.additionalProperties")
        self.extensions(schema, kind, level, path)
        any_of = schema.get("anyOf") == INT_OR_STRING
        first = bool(schema.get("allOf")) and schema["allOf"][0].get("anyOf") == INT_OR_STRING
        self.junctors(schema, path, skip_any=any_of, skip_first=first)
        self.metadata(schema, level, path)

    def extensions(self, schema: Object, kind: str, level: str, path: str) -> None:
        """What the Kubernetes extensions demand of the type and of each other."""
        either = schema.get("x-kubernetes-int-or-string")
        keep, embedded = (
            schema.get("x-kubernetes-preserve-unknown-fields"),
            schema.get("x-kubernetes-embedded-resource"),
        )
        if either and keep:
            text = "must be false if x-kubernetes-int-or-string is true"
            self.wrong(f"{path}.x-kubernetes-preserve-unknown-fields", True, text)
        if either and embedded:
            text = "must be false if x-kubernetes-int-or-string is true"
            self.wrong(f"{path}.x-kubernetes-embedded-resource", True, text)
        if either and kind:
            self.forbid(f"{path}.type", "must be empty if x-kubernetes-int-or-string is true")
        if embedded and kind != "object":
            text = "must be object if x-kubernetes-embedded-resource is true"
            if kind:
                self.wrong(f"{path}.type", kind, text)
            else:
                self.need(f"{path}.type", text)
        elif not kind and not either and not keep:
            self.need(f"{path}.type", f"must not be empty {level}")
        if embedded and schema.get("additionalProperties"):
            text = "must not be used if x-kubernetes-embedded-resource is set"
            self.forbid(f"{path}.additionalProperties", text)
        if level == ROOT and kind and kind != "object":
            self.wrong(f"{path}.type", kind, "must be object at the root")
        if embedded and not keep and not schema.get("properties"):
            text = (
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            )
            self.need(f"{path}.properties", text)

    def metadata(self, schema: Object, level: str, path: str) -> None:
        """At the root and in embedded resources, apiVersion, kind and metadata are given."""
        properties: Object = schema.get("properties") or {}
        whole = level == ROOT or schema.get("x-kubernetes-embedded-resource")
        for name in ("kind", "apiVersion"):
            if whole and name in properties and properties[name].get("type") != "string":
                where = f"{path}.properties[{name}].type"
                self.wrong(where, properties[name].get("type", ""), "must be string")
        meta = properties.get("metadata")
        if meta is None or not whole:
            return
        where = f"{path}.properties[metadata]"
        if meta.get("type") != "object":
            self.wrong(f"{where}.type", meta.get("type", ""), "must be object")
        if level != ROOT:
            return
        rest = {key: value for key, value in meta.items() if key not in ("type", "default", "description") and value}
        if not (rest.get("properties") or {}).keys() - {"name", "generateName"}:
            rest.pop("properties", None)
        if rest:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            self.forbid(where, text)

    def junctors(self, schema: Object, path: str, *, skip_any: bool = False, skip_first: bool = False) -> None:
        """allOf, anyOf, oneOf and not may restrict values, not add structure."""
        for name in NESTED:
            if name == "anyOf" and skip_any:
                continue
            for at, child in enumerate(schema.get(name) or ()):
                self.nested(child, f"{path}.{name}[{at}]", skip_any=name == "allOf" and not at and skip_first)
        if isinstance(schema.get("not"), dict):
            self.nested(schema["not"], f"{path}.not")
        pattern = schema.get("pattern")
        if pattern:
            try:
                regex(pattern)
            except CelError as error:
                reason = str(error).removeprefix("compilation failed: invalid matches argument: ")
                text = f"must be a valid regular expression, but isn't: error parsing regexp: {reason}"
                self.wrong(f"{path}.pattern", pattern, text)

    def nested(self, schema: Object, path: str, *, skip_any: bool = False) -> None:
        """A schema below a junctor."""
        self.junctors(schema, path, skip_any=skip_any)
        if isinstance(schema.get("items"), dict):
            self.nested(schema["items"], f"{path}.items")
        for name, child in (schema.get("properties") or {}).items():
            self.nested(child, f"{path}.properties[{name}]")
        for name, text in EMPTY.items():
            if schema.get(name) or (name == "default" and name in schema):
                self.forbid(f"{path}.{name}", text)
        if "metadata" in (schema.get("properties") or {}):
            self.forbid(f"{path}.properties[metadata]", "must not be specified in a nested context")

    def complete(self, schema: Object, structure: Object, path: str) -> None:
        """Each field named below a junctor is specified outside of it."""
        junctors = [
            (child, f"{path}.{name}[{at}]") for name in NESTED for at, child in enumerate(schema.get(name) or ())
        ]
        if isinstance(schema.get("not"), dict):
            junctors.append((schema["not"], f"{path}.not"))
        for child, where in junctors:
            self.matched(child, structure, where, path)
        for name, child in (schema.get("properties") or {}).items():
            self.complete(child, child, f"{path}.properties[{name}]")
        for name in ("items", "additionalProperties"):
            if isinstance(schema.get(name), dict):
                self.complete(schema[name], schema[name], f"{path}.{name}")

    def matched(self, nested: Object, structure: Object, path: str, base: str) -> None:
        """The fields of one nested schema, against the structure."""
        properties: Object = structure.get("properties") or {}
        for name, child in (nested.get("properties") or {}).items():
            where = f"{base}.properties[{name}]"
            if name not in properties:
                self.need(where, f"because it is defined in {path}.properties[{name}]")
            else:
                self.matched(child, properties[name], f"{path}.properties[{name}]", where)
        if isinstance(nested.get("items"), dict):
            if not isinstance(structure.get("items"), dict):
                self.need(f"{base}.items", f"because it is defined in {path}.items")
            else:
                self.matched(nested["items"], structure["items"], f"{path}.items", f"{base}.items")
        for child, where in _junctors(nested, path):
            self.matched(child, structure, where, base)

    def defaults(self, schema: Object, path: str, *, root: bool = False) -> None:
        """Defaults are values of their schema, without unknown fields."""
        if "default" in schema and schema["default"] is not None and not root:
            where, value = f"{path}.default", copied(schema["default"])
            unknown: list[str] = []
            prune = pruner(schema)
            if prune is not None:
                prune(value, "", unknown)
            if unknown:
                text = f"must not have unknown fields: {', '.join(unknown)}"
                self.wrong(where, schema["default"], text)
            try:
                Node(schema).explain(value, MISSING, where, self.causes)
            except (CelError, TypeError, AttributeError):
                self.wrong(where, schema["default"], "cannot be validated")
        for child, where in _below(schema, path):
            self.defaults(child, where)

    def keywords(self, schema: Object, path: str, *, allow: bool, root: bool = False) -> None:
        """Keywords that are not supported, and those that go together."""
        kind = schema.get("type") or ""
        if kind and kind not in TYPES and kind != "null":
            self.causes.append(not_supported(f"{path}.type", kind, list(TYPES)))
        if kind == "null":
            self.forbid(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
        for name in UNSUPPORTED:
            if schema.get(name):
                self.forbid(f"{path}.{name}", f"{name} is not supported")
        if isinstance(schema.get("items"), list):
            self.forbid(f"{path}.items", "items must be a schema object and not an array")
        if schema.get("uniqueItems"):
            text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            self.forbid(f"{path}.uniqueItems", text)
        extra = schema.get("additionalProperties")
        if extra is not None and schema.get("properties") and extra is not True:
            self.forbid(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        if schema.get("x-kubernetes-preserve-unknown-fields") is False:
            self.wrong(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
        self.lists(schema, kind, path)
        for name, child in (schema.get("properties") or {}).items():
            if root and name in META and "default" in child:
                self.forbid(f"{path}.properties[{name}].default", f"must not be set in top-level {name}")
        for child, where in _below(schema, path):
            self.keywords(child, where, allow=allow)

    def lists(self, schema: Object, kind: str, path: str) -> None:
        """The list and map types of server-side apply."""
        listed, mapped = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-map-type")
        for name, value, needed, known in (
            ("map", mapped, "object", ("atomic", "granular")),
            ("list", listed, "array", ("atomic", "set", "map")),
        ):
            if value is None:
                continue
            if kind != needed:
                text = f"must be {needed} if x-kubernetes-{name}-type is specified"
                if kind:
                    self.wrong(f"{path}.type", kind, text)
                else:
                    self.need(f"{path}.type", text)
            if value not in known:
                self.causes.append(not_supported(f"{path}.x-kubernetes-{name}-type", value, list(known)))
        keys = schema.get("x-kubernetes-list-map-keys") or []
        if keys and listed != "map":
            text = "must be map if x-kubernetes-list-map-keys is non-empty"
            where = f"{path}.x-kubernetes-list-type"
            self.need(where, text) if listed is None else self.wrong(where, listed, text)
        items: Any = schema.get("items")
        if listed == "map":
            self.keys(keys, items, path)
        if listed == "set" and isinstance(items, dict):
            text = "must be atomic as item of a list with x-kubernetes-list-type=set"
            if items.get("type") == "array" and items.get("x-kubernetes-list-type") not in (None, "atomic"):
                self.wrong(f"{path}.items.x-kubernetes-list-type", items["x-kubernetes-list-type"], text)
            if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
                self.wrong(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), text)
        if listed in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
            self.forbid(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {listed}")

    def keys(self, keys: list[str], items: Any, path: str) -> None:
        """The keys of a list of type map: scalar properties, required or with a default."""
        here = f"{path}.x-kubernetes-list-map-keys"
        if not keys:
            self.need(here, "must not be empty if x-kubernetes-list-type is map")
        if not isinstance(items, dict):
            self.need(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
            return
        if items.get("type") != "object":
            text = "must be object if parent array's x-kubernetes-list-type is map"
            self.wrong(f"{path}.items.type", items.get("type", ""), text)
            return
        if len(set(keys)) < len(keys):
            self.wrong(here, keys, "must not contain duplicate entries")
        properties: Object = items.get("properties") or {}
        for key in keys:
            child, where = properties.get(key), f"{path}.items.properties[{key}]"
            if child is None:
                self.wrong(here, keys, "entries must all be names of item properties")
                continue
            if child.get("type") in ("array", "object"):
                text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                self.wrong(f"{where}.type", child["type"], text)
            if key not in (items.get("required") or ()) and "default" not in child:
                text = (
                    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                    "property"
                )
                self.need(f"{where}.default", text)
            if child.get("nullable"):
                text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
                self.forbid(f"{where}.nullable", text)


def _below(schema: Object, path: str) -> list[tuple[Any, str]]:
    """The schemas directly inside one, with their paths."""
    found = [(child, f"{path}.properties[{name}]") for name, child in (schema.get("properties") or {}).items()]
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            found.append((schema[name], f"{path}.{name}"))
    return [*found, *_junctors(schema, path)]


def _junctors(schema: Object, path: str) -> list[tuple[Any, str]]:
    found = [(child, f"{path}.{name}[{at}]") for name in NESTED for at, child in enumerate(schema.get(name) or ())]
    if isinstance(schema.get("not"), dict):
        found.append((schema["not"], f"{path}.not"))
    return found
