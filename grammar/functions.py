"""`fun` and `extern fun`: typed once, then put in at every call."""

from __future__ import annotations

from dashpot.grammar.inline import free, substitute, trivial, walk
from dashpot.grammar.scope import Declared, Function, Scope
from dashpot.grammar.terms import value
from dashpot.grammar.tree import Part, Rule, parts, rule, rules, tokens
from dashpot.grammar.typenames import type_of
from dashpot.model import types as t
from dashpot.model.expr import Expr, Extern, Kind, Let, Literal, Local

LARGEST = 20_000
"""Terms in a function's body after all calls are put in place; a chain of doubling calls would have no end."""


def parameters(tree: Rule | None, scope: Scope) -> list[tuple[str, t.Type]]:
    """Names and types of a parameter list; reports names given twice."""
    found: list[tuple[str, t.Type]] = []
    for param in rules(tree, "param") if tree is not None else []:
        token = tokens(param)[0]
        if any(name == str(token) for name, _ in found):
            scope.error("D103", token, f"There are two parameters `{token}`.", "rename one")
        found.append((str(token), type_of(parts(param)[1], scope, objects=True)))
    return found


def function(declared: Declared, scope: Scope) -> Function:
    """The typed function, made on first use; a function that calls itself is reported by the caller's check."""
    if declared.fun is not None:
        return declared.fun
    declared.busy = True
    tree = declared.tree
    here = Scope(scope.universe, declared.module, choice=declared.what == "extern")
    params_tree = rule(tree, "params")
    params = parameters(params_tree, here)
    inside = here
    for param, (_, ty) in zip(rules(params_tree, "param") if params_tree is not None else [], params, strict=True):
        token = tokens(param)[0]
        here.check_new(str(token), here.span(token))
        inside = inside.knowing(str(token), ty, span=here.span(token))
    type_tree, body_tree = parts(tree)[-2:]
    result = type_of(type_tree, here, objects=True)
    body = value(body_tree, inside, result, f"The result of `{declared.name}`")
    if sum(1 for _ in walk(body)) > LARGEST:
        text = f"`{declared.name}` becomes very large when the functions that it calls are put in place."
        body = here.error(
            "D217", body_tree, text, "call a function once: fold over a collection instead of nesting calls"
        )
    kinds = tuple(dict.fromkeys(x.kind for x in walk(body) if isinstance(x, Kind)))
    declared.fun = Function(declared.name, tuple(params), result, body, declared.what == "extern", kinds)
    declared.busy = False
    return declared.fun


def call(declared: Declared, args: list[Part], tree: Part, scope: Scope) -> Expr:
    """The body of the function over the arguments."""
    span = scope.span(tree)
    if declared.fun is None and declared.busy:
        return scope.error(
            "D111", tree, f"`{declared.name}` calls itself.", "write it as a fold over a collection: `.sum(x, …)`"
        )
    fun = function(declared, scope)
    if len(args) != len(fun.params):
        form = ", ".join(name for name, _ in fun.params)
        text = f"`{fun.name}` takes {len(fun.params)} argument{'s' * (len(fun.params) != 1)}, but here are {len(args)}."
        return scope.error("D210", tree, text, f"write `{fun.name}({form})`")
    values = [value(a, scope, ty, f"`{name}`") for a, (name, ty) in zip(args, fun.params, strict=True)]
    if fun.kinds and not scope.look:
        kind = fun.kinds[0]
        fix = f"read `{kind}` first (`list cached {kind}`) and compute from what was read"
        return scope.error("D112", tree, f"`{fun.name}` looks at all of {kind}, and this body does not say where.", fix)
    if any(isinstance(v.type, t.Bottom) and isinstance(v, Literal) for v in values):
        return Literal(None, fun.result, span)
    body = _apply(fun, values, scope)
    if not fun.extern:
        return body
    home = declared.module
    return Extern(fun.name, tuple(values), body, fun.result, home.name, home.file, span)


def _apply(fun: Function, values: list[Expr], scope: Scope) -> Expr:
    """Put the arguments in: as they are if they may be evaluated again, else each bound once by `Let`."""
    direct: dict[str, Expr] = {}
    named: list[tuple[str, Expr]] = []
    taken = frozenset[str]().union(*(free(v) for v in values)) | free(fun.body)
    for (name, ty), given in zip(fun.params, values, strict=True):
        uses = sum(isinstance(x, Local) and x.name == name for x in walk(fun.body))
        if trivial(given) or uses == 0:
            direct[name] = given
            continue
        fresh = name
        while fresh in taken:
            fresh += "~"
        taken |= {fresh}
        direct[name] = Local(fresh, ty, given.span)
        named.append((fresh, given))
    body = substitute(fun.body, direct, scope.look or "truth")
    for name, given in reversed(named):
        body = Let(name, given, body, body.type, body.span)
    return body
