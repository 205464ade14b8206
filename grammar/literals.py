"""Literals: numbers, strings, durations, quantities, lists and objects."""

from __future__ import annotations

from lark import Token, Tree

from dashpot.grammar.adapt import adapt
from dashpot.grammar.scope import Scope
from dashpot.grammar.suggest import did_you_mean
from dashpot.grammar.terms import builds, term, value
from dashpot.grammar.tree import Part, Rule, parts, rule, rules, tokens, unquote
from dashpot.grammar.typing import bare, describe, join
from dashpot.model import types as t
from dashpot.model.expr import Assignment, Expr, Given, ListLiteral, Literal, ObjectLiteral

MILLISECONDS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
THOUSANDTHS = {"m": 1, "k": 10**6, "M": 10**9, "G": 10**12, "T": 10**15} | {
    f"{p}i": 1000 * 1024 ** (i + 1) for i, p in enumerate("KMGT")
}


def amount(token: Token) -> int:
    """The number of a duration (in milliseconds) or a quantity (in thousandths)."""
    digits = str(token).rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    units = MILLISECONDS if token.type == "DURATION" else THOUSANDTHS
    return int(digits) * units[str(token)[len(digits) :]]


@builds("int")
def _int(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    return Literal(int(tokens(tree)[0]), t.Int(), scope.span(tree))


@builds("float")
def _float(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    whole, fraction = str(tokens(tree)[0]).split(".")
    if len(fraction) <= 3 and want is not None and isinstance(bare(want), t.Quantity):
        return Literal(int(whole) * 1000 + int(fraction.ljust(3, "0")), t.Quantity(), scope.span(tree))
    return scope.error("D219", tree, "Numbers are whole here.", "scale it, as in `500m` for a quantity of one half")


@builds("quantity")
def _quantity(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    return Literal(amount(tokens(tree)[0]), t.Quantity(), scope.span(tree))


@builds("duration")
def _duration(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    return Literal(amount(tokens(tree)[0]), t.Duration(), scope.span(tree))


@builds("true", "false")
def _bool(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    return Literal(tree.data == "true", t.Bool(), scope.span(tree))


@builds("null")
def _null(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    return Literal(None, t.Null(), scope.span(tree))


@builds("string")
def _string(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    wanted = bare(want) if want is not None else None
    ty = wanted if isinstance(wanted, t.Name | t.Opaque) else t.Name()
    return Literal(unquote(tokens(tree)[0]), ty, scope.span(tree))


@builds("object_ref")
def _object_ref(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    kind, text = tokens(tree)
    if scope.universe.resource(str(kind)) is None:
        known = [d.name for d in scope.module.visible.values() if d.what == "kind"]
        return scope.error("D101", kind, f"I know no kind `{kind}`.", did_you_mean(str(kind), known, "declare it"))
    return Given(str(kind), unquote(text), t.Object(str(kind)), scope.span(tree))


@builds("list_lit")
def _list(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    args = rule(tree, "args")
    trees = parts(args) if args is not None else []
    wanted = bare(want) if want is not None else None
    span = scope.span(tree)
    if isinstance(wanted, t.ListOf | t.SetOf) and not isinstance(wanted.element, t.Bottom):
        items = tuple(value(i, scope, wanted.element, "An element of this list") for i in trees)
        return ListLiteral(items, wanted, span)
    found: list[Expr] = []
    ty: t.Type = t.Bottom()
    for item in trees:
        e = term(item, scope, None if isinstance(ty, t.Bottom) else ty)
        both = join(ty, e.type)
        if both is None:
            text = f"The elements of a list have one type, but here are {describe(ty)} and {describe(e.type)}."
            e = scope.error("D202", item, text, "give all elements one type")
        else:
            ty = both
        found.append(e)
    return ListLiteral(tuple(adapt(e, ty) for e in found), t.ListOf(ty), span)


@builds("object")
def _object(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    wanted = bare(want) if want is not None else None
    if isinstance(wanted, t.Struct):
        return struct(tree, wanted, scope)
    if isinstance(wanted, t.MapOf):
        return mapping(tree, wanted, scope)
    if not rules(tree, "pair"):
        return ObjectLiteral((), t.MapOf(t.Bottom(), t.Bottom()), scope.span(tree))
    if isinstance(wanted, t.Bottom):
        return Literal(None, t.Bottom(), scope.span(tree))
    if wanted is not None:
        text = f"An object in braces stands where {describe(wanted)} is expected."
        return scope.error("D201", tree, text, f"write a value of type {describe(wanted)}")
    return scope.error(
        "D218", tree, "Nothing says which struct or map this object is.", "use it where a field of that type is set"
    )


def pairs(tree: Rule) -> list[tuple[Rule | Token, Part]]:
    """The entries of an object literal: key (a path or a string token) and value."""
    return [(p.children[0], p.children[1]) for p in rules(tree, "pair")]


def struct(tree: Rule, ty: t.Struct, scope: Scope) -> Expr:
    """`{ slot: s, phase: p }` as a value of a struct: every field that may not be null is needed."""
    known = dict(ty.fields)
    items: list[Assignment] = []
    for key, part in pairs(tree):
        text = unquote(key) if isinstance(key, Token) else str(key.children[0])
        if isinstance(key, Tree) and len(key.children) != 1:
            scope.error(
                "D102", key, f"A struct is written field by field; `{text}` has a path here.", "nest it: `a: { b: … }`"
            )
            continue
        if text not in known:
            scope.error("D102", key, f"{ty.name} has no field `{text}`.", did_you_mean(text, known, "declare it"))
            continue
        if any(i.path == (text,) for i in items):
            scope.error("D218", key, f"`{text}` is set twice.", "remove one of the two")
        items.append(Assignment((text,), value(part, scope, known[text], f"`{text}`"), scope.span(key)))
    given = {i.path[0] for i in items}
    for name, field_type in ty.fields:
        if name not in given and not isinstance(field_type, t.Optional | t.ListOf | t.SetOf | t.MapOf):
            scope.error("D207", tree, f"`{name}` of {ty.name} is missing.", f"add `{name}: …`")
    return ObjectLiteral(tuple(items), ty, scope.span(tree))


def mapping(tree: Rule, ty: t.MapOf, scope: Scope) -> Expr:
    """`{ a: 1 }` as a map; the path of an item is its key as text (a name, a member, a number)."""
    items: list[Assignment] = []
    for key, part in pairs(tree):
        step = map_key(key, ty, scope)
        if step is None:
            continue
        if any(i.path == (step,) for i in items):
            scope.error("D218", key, f"`{step}` is set twice.", "remove one of the two")
        items.append(Assignment((step,), value(part, scope, ty.value, "An entry of this map"), scope.span(key)))
    return ObjectLiteral(tuple(items), ty, scope.span(tree))


def map_key(key: Rule | Token, ty: t.MapOf, scope: Scope) -> str | None:
    """The key of a map that is written as a name or a string; None if it was reported."""
    if isinstance(key, Tree) and not all(isinstance(c, Token) for c in key.children):
        scope.error(
            "D221", key, "A key in a literal is a name or a string.", "set the entry in a write: `field[key]: value`"
        )
        return None
    if isinstance(key, Tree):
        text = ".".join(str(c) for c in key.children)
    else:
        text = unquote(key) if key.type == "STRING" else str(key)
    match bare(ty.key):
        case t.Enum(name=name, members=members) if text not in members:
            scope.error("D102", key, f"The enum {name} has no member `{text}`.", did_you_mean(text, members))
            return None
        case t.Int() if not text.lstrip("-").isdigit():
            scope.error(
                "D221", key, f"The keys of this map are {describe(ty.key)}.", 'write the number in quotes: `"1"`'
            )
            return None
        case _:
            return text
