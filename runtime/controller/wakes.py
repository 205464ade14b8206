"""Wake clauses at work: which keys a change of an object wakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from attrs import frozen

from dashpot.model.program import Controller, Wake
from dashpot.runtime.controller.caches import KindCache
from dashpot.runtime.controller.frame import Empty, Frame
from dashpot.runtime.controller.manifold import Manifold
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.terms import Term, Terms
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import View, Views


class Key(NamedTuple):
    """An object of the controller's own kind; `namespace` "": cluster-wide."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@frozen(eq=False)
class Clause:
    """One clause, compiled."""

    wake: Wake
    keys: Term | None
    when: Term | None


class Wakes:
    """The clauses of a controller that are switched on. `own` is its cache of its own kind."""

    def __init__(self, controller: Controller, views: Views, terms: Terms, own: KindCache) -> None:
        self._view: View = views[controller.kind]
        self._own = own
        self.clauses: dict[str, list[Clause]] = {}
        bare = Frame(views.constants, Empty(), lambda: 0)
        for wake in controller.wakes:
            if wake.only_if is None or terms.term(wake.only_if)(bare):
                clause = Clause(
                    wake,
                    terms.term(wake.keys) if wake.keys is not None else None,
                    terms.term(wake.when) if wake.when is not None else None,
                )
                self.clauses.setdefault(wake.kind, []).append(clause)

    def keys(self, kind: str, old: Obj | None, new: Obj | None, frame: Callable[[str], Frame]) -> list[Key]:
        """The keys that a change wakes, each once. `frame` makes the frame of a namespace."""
        found: dict[Key, None] = {}
        for clause in self.clauses.get(kind, ()):
            if old is not None and new is not None and clause.when is not None and not _holds(clause, old, new, frame):
                continue
            alone = new is not None and (clause.wake.new_only or new is old)
            for obj in (new,) if alone else (new, old):
                if obj is not None:
                    found.update(dict.fromkeys(self._of(clause, obj, frame)))
        return list(found)

    def _of(self, clause: Clause, obj: Obj, frame: Callable[[str], Frame]) -> Iterable[Key]:
        source = clause.wake.source
        if source == "for":
            return (Key(obj.namespace, obj.key_name),)
        if source == "owns":
            refs = obj.meta.get("ownerReferences") or ()
            return [key for ref in refs if ref.get("controller") for key in self._known(ref, obj.namespace)]
        assert clause.keys is not None
        made = frame(obj.namespace)
        made.locals[clause.wake.var] = obj
        try:
            value = clause.keys(made)
        except Undefined:
            return ()
        rows = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        return [key for row in rows for key in self._known(row, obj.namespace)]

    def _known(self, value: Any, namespace: str) -> Iterable[Key]:
        """The keys that a name, an object, or an owner reference stands for: a name that no object has is none. An
        owner has existed, and is one although it is gone, or not yet in the cache."""
        if value is None:
            return ()
        existed = isinstance(value, Mapping)
        if isinstance(value, Obj):
            if value.view.kind != self._view.kind:
                return ()
            namespace, value = value.namespace, value.key_name
        elif isinstance(self._view, Manifold):
            uid = value.get("uid") if isinstance(value, Mapping) else None
            return [Key(obj.namespace, obj.key_name) for obj in self._own.all("", "uid", uid)] if uid else ()
        elif isinstance(value, Mapping):
            group = str(value.get("apiVersion") or "").rpartition("/")[0]
            if value.get("kind") != self._view.kind or group != self._view.resource.group:
                return ()
            namespace, value = str(value.get("namespace") or namespace), str(value.get("name"))
        if isinstance(self._view, Manifold):
            found = self._own.get(namespace, str(value))
            return () if found is None else (Key(namespace, str(value)),)
        if not self._view.namespaced:
            namespace = ""
        elif not namespace:
            return [Key(obj.namespace, obj.name) for obj in self._own.all("", "name", value)]
        if existed or self._own.get(namespace, str(value)) is not None:
            return (Key(namespace, str(value)),)
        return ()


def _holds(clause: Clause, old: Obj, new: Obj, frame: Callable[[str], Frame]) -> bool:
    """Whether `when` lets an update through; what is undefined is false."""
    assert clause.when is not None
    made = frame(new.namespace)
    made.locals.update({clause.wake.var: new, "old": old})
    try:
        return bool(clause.when(made))
    except Undefined:
        return False
