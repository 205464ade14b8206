"""Operators: logic, comparison, arithmetic, ranges, `? :` and choices."""

from __future__ import annotations

from lark import Token

from dashpot.grammar.adapt import adapt, constant, flexible, mend
from dashpot.grammar.facts import facts
from dashpot.grammar.scope import Scope
from dashpot.grammar.terms import RULES, Builder, builds, condition, present, term, value
from dashpot.grammar.tree import Part, Rule, parts
from dashpot.grammar.typing import bare, comparable, describe, element, join, numeric, ordered, told
from dashpot.model import types as t
from dashpot.model.expr import Any, Binary, Expr, Literal, Range, Ternary, Unary


def _logic(op: str) -> Builder:
    def build(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
        operands = parts(tree)
        left = condition(operands[0], scope, f"a side of `{op}`")
        for operand in operands[1:]:
            scope = scope.with_facts(facts(left, op == "&&"))
            right = condition(operand, scope, f"a side of `{op}`")
            left = Binary(op, left, right, t.Bool(), scope.span(tree))
        return left

    return build


@builds("not")
def _not(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    return Unary("!", condition(parts(tree)[0], scope, "what `!` negates"), t.Bool(), scope.span(tree))


@builds("neg")
def _neg(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    inner_tree = parts(tree)[0]
    if isinstance(inner_tree, Token):
        inner: Expr = Literal(int(inner_tree), t.Int(), scope.span(inner_tree))
    else:
        inner = term(inner_tree, scope, want)
    if isinstance(inner, Literal) and isinstance(inner.value, int) and not isinstance(inner.value, bool):
        return Literal(-inner.value, inner.type, scope.span(tree))
    if not numeric(inner.type):
        return scope.error(
            "D206", tree, f"`-` needs a number, but this is {describe(inner.type)}.", "negate a condition with `!`"
        )
    return Unary("-", present(inner, inner_tree, scope), _wide(inner.type), scope.span(tree))


def _wide(ty: t.Type) -> t.Type:
    return t.Int() if isinstance(bare(ty), t.Int) else bare(ty)


@builds("compare")
def _compare(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    left_tree, op_token, right_tree = parts(tree)
    op = str(op_token)
    if op == "in":
        return _in(tree, left_tree, right_tree, scope)
    left, right = pair(left_tree, right_tree, scope)
    span = scope.span(tree)
    if op in ("==", "!="):
        _check_equality(left, right, tree, scope)
        return Binary(op, left, right, t.Bool(), span)
    for side_, part in ((left, left_tree), (right, right_tree)):
        if not ordered(side_.type):
            words = {
                t.Opaque: "An opaque value knows only equality and hash()",
                t.Enum: "The members of an enum have no order",
            }
            text = words.get(type(bare(side_.type)), f"A value of type {describe(side_.type)} has no order")
            return scope.error("D205", part, f"{text}; `{op}` compares numbers and times.", "compare with `==` or `!=`")
        present(side_, part, scope)
    if not comparable(left.type, right.type):
        return _unequal(left, right, tree, scope)
    return Binary(op, left, right, t.Bool(), span)


def pair(left_tree: Part, right_tree: Part, scope: Scope) -> tuple[Expr, Expr]:
    """Two terms that give each other's literals their type."""
    if flexible(left_tree, scope) and not flexible(right_tree, scope):
        right = term(right_tree, scope)
        left = term(left_tree, scope, bare(right.type))
    else:
        left = term(left_tree, scope)
        right = term(right_tree, scope, bare(left.type))
    return adapt(left, bare(right.type)), adapt(right, bare(left.type))


def _check_equality(left: Expr, right: Expr, tree: Part, scope: Scope) -> None:
    if not comparable(left.type, right.type):
        _unequal(left, right, tree, scope)


def _unequal(left: Expr, right: Expr, tree: Part, scope: Scope) -> Expr:
    a, b = bare(left.type), bare(right.type)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, t.Object) and isinstance(other, t.Name | t.Uid):
            what = "name" if isinstance(other, t.Name) else "uid"
            return scope.error(
                "D203",
                tree,
                f"This compares a {one.kind} with a {what}.",
                f"say which of its fields you mean: `.{what}`",
            )
    fix = mend(right, a) or "compare values of one type"
    return scope.error("D202", tree, f"This compares {told(left)} with {told(right)}, which are never equal.", fix)


def _in(tree: Rule, left_tree: Part, right_tree: Part, scope: Scope) -> Expr:
    if flexible(right_tree, scope) and not flexible(left_tree, scope):
        left = term(left_tree, scope)
        right = term(right_tree, scope, t.ListOf(bare(left.type)))
    else:
        right = term(right_tree, scope)
        left = term(left_tree, scope, element(right.type))
    present(right, right_tree, scope)
    inside = element(right.type)
    if inside is None:
        return scope.error(
            "D211", right_tree, f"`in` needs a list, set or map, but this is {describe(right.type)}.", "use `==`"
        )
    if not comparable(left.type, inside):
        fix = mend(left, inside)
        text = f"This looks for {told(left)} in {describe(right.type)}, where it never is."
        return scope.error("D202", tree, text, fix)
    return Binary("in", adapt(left, bare(inside)), right, t.Bool(), scope.span(tree))


@builds("arith")
def _arith(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    left_tree, op_token, right_tree = parts(tree)
    op, span = str(op_token), scope.span(tree)
    if op == "+" and (want is None or not numeric(want)):
        wanted = want
    else:
        wanted = None
    if flexible(left_tree, scope) and not flexible(right_tree, scope):
        right = term(right_tree, scope, wanted)
        left = term(left_tree, scope, bare(right.type))
    else:
        left = term(left_tree, scope, wanted)
        right = term(right_tree, scope, bare(left.type) if not isinstance(left.type, t.Name) else None)
    left, right = adapt(left, bare(right.type)), adapt(right, bare(left.type))
    if isinstance(left.type, t.Bottom) or isinstance(right.type, t.Bottom):
        return Literal(None, t.Bottom(), span)
    left, right = present(left, left_tree, scope), present(right, right_tree, scope)
    ty = _result(op, bare(left.type), bare(right.type))
    if ty is not None:
        return Binary(op, left, right, ty, span)
    a, b = describe(left.type), describe(right.type)
    return scope.error(
        "D206", tree, f"`{op}` does not work between {a} and {b}.", _arith_fix(op, left.type, right.type)
    )


_TERMS = (t.Name, t.Int, t.Opaque, t.Enum, t.Uid, t.Generation)
"""What may be joined into a name."""


def _result(op: str, a: t.Type, b: t.Type) -> t.Type | None:
    """The type of `a op b`, None if there is none."""
    match a, b:
        case t.Int(), t.Int():
            return t.Int()
        case (t.Duration(), t.Duration()) | (t.Quantity(), t.Quantity()):
            return t.Int() if op in "/%" else a if op in "+-" else None
        case (t.Duration() | t.Quantity(), t.Int()) if op in "*/":
            return a
        case (t.Int(), t.Duration() | t.Quantity()) if op == "*":
            return b
        case _ if op != "+":
            return None
        case (t.ListOf() | t.SetOf(), t.ListOf() | t.SetOf()):
            return _joined(a, b)
        case (t.Name(), _) if isinstance(b, _TERMS):
            return t.Name()
        case (_, t.Name()) if isinstance(a, _TERMS):
            return t.Name()
        case t.Opaque(), t.Opaque():
            return t.Name()
        case _:
            return None


def _joined(a: t.ListOf | t.SetOf, b: t.ListOf | t.SetOf) -> t.Type | None:
    inner = join(a.element, b.element)
    if inner is None:
        return None
    return t.ListOf(inner) if isinstance(a, t.ListOf) and isinstance(b, t.ListOf) else t.SetOf(inner)


def _arith_fix(op: str, a: t.Type, b: t.Type) -> str:
    for one in (bare(a), bare(b)):
        if isinstance(one, t.Time):
            return "ask how long ago it was with `since(t)`, which is a duration"
        if isinstance(one, t.SetOf | t.ListOf) and op == "-":
            return "leave elements out with `.filter(x, …)`"
        if isinstance(one, t.SetOf | t.ListOf) and op == "+":
            return "add elements as a list: `… + [x]`"
        if isinstance(one, t.Object):
            return "name one of its fields, such as `.name`"
        if isinstance(one, t.Bool):
            return "combine conditions with `&&` and `||`"
    return "compute with two numbers, or join names with `+`"


@builds("range_of")
def _range(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    lo_tree, hi_tree = parts(tree)
    lo = value(lo_tree, scope, t.Int(), "The lower end of a range")
    hi = value(hi_tree, scope, t.Int(), "The upper end of a range")
    fixed = constant(lo) and constant(hi)
    item = t.Int(lo, hi) if fixed else t.Int()
    return Range(lo, hi, t.ListOf(item), scope.span(tree))


@builds("ternary")
def _ternary(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    test_tree, then_tree, other_tree = parts(tree)
    test = condition(test_tree, scope, "the question before `?`")
    yes, no = scope.with_facts(facts(test, True)), scope.with_facts(facts(test, False))
    if want is None and flexible(then_tree, scope):
        other = term(other_tree, no)
        then = term(then_tree, yes, bare(other.type))
    else:
        then = term(then_tree, yes, want)
        other = term(other_tree, no, want if want is not None else bare(then.type))
    then, other = adapt(then, bare(other.type)), adapt(other, bare(then.type))
    ty = join(then.type, other.type)
    if ty is None:
        text = f"The two sides of `? :` are {describe(then.type)} and {describe(other.type)}."
        return scope.error("D202", tree, text, "give both sides one type")
    return Ternary(test, then, other, ty, scope.span(tree))


@builds("any")
def _any(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    base_tree = parts(tree)[0]
    if not scope.choice:
        return scope.error(
            "D220",
            tree,
            "`any` stands where nothing can be chosen.",
            "choose in a body: `let x = any …`, or ask with `.exists(x, …)`",
        )
    base = term(base_tree, scope, t.ListOf(want) if want is not None else None)
    inside = element(base.type)
    if inside is None:
        return scope.error(
            "D211",
            base_tree,
            f"`any` chooses from a collection, but this is {describe(base.type)}.",
            "name a set, range or enum",
        )
    return Any(base, inside, scope.span(tree))


RULES["or"] = _logic("||")
RULES["and"] = _logic("&&")
