"""The functions of the language: now, since, hash, string, min, max, gone, has."""

from __future__ import annotations

from typing import Any

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.runtime.controller import alike, wide
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.terms import Env, Term, Terms, compiles
from dashpot.runtime.controller.texts import hash_of, text_of
from dashpot.runtime.controller.undefined import Undefined


@compiles(e.Builtin)
def _builtin(terms: Terms, x: e.Builtin, env: Env) -> Term:
    if x.op == "now":
        return lambda frame: frame.now()
    args = [terms.term(arg, env) for arg in x.args]
    match x.op:
        case "since":
            return _since(args[0], x)
        case "hash" | "string":
            return _named(args[0], x)
        case "min" | "max":
            return _extreme(args[0], args[1], x)
        case "gone":
            return _gone(args[0])
        case _:
            return _has(args[0])


def _since(time: Term, x: e.Builtin) -> Term:
    span = x.span

    def since(frame: Frame) -> int:
        value = time(frame)
        if value is None:
            raise Undefined("`since` of null", span)
        age: int = frame.now() - value
        return age

    return since


def _named(of: Term, x: e.Builtin) -> Term:
    span, op = x.span, x.op
    make = hash_of if op == "hash" else text_of(x.args[0].type)

    def named(frame: Frame) -> str:
        value = of(frame)
        if value is None:
            raise Undefined(f"`{op}` of null", span)
        return make(value)

    return named


def _extreme(left: Term, right: Term, x: e.Builtin) -> Term:
    span, op = x.span, x.op
    least = op == "min"
    ty = wide.bare(x.args[0].type)
    key = alike.order(ty) if isinstance(ty, t.Enum) else None

    def extreme(frame: Frame) -> Any:
        a, b = left(frame), right(frame)
        if a is None or b is None:
            raise Undefined(f"`{op}` of null", span)
        before = key(a) < key(b) if key is not None else a < b
        return a if before is least else b

    return extreme


def _gone(of: Term) -> Term:
    def gone(frame: Frame) -> bool:
        obj = of(frame)
        if obj is None:
            return True
        there = frame.reader.get(obj.view.kind, obj.namespace, obj.key_name)
        return there is None or there.uid != obj.uid

    return gone


def _has(of: Term) -> Term:
    def has(frame: Frame) -> bool:
        try:
            return of(frame) is not None
        except Undefined:
            return False

    return has
