"""Sets of fields as `managedFields` writes them: the JSON tree FieldsV1 is the set, and no other form exists.

A key is `f:NAME` (a field), `k:{"name":"c"}` (the item of a list with those keys), `v:VALUE` (a member of a set) or
`i:0`; `.` says that the node itself belongs to the set. A node without children is a member. Trees are shared and
never changed: `EMPTY` is one object. Source: sigs.k8s.io/structured-merge-diff fieldpath.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from dashpot.model.objects.structure import ANY, LIST, MAP, SCALAR, Structure, deduce

Object = dict[str, Any]
Fields = dict[str, Any]
"""A tree; its root has no `.`, for nobody owns a whole object."""
Walk = Callable[[Any], Fields]

EMPTY: Fields = {}
_SELF = "."
_encode = msgspec.json.Encoder(order="sorted").encode


class FieldsError(ValueError):
    """A value has no place in a set: `element 0: associative list with keys has an element that omits key field …`."""


def is_member(node: Fields) -> bool:
    """Whether the node itself belongs to the set."""
    return not node or _SELF in node


def union(a: Fields, b: Fields) -> Fields:
    """What is in either."""
    if not a or a is b:
        return b
    if not b:
        return a
    out = dict(a)
    for key, right in b.items():
        left = out.get(key)
        out[key] = right if left is None else left if left is right else _both(left, right)
    return out


def _both(a: Fields, b: Fields) -> Fields:
    out = union(a, b)
    if out and _SELF not in out and not (a and b):
        out = {_SELF: EMPTY} | out
    return out


def difference(a: Fields, b: Fields) -> Fields:
    """What is in `a` and not in `b`, node by node: taking a parent away leaves its children."""
    if not b:
        return a
    out = {}
    for key, left in a.items():
        if key == _SELF:
            continue
        right = b.get(key)
        kept = left if right is None else _without(left, right)
        if kept is not None:
            out[key] = kept
    return out


def _without(a: Fields, b: Fields) -> Fields | None:
    """A node less another; None if nothing is left."""
    member = is_member(a) and not is_member(b)
    children = difference(a, b) if b else {key: child for key, child in a.items() if key != _SELF}
    if not children:
        return EMPTY if member else None
    return {_SELF: EMPTY} | children if member else children


def recursive_difference(a: Fields, b: Fields) -> Fields:
    """What is in `a` and neither in `b` nor below a member of `b`."""
    if not b:
        return a
    out = {}
    for key, left in a.items():
        right = b.get(key)
        if right is None or key == _SELF:
            out[key] = left
        elif not is_member(right):
            kept = recursive_difference(left, right)
            if kept and (len(kept) > 1 or _SELF not in kept):
                out[key] = kept
            elif is_member(left):
                out[key] = EMPTY
    return out


def intersection(a: Fields, b: Fields) -> Fields:
    """What is in both."""
    out = {}
    for key, left in a.items():
        right = b.get(key)
        if right is None or key == _SELF:
            continue
        member = is_member(left) and is_member(right)
        children = intersection(left, right)
        if children:
            out[key] = {_SELF: EMPTY} | children if member else children
        elif member:
            out[key] = EMPTY
    return out


def leaves(fields: Fields) -> Fields:
    """The members that have no children."""
    return {key: leaves(child) for key, child in fields.items() if key != _SELF}


def has(fields: Fields, path: Iterable[str]) -> bool:
    """Whether the set has the node at these keys."""
    node = fields
    found = False
    for key in path:
        if key not in node:
            return False
        node, found = node[key], True
    return found and is_member(node)


def of_paths(paths: Iterable[tuple[str, ...]]) -> Fields:
    """The set of the nodes at these keys: `("f:metadata", "f:name")`."""
    out: Fields = {}
    for path in paths:
        one: Fields = EMPTY
        for key in reversed(path):
            one = {key: one}
        out = union(out, one)
    return out


def members(fields: Fields, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys of every member, in upstream's order: a node's own members, then what is below its children."""
    below = [(key, child) for key, child in sorted(fields.items(), key=_order) if key != _SELF]
    for key, child in below:
        if is_member(child):
            yield (*prefix, key)
    for key, child in below:
        yield from members(child, (*prefix, key))


def _order(row: tuple[str, Fields]) -> tuple[int, str]:
    return ("fkvi".find(row[0][:1]), row[0])


def printed(path: Iterable[str]) -> str:
    """A path as messages show it: `.spec.template.spec.containers[name="c"].image`, `.metadata.finalizers[="x"]`."""
    return "".join(map(_element, path))


def _element(key: str) -> str:
    kind, text = key[:2], key[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        return f"[{','.join(f'{name}={_encode(value).decode()}' for name, value in msgspec.json.decode(text).items())}]"
    return f"[={text}]" if kind == "v:" else f"[{text}]"


def valid(fields: Any, depth: int = 0) -> bool:
    """Whether a JSON value is a set of fields (at most 200 levels deep)."""
    if not isinstance(fields, dict) or depth > 200:
        return False
    for key, child in fields.items():
        if key == _SELF:
            if child != EMPTY:
                return False
        elif key[1:2] != ":" or not _valid_key(key) or not valid(child, depth + 1):
            return False
    return True


def _valid_key(key: str) -> bool:
    kind, text = key[0], key[2:]
    if kind == "f":
        return True
    if kind == "i":
        return text.isdecimal()
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return kind == "v" or (kind == "k" and isinstance(value, dict))


def item_key(item: Any, structure: Structure) -> str:
    """The key of a list's item: `k:{"containerPort":80,"protocol":"TCP"}`, `v:"x"`; FieldsError if it has none."""
    if not structure.keys:
        if item is None:
            raise FieldsError("associative list without keys has an element that's an explicit null")
        if isinstance(item, dict):
            raise FieldsError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise FieldsError("not supported: associative list with lists as elements")
        return "v:" + go_json(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise FieldsError(f"associative list with keys may not have {what}")
    found = {}
    element = structure.element
    for name in structure.keys:
        value = item.get(name)
        if value is None and element is not None:
            value = element.defaults.get(name)
        if value is None:
            why = f'an element that omits key field "{name}" (and doesn\'t have default value)'
            raise FieldsError(f"associative list with keys has {why}")
        found[name] = value
    return "k:" + go_json(found)


def go_json(value: Any) -> str:
    """JSON as Go writes it: keys sorted, `<`, `>` and `&` escaped."""
    text = _encode(value).decode()
    if "<" in text or ">" in text or "&" in text:
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


def index(values: Any, structure: Structure) -> dict[str, Any]:
    """A list's items by key, the first of each key, in order; items that have no key are left out."""
    out: dict[str, Any] = {}
    for item in values or ():
        try:
            out.setdefault(item_key(item, structure), item)
        except FieldsError:
            continue
    return out


def whole(structure: Structure) -> Walk:
    """Makes the function that lists everything in a value that was not there before, the nodes between included."""
    made: Walk | None = structure.compiled.get("whole")
    if made is None:
        made = structure.compiled["whole"] = _whole(structure)
    return made


def _whole(structure: Structure) -> Walk:
    if structure.form == SCALAR or structure.atomic:
        return _leaf
    if structure.form == ANY:
        return lambda value: whole(deduce(value))(value) if value else EMPTY
    if structure.form == LIST:
        return _whole_list(structure)
    return _map_walk(structure, whole, {_SELF: EMPTY})


def _leaf(value: Any) -> Fields:
    return EMPTY


def _whole_list(structure: Structure) -> Walk:
    below: list[Walk] = []
    single = structure.keys[0] if len(structure.keys) == 1 else ""
    encode = msgspec.json.encode

    def walk(value: Any) -> Fields:
        if not value or type(value) is not list:
            return EMPTY
        if not below:  # not before the first item: an element may hold the list itself
            below.append(whole(structure.element) if structure.element and structure.keys else _leaf)
        item_fields = below[0]
        out: Fields = {_SELF: EMPTY}
        for item in value:
            name = item.get(single) if single and type(item) is dict else None
            if type(name) is str and name.isascii() and not ("<" in name or ">" in name or "&" in name):
                key = f'k:{{"{single}":{encode(name).decode()}}}'
            else:
                try:
                    key = item_key(item, structure)
                except FieldsError:
                    return EMPTY
            out.setdefault(key, item_fields(item))
        return out

    return walk


Slot = tuple[str, "Walk | None"]


def _slots(structure: Structure, compile_child: Callable[[Structure], Walk]) -> Callable[[str], Slot]:
    """Finds a field's key in the tree and what walks its value; None where it is a leaf whatever the value."""
    table: dict[str, Slot] = {}

    def slot(name: str) -> Slot:
        child = structure.child(name)
        made: Walk | None = None
        if child is not None and child.form != SCALAR and not child.atomic:
            made = compile_child(child)
        found = (f"f:{name}", made)
        if name in structure.fields:
            table[name] = found
        return found

    def find(name: str) -> Slot:
        return table.get(name) or slot(name)

    return find


def _map_walk(structure: Structure, compile_child: Callable[[Structure], Walk], base: Fields) -> Walk:
    find = _slots(structure, compile_child)
    if not structure.fields and structure.element is not None and structure.element.form == SCALAR:

        def texts(value: Any) -> Fields:
            if not value or type(value) is not dict:
                return EMPTY
            return base | {f"f:{name}": EMPTY for name in value}

        return texts

    def walk(value: Any) -> Fields:
        if not value or type(value) is not dict:
            return EMPTY
        out = base.copy()
        for name, inner in value.items():
            key, below = find(name)
            out[key] = EMPTY if below is None or not inner else below(inner)
        return out

    return walk


def created(structure: Structure) -> Walk:
    """Makes the function that lists what a new object has beyond an empty one of its kind."""
    made: Walk | None = structure.compiled.get("created")
    if made is None:
        made = structure.compiled["created"] = _created(structure)
    return made


def _created(structure: Structure) -> Walk:
    """Of what an empty object has already (a struct that is no pointer) only what is inside counts."""
    if structure.form == LIST and not structure.atomic:
        inside = whole(structure)

        def items(value: Any) -> Fields:
            return {key: child for key, child in inside(value).items() if key != _SELF}

        return items
    if structure.form != MAP or structure.atomic:
        return whole(structure)
    find = _slots(structure, lambda child: created(child) if child.present else whole(child))
    present = frozenset(
        name for name, child in structure.fields.items() if child.present and child.form != SCALAR and not child.atomic
    )

    def walk(value: Any) -> Fields:
        out: Fields = {}
        if type(value) is dict:
            for name, inner in value.items():
                if inner is None and name == "creationTimestamp":
                    continue
                key, below = find(name)
                node = EMPTY if below is None or not inner else below(inner)
                if node or name not in present:
                    out[key] = node
        return out

    return walk


def from_object(value: Any, structure: Structure) -> Fields:
    """The fields that an applied configuration names. FieldsError with a path where an item has no key.

    Declared fields that hold something are not members, only what is inside; undeclared keys and items are.
    """
    if structure.form == ANY:
        structure = deduce(value)
    if structure.form == SCALAR or structure.atomic or not value:
        return EMPTY
    out: Fields = {}
    if structure.form == MAP and isinstance(value, dict):
        for name, inner in value.items():
            child = structure.child(name)
            if child is None:
                raise FieldsError(f".{name}: field not declared in schema")
            try:
                node = from_object(inner, child)
            except FieldsError as error:
                raise FieldsError(_within(f".{name}", error)) from None
            if node and name not in structure.fields:
                node = {_SELF: EMPTY} | node
            if node or _counts(inner, child, name in structure.fields):
                out[f"f:{name}"] = node
    elif structure.form == LIST and isinstance(value, list):
        _list_fields(value, structure, out)
    return out


def _counts(value: Any, structure: Structure, declared: bool) -> bool:
    """Whether an empty node is a leaf: an empty list of items says nothing."""
    shape = deduce(value) if structure.form == ANY else structure
    return not (declared and shape.form == LIST and not shape.atomic and isinstance(value, list))


def _list_fields(value: list[Any], structure: Structure, out: Fields) -> None:
    for number, item in enumerate(value):
        try:
            key = item_key(item, structure)
        except FieldsError as error:
            raise FieldsError(f": element {number}: {error}") from None
        if key in out:
            raise FieldsError(f": duplicate entries for key {_element(key)}")
        node = EMPTY
        if structure.keys and structure.element is not None:
            try:
                node = from_object(item, structure.element)
            except FieldsError as error:
                raise FieldsError(_within(_element(key), error)) from None
        out[key] = {_SELF: EMPTY} | node if node else EMPTY


def _within(path: str, error: FieldsError) -> str:
    return f"{path}{error}"
