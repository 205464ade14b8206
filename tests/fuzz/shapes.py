"""Bodies: values that a schema of the served OpenAPI allows, values that it does not, and bytes that are no values."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import yaml

Object = dict[str, Any]

NAMES = ("a", "b", "web", "data-0", "x.y", "default", "kube-system", "kube-root-ca.crt")
"""So few that requests meet the objects of others."""
NASTY: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, -(2**31) - 1, 2**63, 2**64, 10**40, 1.5, 1e308, -0.0, "", " ", "a", "A", "-",
    "0", "-1", "1e9", "1Ei", "999999999999999999999", "100m", "0x10", "1.5Gi", "*", "{}", "null", "\x00", "\x7f", "é",
    "\u202e", "\U0001f600", "\ufeff", "a" * 300, "a/b", "a/b/c", "../..", "a=b", "=", ",", "a in (b)", "$(A)", "%s",
    "2020-01-01T00:00:00Z", "9999-99-99T99:99:99Z", "0000-00-00T00:00:00Z", "http://[", "https://x/%zz", "10.0.0.0/99",
    "::1", "1.2.3.4", "300.1.1.1", "0 0 31 2 *", "*/0 * * * *", "@yearly", "(", "(a+)+$", "[", "self.x", "1/0", "self",
    [], {}, [None], [[]], [{}], {"": ""}, {"a": None}, {"a": {"b": {"c": []}}}, [1, "a", None], {"$patch": "delete"},
    {"$patch": "replace"}, [{"$patch": "replace"}], {"$retainKeys": ["a"]}, {"f:metadata": {}}, {"name": "a"},
)  # fmt: skip
_PLAIN = ("a", "b", "web", "nginx:1", "80", "http", "TCP", "1", "100m", "10.96.0.9", "/", "true", "k8s.io/x")


class _Plain(yaml.SafeDumper):
    """Without aliases: they are refused."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class Shapes:
    """Random values from the schemas of one OpenAPI document."""

    def __init__(self, document: Object, chance: random.Random) -> None:
        self._schemas: Object = document.get("components", {}).get("schemas", {})
        self._chance = chance

    def value(self, schema: Any, depth: int = 0) -> Any:
        """A value that the schema allows, or nearly."""
        chance = self._chance
        for word in ("allOf", "anyOf", "oneOf"):
            if schema.get(word):
                return self.value(chance.choice(schema[word]), depth)
        if "$ref" in schema:
            return self.value(self._schemas.get(schema["$ref"].rpartition("/")[2], {}), depth)
        if schema.get("enum"):
            return chance.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        if kind == "array":
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(chance.choice((0, 1, 1, 2)))]
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return chance.choice((0, 1, 2, 3, 80, 443, 30000, 65535, 100))
        if kind == "boolean":
            return chance.random() < 0.5
        return chance.choice(NASTY)

    def _object(self, schema: Object, depth: int) -> Object:
        chance, found = self._chance, {}
        properties: Object = schema.get("properties") or {}
        required = schema.get("required") or ()
        likely = 0.45 / (1 + depth * 0.6)
        for name, inner in properties.items():
            if name not in ("apiVersion", "kind", "status") and (
                name in required or name in ("spec", "metadata", "template") or chance.random() < likely
            ):
                found[name] = self.value(inner, depth + 1) if depth < 9 else chance.choice(NASTY)
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict) and not properties:
            for _ in range(chance.choice((0, 1, 2))):
                found[chance.choice(("a", "app", "x.io/y", "A_b"))] = self.value(extra, depth + 1)
        return found

    def _string(self, schema: Object) -> str:
        form = schema.get("format")
        if form == "date-time":
            return self._chance.choice(("2020-01-01T00:00:00Z", "2030-06-01T12:00:00.123456Z"))
        if form == "byte":
            return self._chance.choice(("", "YQ==", "AAAA"))
        return self._chance.choice(_PLAIN)

    def object(self, schema: Any, kind: str, api_version: str) -> Any:
        """An object of a kind, with metadata such as clients send."""
        found = self.value(schema)
        if isinstance(found, dict):
            found["kind"], found["apiVersion"] = kind, api_version
            found["metadata"] = self.metadata()
        return found

    def metadata(self) -> Object:
        """Metadata; a third of the time with more than a name."""
        chance = self._chance
        found: Object = {"name": chance.choice(NAMES)}
        if chance.random() < 0.1:
            found = {"generateName": chance.choice(NAMES)}
        if chance.random() < 0.33:
            found["labels"] = {chance.choice(("a", "app", "x.io/y")): chance.choice(NAMES)}
            found["annotations"] = {"x.io/y": chance.choice(("", "a", "é" * 9))}
        if chance.random() < 0.1:
            found["finalizers"] = [chance.choice(("x.io/f", "foregroundDeletion", "orphan", "bad name"))]
        if chance.random() < 0.05:
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u", "controller": True}
            found["ownerReferences"] = [owner] * chance.choice((1, 2))
        return found

    def wrecked(self, value: Any, times: int = 0) -> Any:
        """The value with some of its parts replaced by what does not belong there."""
        for _ in range(times or self._chance.choice((1, 1, 2, 4))):
            value = self._wreck(value, chance_to_end=0.02)
        return value

    def _wreck(self, value: Any, chance_to_end: float = 0.2) -> Any:
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() > chance_to_end:
            key = chance.choice(list(value))
            what = chance.random()
            if what < 0.07:
                return {k: v for k, v in value.items() if k != key}
            if what < 0.12:
                return {**value, chance.choice(("", "zzz", "\x00", "$patch", "$setElementOrder/a", key)): value[key]}
            return {**value, key: self._wreck(value[key])}
        if isinstance(value, list) and value and chance.random() < 0.85:
            at = chance.randrange(len(value))
            what = chance.random()
            if what < 0.1:
                return [*value, value[at]]
            if what < 0.15:
                return value[:at]
            return [*value[:at], self._wreck(value[at]), *value[at + 1 :]]
        return chance.choice(NASTY)

    def json_patch(self, obj: Any) -> Any:
        """A JSON patch of places that an object has, and of some that it has not."""
        return [self._operation(obj) for _ in range(self._chance.choice((1, 1, 2, 5)))]

    def _operation(self, obj: Any) -> Any:
        chance = self._chance
        operation: Object = {"op": chance.choice(("add", "remove", "replace", "move", "copy", "test", "nonsense"))}
        operation["path"] = self._pointer(obj)
        if chance.random() < 0.8:
            operation["value"] = chance.choice(NASTY)
        if operation["op"] in ("move", "copy"):
            operation["from"] = self._pointer(obj)
        return operation if chance.random() < 0.95 else self._wreck(operation)

    def _pointer(self, obj: Any) -> str:
        chance, path = self._chance, ""
        while isinstance(obj, dict | list) and obj and chance.random() < 0.8:
            key = chance.choice(list(obj)) if isinstance(obj, dict) else chance.randrange(len(obj))
            path += "/" + str(key).replace("~", "~0").replace("/", "~1")
            obj = obj[key]
        return path + chance.choice(("", "", "", "/-", "/0", "/zzz", "/", "/99999999999"))

    def text(self, value: Any, media: str) -> bytes:
        """The value as JSON or YAML; now and then some bytes are changed."""
        raw = yaml.dump(value, Dumper=_Plain).encode() if "yaml" in media else msgspec.json.encode(value)
        return self.flipped(raw) if self._chance.random() < 0.07 else raw

    def flipped(self, raw: bytes) -> bytes:
        """Some bytes changed, dropped, repeated."""
        chance, data = self._chance, bytearray(raw)
        for _ in range(chance.choice((1, 2, 8))):
            at = chance.randrange(len(data) + 1)
            what = chance.random()
            if what < 0.5 and data:
                data[at % len(data)] = chance.randrange(256)
            elif what < 0.7:
                del data[at : at + chance.choice((1, 4, 50))]
            elif what < 0.9:
                data[at:at] = data[max(0, at - 20) : at]
            else:
                data[at:at] = chance.choice(
                    (b"\x00", b"\xff", b"\xed\xa0\x80", b'"\\ud800"', b"{", b"[", b"!!python/x")
                )
        return bytes(data)
