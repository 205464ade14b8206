"""Server-side apply: a configuration merged into the live object, with conflicts between the owners of fields.

Sources: KEP-555; sigs.k8s.io/structured-merge-diff merge.Updater and typed.Merge; k8s.io/apimachinery
pkg/util/managedfields for entries, messages and the way from client-side apply; release 1.34.
"""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import frozen

from dashpot.model.objects.comparison import compare
from dashpot.model.objects.fieldset import (
    EMPTY,
    Fields,
    FieldsError,
    created,
    difference,
    from_object,
    go_json,
    has,
    index,
    intersection,
    is_member,
    item_key,
    members,
    printed,
    union,
)
from dashpot.model.objects.ownership import (
    APPLY,
    UPDATE,
    Entries,
    Entry,
    Owner,
    decode,
    encode,
    strip,
    taken,
)
from dashpot.model.objects.status import StatusError, bad_request
from dashpot.model.objects.structure import ANY, LIST, MAP, SCALAR, Structure, deduce

Object = dict[str, Any]

KUBECTL = "kubectl"
"""The manager that takes over what client-side apply owns, and keeps its annotation up to date."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST = "before-first-apply"
"""The manager of what was there before an untracked object is applied to."""


@frozen
class _Conflict:
    owner: Owner
    path: tuple[str, ...]


class _Conflicts(Exception):
    def __init__(self, found: list[_Conflict]) -> None:
        super().__init__()
        self.found = found


def apply(
    live: Object | None,
    applied: Object,
    *,
    manager: str,
    force: bool = False,
    api_version: str,
    subresource: str = "",
    time: str,
    structure: Structure,
    reset: Fields = EMPTY,
) -> Object:
    """The live object with the configuration applied, managedFields included; neither argument is changed.

    `live` is None where there is no such object yet. `reset` are fields that this endpoint never writes: the
    configuration may hold them, and they are ignored. Defaults, admission and validation come after it. An apply that
    changes nothing gives the live object itself. Raises 409 with a cause for each conflict; 400 for managedFields in
    the configuration, another version, an undeclared field, an item without its key or given twice.
    """
    version = applied.get("apiVersion")
    if version != api_version:
        why = f"Specified patch version: {version}, expected: {api_version}"
        raise bad_request(f"Incorrect version specified in apply patch. {why}")
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    owner = Owner(manager, APPLY, api_version, subresource)
    base = live if live is not None else {"apiVersion": applied.get("apiVersion"), "kind": applied.get("kind")}
    entries = _entries(live, structure, time, api_version)
    try:
        mine: Object = remove(applied, reset, structure) or {}
        fields = from_object(mine, structure)
    except FieldsError as error:
        raise untyped(applied, str(error)) from None
    except RecursionError:
        raise bad_request("error decoding patch: exceeded max depth") from None
    work = _Apply(_without_managers(base), mine, owner, fields, entries, structure, reset)
    try:
        out, owned = work.run(force)
    except _Conflicts as conflicts:
        out, owned = _from_client_side(work, conflicts, manager)
    return _finished(live, out, entries, owned, owner, time, applied)


def untyped(applied: Object, why: str) -> StatusError:
    """400 for a configuration that does not fit its schema, in structured-merge-diff's words."""
    meta = applied.get("metadata") or {}
    group, _, version = str(applied.get("apiVersion", "")).rpartition("/")
    kind = f"{group}/{version}, Kind={applied.get('kind', '')}"
    name = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {kind}"
    return bad_request(f"failed to create typed patch object ({name}): {why}")


def _entries(live: Object | None, structure: Structure, time: str, api_version: str) -> Entries:
    """The owners so far. What was there before anybody was tracked belongs to `before-first-apply`."""
    if live is None:
        return {}
    found = decode(live.get("metadata", {}).get("managedFields"), stored=True)
    if found:
        return found
    owner = Owner(BEFORE_FIRST, UPDATE, api_version)
    fields = strip(created(structure)(_without_managers(live)))
    return {owner.key: Entry(owner, fields, time)} if fields else {}


def _without_managers(obj: Object) -> Object:
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return obj
    return obj | {"metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def _finished(
    live: Object | None, out: Object, before: Entries, owned: Entries, owner: Owner, time: str, applied: Object
) -> Object:
    """The result with its managers; the live object itself if nothing has changed."""
    changed = live is None or out != _without_managers(live)
    mine, previous = owned.get(owner.key), before.get(owner.key)
    if mine is not None:
        kept = previous.time if previous is not None and not changed and previous.fields == mine.fields else time
        owned[owner.key] = Entry(owner, mine.fields, kept)
    if live is not None and not changed and owned == before:
        return live
    meta = dict(out.get("metadata") or {})
    annotations = meta.get("annotations") or {}
    if owner.manager == KUBECTL and annotations.get(LAST_APPLIED):
        meta["annotations"] = annotations | {LAST_APPLIED: _last_applied(applied)}
    rows = encode(owned.values())
    if rows:
        meta["managedFields"] = rows
    return out | {"metadata": meta}


def _last_applied(applied: Object) -> str:
    """The configuration as client-side apply would have recorded it."""
    meta = dict(applied.get("metadata") or {})
    if "annotations" in meta:
        rest = {key: value for key, value in (meta["annotations"] or {}).items() if key != LAST_APPLIED}
        meta["annotations"] = rest
    return go_json(applied | {"metadata": meta}) + "\n"


@frozen
class _Apply:
    """One apply, to be tried with and without force."""

    live: Object
    applied: Object
    owner: Owner
    fields: Fields
    entries: Entries
    structure: Structure
    reset: Fields

    def run(self, force: bool) -> tuple[Object, Entries]:
        """The merged object and its owners; _Conflicts unless forced."""
        merged = merge(self.live, self.applied, self.structure)
        last = self.entries.get(self.owner.key)
        claimed = dict(self.entries)
        claimed[self.owner.key] = Entry(self.owner, self.fields, "")
        if last is not None and difference(last.fields, self.fields):
            merged = _prune(merged, last.fields, claimed, self.structure)
        changes = compare(self.live, merged, self.structure).without(self.reset)
        if not force:
            self.check(changes.written(), claimed)
        owned = taken(claimed, changes, except_for=self.owner.key) if changes else claimed
        # Name and namespace count until here, so that pruning what is around them leaves them alone.
        mine = strip(self.fields)
        if mine:
            owned[self.owner.key] = Entry(self.owner, mine, "")
        else:
            owned.pop(self.owner.key, None)
        return merged, owned

    def check(self, written: Fields, claimed: Entries) -> None:
        """Finds what other managers own and this apply would change."""
        if not written:
            return
        found = []
        for key, entry in sorted(claimed.items()):
            if key != self.owner.key:
                touched = intersection(entry.fields, written)
                found += [_Conflict(entry.owner, path) for path in members(touched)]
        if found:
            raise _Conflicts(found)


def _from_client_side(work: _Apply, conflicts: _Conflicts, manager: str) -> tuple[Object, Entries]:
    """kubectl may overwrite what its client-side apply had written, if nobody has changed it since."""
    left = conflicts.found
    if manager == KUBECTL:
        allowed = _last_applied_fields(work)
        left = [conflict for conflict in left if not has(allowed, conflict.path)]
        if not left:
            return work.run(True)
    raise _refused(left)


def _last_applied_fields(work: _Apply) -> Fields:
    annotations = (work.live.get("metadata") or {}).get("annotations") or {}
    try:
        configuration = msgspec.json.decode(annotations.get(LAST_APPLIED) or "null")
        if not isinstance(configuration, dict) or configuration.get("apiVersion") != work.owner.api_version:
            return EMPTY
        fields = from_object(configuration, work.structure)
        changes = compare(configuration, work.live, work.structure)
    except (msgspec.DecodeError, FieldsError, RecursionError, TypeError):
        return EMPTY
    return difference(difference(fields, changes.written()), changes.removed)


def _refused(conflicts: list[_Conflict]) -> StatusError:
    """409 as upstream lists conflicts: one in a line, several by manager."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {c.owner.shown()}", "field": printed(c.path)}
        for c in conflicts
    ]
    if len(conflicts) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: dict[str, list[str]] = {}
        for conflict, cause in zip(conflicts, causes, strict=True):
            lines.setdefault(conflict.owner.shown(), []).append(f"- {cause['field']}")
        told = "\n".join("\n".join((f"conflicts with {owner}:", *paths)) for owner, paths in lines.items())
        message = f"Apply failed with {len(conflicts)} conflicts: {told}"
    return StatusError("Conflict", message, details={"causes": causes})


def merge(live: Any, applied: Any, structure: Structure) -> Any:
    """A configuration merged into a live value, nothing removed: maps by key, lists by item, the rest replaced."""
    if structure.form == ANY:
        structure = deduce(applied)
    if structure.form == SCALAR or structure.atomic or applied is None:
        return applied
    if structure.form == MAP and isinstance(applied, dict):
        out = dict(live) if isinstance(live, dict) else {}
        for name, value in applied.items():
            child = structure.child(name) or _UNDECLARED
            if value is None and not child.nullable:
                out.pop(name, None)
            else:
                out[name] = merge(out.get(name), value, child)
        return out
    if structure.form == LIST and isinstance(applied, list):
        return _merge_lists(live if isinstance(live, list) else [], applied, structure)
    return applied


_UNDECLARED = Structure(ANY)


def _merge_lists(live: list[Any], applied: list[Any], structure: Structure) -> list[Any]:
    """Applied items come in the order of the configuration, those that only the live list has stay between them.

    A live list may name an item twice: all stay, unless the configuration names it too.
    """
    left, right = index(live, structure), index(applied, structure)
    element = structure.element if structure.element is not None and structure.keys else _UNDECLARED
    before = _named_items(live, structure)
    order, shared = list(right), [key for key in right if key in left]
    out: list[Any] = []
    at, to, following = 0, 0, 0
    while at < len(before) or to < len(order):
        if at < len(before):
            key, item = before[at]
            if key is None or key not in right:
                out.append(item)
                at += 1
                continue
            passed = to >= len(order) or (key != order[to] and following < len(shared) and shared[following] != key)
            if passed or left[key] is not item:
                at += 1  # placed where the configuration has it
                continue
            if key == order[to]:
                at += 1
        name = order[to]
        out.append(merge(left.get(name), right[name], element))
        to += 1
        if following < len(shared) and shared[following] == name:
            following += 1
    return out


def _named_items(items: list[Any], structure: Structure) -> list[tuple[str | None, Any]]:
    """The items with their keys; None for those that have none."""
    out: list[tuple[str | None, Any]] = []
    for item in items:
        try:
            out.append((item_key(item, structure), item))
        except FieldsError:
            out.append((None, item))
    return out


def _prune(merged: Object, last: Fields, claimed: Entries, structure: Structure) -> Object:
    """Removes what the manager had applied and no longer does, unless somebody else owns it."""
    last = _named(last, structure)
    others: Fields = EMPTY
    for entry in claimed.values():
        others = union(others, entry.fields)
    full = _named(from_live(merged, structure), structure)
    rest = _named(from_live(remove(merged, last, structure), structure), structure)
    kept = remove(merged, difference(full, union(rest, _named(others, structure))), structure)
    rest = _named(from_live(kept, structure), structure)
    out: Object = remove(merged, intersection(difference(full, rest), last), structure)
    return out


def from_live(value: Any, structure: Structure) -> Fields:
    """The fields of a live object, whatever it holds: what has no place in a set is left out."""
    if structure.form == ANY:
        structure = deduce(value)
    if structure.form == SCALAR or structure.atomic or not value:
        return EMPTY
    out: Fields = {}
    if structure.form == MAP and isinstance(value, dict):
        for name, inner in value.items():
            child = structure.child(name)
            node = from_live(inner, child) if child is not None else EMPTY
            out[f"f:{name}"] = {".": EMPTY} | node if node and name not in structure.fields else node
    elif structure.form == LIST and isinstance(value, list):
        for key, item in index(value, structure).items():
            node = from_live(item, structure.element) if structure.keys and structure.element is not None else EMPTY
            out[key] = {".": EMPTY} | node if node else EMPTY
    return out


def _named(fields: Fields, structure: Structure | None) -> Fields:
    """The set with the declared fields between as members."""
    if structure is None or not fields:
        return fields
    out = {}
    for key, node in fields.items():
        if key == ".":
            out[key] = node
            continue
        name = key[2:]
        declared = structure.form == MAP and key[0] == "f" and name in structure.fields
        below: Structure | None = None
        if structure.form == MAP and key[0] == "f":
            below = structure.child(name)
        elif structure.form == LIST and key[0] == "k":
            below = structure.element
        inner = _named(node, below)
        out[key] = {".": EMPTY} | inner if inner and declared and "." not in inner else inner
    return out


def remove(value: Any, fields: Fields, structure: Structure | None) -> Any:
    """A value without the members of a set; maps and lists that lose everything go too (None)."""
    if structure is not None and structure.form == ANY:
        structure = deduce(value)
    if structure is None or structure.form == SCALAR or not fields:
        return value
    if structure.atomic or not value:
        return None
    if structure.form == MAP and isinstance(value, dict):
        return _remove_from_map(value, fields, structure)
    if structure.form == LIST and isinstance(value, list):
        return _remove_from_list(value, fields, structure)
    return value


def _remove_from_map(value: Object, fields: Fields, structure: Structure) -> Object | None:
    out = {}
    for name, inner in value.items():
        node = fields.get(f"f:{name}")
        if node is not None:
            if is_member(node):
                continue
            kept = remove(inner, node, structure.child(name))
            if kept is None:
                continue
            inner = kept
        out[name] = inner
    return out or None


def _remove_from_list(value: list[Any], fields: Fields, structure: Structure) -> list[Any] | None:
    out = []
    for item in value:
        try:
            node = fields.get(item_key(item, structure))
        except FieldsError:
            node = None
        if node is not None:
            if is_member(node):
                continue
            item = remove(item, node, structure.element)
        out.append(item)
    return out or None
