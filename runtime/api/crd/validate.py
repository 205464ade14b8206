"""Validation of a value against an OpenAPI v3 schema, in upstream's words.

Each schema is compiled into a Node with two ways to ask: `fine(value)`, fast and without reasons; `explain`, which
finds the causes and, on update, spares what has not changed (KEP-4008). Sources: k8s.io/kube-openapi
pkg/validation/{validate,errors}, apiextensions-apiserver pkg/apiserver/validation, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

from attrs import define, field

from dashpot.model.objects.status import Cause, duplicate, invalid_value, not_supported, required, shown
from dashpot.runtime.api.cel.functions import regex
from dashpot.runtime.api.crd.formats import FORMATS
from dashpot.runtime.api.crd.numbers import whole

Object = dict[str, Any]
Fine = Callable[[Any], bool]
Explain = Callable[[Any, str, list[Cause]], None]
MISSING: Any = object()
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
ATTEMPTS = 20
"""How many causes one object is told at most."""


@define(eq=False)
class Node:
    """A compiled schema."""

    schema: Object
    root: bool = False
    properties: dict[str, Node] = field(factory=dict)
    extra: Node | None = None
    items: Node | None = None
    fine: Fine = field(init=False)
    own: Explain = field(init=False)
    """The causes of the value itself, without those of its properties and items."""

    def __attrs_post_init__(self) -> None:
        """Compiles."""
        every = ("apiVersion", "kind", "metadata")
        embedded = self.root or self.schema.get("x-kubernetes-embedded-resource")
        for name, child in (self.schema.get("properties") or {}).items():
            if not (embedded and name in every and name == "metadata" and self.root):
                self.properties[name] = Node(child)
        extra, items = self.schema.get("additionalProperties"), self.schema.get("items")
        self.extra = Node(extra) if isinstance(extra, dict) else None
        self.items = Node(items) if isinstance(items, dict) else None
        checks = list(_checks(self.schema))
        self.own = _explainer(self.schema, [explain for _, explain in checks])
        self.fine = _tester(self, [fine for fine, _ in checks])

    def explain(self, value: Any, old: Any, path: str, causes: list[Cause]) -> None:
        """All causes; what equals `old` (MISSING: nothing to compare with) is left alone."""
        if len(causes) >= ATTEMPTS or (old is not MISSING and old == value and type(old) is type(value)):
            return
        self.own(value, path, causes)
        if type(value) is dict:
            was = old if type(old) is dict else {}
            for name, item in value.items():
                node = self.properties.get(name, self.extra)
                if node is not None:
                    node.explain(item, was.get(name, MISSING), f"{path}.{name}" if path else name, causes)
        elif type(value) is list and self.items is not None:
            before = correlate(self.schema, value, old)
            for at, item in enumerate(value):
                self.items.explain(item, before[at], f"{path}[{at}]", causes)


def correlate(schema: Object, value: list[Any], old: Any) -> list[Any]:
    """For each item the one that it was: by keys in a list of type map, else nothing."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if type(old) is not list or schema.get("x-kubernetes-list-type") != "map" or not keys:
        return [MISSING] * len(value)
    before = {key: item for item in old if (key := map_key(item, keys)) is not None}
    return [before.get(map_key(item, keys) or (), MISSING) for item in value]


def map_key(item: Any, keys: list[str]) -> tuple[Any, ...] | None:
    """The key of an item of a list of type map; None if it has none."""
    if type(item) is not dict:
        return None
    return tuple(frozen(item.get(key)) for key in keys)


def frozen(value: Any) -> Any:
    """JSON as something hashable: equal if and only if the JSON is."""
    if type(value) is dict:
        return ("{", frozenset((name, frozen(item)) for name, item in value.items()))
    if type(value) is list:
        return ("[", tuple(frozen(item) for item in value))
    return (type(value) is bool, value)


def _tester(node: Node, checks: list[Fine]) -> Fine:
    schema, properties, extra, items = node.schema, node.properties, node.extra, node.items
    kinds = TYPES.get(schema.get("type", ""))
    nullable = bool(schema.get("nullable"))
    needed = tuple(schema.get("required") or ())
    inner = {name: child.fine for name, child in properties.items()}
    rest = None if extra is None else extra.fine
    each = None if items is None else items.fine

    def fine(value: Any) -> bool:
        kind = type(value)
        if kinds is not None and kind not in kinds:
            if kind is NoneType and nullable:
                return True
            if not (kind is float and int in kinds and whole(value)):
                return False
        for check in checks:
            if not check(value):
                return False
        if kind is dict:
            for name in needed:
                if name not in value:
                    return False
            for name, item in value.items():
                child = inner.get(name, rest)
                if child is not None and not child(item):
                    return False
        elif kind is list and each is not None:
            for item in value:
                if not each(item):
                    return False
        return True

    return fine


def _explainer(schema: Object, checks: list[Explain]) -> Explain:
    kinds = TYPES.get(schema.get("type", ""))
    nullable = bool(schema.get("nullable"))
    needed = tuple(schema.get("required") or ())

    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        kind = type(value)
        if kinds is not None and kind not in kinds and not (kind is float and int in kinds and whole(value)):
            if value is None and nullable:
                return
            found = NAMES.get(kind, "null")
            detail = f'{path} in body must be of type {schema["type"]}: "{found}"'
            causes.append(Cause(path, f'Invalid value: "{found}": {detail}', "FieldValueTypeInvalid"))
            return
        for check in checks:
            check(value, path, causes)
        if kind is dict:
            for name in needed:
                if name not in value:
                    causes.append(required(f"{path}.{name}" if path else name))

    return explain


def _checks(schema: Object) -> list[tuple[Fine, Explain]]:
    """What one schema demands beyond types and required fields."""
    made: list[tuple[Fine, Explain]] = []
    if schema.get("x-kubernetes-int-or-string"):
        made.append(_int_or_string())
    if schema.get("enum") is not None:
        made.append(_enumeration(schema["enum"], bool(schema.get("nullable"))))
    made += _numeric(schema)
    made += _textual(schema)
    made += _sized(schema)
    made += _combined(schema)
    if schema.get("x-kubernetes-embedded-resource"):
        made.append(_embedded())
    return made


def _simple(
    kinds: tuple[type, ...], holds: Callable[[Any], bool], told: Callable[[Any, str], Cause]
) -> tuple[Fine, Explain]:
    """A demand on values of some types: what holds, and the cause where it does not."""

    def fine(value: Any) -> bool:
        return type(value) not in kinds or holds(value)

    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        if not fine(value):
            causes.append(told(value, path))

    return fine, explain


def _body(text: str) -> Callable[[Any, str], Cause]:
    return lambda value, path: invalid_value(path, value, f"{path} in body {text}")


def _int_or_string() -> tuple[Fine, Explain]:
    def told(value: Any, path: str) -> Cause:
        found = NAMES.get(type(value), "null")
        detail = f'{path} in body must be of type int-or-string: "{found}"'
        return Cause(path, f'Invalid value: "{found}": {detail}', "FieldValueTypeInvalid")

    return _simple((dict, list, bool, float, type(None)), lambda value: False, told)


def _enumeration(values: list[Any], nullable: bool) -> tuple[Fine, Explain]:
    known = frozenset(frozen(value) for value in values)

    def fine(value: Any) -> bool:
        return frozen(value) in known or (value is None and nullable)

    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        if not fine(value):
            told = [each if isinstance(each, str) else shown(each) for each in values]
            causes.append(not_supported(path, value, told))

    return fine, explain


def _numeric(schema: Object) -> list[tuple[Fine, Explain]]:
    made: list[tuple[Fine, Explain]] = []
    numbers = (int, float)
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if low is not None:
        if schema.get("exclusiveMinimum"):
            made.append(_simple(numbers, lambda value: value > low, _body(f"should be greater than {shown(low)}")))
        else:
            text = f"should be greater than or equal to {shown(low)}"
            made.append(_simple(numbers, lambda value: value >= low, _body(text)))
    if high is not None:
        if schema.get("exclusiveMaximum"):
            made.append(_simple(numbers, lambda value: value < high, _body(f"should be less than {shown(high)}")))
        else:
            text = f"should be less than or equal to {shown(high)}"
            made.append(_simple(numbers, lambda value: value <= high, _body(text)))
    if step:
        text = f"should be a multiple of {shown(step)}"
        made.append(_simple(numbers, lambda value: _multiple(value, step), _body(text)))
    edges = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}.get(schema.get("format", ""))
    if edges is not None and schema.get("type") == "integer":
        least, most = edges
        text = f"must be of type {schema['format']}"
        made.append(_simple(numbers, lambda value: least <= value <= most, _body(text)))
    return made


def _multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    return float(value / step).is_integer()


def _textual(schema: Object) -> list[tuple[Fine, Explain]]:
    made: list[tuple[Fine, Explain]] = []
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if most is not None:

        def long(value: Any, path: str) -> Cause:
            return Cause(path, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")

        made.append(_simple((str,), lambda value: len(value) <= most, long))
    if least:
        made.append(_simple((str,), lambda value: len(value) >= least, _body(f"should be at least {least} chars long")))
    if pattern:
        found = regex(pattern)
        text = f"should match '{pattern}'"
        made.append(_simple((str,), lambda value: found.search(value) is not None, _body(text)))
    accepts = FORMATS.get(schema.get("format", ""))
    if accepts is not None and schema.get("type") == "string":

        def shaped(value: Any, path: str) -> Cause:
            detail = f"{path} in body must be of type {schema['format']}: {shown(value)}"
            return Cause(path, f"Invalid value: {shown(value)}: {detail}", "FieldValueTypeInvalid")

        made.append(_simple((str,), accepts, shaped))
    return made


def _many(size: int, most: int, path: str) -> Cause:
    noun = "item" if most == 1 else "items"
    return Cause(path, f"Too many: {size}: must have at most {most} {noun}", "FieldValueTooMany")


def _sized(schema: Object) -> list[tuple[Fine, Explain]]:
    made: list[tuple[Fine, Explain]] = []
    for kind, least_name, most_name, noun in (
        (list, "minItems", "maxItems", "items"),
        (dict, "minProperties", "maxProperties", "properties"),
    ):
        least, most = schema.get(least_name), schema.get(most_name)
        if least:
            made.append(_simple((kind,), _at_least(least), _body(f"should have at least {least} {noun}")))
        if most is not None:
            made.append(_simple((kind,), _at_most(most), _too_many(most)))
    listed = schema.get("x-kubernetes-list-type")
    if listed == "set" or schema.get("uniqueItems"):
        made.append(_unique(frozen, lambda item: item))
    elif listed == "map" and schema.get("x-kubernetes-list-map-keys"):
        keys = schema["x-kubernetes-list-map-keys"]
        made.append(_unique(lambda item: map_key(item, keys), lambda item: {key: item.get(key) for key in keys}))
    return made


def _at_least(least: int) -> Callable[[Any], bool]:
    return lambda value: len(value) >= least


def _at_most(most: int) -> Callable[[Any], bool]:
    return lambda value: len(value) <= most


def _too_many(most: int) -> Callable[[Any, str], Cause]:
    return lambda value, path: _many(len(value), most, path)


def _unique(key: Callable[[Any], Any], told: Callable[[Any], Any]) -> tuple[Fine, Explain]:
    def fine(value: Any) -> bool:
        return type(value) is not list or len({key(item) for item in value}) == len(value)

    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        seen: set[Any] = set()
        for at, item in enumerate(value if type(value) is list else ()):
            found = key(item)
            if found in seen and found is not None:
                causes.append(duplicate(f"{path}[{at}]", told(item)))
            seen.add(found)

    return fine, explain


def _embedded() -> tuple[Fine, Explain]:
    def fine(value: Any) -> bool:
        return type(value) is not dict or all(type(value.get(name)) is str for name in ("apiVersion", "kind"))

    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        for name in ("apiVersion", "kind"):
            if type(value) is dict and not value.get(name):
                causes.append(required(f"{path}.{name}", "must not be empty"))

    return fine, explain


def _combined(schema: Object) -> list[tuple[Fine, Explain]]:
    made: list[tuple[Fine, Explain]] = []
    for name, build in (("allOf", _all), ("anyOf", _any), ("oneOf", _one)):
        if schema.get(name):
            made.append(build([Node(each) for each in schema[name]]))
    if schema.get("not"):
        made.append(_negated(Node(schema["not"])))
    return made


def _message(path: str, text: str) -> Cause:
    return Cause(path, f'Invalid value: "": "{path}" {text}')


def _all(nodes: list[Node]) -> tuple[Fine, Explain]:
    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        failed = [node for node in nodes if not node.fine(value)]
        if not failed:
            return
        none = ". None validated" if len(failed) == len(nodes) else ""
        causes.append(_message(path, f"must validate all the schemas (allOf){none}"))
        for node in failed:
            node.explain(value, MISSING, path, causes)

    return lambda value: all(node.fine(value) for node in nodes), explain


def _any(nodes: list[Node]) -> tuple[Fine, Explain]:
    def fine(value: Any) -> bool:
        return any(node.fine(value) for node in nodes)

    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        if not fine(value):
            causes.append(_message(path, "must validate at least one schema (anyOf)"))
            causes.extend(_nearest(nodes, value, path))

    return fine, explain


def _one(nodes: list[Node]) -> tuple[Fine, Explain]:
    def fine(value: Any) -> bool:
        return sum(node.fine(value) for node in nodes) == 1

    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        count = sum(node.fine(value) for node in nodes)
        if count == 1:
            return
        found = "Found none valid" if not count else f"Found {count} valid alternatives"
        causes.append(_message(path, f"must validate one and only one schema (oneOf). {found}"))
        if not count:
            causes.extend(_nearest(nodes, value, path))

    return fine, explain


def _nearest(nodes: list[Node], value: Any, path: str) -> list[Cause]:
    """The causes of the alternative with the fewest."""
    best: list[Cause] | None = None
    for node in nodes:
        causes: list[Cause] = []
        node.explain(value, MISSING, path, causes)
        if best is None or len(causes) < len(best):
            best = causes
    return best or []


def _negated(node: Node) -> tuple[Fine, Explain]:
    def explain(value: Any, path: str, causes: list[Cause]) -> None:
        if node.fine(value):
            causes.append(_message(path, "must not validate the schema (not)"))

    return lambda value: not node.fine(value), explain
