"""Views: how the fields that a spec declares of a kind lie in its real JSON.

    views = Views(program)
    pod = views["Pod"]
    pod.get(json, "status", "ready"); pod.assign(json, ("status", "ready"), True, now_ms)

What a view leaves out passes through untouched. Absent fields have their default, else the zero of their type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from dashpot.grammar.fold import fold
from dashpot.model import types as t
from dashpot.model.expr import Expr, ListLiteral, Literal, ObjectLiteral
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource, Subresource
from dashpot.model.program import Field, Program
from dashpot.model.program import Resource as Declared
from dashpot.runtime.controller import amounts, wide
from dashpot.runtime.controller.forms import form_at
from dashpot.runtime.controller.obj import Obj, uid_of
from dashpot.runtime.controller.paths import Entry, Path, Step, getter, parse, put
from dashpot.runtime.controller.paths import get as get_at

Object = dict[str, Any]
Get = Callable[[Object], Any]

ANY_KEY = "*"
"""Stands in the path of a slot for a key that is known only when it is written."""


class Each(tuple[Any, ...]):
    """Several values under which an index files one object."""


@frozen
class Opacity:
    """How values that specs do not look into are read, and written at a path of a kind."""

    read: wide.Reader
    write: Callable[[Resource, Path, Any], Any]


@frozen(eq=False)
class Slot:
    """Where one written path lies in JSON. `path` has ANY_KEY for each of the `keys` that are evaluated at the write;
    `special`: "owner" or "owners", which are written as ownerReferences."""

    path: Path
    type: t.Type
    write: Callable[[Any], Any]
    keys: tuple[tuple[int, Callable[[Any], Step]], ...] = ()
    special: str = ""

    @property
    def condition(self) -> bool:
        """Whether it is the status of a condition, beside which the time of its last change stands."""
        path = self.path
        return len(path) > 2 and path[-1] == "status" and isinstance(path[-2], Entry) and path[-3] == "conditions"

    def filled(self, keys: tuple[Any, ...]) -> Path:
        """The path with its keys."""
        if not self.keys:
            return self.path
        steps = list(self.path)
        for (at, step), key in zip(self.keys, keys, strict=True):
            steps[at] = step(key)
        return tuple(steps)


class View:
    """One kind: `resource` is where it is served, `declared` what the spec says of it."""

    def __init__(
        self,
        declared: Declared,
        resource: Resource,
        constants: Mapping[str, Any],
        opaque: Opacity | None = None,
    ) -> None:
        self.declared = declared
        self._opaque = opaque
        self.resource = resource
        self.kind = declared.kind
        self.api_version = declared.api_version
        self.namespaced = resource.namespaced
        self.part = ""
        """The subresource that the kind is, of objects of other kinds."""
        self._constants = dict(constants)
        self._fields = {(side, f.name): f for side in ("spec", "status") for f in getattr(declared, side)}
        self._getters: dict[tuple[str, str], Get] = {}
        self._slots: dict[tuple[object, ...], Slot] = {}

    def key_name(self, name: str) -> str:
        """What names an object of that name, in its namespace, among all of the kind."""
        return name

    def has_status(self) -> bool:
        """Whether the status is a subresource."""
        return self.resource.subresource("status") is not None

    def field(self, side: str, name: str) -> Field:
        """A declared field. KeyError if there is none."""
        found: Field = self._fields[side, name]
        return found

    def path(self, side: str, name: str) -> Path:
        """Where a declared field lies; PathError."""
        at = self._fields[side, name].at
        return parse(at) if at else (side, name)

    # ---------------------------------------------------------------- reading
    def get(self, json: Object, side: str, name: str) -> Any:
        """The wide value of a field of `spec` or `status`, or of metadata (side ""); Undefined."""
        return self.getter(side, name)(json)

    def getter(self, side: str, name: str) -> Get:
        """Reads a field; made once."""
        found = self._getters.get((side, name))
        if found is None:
            found = self._getters[side, name] = self._getter(side, name) if side else METADATA[name]
        return found

    def _getter(self, side: str, name: str) -> Get:
        field = self.field(side, name)
        path = self.path(side, name)
        last = path[-1] if isinstance(path[-1], str) else name
        find = getter(path)
        read = wide.reader(field.type, last, self._constants)
        if self._opaque is not None and isinstance(wide.bare(field.type), t.Opaque):
            read = self._opaque.read
        if field.default is None:
            return lambda json: read(find(json))
        default = default_of(field, self._constants)

        def get(json: Object) -> Any:
            there = find(json)
            return default if there is None else read(there)

        return get

    def index(self, name: str) -> Callable[[Obj], Any]:
        """What an index of that name files an object under: "owner" under the uid of its controlling owner (or None),
        "owners" under the uid of Each of its owners, "spec.nodeName", "status.f" or a name of metadata under the
        wide value there."""
        if name == "owner":
            return lambda obj: controller_uid(obj.json)
        if name == "owners":
            return lambda obj: Each(ref.get("uid") for ref in obj.meta.get("ownerReferences") or ())
        side, dot, field = name.partition(".")
        get = self.getter(side, field) if dot else self.getter("", side)
        return lambda obj: get(obj.json)

    # ---------------------------------------------------------------- writing
    def slot(self, path: tuple[str | Expr, ...]) -> Slot:
        """Where a written path (`("spec", "members")`, `("labels", "app")`, key terms in between) lies."""
        shape = tuple(step if isinstance(step, str) else ANY_KEY for step in path)
        dynamic = tuple(index for index, step in enumerate(path) if not isinstance(step, str))
        found = self._slots.get((shape, dynamic))
        if found is None:
            found = self._slots[shape, dynamic] = self._slot(shape, dynamic)
        return found

    def _slot(self, shape: tuple[str, ...], dynamic: tuple[int, ...]) -> Slot:
        first = shape[0]
        steps: list[Step]
        if first in ("spec", "status"):
            steps = list(self.path(first, shape[1]))
            ty, begun = self._fields[first, shape[1]].type, 2
        elif first in ("owner", "owners"):
            return Slot(("metadata", "ownerReferences"), t.METADATA[first], lambda value: value, special=first)
        else:
            steps = ["metadata", first]
            ty, begun = t.METADATA.get(first, t.Name()), 1
        keys: list[tuple[int, Callable[[Any], Step]]] = []
        last = next((str(s) for s in reversed(steps) if isinstance(s, str)), first)
        for index, name in enumerate(shape[begun:], begun):
            step, ty = _below(wide.bare(ty), name, index in dynamic)
            if not isinstance(step, str):
                keys.append((len(steps), step))
                step = ANY_KEY
            else:
                last = step
            steps.append(step)
        where = tuple(steps)
        write = wide.writer(ty, last, form_at(self.resource, where))
        if self._opaque is not None and isinstance(wide.bare(ty), t.Opaque):
            write = functools.partial(self._opaque.write, self.resource, where)
        return Slot(where, ty, write, tuple(keys))

    def assign(
        self, json: Object, path: tuple[str | Expr, ...], value: Any, now_ms: int = 0, keys: tuple[Any, ...] = ()
    ) -> Object:
        """A copy of an object with a wide value at a path; what is not on the way is shared. `keys`: what the key terms
        of the path came to."""
        slot = self.slot(path)
        if slot.special:
            return put_owners(json, slot.special, value)
        where, new = slot.filled(keys), slot.write(value)
        changed: Object = put(json, where, new)
        if slot.condition and get_at(json, where) != new:
            changed = put(changed, (*where[:-1], "lastTransitionTime"), amounts.time_text(now_ms))
        return changed

    def on_status(self, paths: Iterable[Path]) -> bool:
        """Whether a write of these paths is one to the status subresource."""
        return self.has_status() and any(path[0] == "status" for path in paths)


def _below(ty: t.Type, name: str, dynamic: bool) -> tuple[str | Callable[[Any], Step], t.Type]:
    """A step below a value of a type, and the type there."""
    match ty:
        case t.Struct(fields=fields):
            return name, dict(fields)[name]
        case t.MapOf(key=key, value=value):
            return (wide.key_writer(key) if dynamic else name), t.Optional(wide.bare(value))
        case t.ListOf(element=element):
            return (lambda index: int(index)), element
        case _:
            return name, t.Opaque()


# ---------------------------------------------------------------- metadata
def _owner(json: Object) -> Object | None:
    meta = json.get("metadata") or {}
    for ref in meta.get("ownerReferences") or ():
        if ref.get("controller"):
            return {**ref, "namespace": meta.get("namespace") or ""}
    return None


def controller_uid(json: Object) -> str | None:
    """The uid of the controlling owner, or None."""
    for ref in (json.get("metadata") or {}).get("ownerReferences") or ():
        if ref.get("controller"):
            uid: str | None = ref.get("uid")
            return uid
    return None


def _owners(json: Object) -> list[Object]:
    meta = json.get("metadata") or {}
    return [{**ref, "namespace": meta.get("namespace") or ""} for ref in meta.get("ownerReferences") or ()]


def _meta(name: str, ty: t.Type) -> Get:
    read, find = wide.reader(ty, name), getter(("metadata", name))
    return lambda json: read(find(json))


METADATA: dict[str, Get] = {
    **{name: _meta(name, ty) for name, ty in t.METADATA.items() if name not in ("owner", "owners")},
    "owner": _owner,
    "owners": _owners,
}
"""How the metadata of any object is read."""


def put_owners(json: Object, which: str, value: Any) -> Object:
    """A copy whose controlling owner (`owner`) is `value`, an object, a reference or null; or whose owners are."""
    meta = json.get("metadata") or {}
    if which == "owner":
        others = [ref for ref in meta.get("ownerReferences") or () if not ref.get("controller")]
        refs = others if value is None else [*others, reference(value, controller=True)]
    else:
        refs = [reference(one, controller=False) for one in value or ()]
    changed: Object = put(json, ("metadata", "ownerReferences"), refs or None)
    return changed


def reference(value: Any, *, controller: bool) -> Object:
    """The ownerReference of an object or of a reference that was read."""
    if isinstance(value, Obj):
        return value.reference(controller=controller)
    made = {name: part for name, part in value.items() if name != "namespace"}
    return {**made, "controller": True, "blockOwnerDeletion": True} if controller else made


# ---------------------------------------------------------------- all kinds of a program
class Views(Mapping[str, View]):
    """The views of all kinds of a program, by kind.

    resources  what discovery tells, for kinds that are not built in; a kind that nobody tells of is taken to be served
               under its plural, with a status subresource if it declares a status
    constants  instead of the declared values
    opaque     how values that specs do not look into are read and written; default: as they are
    """

    def __init__(
        self,
        program: Program,
        resources: Iterable[Resource] = (),
        constants: Mapping[str, Any] | None = None,
        opaque: Opacity | None = None,
    ) -> None:
        self.program = program
        self._opaque = opaque
        self.constants: dict[str, Any] = {c.name: c.value for c in program.constants} | dict(constants or {})
        known = {(r.api_version, r.kind): r for r in reversed(tuple(resources))}
        self._views = {d.kind: self._view(d, known) for d in program.resources}
        self.indexes: dict[str, set[str]] = {}
        """kind → names of indexes that compiled terms ask for (see View.index)."""

    def _view(self, declared: Declared, known: Mapping[tuple[str, str], Resource]) -> View:
        if declared.manifold:
            from dashpot.runtime.controller.manifold import Manifold

            return Manifold(declared, self.constants)
        return View(declared, _served(declared, known), self.constants, self._opaque)

    def __getitem__(self, kind: str) -> View:
        return self._views[kind]

    def __iter__(self) -> Any:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def obj(self, json: Object) -> Obj | None:
        """The object of a JSON whose kind the program declares, by a view of that kind alone; None for others."""
        view = self._views.get(str(json.get("kind")))
        return Obj(view, json) if view is not None and view.api_version == json.get("apiVersion") else None


def _served(declared: Declared, known: Mapping[tuple[str, str], Resource]) -> Resource:
    if declared.answers:
        return Resource("", declared.api_version, declared.kind, "", "", False, storage_group="", storage_version="")
    group, _, version = declared.api_version.rpartition("/")
    found = builtin().by_kind(group, version, declared.kind) or known.get((declared.api_version, declared.kind))
    if found is not None:
        return found
    singular = declared.kind.lower()
    plural = singular[:-1] + "ies" if singular[-1] == "y" and singular[-2:-1] not in "aeiou" else singular + "s"
    if singular.endswith(("s", "x", "ch", "sh")):
        plural = singular + "es"
    verbs = ("get", "patch", "update")
    status = (Subresource("status", group, version, declared.kind, verbs),) if declared.status else ()
    return Resource(
        group, version, declared.kind, plural, singular, not declared.wide,
        subresources=status, storage_group=group, storage_version=version, custom=True,
    )  # fmt: skip


def default_of(field: Field, constants: Mapping[str, Any]) -> Any:
    """The value of a field, memory or index variable that nobody set: its default, else the zero of its type."""
    if field.default is None:
        return wide.zero(field.type, dict(constants))
    return constant(field.default, constants)


def constant(e: Expr, constants: Mapping[str, Any]) -> Any:
    """The value of a term over literals and constants."""
    match e:
        case Literal(value=value):
            return value
        case ListLiteral(items=items):
            return [constant(item, constants) for item in items]
        case ObjectLiteral(items=items, type=ty):
            made = {str(item.path[0]): constant(item.value, constants) for item in items if len(item.path) == 1}
            base = wide.zero(ty, dict(constants)) if isinstance(ty, t.MapOf) else {}
            return {**base, **made}
        case _:
            return fold(e, dict(constants))


__all__ = ["METADATA", "Obj", "Slot", "View", "Views", "constant", "controller_uid", "default_of", "uid_of"]
