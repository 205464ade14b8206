"""Methods without a bound variable: sizes, slices, tests of membership and of texts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.runtime.controller import alike, wide
from dashpot.runtime.controller.chance import drawn
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.terms import Env, Term, Terms, compiles
from dashpot.runtime.controller.undefined import Undefined


@compiles(e.Method)
def _method(terms: Terms, x: e.Method, env: Env) -> Term:
    base = _present(terms.term(x.base, env), x)
    args = [_present(terms.term(arg, env), x) if x.op != "contains" else terms.term(arg, env) for arg in x.args]
    within = wide.bare(x.base.type)
    match x.op:
        case "size":
            return lambda frame: len(base(frame))
        case "isEmpty":
            return lambda frame: not base(frame)
        case "keys":
            return lambda frame: list(base(frame))
        case "values":
            unique = alike.distinct(within.value if isinstance(within, t.MapOf) else t.Opaque())
            return lambda frame: unique(list(base(frame).values()))
        case "take":
            if isinstance(within, t.SetOf):
                return lambda frame: drawn(base(frame), args[0](frame), frame)
            return lambda frame: _rows(base(frame))[: max(0, args[0](frame))]
        case "drop":
            return lambda frame: _rows(base(frame))[max(0, args[0](frame)) :]
        case "contains" if isinstance(within, t.ListOf | t.SetOf | t.MapOf):
            element = within.key if isinstance(within, t.MapOf) else within.element
            same = alike.equal(x.args[0].type, element)
            return lambda frame: _contains(base(frame), args[0](frame), same)
        case _:
            return _of_text(x, base, args[0])


def _present(term: Term, x: e.Method) -> Term:
    span, op = x.span, x.op

    def present(frame: Frame) -> Any:
        value = term(frame)
        if value is None:
            raise Undefined(f"`.{op}` of null", span)
        return value

    return present


def _rows(value: Any) -> Any:
    return value if isinstance(value, list | range) else list(value)


def _contains(rows: Any, value: Any, same: alike.Equal) -> bool:
    return any(same(value, row) for row in rows)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _of_text(x: e.Method, base: Term, arg: Term) -> Term:
    span, op = x.span, x.op

    def matches(text: str, part: str) -> bool:
        try:
            return _pattern(part).search(text) is not None
        except re.error as problem:
            raise Undefined(f"{part!r} is no regular expression: {problem}", span) from None

    tests = {
        "startsWith": str.startswith,
        "endsWith": str.endswith,
        "contains": str.__contains__,
        "matches": matches,
    }
    test = tests[op]

    def tested(frame: Frame) -> bool:
        text, part = base(frame), arg(frame)
        if not isinstance(text, str) or not isinstance(part, str):
            raise Undefined(f"`.{op}` of what is no text", span)
        return test(text, part)

    return tested
