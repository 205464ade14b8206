"""Calls: the built-in functions, and `fun` and `extern fun` of the spec."""

from __future__ import annotations

from lark import Token

from dashpot.grammar import functions, methods
from dashpot.grammar.operators import pair
from dashpot.grammar.scope import Scope
from dashpot.grammar.suggest import suggestion
from dashpot.grammar.terms import builds, present, term, value
from dashpot.grammar.tree import Part, Rule, parts, rule, tokens
from dashpot.grammar.typing import METHODS, bare, comparable, describe, element, numeric
from dashpot.model import types as t
from dashpot.model.expr import Builtin, Expr

BUILTINS = {"now": 0, "since": 1, "hash": 1, "min": 2, "max": 2, "gone": 1, "has": 1, "string": 1}
"""The functions of the language, with their number of arguments."""


@builds("call")
def _call(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    name = tokens(tree)[0]
    args_tree = rule(tree, "args")
    args = parts(args_tree) if args_tree is not None else []
    text = str(name)
    found = scope.module.visible.get(text)
    if found is not None and found.what in ("fun", "extern"):
        return functions.call(found, args, tree, scope)
    if text in BUILTINS:
        return _builtin(text, args, tree, scope)
    if text in METHODS and args:
        base = term(args[0], scope)
        if element(base.type) is not None:
            return methods.method(base, name, args[1:], tree, scope)
    return _unknown(name, text, scope)


def _unknown(name: Token, text: str, scope: Scope) -> Expr:
    known = [*BUILTINS, *(n for n, d in scope.module.visible.items() if d.what in ("fun", "extern"))]
    if text in METHODS:
        return scope.error("D115", name, f"`{text}` is a method.", f"write it behind a collection: `xs.{text}(…)`")
    fix = methods.ELSEWHERE.get(text) or suggestion(scope, text, known, f"declare it: `fun {text}(…): T = …`")
    return scope.error("D115", name, f"I know no function `{text}`.", fix)


def _builtin(op: str, args: list[Part], tree: Rule, scope: Scope) -> Expr:
    span = scope.span(tree)
    if len(args) != BUILTINS[op]:
        form = ", ".join("abc"[: BUILTINS[op]])
        text = f"`{op}` takes {BUILTINS[op]} argument{'s' * (BUILTINS[op] != 1)}, but here are {len(args)}."
        return scope.error("D210", tree, text, f"write `{op}({form})`")
    match op:
        case "now":
            return Builtin("now", (), t.Time(), span)
        case "since":
            return Builtin("since", (value(args[0], scope, t.Time(), "The argument of `since`"),), t.Duration(), span)
        case "hash":
            return Builtin("hash", (present(term(args[0], scope, t.Opaque()), args[0], scope),), t.Name(), span)
        case "string":
            return Builtin("string", (present(term(args[0], scope), args[0], scope),), t.Name(), span)
        case "min" | "max":
            return _extreme(op, args, tree, scope)
        case "gone":
            e = term(args[0], scope)
            if not isinstance(bare(e.type), t.Object | t.Bottom):
                return scope.error(
                    "D212", args[0], f"`gone` asks about an object, but this is {describe(e.type)}.", "name the object"
                )
            return Builtin("gone", (e,), t.Bool(), span)
        case _:
            return Builtin("has", (_without_warning(args[0], scope),), t.Bool(), span)


def _without_warning(tree: Part, scope: Scope) -> Expr:
    """A term whose nulls are what is asked about."""
    before = len(scope.notes.messages)
    e = term(tree, scope)
    scope.notes.messages[before:] = [m for m in scope.notes.messages[before:] if m.code != "L408"]
    return e


def _extreme(op: str, args: list[Part], tree: Rule, scope: Scope) -> Expr:
    left, right = pair(args[0], args[1], scope)
    for e, part in ((left, args[0]), (right, args[1])):
        if not numeric(e.type):
            return scope.error(
                "D206", part, f"`{op}` compares numbers, but this is {describe(e.type)}.", "give it two numbers"
            )
        present(e, part, scope)
    if not comparable(left.type, right.type):
        text = f"`{op}` compares {describe(left.type)} with {describe(right.type)}."
        return scope.error("D202", tree, text, "give it two values of one type")
    ty = bare(left.type)
    return Builtin(op, (left, right), t.Int() if isinstance(ty, t.Int) else ty, scope.span(tree))
