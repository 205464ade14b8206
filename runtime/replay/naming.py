"""What the model calls objects, and what they are called here; the abstract view of a real object, as texts.

The model counts the names that the API server makes up (`Pod~0`); here they are what it made up. The other names are
the same in both.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from dashpot.model import types as t
from dashpot.model.schedule import Thing
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.undefined import Undefined

SILENT = frozenset({"generation", "creationTimestamp"})
"""Fields that the server keeps by itself, in numbers of its own."""
BEYOND = "—"
SOME = ".some"


@frozen
class Difference:
    """A field of an object (field "": the object itself) in which model and runtime part."""

    object: str
    field: str
    model: str
    runtime: str


@define(eq=False)
class Names:
    """Real names and the model's, of kinds that are in the run."""

    uids: dict[str, str] = field(factory=dict)

    _model: dict[tuple[str, str], str] = field(factory=dict)
    _real: dict[tuple[str, str], str] = field(factory=dict)

    def learn(self, kind: str, model: str, real: str) -> None:
        """An object was made that the model calls so."""
        self._model[kind, real] = model
        self._real[kind, model] = real

    def model(self, kind: str, real: str) -> str:
        """What the model calls an object of this name."""
        return self._model.get((kind, real), real)

    def real(self, kind: str, model: str) -> str:
        """What an object of the model is called here."""
        return self._real.get((kind, model), model)

    def text(self, real: str) -> str:
        """The text of a name or uid in a field, of whatever kind."""
        found = self.uids.get(real)
        return found or next((model for (_, name), model in self._model.items() if name == real), real)

    def saw(self, obj: Obj) -> None:
        """Remembers whose uid that is."""
        self.uids[obj.uid] = self.model(obj.view.kind, obj.name)

    def copy(self) -> Names:
        """Another memory of the same."""
        return Names(dict(self.uids), dict(self._model), dict(self._real))

    def may_learn(self, kind: str, model: str, real: str, there: Container[tuple[str, str]]) -> bool:
        """Whether an object that was just made may be what the model calls so: the model uses a name again once its
        object is gone. `there`: (kind, real name) of all objects."""
        if (kind, real) in self._model:
            return False
        bearer = self._real.get((kind, model))
        return bearer is None or (kind, bearer) not in there

    def known(self) -> dict[str, str]:
        """The model's titles of objects whose names were made up here → those names."""
        return {f"{kind} {model}": real for (kind, model), real in self._real.items() if model != real}

    def title(self, obj: Obj) -> str:
        """An object as the model calls it."""
        return f"{obj.view.kind} {self.model(obj.view.kind, obj.name)}"


def compared(things: Iterable[Thing], objects: Iterable[Obj], names: Names) -> list[Difference]:
    """Where the model's objects and the real ones differ."""
    wanted = {(thing.kind, thing.name): thing for thing in things}
    there = {(obj.view.kind, names.model(obj.view.kind, obj.name)): obj for obj in objects}
    found = []
    for key, thing in wanted.items():
        obj = there.get(key)
        if obj is None:
            found.append(Difference(thing.title, "", "there", "not there"))
            continue
        for path, text in thing.fields.items():
            real = shown(obj, path, text, names)
            if real is not None and real != text:
                found.append(Difference(thing.title, path, text, real))
    found += [Difference(names.title(obj), "", "not there", "there") for key, obj in there.items() if key not in wanted]
    return found


def shown(obj: Obj, path: str, text: str, names: Names) -> str | None:
    """The text of a field of a real object, as the model writes it; None: there is nothing to compare."""
    if path in SILENT or text == BEYOND or path.endswith(SOME):
        return None
    head, _, rest = path.partition(".")
    if head == "finalizers":
        return "yes" if rest in (obj.meta.get("finalizers") or ()) else "no"
    if head in ("labels", "annotations"):
        there = (obj.meta.get(head) or {}).get(rest)
        return ("null" if there is None else None) if text == "null" else ("null" if there is None else text)
    if head == "deletionTimestamp":
        return _presence(obj.meta.get(head), text)
    if head == "owner":
        return None if rest else _owner(obj, names)
    if head not in ("spec", "status"):
        return None
    name, _, inner = rest.partition(".")
    try:
        declared = obj.view.field(head, name)
        value = obj.view.get(obj.json, head, name)
    except (KeyError, Undefined):
        return None
    return _within(value, declared.type, inner.split(".") if inner else [], text, names)


def _presence(value: Any, text: str) -> str:
    """Times and opaque values are only there or not: which they are is numbered otherwise in the model."""
    if value is None:
        return "null"
    return text if text != "null" else "set"


def _owner(obj: Obj, names: Names) -> str:
    ref = next((r for r in obj.meta.get("ownerReferences") or () if r.get("controller")), None)
    if ref is None:
        return "null"
    return f"{ref['kind']} {names.model(ref['kind'], ref['name'])}"


def _within(value: Any, ty: t.Type, rest: list[str], text: str, names: Names) -> str | None:
    if isinstance(ty, t.Optional):
        if isinstance(ty.inner, t.Opaque) and text == "null":
            return None
        return "null" if value is None else _within(value, ty.inner, rest, text, names)
    match ty:
        case t.Opaque() if text == "null":
            return None  # what validation asks for is there, whether the spec speaks of it or not
        case t.Time() | t.Opaque():
            return _presence(value, text)
        case t.Bool():
            return "true" if value else "false"
        case t.Name() | t.Uid():
            return "null" if value is None else names.text(value) or '""'
        case t.Enum() | t.Int():
            return str(value)
        case t.SetOf(element=element) if rest:
            inside = any(_within(v, element, [], "", names) == ".".join(rest) for v in value or ())
            return "yes" if inside else "no"
        case t.ListOf(element=element) if rest:
            return _entry(value or [], element, rest, text, names)
        case t.Struct(fields=fields) if rest:
            inner = next((ty for name, ty, *_ in fields if name == rest[0]), None)
            if inner is None or not isinstance(value, Mapping):
                return None
            read = wide.reader(inner, rest[0])
            return _within(read(value.get(rest[0])), inner, rest[1:], text, names)
        case t.MapOf(value=inner) if rest:
            if not isinstance(value, Mapping):
                return None
            there = value.get(rest[0])
            return "null" if there is None else _within(there, inner, rest[1:], text, names)
        case _:
            return None


def _entry(rows: Any, element: t.Type, rest: list[str], text: str, names: Names) -> str | None:
    if rest[0] == "size":
        return str(len(rows))
    if not rest[0].isdigit() or int(rest[0]) >= len(rows):
        return None
    return _within(rows[int(rest[0])], element, rest[1:], text, names)
