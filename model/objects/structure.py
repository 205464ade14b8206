"""What a kind's schema says about merging: for every field whether it is one value, a map or a list of named items.

Strategic merge, field ownership and server-side apply all read this compiled view instead of the schema. Sources:
the extensions x-kubernetes-list-type, -list-map-keys, -map-type, -patch-strategy and -patch-merge-key;
k8s.io/kube-openapi pkg/schemaconv for what holds where they are absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import define, evolve, field

Object = dict[str, Any]
Definition = Callable[[str], Object | None]
"""The schema of that name under #/components/schemas."""

REF_PREFIX = "#/components/schemas/"

SCALAR = "scalar"
MAP = "map"
LIST = "list"
ANY = "any"
"""Nothing is declared: the value itself tells. Maps are merged by key, lists are one value."""

SCALAR_FORMATS = ("quantity", "int-or-string")
"""Formats of schemas that list several types."""

KEY_DEFAULTS = {"ContainerPort": {"protocol": "TCP"}, "ServicePort": {"protocol": "TCP"}}
"""Defaults of fields that are keys of a list: Kubernetes' OpenAPI tells them, some data sets leave them out."""

# Go structs that are not pointers, and lists without omitempty: an empty object of the kind has them already, so a
# manager that fills them in owns what is inside, not the field itself. Only those reached without passing a list.
PRESENT = frozenset(
    """
    spec status metadata template strategy updateStrategy jobTemplate containers scaleTargetRef podSelector
    loadBalancer nodeInfo daemonEndpoints resources roleRef target involvedObject source names acceptedNames
    """.split()
)


class Lookup(Protocol):
    """Where the schemas of kinds are found: the registry of built-in kinds. KeyError: there is none of that name."""

    def schema(self, group: str, version: str, kind: str) -> Object:
        """The schema of a kind."""
        ...

    def definition(self, name: str) -> Object:
        """A schema by its name."""
        ...


@define(eq=False, slots=True)
class Structure:
    """How the values at one place are merged."""

    form: str
    atomic: bool = False
    fields: dict[str, Structure] = field(factory=dict)
    """Of maps: the declared fields."""
    element: Structure | None = None
    """Of maps: the values of other keys; None where there may be none. Of lists: the items."""
    keys: tuple[str, ...] = ()
    """Of lists: the fields that name an item, sorted. Empty and not atomic: a set."""
    defaults: Mapping[str, Any] = field(factory=dict)
    """Of maps: defaults of fields, for items that leave out a key."""
    merge_key: str = ""
    strategies: frozenset[str] = frozenset()
    """For strategic merge: merge, replace, retainKeys."""
    nullable: bool = False
    """Whether null is a value of its own; elsewhere it stands for a field that is not there."""
    present: bool = False
    """Whether an empty object of the kind has the field already."""
    compiled: dict[str, Any] = field(factory=dict, init=False)
    """Functions made from this node, by whom they are made."""

    @property
    def is_set(self) -> bool:
        """A list of scalars without order and repetition."""
        return self.form == LIST and not self.atomic and not self.keys

    def child(self, name: str) -> Structure | None:
        """The structure below a key of a map; None for an undeclared key of a closed map."""
        return self.fields.get(name) or self.element


SCALAR_NODE = Structure(SCALAR)
DEDUCED = Structure(ANY)
DEDUCED.element = DEDUCED


def deduce(value: Any) -> Structure:
    """The structure of a value of which nothing is declared."""
    if isinstance(value, dict):
        return _DEDUCED_MAP
    return _DEDUCED_LIST if isinstance(value, list) else SCALAR_NODE


_DEDUCED_MAP = Structure(MAP, element=DEDUCED)
_DEDUCED_LIST = Structure(LIST, atomic=True, element=DEDUCED)


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _types(schema: Object) -> str:
    found = schema.get("type", "")
    if isinstance(found, list):
        return next((name for name in found if name != "null"), "")
    return str(found)


class _Compiler:
    """Makes structures; definitions may refer to themselves."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.known: dict[str, Structure] = {}

    def named(self, name: str) -> Structure:
        """The structure of a definition, made once."""
        if name in self.known:
            return self.known[name]
        schema = self.definition(name)
        if schema is None:
            return DEDUCED
        node = Structure(MAP)
        self.known[name] = node
        made = self.schema(schema, into=node, name=_short(name))
        if made is not node:
            self.known[name] = made
        return made

    def reference(self, schema: Object) -> str:
        """The definition that a schema refers to, also through allOf with one member; "" for none."""
        ref = schema.get("$ref", "")
        if not ref and len(schema.get("allOf", ())) == 1:
            ref = schema["allOf"][0].get("$ref", "")
        return str(ref).rsplit("/", 1)[-1]

    def schema(self, schema: Object, into: Structure | None = None, name: str = "") -> Structure:
        """The structure of one schema, with what the place says about it over what the definition says."""
        ref = self.reference(schema)
        if ref:
            return self.placed(self.named(ref), schema)
        kind = _types(schema)
        scalar = kind in ("string", "integer", "number", "boolean") or schema.get("format") in SCALAR_FORMATS
        if scalar or schema.get("x-kubernetes-int-or-string"):
            return self.placed(SCALAR_NODE, schema)
        if kind == "array" or "items" in schema:
            return self.array(schema)
        if "properties" in schema or "additionalProperties" in schema or kind == "object":
            return self.object(schema, into or Structure(MAP), name)
        return self.placed(DEDUCED, schema)

    def placed(self, node: Structure, schema: Object) -> Structure:
        """A node with the extensions of the field that holds it."""
        merge_key = schema.get("x-kubernetes-patch-merge-key", "")
        strategies = _strategies(schema)
        map_type = schema.get("x-kubernetes-map-type", "")
        atomic = node.atomic if not map_type else map_type == "atomic"
        nullable = bool(schema.get("nullable"))
        if not merge_key and not strategies and atomic == node.atomic and not nullable:
            return node
        # evolve shares `fields`, which a definition that is being compiled still fills.
        return evolve(node, atomic=atomic, merge_key=merge_key, strategies=strategies, nullable=nullable)

    def array(self, schema: Object) -> Structure:
        """Lists are one value unless the schema says otherwise."""
        items = schema.get("items")
        element = self.schema(items) if isinstance(items, dict) else DEDUCED
        strategies, merge_key = _strategies(schema), schema.get("x-kubernetes-patch-merge-key", "")
        list_type = schema.get("x-kubernetes-list-type", "")
        keys: tuple[str, ...] = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
        if not list_type and "merge" in strategies:
            list_type, keys = ("map", (merge_key,)) if merge_key else ("set", ())
        atomic = list_type not in ("map", "set") or (list_type == "map" and not keys)
        return Structure(
            LIST, atomic, element=element, keys=() if atomic or list_type == "set" else keys,
            merge_key=merge_key, strategies=strategies, nullable=bool(schema.get("nullable")),
        )  # fmt: skip

    def object(self, schema: Object, node: Structure, name: str) -> Structure:
        """Fills a node for an object's schema."""
        node.atomic, node.nullable = schema.get("x-kubernetes-map-type") == "atomic", bool(schema.get("nullable"))
        node.merge_key, node.strategies = schema.get("x-kubernetes-patch-merge-key", ""), _strategies(schema)
        properties: Object = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict) and extra:
            node.element = self.schema(extra)
        elif schema.get("x-kubernetes-preserve-unknown-fields") or extra is True or (not properties and extra is None):
            node.element = DEDUCED
        elif extra == {}:
            node.element = DEDUCED
        defaults = {key: value["default"] for key, value in properties.items() if value.get("default") is not None}
        node.defaults = KEY_DEFAULTS.get(name, {}) | defaults
        for key, value in properties.items():
            child = self.schema(value)
            if value.get("default") == {} or key in PRESENT:
                child = evolve(child, present=True)
            node.fields[key] = child
        if schema.get("x-kubernetes-embedded-resource"):
            self.embedded(node)
        return node

    def embedded(self, node: Structure) -> None:
        """Objects inside objects have metadata, declared or not."""
        node.fields.setdefault("apiVersion", SCALAR_NODE)
        node.fields.setdefault("kind", SCALAR_NODE)
        node.fields.setdefault("metadata", DEDUCED)


def _strategies(schema: Object) -> frozenset[str]:
    named = schema.get("x-kubernetes-patch-strategy", "")
    return frozenset(named.split(",")) if named else frozenset()


def _object_meta() -> Structure:
    """ObjectMeta, whose structure is the same for every kind, declared by its schema or not."""
    text = Structure(MAP, element=SCALAR_NODE)
    reference = Structure(MAP, atomic=True, element=SCALAR_NODE)
    scalars = (
        "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp "
        "deletionGracePeriodSeconds clusterName"
    ).split()
    merge = frozenset({"merge"})
    fields = {name: SCALAR_NODE for name in scalars} | {
        "labels": text,
        "annotations": text,
        "finalizers": Structure(LIST, element=SCALAR_NODE, strategies=merge),
        "ownerReferences": Structure(LIST, element=reference, keys=("uid",), merge_key="uid", strategies=merge),
        "managedFields": Structure(LIST, atomic=True, element=DEDUCED),
    }
    return Structure(MAP, fields=fields, present=True)


META = _object_meta()


def of_schema(schema: Object | None, definition: Definition | None = None) -> Structure:
    """The structure of a kind given its schema: a custom resource's `openAPIV3Schema`, or None where it has none.

    An object has metadata, apiVersion and kind whether or not the schema declares them.
    """
    root = Structure(MAP, element=DEDUCED) if schema is None else _Compiler(definition or _nothing).schema(schema)
    if root.form != MAP:
        root = Structure(MAP, element=DEDUCED)
    fields = dict(root.fields) | {"apiVersion": SCALAR_NODE, "kind": SCALAR_NODE, "metadata": META}
    return evolve(root, fields=fields, atomic=False)


def custom(schema: Object | None) -> Structure:
    """The structure of a custom kind. Its empty object has nothing, not even an empty spec."""
    root = of_schema(schema)
    root.fields = {
        key: evolve(child, present=False) if key != "metadata" else child for key, child in root.fields.items()
    }
    return root


def _nothing(name: str) -> Object | None:
    return None


_made: dict[tuple[int, str, str, str], tuple[Lookup, Structure]] = {}


def structure(group: str, version: str, kind: str, lookup: Lookup) -> Structure:
    """The structure of a built-in kind, compiled once a lookup; without a schema its values tell."""
    key = (id(lookup), group, version, kind)
    found = _made.get(key)
    if found is None:
        try:
            made = of_schema(lookup.schema(group, version, kind), lookup.definition)
        except KeyError:
            made = of_schema(None)
        found = _made[key] = (lookup, made)
    return found[1]
