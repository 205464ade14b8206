"""`if changed`: a write that is made only if some field would become another one than the local holds.

It is no part of the call but a test before it: `update x.status { a: e } if changed` stands for
`if x.status.a != e { update … }` with every value computed once.
"""

from __future__ import annotations

from attrs import evolve

from dashpot.grammar.builder import Builder
from dashpot.grammar.inline import trivial
from dashpot.grammar.scope import Scope
from dashpot.grammar.terms import side
from dashpot.grammar.tree import Rule, rule
from dashpot.grammar.typing import bare
from dashpot.model import types as t
from dashpot.model.automaton import Bind, Call
from dashpot.model.expr import (
    Assignment,
    Binary,
    Builtin,
    Element,
    Expr,
    Literal,
    Local,
    Member,
    ObjectLiteral,
    Ternary,
    Unary,
)
from dashpot.model.span import Span


def asked(tree: Rule) -> bool:
    """Whether a write says `if changed`."""
    return rule(tree, "changed") is not None


def tested(call: Call, builder: Builder, scope: Scope) -> tuple[Call, Expr]:
    """The call with its values named by locals, and the test that comes before it. Emits the names."""
    named = [_named(item, builder) for item in call.fields]
    fields = [entry for item in named for entry in _entries(item, call)]
    test: Expr | None = None
    for item in fields:
        one = _differs(call, item, scope)
        test = one if test is None else Binary("||", test, one, t.Bool(), call.span)
    return evolve(call, fields=tuple(named)), test if test is not None else Literal(False, t.Bool(), call.span)


def _named(item: Assignment, builder: Builder) -> Assignment:
    """The assignment with its value computed by a node of its own, unless it costs nothing and chooses nothing."""
    value = item.value
    if trivial(value) or isinstance(value, ObjectLiteral):
        return item
    name = builder.local(f"changed:{builder.labels}", value.type)
    label = builder.label()
    builder.emit(Bind(name, value, label, item.span), label)
    return evolve(item, value=Local(name, value.type, value.span))


def _entries(item: Assignment, call: Call) -> list[Assignment]:
    """What a merge patch makes of a literal of a map: its entries, one by one."""
    value = item.value
    if call.verb != "patch" or not isinstance(value, ObjectLiteral) or not isinstance(bare(value.type), t.MapOf):
        return [item]
    return [Assignment((*item.path, *entry.path), entry.value, item.span) for entry in value.items]


def _differs(call: Call, item: Assignment, scope: Scope) -> Expr:
    """Whether a field is another one than the value to be written."""
    assert call.target is not None
    at = item.span
    here = _member(call, item, scope)
    differs: Expr = Binary("!=", here, item.value, t.Bool(), at)
    plain = len(item.path) <= (2 if item.path[0] in ("spec", "status") else 1)
    if plain:
        return differs
    there = Builtin("has", (here,), t.Bool(), at)
    differs = Binary("||", Unary("!", there, t.Bool(), at), differs, t.Bool(), at)
    if isinstance(item.value, Literal) and item.value.value is None:
        return there
    if isinstance(item.value.type, t.Optional):
        null = Binary("==", item.value, Literal(None, t.Null(), at), t.Bool(), at)
        return Ternary(null, there, differs, t.Bool(), at)
    return differs


def _member(call: Call, item: Assignment, scope: Scope) -> Expr:
    """The field as the local holds it."""
    assert call.target is not None
    first, *rest = item.path
    assert isinstance(first, str)
    if first in ("spec", "status"):
        here: Expr = Member(call.target, first, side(call.kind, first, scope), item.span)
    else:
        here = Member(call.target, first, t.METADATA[first], item.span)
    for step in rest:
        here = _below(here, step, item.span)
    return here


def _below(here: Expr, step: str | Expr, at: Span) -> Expr:
    match bare(here.type), step:
        case t.Struct(fields=fields), str():
            return Member(here, step, dict(fields)[step], at)
        case t.MapOf(key=key, value=inner), str():
            return Element(here, Literal(step, key, at), inner, at)
        case t.MapOf(value=inner) | t.ListOf(element=inner), _ if not isinstance(step, str):
            return Element(here, step, inner, at)
        case _:
            raise AssertionError(step)
