"""Unary and binary operators, with CEL's absorption of what is undefined."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.span import Span
from dashpot.runtime.controller import alike, wide
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj, uid_of
from dashpot.runtime.controller.terms import Env, Term, Terms, compiles
from dashpot.runtime.controller.texts import text_of
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import controller_uid

LONGEST = 1_000_000
"""Elements of a list that is joined."""


@compiles(e.Unary)
def _unary(terms: Terms, x: e.Unary, env: Env) -> Term:
    operand = terms.term(x.operand, env)
    if x.op == "!":
        return lambda frame: not operand(frame)
    span = x.span

    def negated(frame: Frame) -> Any:
        value = operand(frame)
        if value is None:
            raise Undefined("`-` of null", span)
        return -value

    return negated


@compiles(e.Binary)
def _binary(terms: Terms, x: e.Binary, env: Env) -> Term:
    if x.op in ("==", "!="):
        return _equality(terms, x, env)
    left, right = terms.term(x.left, env), terms.term(x.right, env)
    match x.op:
        case "&&":
            return _both(left, right)
        case "||":
            return _either(left, right)
        case "in":
            return _contained(x, left, right)
        case "+" if _joins(x):
            return _join(x, left, right)
        case "+" if isinstance(wide.bare(x.type), t.Name | t.Opaque):
            return _concatenation(x, left, right)
        case "<" | "<=" | ">" | ">=":
            return _comparison(x, left, right)
        case _:
            return _arithmetic(x, left, right)


def _both(left: Term, right: Term) -> Term:
    def both(frame: Frame) -> bool:
        try:
            if not left(frame):
                return False
        except Undefined:
            if right(frame):
                raise
            return False
        return bool(right(frame))

    return both


def _either(left: Term, right: Term) -> Term:
    def either(frame: Frame) -> bool:
        try:
            if left(frame):
                return True
        except Undefined:
            if not right(frame):
                raise
            return True
        return bool(right(frame))

    return either


# ---------------------------------------------------------------- equality
def _equality(terms: Terms, x: e.Binary, env: Env) -> Term:
    found = _owner_test(terms, x, env) or _plain_equality(terms, x, env)
    if x.op == "==":
        return found
    return lambda frame: not found(frame)


def _plain_equality(terms: Terms, x: e.Binary, env: Env) -> Term:
    left, right = terms.term(x.left, env), terms.term(x.right, env)
    for one, other in ((x.left, right), (x.right, left)):
        if isinstance(one, e.Literal) and one.value is None:
            return lambda frame, other=other: other(frame) is None  # type: ignore[misc]
    same = alike.equal(x.left.type, x.right.type)
    return lambda frame: same(left(frame), right(frame))


def _owner_test(terms: Terms, x: e.Binary, env: Env) -> Term | None:
    """`p.owner == e` without making the reference first."""
    for one, other in ((x.left, x.right), (x.right, x.left)):
        if not is_owner(one) or not isinstance(one, e.Member):
            continue
        return _owned(terms.term(one.base, env), terms.term(other, env), one.span)
    return None


def _owned(base: Term, value: Term, span: Span) -> Term:
    def owned(frame: Frame) -> bool:
        obj = base(frame)
        if obj is None:
            raise Undefined("`.owner` of null", span)
        return controller_uid(obj.json) == uid_of(value(frame))

    return owned


def is_owner(x: e.Expr) -> bool:
    """Whether a term is `p.owner`."""
    return isinstance(x, e.Member) and x.name == "owner" and isinstance(wide.bare(x.base.type), t.Object)


def _contained(x: e.Binary, left: Term, right: Term) -> Term:
    within = wide.bare(x.right.type)
    if isinstance(within, t.MapOf):
        key = alike.key_of(within.key)
        return lambda frame: key(left(frame)) in (right(frame) or ())
    element = within.element if isinstance(within, t.ListOf | t.SetOf) else t.Int()
    if alike.plain(element) or isinstance(element, t.Name):
        name = alike.key_of(element)
        return lambda frame: name(left(frame)) in (right(frame) or ())
    same = alike.equal(x.left.type, element)

    def contained(frame: Frame) -> bool:
        value = left(frame)
        return any(same(value, row) for row in right(frame) or ())

    return contained


# ---------------------------------------------------------------- order and arithmetic
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _comparison(x: e.Binary, left: Term, right: Term) -> Term:
    compare, span, op = _COMPARE[x.op], x.span, x.op
    ty = wide.bare(x.left.type)
    key = alike.order(ty) if isinstance(ty, t.Enum | t.Opaque) else None

    def compared(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            raise Undefined(f"`{op}` of null", span)
        return compare(key(a), key(b)) if key is not None else compare(a, b)

    return compared


def truncated(a: int, b: int) -> int:
    """Division as CEL has it: towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": truncated,
    "%": lambda a, b: a - b * truncated(a, b),
}


def _arithmetic(x: e.Binary, left: Term, right: Term) -> Term:
    compute, span, op = _ARITHMETIC[x.op], x.span, x.op
    divides = op in ("/", "%")

    def computed(frame: Frame) -> Any:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            raise Undefined(f"`{op}` of null", span)
        if divides and b == 0:
            raise Undefined("division by zero", span)
        return compute(a, b)

    return computed


# ---------------------------------------------------------------- lists and names
def _joins(x: e.Binary) -> bool:
    return isinstance(wide.bare(x.type), t.ListOf | t.SetOf)


def _join(x: e.Binary, left: Term, right: Term) -> Term:
    span = x.span
    ty = wide.bare(x.type)
    unique = alike.distinct(ty.element) if isinstance(ty, t.SetOf) else None

    def joined(frame: Frame) -> Any:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            raise Undefined("`+` of null", span)
        if len(a) + len(b) > LONGEST:
            raise Undefined(f"a list of more than {LONGEST} elements", span)
        both = [*a, *b]
        return unique(both) if unique is not None else both

    return joined


def _concatenation(x: e.Binary, left: Term, right: Term) -> Term:
    first, second, span = text_of(x.left.type), text_of(x.right.type), x.span

    def concatenated(frame: Frame) -> str:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            raise Undefined("a name put together with null", span)
        if isinstance(a, Obj) or isinstance(b, Obj):
            raise Undefined("an object stands where a text is joined", span)
        return first(a) + second(b)

    return concatenated
