"""Folds over collections: quantifiers, filters, sums, extremes, order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.runtime.controller import alike, wide
from dashpot.runtime.controller.chance import shuffled
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.lookups import candidates
from dashpot.runtime.controller.terms import Env, Term, Terms, compiles
from dashpot.runtime.controller.undefined import Undefined

Fold = Callable[[e.Fold, Term, str, Term], Term]
"""Makes the closure of a fold: base, where the element is kept, body."""


@compiles(e.Fold)
def _fold(terms: Terms, x: e.Fold, env: Env) -> Term:
    if x.body is None:
        return _without_body(x, _collection(terms.term(x.base, env), x))
    slot, inner = terms.bind(x.var, env)
    narrowed = candidates(terms, x.base, slot, x.var, x.body, env) if x.op in _NARROWED else None
    if narrowed is not None:
        base, body = narrowed
        return _FOLDS[x.op](x, base, slot, body)
    base = _collection(terms.term(x.base, env), x)
    if x.op == "sortBy":
        return _sorted(terms, x, base, slot, inner)
    return _FOLDS[x.op](x, base, slot, terms.term(x.body, inner))


def _collection(base: Term, x: e.Fold) -> Term:
    span, op = x.span, x.op

    def collection(frame: Frame) -> Any:
        rows = base(frame)
        if rows is None:
            raise Undefined(f"`.{op}` of null", span)
        return rows

    return collection


def _without_body(x: e.Fold, base: Term) -> Term:
    span, op = x.span, x.op
    match op:
        case "count":
            return lambda frame: len(base(frame))
        case "sum":
            return lambda frame: sum(base(frame))
        case "first":
            return _picked(x, base)
    key = _order_of(x.base.type)

    def extreme(frame: Frame) -> Any:
        rows = [row for row in base(frame) if row is not None]
        if not rows:
            raise Undefined(f"`.{op}` of nothing", span)
        return min(rows, key=key) if op == "min" else max(rows, key=key)

    return extreme


def _order_of(ty: t.Type) -> Callable[[Any], Any] | None:
    inner = wide.bare(ty)
    element = inner.element if isinstance(inner, t.ListOf | t.SetOf) else t.Int()
    return alike.order(wide.bare(element))


def _picked(x: e.Fold, hits: Term) -> Term:
    """The first of a list; of a set any, which is chosen."""
    span = x.span
    ordered = isinstance(wide.bare(x.base.type), t.ListOf)

    def picked(frame: Frame) -> Any:
        found = hits(frame)
        if not found:
            raise Undefined("the first of nothing", span)
        if ordered or isinstance(found, range):
            return found[0]
        rows: Sequence[Any] = list(found)
        return rows[frame.choose(len(rows))] if len(rows) > 1 else rows[0]

    return picked


# ---------------------------------------------------------------- quantifiers
def _all(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    def every(frame: Frame) -> bool:
        kept, problem = frame.locals, None
        for row in base(frame):
            kept[slot] = row
            try:
                if not body(frame):
                    return False
            except Undefined as found:
                problem = found
        if problem is not None:
            raise problem
        return True

    return every


def _exists(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    def exists(frame: Frame) -> bool:
        kept, problem = frame.locals, None
        for row in base(frame):
            kept[slot] = row
            try:
                if body(frame):
                    return True
            except Undefined as found:
                problem = found
        if problem is not None:
            raise problem
        return False

    return exists


def _exists_one(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    count = _count(x, base, slot, body)
    return lambda frame: count(frame) == 1


def _count(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    def count(frame: Frame) -> int:
        kept, found = frame.locals, 0
        for row in base(frame):
            kept[slot] = row
            if body(frame):
                found += 1
        return found

    return count


# ---------------------------------------------------------------- collections
def _filter(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    def kept_rows(frame: Frame) -> list[Any]:
        kept, found = frame.locals, []
        for row in base(frame):
            kept[slot] = row
            if body(frame):
                found.append(row)
        return found

    return kept_rows


def _first(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    def hits(frame: Frame) -> list[Any]:
        kept, found = frame.locals, []
        for row in base(frame):
            kept[slot] = row
            try:
                if body(frame):
                    found.append(row)
            except Undefined:
                continue
        return found

    return _picked(x, hits)


def _map(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    def mapped(frame: Frame) -> list[Any]:
        kept, found = frame.locals, []
        for row in base(frame):
            kept[slot] = row
            found.append(body(frame))
        return found

    ty = wide.bare(x.type)
    if not isinstance(ty, t.SetOf):
        return mapped
    unique = alike.distinct(ty.element)
    return lambda frame: unique(mapped(frame))


def _sum(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    span = x.span

    def total(frame: Frame) -> int:
        kept, found = frame.locals, 0
        for row in base(frame):
            kept[slot] = row
            value = body(frame)
            if value is None:
                raise Undefined("a sum over null", span)
            found += value
        return found

    return total


def _extreme(x: e.Fold, base: Term, slot: str, body: Term) -> Term:
    span, op = x.span, x.op
    assert x.body is not None
    key = alike.order(wide.bare(x.body.type))

    def extreme(frame: Frame) -> Any:
        kept, found = frame.locals, []
        for row in base(frame):
            kept[slot] = row
            value = body(frame)
            if value is None:
                raise Undefined(f"`.{op}` over null", span)
            found.append(value)
        if not found:
            raise Undefined(f"`.{op}` of nothing", span)
        return min(found, key=key) if op == "min" else max(found, key=key)

    return extreme


# ---------------------------------------------------------------- order
def _sorted(terms: Terms, x: e.Fold, base: Term, slot: str, inner: Env) -> Term:
    """Ascending; ties come in an order that is chosen."""
    listed = x.body.items if isinstance(x.body, e.ListLiteral) else ()
    keys = [(terms.term(item, inner), alike.order(item.type)) for item in listed]
    span = x.span

    def key_of(frame: Frame) -> Any:
        found = []
        for term, order in keys:
            found.append(order(term(frame)))
        return found

    def in_order(frame: Frame) -> list[Any]:
        kept = frame.locals
        rows = []
        for row in base(frame):
            kept[slot] = row
            rows.append((key_of(frame), row))
        try:
            rows.sort(key=lambda pair: pair[0])
        except TypeError:
            raise Undefined("`.sortBy` by null", span) from None
        if any(a[0] == b[0] for a, b in pairwise(rows)):
            return _untied(rows, frame)
        return [row for _, row in rows]

    return in_order


def _untied(rows: list[tuple[Any, Any]], frame: Frame) -> list[Any]:
    found: list[Any] = []
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or rows[index][0] != rows[start][0]:
            group = [row for _, row in rows[start:index]]
            found += shuffled(group, frame) if len(group) > 1 else group
            start = index
    return found


_FOLDS: dict[str, Fold] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "count": _count,
    "filter": _filter,
    "first": _first,
    "map": _map,
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
}
_NARROWED = ("exists", "exists_one", "count", "filter", "first")
"""Folds that only elements with a true body count for: an index may give them fewer elements."""
