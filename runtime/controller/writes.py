"""What a call sends: fields of objects, evaluated before the write and put where the view says they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from dashpot.model.automaton import Operation
from dashpot.model.expr import Assignment, Expr
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.paths import Entry, Path, Step, get, place, put
from dashpot.runtime.controller.terms import Term, Terms
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import Slot, View, put_owners

Object = dict[str, Any]


@frozen(eq=False)
class Written:
    """One field at the moment of a write: where, what (wide), and the keys of its path."""

    path: tuple[str | Expr, ...]
    slot: Slot
    value: Any
    keys: tuple[Any, ...]


@frozen(eq=False)
class Field:
    """One compiled assignment."""

    path: tuple[str | Expr, ...]
    slot: Slot
    value: Term
    keys: tuple[Term, ...]

    def written(self, frame: Frame) -> Written:
        """The value now."""
        return Written(self.path, self.slot, self.value(frame), tuple(key(frame) for key in self.keys))


def fields_of(items: Sequence[Assignment | Operation], view: View, terms: Terms) -> list[Field]:
    """Compiled assignments (or operations of a JSON patch, which may have no value)."""
    return [
        Field(
            item.path,
            view.slot(item.path),
            terms.term(item.value) if item.value is not None else lambda frame: None,
            tuple(terms.term(step) for step in item.path if not isinstance(step, str)),
        )
        for item in items
    ]


def changed(obj: Obj, written: Sequence[Written], now_ms: int) -> Object:
    """The object's JSON with fields set; the rest is as it was."""
    json = obj.json
    for one in written:
        json = obj.view.assign(json, one.path, one.value, now_ms, one.keys)
    return json


def made(view: View, written: Sequence[Written], now_ms: int) -> Object:
    """A new object of some fields. Null fields are absent."""
    json: Object = {"apiVersion": view.api_version, "kind": view.kind, "metadata": {}}
    for one in written:
        if one.value is not None:
            json = view.assign(json, one.path, one.value, now_ms, one.keys)
    return json


def merge_patch(obj: Obj, written: Sequence[Written], now_ms: int) -> Object:
    """Only the fields; null where one is taken out. A path through a list sends the list whole, as the local has it."""
    patch: Object = {}
    after = changed(obj, written, now_ms)
    for one in written:
        where = _owners_path(one) or one.slot.filled(one.keys)
        through = next((i for i, step in enumerate(where) if not isinstance(step, str)), None)
        if through is not None:
            patch = put(patch, where[:through], get(after, where[:through]), null=True)
        elif one.slot.special:
            patch = put(patch, where, get(after, where) or None, null=True)
        else:
            patch = put(patch, where, one.slot.write(one.value), null=True)
    return patch


def strategic_patch(obj: Obj, written: Sequence[Written], now_ms: int) -> Object:
    """As a merge patch, but list maps have only the entries that change, found by their key."""
    patch: Object = {}
    for one in written:
        if one.slot.special:
            owned = put_owners(obj.json, one.slot.special, one.value)
            refs = get(owned, ("metadata", "ownerReferences")) or []
            mine = {ref.get("uid") for ref in refs}
            old = get(obj.json, ("metadata", "ownerReferences")) or []
            gone = [{"$patch": "delete", "uid": ref.get("uid")} for ref in old if ref.get("uid") not in mine]
            patch = put(patch, ("metadata", "ownerReferences"), [*refs, *gone])
            continue
        where = one.slot.filled(one.keys)
        if any(isinstance(step, int) for step in where):
            patch = _merged(patch, merge_patch(obj, [one], now_ms))
            continue
        new = one.slot.write(one.value)
        patch = put(patch, where, new, null=True)
        if one.slot.condition and get(obj.json, where) != new:
            stamp = get(changed(obj, [one], now_ms), (*where[:-1], "lastTransitionTime"))
            patch = put(patch, (*where[:-1], "lastTransitionTime"), stamp)
    return patch


def _merged(base: Object, more: Object) -> Object:
    out = dict(base)
    for name, value in more.items():
        both = isinstance(value, dict) and isinstance(out.get(name), dict)
        out[name] = _merged(out[name], value) if both else value
    return out


def _owners_path(one: Written) -> Path:
    return one.slot.path if one.slot.special else ()


def json_patch(obj: Obj, ops: Sequence[tuple[str, Field]], frame: Frame) -> list[Object]:
    """The operations of a JSON patch. An `add` of one element to a list appends; parents that are missing are added."""
    rows: list[Object] = []
    json: Any = obj.json
    for word, field in ops:
        one = field.written(frame)
        if one.slot.special:
            refs = get(put_owners(obj.json, one.slot.special, one.value), ("metadata", "ownerReferences"))
            sent = {} if word == "remove" else {"value": refs}
            rows.append({"op": word, "path": "/metadata/ownerReferences", **sent})
            continue
        where = pointed(json, one.slot.filled(one.keys))
        if word == "add":
            for depth in range(1, len(where)):
                if get(json, where[:depth]) is None:
                    rows.append({"op": "add", "path": pointer(where[:depth]), "value": {}})
                    json = put(json, where[:depth], {})
        row: Object = {"op": word, "path": pointer(where)}
        if word != "remove":
            row["value"] = _patch_value(one)
            if word == "add" and isinstance(get(json, where), list) and not isinstance(row["value"], list):
                row["path"] += "/-"
        rows.append(row)
    return rows


def _patch_value(one: Written) -> Any:
    if isinstance(one.value, list | tuple | dict | str | int | None):
        try:
            return one.slot.write(one.value)
        except (TypeError, AttributeError):
            return one.value  # one element of a list
    return one.slot.write(one.value)


def pointed(json: Any, path: Path) -> tuple[str | int, ...]:
    """A path whose entries are places in the lists of an object; Undefined where an entry is missing."""
    steps: list[str | int] = []
    for step in path:
        if isinstance(step, Entry):
            at = place(get(json, tuple(steps)), step)
            if at is None:
                raise Undefined(f"there is no entry with {step.key}={step.value}")
            steps.append(at)
        else:
            steps.append(step)
    return tuple(steps)


def pointer(path: Sequence[Step]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def statusward(view: View, fields: Sequence[Field]) -> bool:
    """Whether a write of these fields goes to the status subresource."""
    return view.on_status(field.slot.path for field in fields)
