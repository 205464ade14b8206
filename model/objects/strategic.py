"""Strategic merge patches: merge patches that know which lists are merged item by item.

The directives are `$patch` (replace, delete, merge), `$setElementOrder/LIST`, `$deleteFromPrimitiveList/LIST` and
`$retainKeys`. Source: k8s.io/apimachinery pkg/util/strategicpatch, release 1.34; failures are 400 in its words where
upstream's handler, which does not know them, says 500.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.mergepatch import copied
from dashpot.model.objects.status import StatusError, bad_request
from dashpot.model.objects.structure import ANY, SCALAR, Structure, deduce

Object = dict[str, Any]

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE = "$deleteFromPrimitiveList/"

_NONE = Structure(SCALAR)


def merge(obj: Object, patch: Any, structure: Structure) -> Object:
    """The object with the patch applied. Neither is changed; the result shares what was not touched with the object,
    nothing with the patch.

    400 if the patch is malformed: a list item without its merge key, an unknown directive, an order that its list
    contradicts.
    """
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a strategic merge patch must be a JSON object")
    try:
        return _merge_map(obj, patch, structure)
    except RecursionError:
        raise bad_request("error decoding patch: exceeded max depth") from None


def go_text(value: Any) -> str:
    """A value as Go's %v prints it: `map[image:nginx name:c]`, `[a b]`, `<nil>`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(inner)}' for key, inner in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    return str(value)


def _go_type(value: Any) -> str:
    names = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64"}
    return names.get(type(value), "float64" if isinstance(value, float) else "<nil>")


def _no_merge_key(item: Any, key: str) -> StatusError:
    return bad_request(f"map: {go_text(item)} does not contain declared merge key: {key}")


def _bad_type(expected: str, value: Any) -> StatusError:
    return bad_request(f"expected a {expected}, but received a {_go_type(value)}")


def _bad_directive(directive: Any, item: Any) -> StatusError:
    return bad_request(f"unknown patch type: {go_text(directive)} in map: {go_text(item)}")


def _child(structure: Structure, name: str) -> Structure:
    return structure.child(name) or _NONE


def _merge_map(obj: Object, patch: Object, structure: Structure) -> Object:
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: copied(value) for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _bad_directive(directive, patch)
    out = _retained(obj, patch) if RETAIN in patch else dict(obj)
    done = _ordered_lists(out, patch, structure)
    for key, value in patch.items():
        if key in (DIRECTIVE, RETAIN) or key in done or key.startswith(ORDER):
            continue
        if key.startswith(DELETE):
            continue
        if value is None:
            out.pop(key, None)
        elif key not in out or _shape(out[key]) != _shape(value):
            out[key] = _clean(value)
        else:
            out[key] = _merge_value(out[key], value, _child(structure, key))
    for key, value in patch.items():
        if key.startswith(DELETE):
            _delete_primitives(out, key[len(DELETE) :], value)
    return out


def _shape(value: Any) -> type:
    return type(value) if isinstance(value, dict | list) else object


def _merge_value(before: Any, value: Any, structure: Structure) -> Any:
    """Merges what a key holds on both sides, of the same type."""
    if isinstance(value, dict):
        if structure.strategies == {"replace"}:
            return copied(value)
        return _merge_map(before, value, deduce(before) if structure.form == ANY else structure)
    if isinstance(value, list) and "merge" in structure.strategies:
        return _merge_list(before, value, structure)
    return copied(value)


def _clean(value: Any) -> Any:
    """A value that is new to the object: without nulls in maps and without directives."""
    if isinstance(value, dict):
        if value.get(DIRECTIVE) == "delete":
            return {}
        return {
            key: _clean(inner)
            for key, inner in value.items()
            if inner is not None and key not in (DIRECTIVE, RETAIN) and not key.startswith((ORDER, DELETE))
        }
    if isinstance(value, list):
        return [_clean(item) for item in value if not (isinstance(item, dict) and _is_directive(item))]
    return value


def _is_directive(item: Object) -> bool:
    return item.get(DIRECTIVE) == "delete" or item == {DIRECTIVE: "replace"}


def _retained(obj: Object, patch: Object) -> Object:
    """The object's fields that `$retainKeys` names; the patch must not set others."""
    retain = patch[RETAIN]
    if not isinstance(retain, list) or not all(isinstance(name, str) for name in retain):
        raise bad_request("invalid patch format of retainKeys")
    names = set(retain)
    for key, value in patch.items():
        if value is not None and key not in names and key not in (RETAIN, DIRECTIVE):
            if not key.startswith((ORDER, DELETE)):
                raise bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in obj.items() if key in names}


def _delete_primitives(out: Object, name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise bad_request("invalid patch format of primitive list")
    before = out.get(name)
    if isinstance(before, list):
        gone = {_hashable(value) for value in values if not isinstance(value, dict | list)}
        out[name] = [value for value in before if _hashable(value) not in gone]


def _ordered_lists(out: Object, patch: Object, structure: Structure) -> set[str]:
    """Merges the lists whose order the patch gives; tells which they are."""
    done = set()
    for key, order in patch.items():
        if not key.startswith(ORDER):
            continue
        name = key[len(ORDER) :]
        if not isinstance(order, list) or not name:
            raise bad_request("invalid patch format of setElementOrder list")
        before, change = out.get(name), patch.get(name)
        for value in (before, change):
            if value is not None and not isinstance(value, list):
                raise _bad_type("[]interface {}", value)
        if name in patch and change is None:
            continue
        done.add(name)
        if before is None and change is None:
            continue
        at = _child(structure, name)
        _check_order(change or [], order, at.merge_key)
        if before is None:
            merged = _clean(change)
        else:
            merged = before if change is None else _merge_value(before, change, at)
        out[name] = _arrange(merged, order, before or [], at.merge_key)
    return done


def _name(item: Any, merge_key: str) -> Any:
    """What tells an item from others: its merge key, or the item itself."""
    if not merge_key:
        return item
    if not isinstance(item, dict):
        raise _bad_type("map[string]interface {}", item)
    if merge_key not in item:
        raise _no_merge_key(item, merge_key)
    return item[merge_key]


def _check_order(change: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of the patch must come in the order that it demands."""
    if not order or not change:
        return
    wanted = iter([_name(item, merge_key) for item in order])
    for item in change:
        if isinstance(item, dict) and DIRECTIVE in item:
            continue
        name = _name(item, merge_key)
        if not any(name == other for other in wanted):
            lists = f"{go_text(change)}\n doesn't match $setElementOrder list:\n{go_text(order)}"
            raise bad_request(f"The order in patch list:\n{lists}\n")


def _merge_list(before: list[Any], change: list[Any], structure: Structure) -> list[Any]:
    if not before and not change:
        return before
    kinds = {_shape(item) for item in (*before, *change)}
    if list in kinds:
        raise StatusError("Invalid", "the server rejected our request due to an error in our request")
    if len(kinds) > 1:
        raise bad_request(f"list element types are not identical: {go_text([before, change])}")
    merge_key = structure.merge_key
    if kinds == {object}:
        distinct: dict[Any, Any] = {}
        for item in (*before, *change):
            distinct.setdefault(_hashable(item), item)
        merged = list(distinct.values())
        return _arrange(merged, change, before, "")
    if not merge_key:
        raise bad_request("cannot merge lists without merge key for type struct")
    before, change = _directives(before, change, merge_key)
    merged = list(before)
    places = {_hashable(item.get(merge_key)): place for place, item in reversed(list(enumerate(before)))}
    element = structure.element or _NONE
    for item in change:
        place = places.get(_hashable(_name(item, merge_key)))
        if place is None:
            places[_hashable(item[merge_key])] = len(merged)
            merged.append(_clean(item))
        else:
            merged[place] = _merge_map(merged[place], item, element)
    return _arrange(merged, change, before, merge_key)


def _hashable(value: Any) -> Any:
    return go_text(value) if isinstance(value, dict | list) else (type(value) is bool, value)


def _directives(before: list[Any], change: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Does what `$patch` in items demands; what is left of both lists."""
    plain = []
    gone = set()
    replace = False
    for item in change:
        directive = item.get(DIRECTIVE)
        if directive == "delete":
            gone.add(_hashable(_name(item, merge_key)))
        elif directive == "replace":
            replace = True
        elif directive in (None, "merge"):
            plain.append(item)
        else:
            raise _bad_directive(directive, item)
    if gone:
        before = [other for other in before if _hashable(other.get(merge_key)) not in gone]
    return ([], plain) if replace else (before, plain)


def _arrange(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Puts items in the order of the patch; the others keep their places among them as far as that is possible."""
    wanted = _places(order, merge_key)
    before = _places(live, merge_key)
    named = [(_hashable(_name(item, merge_key)), item) for item in merged]
    listed = sorted((row for row in named if row[0] in wanted), key=lambda row: wanted[row[0]])
    others = sorted((row for row in named if row[0] not in wanted), key=lambda row: before.get(row[0], len(before)))
    out = []
    left, right = 0, 0
    while left < len(others) and right < len(listed):
        mine, theirs = before.get(others[left][0]), before.get(listed[right][0])
        if mine is not None and theirs is not None and mine < theirs:
            out.append(others[left][1])
            left += 1
        else:
            out.append(listed[right][1])
            right += 1
    return [*out, *(item for _, item in others[left:]), *(item for _, item in listed[right:])]


def _places(items: list[Any], merge_key: str) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for place, item in enumerate(items):
        found.setdefault(_hashable(_name(item, merge_key)), place)
    return found
