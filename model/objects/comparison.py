"""What a write changed: the fields that were added, modified and removed between two forms of an object.

Source: sigs.k8s.io/structured-merge-diff typed.Compare. A value that appears or disappears counts with all that is in
it, the nodes between included; a value that stays and differs counts where its leaves differ.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from dashpot.model.objects.fieldset import (
    EMPTY,
    Fields,
    FieldsError,
    index,
    item_key,
    recursive_difference,
    union,
    whole,
)
from dashpot.model.objects.structure import ANY, LIST, MAP, SCALAR, Structure, deduce


@define
class Comparison:
    """Three sets of fields."""

    added: Fields = field(factory=dict)
    modified: Fields = field(factory=dict)
    removed: Fields = field(factory=dict)

    def written(self) -> Fields:
        """Added or modified."""
        return union(self.modified, self.added)

    def without(self, ignored: Fields) -> Comparison:
        """The same, but for fields that are ignored and what is in them."""
        if not ignored:
            return self
        return Comparison(*(recursive_difference(part, ignored) for part in (self.added, self.modified, self.removed)))

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def compare(old: Any, new: Any, structure: Structure) -> Comparison:
    """Compares two objects of a kind."""
    found = Comparison()
    if old != new:
        _compare(old, new, structure, found.added, found.modified, found.removed)
    return found


def _compare(old: Any, new: Any, structure: Structure, added: Fields, modified: Fields, removed: Fields) -> bool:
    """Fills the three trees of one node; whether the node itself is what was modified."""
    if structure.form == ANY:
        before, after = deduce(old), deduce(new)
        if before is not after:
            return True
        structure = after
    if structure.form == SCALAR or structure.atomic or not (old or new):
        return True
    if structure.form == MAP and isinstance(old, dict) and isinstance(new, dict):
        _compare_maps(old, new, structure, added, modified, removed)
        return False
    if structure.form == LIST and isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, structure, added, modified, removed)
        return False
    return _replaced(old, new, structure, added, removed, dict if structure.form == MAP else list)


def _replaced(old: Any, new: Any, structure: Structure, added: Fields, removed: Fields, kind: type) -> bool:
    """A null gives way to a map or list, or the other way round: what is inside appears or disappears."""
    if isinstance(new, kind):
        added.update({key: child for key, child in whole(structure)(new).items() if key != "."})
    elif isinstance(old, kind):
        removed.update({key: child for key, child in whole(structure)(old).items() if key != "."})
    return not (added or removed)


def _compare_maps(
    old: dict[str, Any], new: dict[str, Any], structure: Structure, added: Fields, modified: Fields, removed: Fields
) -> None:
    for name, value in new.items():
        child = structure.child(name) or _UNDECLARED
        if name in old:
            before = old[name]
            if before != value or type(before) is not type(value):
                _below(f"f:{name}", before, value, child, added, modified, removed)
        elif child.present and isinstance(value, dict | list):
            if value:
                _below(f"f:{name}", type(value)(), value, child, added, modified, removed)
        elif value is not None or name != "creationTimestamp":
            added[f"f:{name}"] = whole(child)(value)
    for name, value in old.items():
        if name not in new and (value is not None or name != "creationTimestamp"):
            child = structure.child(name) or _UNDECLARED
            if child.present and isinstance(value, dict | list):
                if value:
                    _below(f"f:{name}", value, type(value)(), child, added, modified, removed)
            else:
                removed[f"f:{name}"] = whole(child)(value)


_UNDECLARED = Structure(ANY)


def _compare_lists(
    old: list[Any], new: list[Any], structure: Structure, added: Fields, modified: Fields, removed: Fields
) -> None:
    before, after = index(old, structure), index(new, structure)
    inside = structure.element if structure.element is not None and structure.keys else _LEAF
    if len(before) != len(old) or len(after) != len(new):
        _compare_repeated(old, new, structure, modified)
    for key, value in after.items():
        if key not in before:
            added[key] = whole(inside)(value)
        elif key not in modified and before[key] != value:
            _below(key, before[key], value, inside, added, modified, removed)
    for key, value in before.items():
        if key not in after:
            removed[key] = whole(inside)(value)


_LEAF = Structure(SCALAR)


def _compare_repeated(old: list[Any], new: list[Any], structure: Structure, modified: Fields) -> None:
    """An item that a list names several times is modified as a whole."""
    groups: tuple[dict[str, list[Any]], dict[str, list[Any]]] = ({}, {})
    for items, group in zip((old, new), groups, strict=True):
        for item in items:
            try:
                group.setdefault(item_key(item, structure), []).append(item)
            except FieldsError:
                continue
    for key, after in groups[1].items():
        before = groups[0].get(key)
        if before is not None and before != after and (len(before) > 1 or len(after) > 1):
            modified[key] = EMPTY


def _below(
    key: str, old: Any, new: Any, structure: Structure, added: Fields, modified: Fields, removed: Fields
) -> None:
    """Compares below one key and hangs in what was found."""
    parts: tuple[Fields, Fields, Fields] = ({}, {}, {})
    if _compare(old, new, structure, *parts):
        modified[key] = EMPTY
        return
    for part, into in zip(parts, (added, modified, removed), strict=True):
        if part:
            into[key] = part
