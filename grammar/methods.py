"""Methods: folds over collections with and without a variable, sizes, slices, tests of strings."""

from __future__ import annotations

from lark import Token, Tree

from dashpot.grammar.adapt import flexible
from dashpot.grammar.facts import of_elements
from dashpot.grammar.scope import Scope
from dashpot.grammar.suggest import did_you_mean
from dashpot.grammar.terms import builds, condition, present, term, value
from dashpot.grammar.tree import Part, Rule, parts, rule, tokens
from dashpot.grammar.typing import FOLDS, METHODS, bare, describe, element, numeric, ordered
from dashpot.model import types as t
from dashpot.model.expr import Expr, Fold, ListLiteral, Literal, Method

ELSEWHERE = {
    "any": "write `.exists(x, …)`",
    "some": "write `.exists(x, …)`",
    "every": "write `.all(x, …)`",
    "forall": "write `.all(x, …)`",
    "len": "write `.size()`",
    "length": "write `.size()`",
    "count_if": "write `.count(x, …)`",
    "where": "write `.filter(x, …)`",
    "select": "write `.filter(x, …)` or `.map(x, …)`",
    "reject": "write `.filter(x, !…)`",
    "find": "write `.first(x, …)`",
    "sort": "write `.sortBy(x, …)`",
    "sorted": "write `.sortBy(x, …)`",
    "skip": "write `.drop(n)`",
    "limit": "write `.take(n)`",
    "append": "write `xs + [x]`",
    "add": "write `xs + [x]`",
    "push": "write `xs + [x]`",
    "union": "write `xs + ys`",
    "remove": "write `.filter(x, x != …)`",
    "has": "write `x in xs`",
    "includes": "write `x in xs`",
    "empty": "write `.isEmpty()`",
}
"""What methods of other languages are called here."""


@builds("method")
def _method(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    base_tree = parts(tree)[0]
    name = tokens(tree, "NAME")[0]
    args_tree = rule(tree, "args")
    args = parts(args_tree) if args_tree is not None else []
    base = term(base_tree, scope)
    if isinstance(base.type, t.Bottom):
        return Literal(None, t.Bottom(), scope.span(tree))
    base = present(base, base_tree, scope)
    return method(base, name, args, tree, scope)


def method(base: Expr, name: Token, args: list[Part], tree: Rule, scope: Scope) -> Expr:
    """`base.name(args)`."""
    op = str(name)
    inside = element(base.type)
    if op not in METHODS:
        fix = ELSEWHERE.get(op) or did_you_mean(op, METHODS, "the page of this code lists them")
        return scope.error("D115", name, f"There is no method `{op}`.", fix)
    if inside is None:
        return _of_string(base, op, args, tree, scope)
    if op in FOLDS:
        return _fold(base, op, inside, args, tree, scope)
    return _plain(base, op, inside, args, tree, scope)


def _arity(op: str, args: list[Part], counts: tuple[int, ...], form: str, tree: Rule, scope: Scope) -> bool:
    if len(args) in counts:
        return True
    scope.error("D210", tree, f"`{op}` does not take {len(args)} argument{'s' * (len(args) != 1)}.", f"write `{form}`")
    return False


def _fold(base: Expr, op: str, inside: t.Type, args: list[Part], tree: Rule, scope: Scope) -> Expr:
    optional = op in ("count", "sum", "min", "max", "first")
    counts = (0, 2) if optional else (2, 3) if op == "map" else (2,)
    form = f".{op}()` or `.{op}(x, …)" if optional else f".{op}(x, …)"
    if not _arity(op, args, counts, form, tree, scope):
        return Literal(None, t.Bottom(), scope.span(tree))
    span = scope.span(tree)
    if not args:
        if op in ("sum", "min", "max") and not (numeric(inside) if op == "sum" else ordered(inside)):
            return scope.error(
                "D206",
                tree,
                f"`.{op}()` needs numbers, but here are {describe(inside)}.",
                f"say what of them: `.{op}(x, …)`",
            )
        ty = t.Int() if op == "count" or isinstance(bare(inside), t.Int) else inside
        return Fold(op, base, "", None, ty, span)
    var = args[0]
    if not isinstance(var, Tree) or var.data != "var":
        return scope.error("D210", var, f"The first argument of `.{op}` names the element.", f"write `.{op}(x, …)`")
    inner = scope.with_local(tokens(var)[0], inside)
    bound = str(tokens(var)[0])
    inner = inner.with_facts(of_elements(base, bound))
    if len(args) == 3:
        base = Fold("filter", base, bound, condition(args[1], inner), _same(base.type, inside), span)
    body = _body(op, args[-1], inner)
    return Fold(op, base, bound, body, _type(op, base.type, inside, body, args[-1], scope), span)


def _body(op: str, tree: Part, scope: Scope) -> Expr:
    if op in ("all", "exists", "exists_one", "filter", "count", "first"):
        return condition(tree, scope, f"what `.{op}` asks of each element")
    if op != "sortBy":
        return term(tree, scope)
    listed = rule(tree, "args") if isinstance(tree, Tree) and tree.data == "list_lit" else None
    keys = [term(part, scope) for part in (parts(listed) if listed is not None else [tree])]
    return ListLiteral(tuple(keys), t.ListOf(t.Bottom()), scope.span(tree))


def _type(op: str, base: t.Type, inside: t.Type, body: Expr, tree: Part, scope: Scope) -> t.Type:
    match op:
        case "all" | "exists" | "exists_one":
            return t.Bool()
        case "filter":
            return _same(base, inside)
        case "first":
            return inside
        case "map":
            return t.ListOf(body.type) if isinstance(bare(base), t.ListOf) else t.SetOf(body.type)
        case "count":
            return t.Int()
        case "sortBy":
            return t.ListOf(inside)
    if not (numeric(body.type) if op == "sum" else ordered(body.type)):
        scope.error(
            "D206", tree, f"`.{op}` needs a number, but this is {describe(body.type)}.", "count with `.count(x, …)`"
        )
        return t.Bottom()
    present(body, tree, scope)
    return t.Int() if isinstance(bare(body.type), t.Int) else bare(body.type)


def _same(base: t.Type, inside: t.Type) -> t.Type:
    return t.ListOf(inside) if isinstance(bare(base), t.ListOf) else t.SetOf(inside)


def _plain(base: Expr, op: str, inside: t.Type, args: list[Part], tree: Rule, scope: Scope) -> Expr:
    span = scope.span(tree)
    nothing = Literal(None, t.Bottom(), span)
    is_map = isinstance(bare(base.type), t.MapOf)
    match op:
        case "size" | "isEmpty":
            if not _arity(op, args, (0,), f".{op}()", tree, scope):
                return nothing
            return Method(op, base, (), t.Int() if op == "size" else t.Bool(), span)
        case "take" | "drop" if not is_map:
            if not _arity(op, args, (1,), f".{op}(n)", tree, scope):
                return nothing
            if op == "drop" and isinstance(bare(base.type), t.SetOf):
                return scope.error(
                    "D211", tree, "A set has no order, so nothing says what to drop.", "sort it first: `.sortBy(x, …)`"
                )
            return Method(
                op, base, (value(args[0], scope, t.Int(), f"The argument of `{op}`"),), _same(base.type, inside), span
            )
        case "contains":
            if not _arity(op, args, (1,), ".contains(x)", tree, scope):
                return nothing
            return Method(op, base, (value(args[0], scope, inside, "The argument of `contains`"),), t.Bool(), span)
        case "keys" | "values" if is_map and isinstance(bare(base.type), t.MapOf):
            if not _arity(op, args, (0,), f".{op}()", tree, scope):
                return nothing
            map_type = bare(base.type)
            assert isinstance(map_type, t.MapOf)
            return Method(op, base, (), t.SetOf(map_type.key if op == "keys" else map_type.value), span)
    return scope.error(
        "D211",
        tree,
        f"`.{op}` does not work on {describe(base.type)}.",
        "methods of a collection are " + ", ".join(FOLDS),
    )


def _of_string(base: Expr, op: str, args: list[Part], tree: Rule, scope: Scope) -> Expr:
    if op not in ("contains", "startsWith", "endsWith", "matches", "size"):
        fix = (
            "a single object is no collection"
            if isinstance(bare(base.type), t.Object)
            else "name a list, set, range or kind"
        )
        return scope.error("D211", tree, f"`.{op}` needs a collection, but this is {describe(base.type)}.", fix)
    if not isinstance(bare(base.type), t.Name | t.Opaque):
        return scope.error(
            "D211", tree, f"`.{op}` needs a collection or a string, but this is {describe(base.type)}.", "name a string"
        )
    if op == "size":
        ok = _arity(op, args, (0,), ".size()", tree, scope)
        return Method(op, base, (), t.Int(), scope.span(tree)) if ok else Literal(None, t.Bottom(), scope.span(tree))
    if not _arity(op, args, (1,), f'.{op}("…")', tree, scope):
        return Literal(None, t.Bottom(), scope.span(tree))
    want = bare(base.type) if flexible(args[0], scope) else t.Name()
    return Method(op, base, (value(args[0], scope, want, f"The argument of `{op}`"),), t.Bool(), scope.span(tree))
