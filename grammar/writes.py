"""API calls: what is written, which fields, under which assumption; for bodies and for scenarios."""

from __future__ import annotations

from attrs import evolve, frozen
from lark import Token, Tree

from dashpot.grammar import fields
from dashpot.grammar.expressions import condition, member, present, term, value
from dashpot.grammar.fields import Target
from dashpot.grammar.manifold import answers, name_of, one_only
from dashpot.grammar.scope import Scope
from dashpot.grammar.suggest import did_you_mean, suggestion
from dashpot.grammar.terms import name as name_term
from dashpot.grammar.tree import Rule, parts, rule, rules, tokens
from dashpot.grammar.typing import bare, describe, fits
from dashpot.model import types as t
from dashpot.model.automaton import ERRORS, Call, Operation
from dashpot.model.expr import Element, Expr, Local

VERBS = ("create", "update", "patch", "json_patch", "apply", "delete", "evict", "bind")
"""Rules of statements that write."""


def kind_named(token: Token, scope: Scope) -> str | None:
    """The kind that a name says, or a message."""
    found = scope.module.visible.get(str(token))
    if found is not None and found.what == "kind":
        return str(token)
    known = [d.name for d in scope.module.visible.values() if d.what == "kind"]
    fix = suggestion(scope, str(token), known, f'declare it: `resource {token} "example.com/v1" {{ … }}`')
    scope.error("D101", token, f"I know no kind `{token}`.", fix)
    return None


def path_term(tree: Rule, scope: Scope) -> tuple[Expr, list[Token | Rule]]:
    """The object that a path begins with and the steps behind it: `db.spec.x` is `db` and [spec, x]."""
    steps = parts(tree)
    first = steps[0]
    assert isinstance(first, Token)
    e = name_term(first, first, scope)
    rest = list(steps[1:])
    while rest and not isinstance(bare(e.type), t.Object | t.Bottom):
        step = rest.pop(0)
        if isinstance(step, Token):
            e = member(e, step, step, first, scope)
        else:
            e = _element(e, step, scope)
    return e, rest


def _element(base: Expr, step: Rule, scope: Scope) -> Expr:
    match bare(base.type):
        case t.ListOf(element=inner):
            return Element(base, value(step, scope, t.Int(), "The index of a list"), inner, scope.span(step))
        case t.MapOf(key=key, value=inner):
            return Element(base, value(step, scope, key, "The key of this map"), inner, scope.span(step))
        case _:
            return scope.error(
                "D211", step, f"`[…]` needs a list or a map, but this is {describe(base.type)}.", "name a list or map"
            )


def target(tree: Rule, scope: Scope) -> Target | None:
    """What a write goes to: the object, the side (`.spec`, `.status`), and a path within it."""
    e, rest = path_term(tree, scope)
    ty = bare(e.type)
    if isinstance(ty, t.Bottom):
        return None
    if not isinstance(ty, t.Object):
        scope.error(
            "D212",
            tree,
            f"A write needs an object, but `{tree.children[0]}` is {describe(e.type)}.",
            "read the object first: `let x = get cached Kind name`",
        )
        return None
    e = present(e, tree, scope)
    side = str(rest[0]) if rest and isinstance(rest[0], Token) and str(rest[0]) in ("spec", "status") else "meta"
    return Target(e, ty.kind, side, tuple(rest))


def call(tree: Rule, scope: Scope) -> Call | None:
    """The call of a write statement, without its handlers and successor; None if it was reported."""
    match tree.data:
        case "create":
            return _create(tree, scope)
        case "json_patch":
            return _json_patch(tree, scope)
        case "delete" | "evict" | "bind":
            return _short(tree, scope)
        case _:
            return _change(tree, scope)


def _create(tree: Rule, scope: Scope) -> Call | None:
    kind = kind_named(tokens(tree, "NAME")[0], scope)
    literal = rule(tree, "object")
    assert literal is not None
    if kind is None:
        return None
    if not one_only(kind, tokens(tree, "NAME")[0], scope, every=scope.body == "environment"):
        return None
    items = fields.created(literal, kind, scope, "create")
    return Call("create", kind, 0, fields=items, span=scope.span(tree))


def _change(tree: Rule, scope: Scope) -> Call | None:
    """update, patch and apply: an object literal over the target."""
    path, literal = rule(tree, "path"), rule(tree, "object")
    assert path is not None and literal is not None
    to = target(path, scope)
    if to is None:
        return None
    verb = str(tree.data)
    asked = scope.body not in ("environment", "scenario") and answers(to.kind, scope)
    if (verb == "apply" or asked) and not one_only(to.kind, path, scope):
        return None
    dialect = str(tokens(_or_empty(rule(tree, "dialect")))[0]) if rule(tree, "dialect") else "merge"
    items = fields.changed(literal, to, scope, verb, dialect)
    return Call(
        verb,
        to.kind,
        0,
        dialect=dialect if verb == "patch" else "",
        target=to.object,
        side=to.side,
        fields=items,
        guard=_guard(tree),
        force=rule(tree, "force") is not None,
        result=_result(to.object),
        span=scope.span(tree),
    )


def _or_empty(tree: Rule | None) -> Rule:
    return tree if tree is not None else Tree("empty", [])


def _guard(tree: Rule) -> str:
    found = rule(tree, "guard")
    return str(tokens(found)[-1]) if found is not None else ""


def _result(e: Expr) -> str | None:
    return e.name if isinstance(e, Local) else None


def _json_patch(tree: Rule, scope: Scope) -> Call | None:
    path = rule(tree, "path")
    assert path is not None
    to = target(path, scope)
    if to is None:
        return None
    ops: list[Operation] = []
    for op in rules(tree, "op"):
        word, at, *rest = (p for p in parts(op) if not (isinstance(p, Token) and p.type == "COLON"))
        assert isinstance(at, Tree)
        found = fields.path(at, to, scope, "patch")
        if found is None:
            continue
        steps, ty = found
        if str(word) == "add" and isinstance(bare(ty), t.MapOf | t.SetOf | t.ListOf) and rest:
            one: Expr | None = fields.entry(rest[0], ty, scope)
        else:
            one = value(rest[0], scope, ty, f"`{fields.text(steps)}`") if rest else None
        ops.append(Operation(str(word), steps, one, scope.span(op)))
    return Call(
        "patch", to.kind, 0, dialect="json", target=to.object, side=to.side, ops=tuple(ops),
        result=_result(to.object), span=scope.span(tree),
    )  # fmt: skip


def _short(tree: Rule, scope: Scope) -> Call | None:
    """delete, evict and bind: no fields."""
    path = rule(tree, "path")
    assert path is not None
    to = target(path, scope)
    if to is None:
        return None
    verb = str(tree.data)
    if not one_only(to.kind, path, scope, every=verb == "delete"):
        return None
    if to.rest:
        scope.error(
            "D212", path, f"`{verb}` takes a whole object, not a part of it.", f"write `{verb} {path.children[0]}`"
        )
        return None
    how = rule(tree, "how")
    node: Expr | None = None
    if verb == "bind":
        node_tree = parts(tree)[1]
        node = term(node_tree, scope, t.Name())
        if not isinstance(bare(node.type), t.Object) and not fits(bare(node.type), t.Name()):
            scope.error(
                "D201", node_tree, f"A pod is bound to a node or its name, not to {describe(node.type)}.", "name a node"
            )
        present(node, node_tree, scope)
    return Call(
        verb, to.kind, 0, target=to.object, to=node, guard=_guard(tree),
        how=str(tokens(how)[0]) if how is not None else "", result=_result(to.object), span=scope.span(tree),
    )  # fmt: skip


@frozen
class Read:
    """A `get` or `list` once resolved: where it looks, its call (or the parts of a cached term), its type."""

    live: bool
    verb: str
    kind: str
    name: Expr | None
    var: str | None
    where: Expr | None
    type: t.Type


def read(tree: Rule, scope: Scope) -> Read | None:
    """A `get` or `list` of a `let`; None if it was reported."""
    where_rule = rule(tree, "where")
    assert where_rule is not None
    live = str(tokens(where_rule)[0]) == "live"
    names = tokens(tree, "NAME")
    kind = kind_named(names[0], scope)
    terms = [r for r in rules(tree) if r.data not in ("where", "handler")]
    if kind is None or not ((live and tree.data == "get") or one_only(kind, names[0], scope, every=True)):
        return None
    if tree.data == "get":
        wanted = name_of(terms[0], kind, live, scope)
        return Read(live, "get", kind, wanted, None, None, t.Optional(t.Object(kind)))
    if not terms:
        return Read(live, "list", kind, None, None, None, t.SetOf(t.Object(kind)))
    inner = evolve(scope, choice=False).with_local(names[1], t.Object(kind))
    return Read(
        live, "list", kind, None, str(names[1]), condition(terms[0], inner, "the filter"), t.SetOf(t.Object(kind))
    )


def errors(tree: Rule, scope: Scope) -> list[tuple[str, Rule]]:
    """Names and blocks of the handlers of a call."""
    found: list[tuple[str, Rule]] = []
    for handler in rules(tree, "handler"):
        token, block = tokens(handler)[0], rule(handler, "block")
        assert block is not None
        if str(token) not in ERRORS:
            fix = did_you_mean(str(token), ERRORS, "errors are " + ", ".join(ERRORS))
            scope.error("D116", token, f"No call fails with `{token}`.", fix)
            continue
        if any(name == str(token) for name, _ in found):
            scope.error("D103", token, f"`{token}` is handled twice.", "put both handlers into one block")
        found.append((str(token), block))
    return found
