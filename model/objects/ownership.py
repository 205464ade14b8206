"""Who owns which field: `metadata.managedFields` kept up to date on creates, updates and patches.

A write's manager owns the leaves that it added or changed; every other manager loses those, and all lose what was
removed. Source: k8s.io/apimachinery pkg/util/managedfields, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen

from dashpot.model.objects.comparison import Comparison, compare
from dashpot.model.objects.fieldset import (
    EMPTY,
    Fields,
    created,
    difference,
    intersection,
    of_paths,
    recursive_difference,
    union,
    valid,
)
from dashpot.model.objects.structure import Structure

Object = dict[str, Any]

MAX_UPDATERS = 10
"""Entries of updates beyond this number are merged, the oldest first."""
ANCIENT = "ancient-changes"
MAX_MANAGER = 128

APPLY = "Apply"
UPDATE = "Update"

_META = (
    "name namespace creationTimestamp selfLink uid clusterName generation managedFields resourceVersion".split()
)  # fmt: skip
STRIPPED = of_paths([("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _META)])
"""What nobody owns."""
_STRIPPED_META = tuple(f"f:{name}" for name in _META)


@frozen
class Owner:
    """Whose entry it is. An applier has one entry whatever the version."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    def shown(self) -> str:
        """As conflicts name it: `"kubectl-client-side-apply" using apps/v1`."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What two entries of one owner have in common."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.manager, self.operation, version, self.subresource)


@frozen
class Entry:
    """One entry: its fields, and the time of the last write that changed them ("" if unknown)."""

    owner: Owner
    fields: Fields
    time: str


Entries = dict[tuple[str, str, str, str], Entry]


def default_manager(user_agent: str) -> str:
    """The manager of writes that name none: what stands before the first `/` of the User-Agent, at most 128 bytes."""
    text = "".join(c for c in user_agent.split("/", 1)[0] if c.isprintable())
    return text.encode()[:MAX_MANAGER].decode(errors="ignore")


def reset_fields(subresource: str, has_status: bool) -> Fields:
    """What an endpoint never writes, so that nobody comes to own it there: the main resource leaves the status alone,
    `/status` the spec."""
    if subresource == "status":
        return _RESET_SPEC
    return _RESET_STATUS if has_status and not subresource else EMPTY


_RESET_SPEC = of_paths([("f:spec",)])
_RESET_STATUS = of_paths([("f:status",)])


def decode(rows: Any, *, stored: bool = False) -> Entries | None:
    """The entries of a managedFields list; None if it is not one. What is `stored` was checked when it was written."""
    if not isinstance(rows, list):
        return None
    found: Entries = {}
    for row in rows:
        entry = _entry(row, stored)
        if entry is None:
            return None
        found[entry.owner.key] = entry
    return found


def _entry(row: Any, stored: bool) -> Entry | None:
    if not isinstance(row, dict) or row.get("operation") not in (APPLY, UPDATE) or row.get("fieldsType") != "FieldsV1":
        return None
    texts = [row.get(name, "") for name in ("manager", "operation", "apiVersion", "subresource")]
    if not all(isinstance(text, str) for text in texts) or not texts[2]:
        return None
    fields = row.get("fieldsV1") or EMPTY
    if not stored and not valid(fields):
        return None
    time = row.get("time") or ""
    return Entry(Owner(*texts), fields, time if isinstance(time, str) else "")


def encode(entries: Iterable[Entry]) -> list[Object]:
    """The managedFields list: appliers first, then by time, manager, version and subresource."""
    return [_row(entry) for entry in sorted(entries, key=_order)]


def _order(entry: Entry) -> tuple[str, str, str, str, str]:
    owner = entry.owner
    return (owner.operation, entry.time, owner.manager, owner.api_version, owner.subresource)


def _row(entry: Entry) -> Object:
    owner = entry.owner
    row: Object = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
    if entry.time:
        row["time"] = entry.time
    row["fieldsType"], row["fieldsV1"] = "FieldsV1", entry.fields
    if owner.subresource:
        row["subresource"] = owner.subresource
    return row


def strip(fields: Fields) -> Fields:
    """Without what nobody owns."""
    return difference(fields, STRIPPED)


def is_reset(rows: Any) -> bool:
    """Whether a client asks to forget all owners: `[]` or `[{}]`."""
    return isinstance(rows, list) and (not rows or rows == [{}])


def track(
    old: Object | None,
    new: Object,
    *,
    manager: str,
    operation: str = UPDATE,
    api_version: str,
    time: str,
    structure: Structure,
    subresource: str = "",
    reset: Fields = EMPTY,
) -> None:
    """Sets `new["metadata"]["managedFields"]` after a create (`old` None), update or patch.

    `time` is RFC 3339 in seconds. `reset` are fields that this endpoint never writes (`of_paths([("f:status",)])` for
    the main resource of kinds with a status subresource): nobody comes to own them. To be called after mutating
    admission and before the server's own fields (addresses, phase, generation) are filled in.
    """
    owner = Owner(manager, operation, api_version, subresource)
    meta = new.setdefault("metadata", {})
    if old is None:
        _track_create(new, meta, owner, time, structure, reset)
        return
    live = old.get("metadata", {}).get("managedFields")
    asked = meta.pop("managedFields", None)
    if asked is not None and not subresource and asked != live:
        if is_reset(asked):
            return
        base = decode(asked) or decode(live, stored=True) or {}
    else:
        base = decode(live, stored=True) or {}
    if not base:  # an object that was never tracked, or whose owners were forgotten, is not tracked from its middle
        return
    changes = compare(_bare(old), _bare(new), structure).without(reset)
    if changes:
        rows = encode(cap(updated(base, changes, owner, time)).values())
    else:
        rows = live if asked is None or asked == live else encode(base.values())
    if rows:
        meta["managedFields"] = rows


def _bare(obj: Object) -> Object:
    """An object without managedFields, the rest shared."""
    meta = obj.get("metadata")
    if not meta or "managedFields" not in meta:
        return obj
    return obj | {"metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def _track_create(new: Object, meta: Object, owner: Owner, time: str, structure: Structure, reset: Fields) -> None:
    asked = meta.pop("managedFields", None)
    base = decode(asked) if asked and not is_reset(asked) else None
    fields = created(structure)(new)
    fields.pop("f:apiVersion", None)
    fields.pop("f:kind", None)
    inside = fields.get("f:metadata")
    if inside is not None:
        for name in _STRIPPED_META:
            inside.pop(name, None)
        inside.pop(".", None)
        if not inside:
            del fields["f:metadata"]
    if reset:
        fields = recursive_difference(fields, reset)
    if base:
        meta["managedFields"] = encode(cap(updated(base, Comparison(added=fields), owner, time)).values())
    elif fields:
        meta["managedFields"] = [_row(Entry(owner, fields, time))]


def updated(base: Entries, changes: Comparison, owner: Owner, time: str) -> Entries:
    """The entries after a write of this owner."""
    written = changes.written()
    out = taken(base, changes, except_for=None)
    own = strip(written)
    if own:
        previous = out.get(owner.key)
        fields = union(own, previous.fields) if previous else own
        out[owner.key] = Entry(owner, fields, time)
    return out


def taken(base: Entries, changes: Comparison, except_for: tuple[str, str, str, str] | None) -> Entries:
    """The entries without what was written or removed; entries that lose everything are dropped."""
    written = changes.written()
    out: Entries = {}
    for key, entry in base.items():
        if key == except_for:
            out[key] = entry
            continue
        fields = difference(entry.fields, intersection(entry.fields, written)) if written else entry.fields
        if changes.removed:
            fields = difference(fields, changes.removed)
        if fields:
            out[key] = entry if fields is entry.fields else evolve(entry, fields=fields)
    return out


def cap(entries: Entries, most: int = MAX_UPDATERS) -> Entries:
    """Merges the oldest updates of each version into one entry, `ancient-changes`, until few enough are left."""
    updaters = [entry for entry in entries.values() if entry.owner.operation == UPDATE]
    if len(updaters) <= most:
        return entries
    out = dict(entries)
    left = len(updaters)
    first: dict[str, Entry] = {}
    for entry in sorted(updaters, key=lambda e: (e.time, e.owner.manager, e.owner.api_version, e.owner.subresource)):
        if left <= most:
            break
        version = entry.owner.api_version
        if version not in first:
            first[version] = entry
            continue
        bucket = Owner(ANCIENT, UPDATE, version)
        merged = out.get(bucket.key) or out.pop(first[version].owner.key)
        if entry.owner.key != bucket.key:
            del out[entry.owner.key]
            left -= 1
        out[bucket.key] = Entry(bucket, union(entry.fields, merged.fields), entry.time)
    return out
