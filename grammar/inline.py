"""Terms with other terms put in for their locals: how a `fun` disappears into the place of its call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any as Anything

from attrs import evolve

from dashpot.model.expr import (
    Any,
    Assignment,
    Binary,
    Builtin,
    Cached,
    Const,
    Element,
    Expr,
    Extern,
    Fold,
    Given,
    Kind,
    Let,
    ListLiteral,
    Literal,
    Local,
    Member,
    Memory,
    Method,
    ObjectLiteral,
    Range,
    Ternary,
    Unary,
)

_CHILDREN: dict[type, tuple[str, ...]] = {
    Member: ("base",),
    Element: ("base", "key"),
    Unary: ("operand",),
    Binary: ("left", "right"),
    Ternary: ("test", "then", "other"),
    Range: ("lo", "hi"),
    Method: ("base", "args"),
    Builtin: ("args",),
    Extern: ("args", "abstract"),
    Any: ("base",),
    ListLiteral: ("items",),
}
"""Fields that hold terms, of terms that bind no names."""


def children(e: Expr) -> Iterator[Expr]:
    """The direct subterms."""
    match e:
        case Fold(base=base, body=body):
            yield base
            if body is not None:
                yield body
        case Cached(name=name, where=where):
            if name is not None:
                yield name
            if where is not None:
                yield where
        case Let(value=value, body=body):
            yield value
            yield body
        case ObjectLiteral(items=items):
            for item in items:
                yield from (s for s in item.path if not isinstance(s, str))
                yield item.value
        case _:
            for name_ in _CHILDREN.get(type(e), ()):
                found = getattr(e, name_)
                if isinstance(found, tuple):
                    yield from found
                else:
                    yield found


def walk(e: Expr) -> Iterator[Expr]:
    """The term and all its subterms."""
    yield e
    for child in children(e):
        yield from walk(child)


def free(e: Expr) -> frozenset[str]:
    """Names of the locals that the term speaks of and does not bind itself (a bound name counts, which is safe)."""
    return frozenset(n.name for n in walk(e) if isinstance(n, Local))


def trivial(e: Expr) -> bool:
    """Whether a term may be written twice: evaluating it again costs nothing and chooses nothing."""
    match e:
        case Literal() | Local() | Memory() | Const() | Given() | Kind():
            return True
        case Member(base=base):
            return trivial(base)
        case _:
            return False


def rebuild(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The term with `f` applied to its direct subterms; binders are the caller's business."""
    match e:
        case Fold(base=base, body=body):
            return evolve(e, base=f(base), body=None if body is None else f(body))
        case Cached(name=name, where=where):
            return evolve(e, name=None if name is None else f(name), where=None if where is None else f(where))
        case Let(value=value, body=body):
            return evolve(e, value=f(value), body=f(body))
        case ObjectLiteral(items=items):
            return evolve(e, items=tuple(_assignment(i, f) for i in items))
        case _:
            changes: dict[str, Anything] = {}
            for name_ in _CHILDREN.get(type(e), ()):
                found = getattr(e, name_)
                changes[name_] = tuple(f(x) for x in found) if isinstance(found, tuple) else f(found)
            return evolve(e, **changes) if changes else e


def _assignment(item: Assignment, f: Callable[[Expr], Expr]) -> Assignment:
    return evolve(item, path=tuple(s if isinstance(s, str) else f(s) for s in item.path), value=f(item.value))


def substitute(e: Expr, terms: Mapping[str, Expr], look: str) -> Expr:
    """`e` with terms for its free locals and kinds looked up in `look`; bound names move out of the way."""
    taken = frozenset[str]().union(*(free(x) for x in terms.values()))
    return _put(e, dict(terms), look, taken)


def _put(e: Expr, terms: dict[str, Expr], look: str, taken: frozenset[str]) -> Expr:
    match e:
        case Local(name=name):
            return terms.get(name, e)
        case Kind():
            return evolve(e, look=look)
        case Fold(var=var, body=body) if body is not None and var:
            fresh, inner = _rename(var, terms, taken, e)
            base = _put(e.base, terms, look, taken)
            return evolve(e, base=base, var=fresh, body=_put(body, inner, look, taken | {fresh}))
        case Let(name=var, value=value, body=body):
            fresh, inner = _rename(var, terms, taken, e)
            return evolve(
                e, name=fresh, value=_put(value, terms, look, taken), body=_put(body, inner, look, taken | {fresh})
            )
        case _:
            return rebuild(e, lambda x: _put(x, terms, look, taken))


def _rename(var: str, terms: dict[str, Expr], taken: frozenset[str], binder: Fold | Let) -> tuple[str, dict[str, Expr]]:
    """A name for a bound variable that captures nothing, and the terms to put in under it."""
    inner = {k: v for k, v in terms.items() if k != var}
    if var not in taken:
        return var, inner
    n = 2
    while f"{var}~{n}" in taken:
        n += 1
    fresh = f"{var}~{n}"
    of = next((x for x in walk(binder) if isinstance(x, Local) and x.name == var), None)
    if of is not None:
        inner[var] = Local(fresh, of.type, of.span)
    return fresh, inner
