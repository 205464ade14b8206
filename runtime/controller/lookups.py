"""Reads of caches: `list cached K where p -> …`, `get cached K name`, and a bare kind.

Conjuncts `p.owner == e`, `p.owner == null`, `p.path == e`, `p.path in e` (e a set) and `p.owners.exists(r, r.uid ==
e)`, where e is free of p, are left to an index of the cache, so that a read costs what it returns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dashpot.grammar.inline import walk
from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.manifold import Manifold, referred
from dashpot.runtime.controller.obj import Obj, uid_of
from dashpot.runtime.controller.operators import is_owner
from dashpot.runtime.controller.terms import Env, Term, Terms, compiles
from dashpot.runtime.controller.undefined import Undefined


@compiles(e.Kind)
def _kind(terms: Terms, x: e.Kind, env: Env) -> Term:
    kind, namespaced = x.kind, terms.views[x.kind].namespaced
    return lambda frame: frame.reader.all(kind, frame.namespace if namespaced else "")


@compiles(e.Cached)
def _cached(terms: Terms, x: e.Cached, env: Env) -> Term:
    if x.verb == "get":
        return _get(terms, x, env)
    everything = e.Kind(x.kind, "cache", x.type, x.span)
    if x.where is None or x.var is None:
        return terms.term(everything, env)
    return terms.term(e.Fold("filter", everything, x.var, x.where, x.type, x.span), env)


def _get(terms: Terms, x: e.Cached, env: Env) -> Term:
    assert x.name is not None
    kind, namespaced = x.kind, terms.views[x.kind].namespaced
    name = terms.term(x.name, env)
    if isinstance(terms.views[x.kind], Manifold):
        return lambda frame: _referred(kind, name(frame), frame)

    def get(frame: Frame) -> Obj | None:
        wanted = name(frame)
        if isinstance(wanted, Obj):
            wanted = wanted.name
        return frame.reader.get(kind, frame.namespace if namespaced else "", wanted) if wanted else None

    return get


def _referred(kind: str, value: Any, frame: Frame) -> Obj | None:
    """What a reference names, as the cache has it: the object of that uid."""
    if value is None:
        return None
    wanted = referred(value, frame.namespace)
    return next(iter(frame.reader.all(kind, "", "uid", wanted.uid)), None)


# ---------------------------------------------------------------- indexes
Plan = tuple[str, e.Expr, bool]
"""An index, the e under which it is asked, and whether e is a set of such."""


def conjuncts(x: e.Expr) -> Iterator[e.Expr]:
    """The parts of a conjunction, from the left."""
    if isinstance(x, e.Binary) and x.op == "&&":
        yield from conjuncts(x.left)
        yield from conjuncts(x.right)
    else:
        yield x


def candidates(terms: Terms, base: e.Expr, slot: str, var: str, where: e.Expr, env: Env) -> tuple[Term, Term] | None:
    """For a filter over a kind: the elements that an index gives, and what is left to ask of each; None if no conjunct
    is one that an index answers."""
    if not isinstance(base, e.Kind):
        return None
    parts = list(conjuncts(where))
    found = [(index, plan) for index, part in enumerate(parts) if (plan := _indexed(part, var)) is not None]
    if not found:
        return None
    at, (name, value, several) = min(found, key=lambda row: row[1][0] not in ("owner", "owners"))
    terms.views.indexes.setdefault(base.kind, set()).add(name)
    kind, namespaced = base.kind, terms.views[base.kind].namespaced
    key = terms.term(value, env)
    by_uid = name == "owner"

    def plain(wanted: Any) -> Any:
        return uid_of(wanted) if by_uid else wanted.name if isinstance(wanted, Obj) else wanted

    def rows(frame: Frame) -> Any:
        space = frame.namespace if namespaced else ""
        try:
            wanted = key(frame)
        except Undefined:
            # whether that matters depends on the other conjuncts: each object is asked
            return _undecided(frame.reader.all(kind, space), frame, slot, whole)
        if several:
            return [row for one in wanted or () for row in frame.reader.all(kind, space, name, plain(one))]
        return frame.reader.all(kind, space, name, plain(wanted))

    inner = {**env, var: slot}
    whole = terms.term(where, inner)
    left = [part for index, part in enumerate(parts) if index != at]
    if not left:
        return rows, lambda frame: True
    rest = left[0]
    for part in left[1:]:
        rest = e.Binary("&&", rest, part, t.Bool(), part.span)
    return rows, terms.term(rest, inner)


def _undecided(rows: Any, frame: Frame, slot: str, whole: Term) -> list[Any]:
    """None of the rows, if each is out whatever the undefined conjunct says; else Undefined."""
    for row in rows:
        frame.locals[slot] = row
        whole(frame)
    return []


def equated(where: e.Expr, var: str, path: str) -> e.Expr | None:
    """The e of a conjunct `p.path == e`, if there is one."""
    found = (_indexed(part, var) for part in conjuncts(where))
    rows = (row for row in found if row is not None)
    return next((value for name, value, several in rows if name == path and not several), None)


def _owned(x: e.Fold, var: str) -> Plan | None:
    """The e of `p.owners.exists(r, r.uid == e)`."""
    base, body = x.base, x.body
    if x.op != "exists" or body is None or not isinstance(base, e.Member) or base.name != "owners":
        return None
    if not isinstance(base.base, e.Local) or base.base.name != var or not isinstance(body, e.Binary) or body.op != "==":
        return None
    for one, other in ((body.left, body.right), (body.right, body.left)):
        ours = isinstance(one, e.Member) and one.name == "uid" and isinstance(one.base, e.Local)
        if ours and isinstance(one, e.Member) and isinstance(one.base, e.Local) and one.base.name == x.var:
            if not any(isinstance(part, e.Local) and part.name in (var, x.var) for part in walk(other)):
                return "owners", other, False
    return None


def _indexed(x: e.Expr, var: str) -> Plan | None:
    """The index that answers `p.path == e`, `p.path in e`, or `p.owners.exists(r, r.uid == e)`."""
    if isinstance(x, e.Fold):
        return _owned(x, var)
    if not isinstance(x, e.Binary) or x.op not in ("==", "in"):
        return None
    several = x.op == "in"
    for one, other in ((x.left, x.right), (x.right, x.left))[: 1 if several else 2]:
        name = _path(one, var)
        if name is not None and not any(isinstance(part, e.Local) and part.name == var for part in walk(other)):
            if several and (name == "owner" or not isinstance(wide.bare(other.type), t.SetOf)):
                return None
            return name, other, several
    return None


def _path(x: e.Expr, var: str) -> str | None:
    """The index that a member of the element is filed in: owners, and what is a name or a uid."""
    if not isinstance(x, e.Member):
        return None
    if is_owner(x):
        return "owner" if isinstance(x.base, e.Local) and x.base.name == var else None
    if not isinstance(wide.bare(x.type), t.Name | t.Uid):
        return None
    base, names = x.base, [x.name]
    while isinstance(base, e.Member):
        names.insert(0, base.name)
        base = base.base
    if not isinstance(base, e.Local) or base.name != var:
        return None
    if len(names) == 2 and names[0] in ("spec", "status"):
        return ".".join(names)
    return names[0] if len(names) == 1 else None
