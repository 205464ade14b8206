"""Literals take the type of their place: strings become names or opaque values, numbers quantities."""

from __future__ import annotations

from attrs import evolve
from lark import Tree

from dashpot.grammar.nearest import nearest
from dashpot.grammar.scope import Scope
from dashpot.grammar.tree import Part, parts, tokens
from dashpot.grammar.typing import bare, describe
from dashpot.model import types as t
from dashpot.model.expr import Binary, Const, Expr, ListLiteral, Literal, ObjectLiteral, Unary

_LITERALS = ("string", "int", "null", "list_lit", "object", "float", "quantity")


def flexible(tree: Part, scope: Scope) -> bool:
    """Whether the term takes its type from what stands beside it."""
    if not isinstance(tree, Tree):
        return True
    if tree.data in ("neg", "any"):
        return flexible(parts(tree)[0], scope)
    if tree.data == "ternary":
        return all(flexible(part, scope) for part in parts(tree)[1:])
    if tree.data == "var":
        name = str(tokens(tree)[0])
        return name not in scope.locals and name not in scope.memory and name not in scope.module.visible
    return tree.data in _LITERALS


def adapt(e: Expr, want: t.Type) -> Expr:
    """The same literal or constant with the type that its place wants, where that changes nothing but the type."""
    to = bare(want)
    match e:
        case Literal(value=str(), type=t.Name() | t.Opaque()) if isinstance(to, t.Name | t.Opaque):
            return evolve(e, type=to)
        case Literal(value=int() as n, type=t.Int()) if not isinstance(n, bool):
            if isinstance(to, t.Quantity):
                return evolve(e, value=n * 1000, type=to)
            if isinstance(to, t.Generation) or (isinstance(to, t.Duration) and n == 0):
                return evolve(e, type=to)
        case Const(type=t.Name() | t.Opaque()) if isinstance(to, t.Name | t.Opaque):
            return evolve(e, type=to)
        case ListLiteral(items=()) if isinstance(to, t.ListOf | t.SetOf):
            return evolve(e, type=to)
        case ListLiteral(items=items) if isinstance(to, t.ListOf | t.SetOf):
            return evolve(e, items=tuple(adapt(i, to.element) for i in items), type=to)
        case ObjectLiteral(items=()) if isinstance(to, t.MapOf | t.Struct):
            return evolve(e, type=to)
        case _:
            pass
    return e


def constant(e: Expr) -> bool:
    """Whether the value is known before a world is built: literals, constants, arithmetic on them."""
    match e:
        case Literal() | Const():
            return True
        case Unary(operand=inner):
            return constant(inner)
        case Binary(left=a, right=b):
            return constant(a) and constant(b)
        case ListLiteral(items=items):
            return all(constant(i) for i in items)
        case ObjectLiteral(items=pairs):
            return all(constant(p.value) for p in pairs)
        case _:
            return False


def check_range(e: Expr, want: t.Type, tree: Part, scope: Scope) -> None:
    """Report a literal outside a range whose bounds are literals."""
    match e, bare(want):
        case Literal(value=int() as n), t.Int(lo=Literal(value=int() as lo), hi=Literal(value=int() as hi)):
            if not lo <= n <= hi:
                scope.error(
                    "D216", tree, f"{n} is outside of {lo}..{hi}.", f"choose a value in {lo}..{hi}, or widen the range"
                )
        case _:
            pass


def mend(e: Expr, want: t.Type) -> str:
    """How a value of the wrong type may have been meant."""
    to = bare(want)
    match e, to:
        case Literal(value=str() as text), t.Enum(members=members):
            close = text if text in members else nearest(text, members)
            return f"members of an enum have no quotes: `{close}`" if close else f"choose one of {', '.join(members)}"
        case _, t.Enum(members=members):
            return f"choose one of {', '.join(members)}"
        case _, t.Name() if isinstance(bare(e.type), t.Object):
            return "write `.name` to take the object's name"
        case _, t.Uid() if isinstance(bare(e.type), t.Object):
            return "write `.uid` to take the object's uid"
        case _, t.Object(kind=kind) if isinstance(bare(e.type), t.Name):
            return f"read the object first: `let x = get cached {kind} …`"
        case _, t.Opaque() if isinstance(bare(e.type), t.Name):
            return "names and opaque values are told apart; write the string where it is used, or make it a `const`"
        case _, t.OwnerRef():
            return 'an owner is an object (`owner: db`), a name with its kind (`owner: Kind "name"`) or null'
        case _, t.Duration():
            return "write a duration: `5s`, `500ms`, `1min`"
        case _, t.Time():
            return "a time comes from `now()` or from a field"
        case _, t.SetOf() | t.ListOf():
            return "put it in brackets: `[…]`"
        case Literal(value=None), _:
            return f"declare the place as `{describe(to)}?` to allow null"
        case _, t.Bool():
            return "write `true`, `false` or a comparison"
        case _:
            return f"write a value of type {describe(to)}"
