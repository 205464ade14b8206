"""Properties: what must hold, always or in the end."""

from __future__ import annotations

from lark import Token

from dashpot.grammar.actors import verbs_of
from dashpot.grammar.expressions import condition, side, term
from dashpot.grammar.facts import facts
from dashpot.grammar.scope import Module, Scope, Universe
from dashpot.grammar.suggest import did_you_mean
from dashpot.grammar.targets import actor
from dashpot.grammar.tree import Rule, dotted, head, parts, rule, rules, tokens
from dashpot.grammar.typing import bare, describe
from dashpot.grammar.writes import kind_named
from dashpot.model import types as t
from dashpot.model.program import Converges, Formula, LeadsTo, NoLostUpdates, OnWrite, Property, State

DEFAULTS = ("hot_loop", "terminates", "lost_update", "wrong_uid", "unbounded", "panic", "vacuous")
"""Properties that every check looks for without being asked."""


def properties(module: Module, universe: Universe) -> list[Property]:
    """The properties of a module."""
    found = [_property(tree, Scope(universe, module)) for tree in rules(module.tree, "property")]
    return [p for p in found if p is not None]


def _property(tree: Rule, scope: Scope) -> Property | None:
    token = head(tree)
    if str(token) in DEFAULTS:
        scope.error("D103", token, f"`{token}` is a property that every check looks for.", "choose another name")
    names = tokens(tree, "NAME")
    each = None
    if len(names) == 3:
        kind = kind_named(names[2], scope)
        if kind is None:
            return None
        each = (str(names[1]), kind)
        scope = scope.with_local(names[1], t.Object(kind))
    formula = _formula(rules(tree)[-1], scope)
    if formula is None:
        return None
    if each is not None and isinstance(formula, OnWrite | NoLostUpdates):
        scope.error(
            "D120",
            names[1],
            f"A property of writes speaks of what is written: `for {each[0]} in {each[1]}` has nothing to say.",
            f"remove `for {each[0]} in {each[1]}`, and use the object that the `on` names",
        )
    return Property(str(token), each, formula, scope.module.name, scope.span(tree))


def _formula(tree: Rule, scope: Scope) -> Formula | None:
    children = parts(tree)
    match tree.data:
        case "always" | "never" | "sometimes" | "eventually" | "stabilizes" | "recurs":
            return State(str(tree.data), condition(children[0], scope, "what a property states"))
        case "leads_to":
            trigger, goal = (condition(c, scope, "what a property states") for c in children)
            return LeadsTo(trigger, goal)
        case "converges":
            premise = condition(children[0], scope, "the premise") if len(children) > 1 else None
            known = facts(premise, True) if premise is not None else ()
            return Converges(premise, condition(children[-1], scope.with_facts(known), "the goal"))
        case "monotone":
            return _monotone(tree, scope)
        case "no_lost_updates":
            path = rule(tree, "path")
            assert path is not None
            found = field_path(path, scope)
            return NoLostUpdates(*found) if found is not None else None
        case _:
            return _on_write(tree, scope)


def _monotone(tree: Rule, scope: Scope) -> Formula:
    part = parts(tree)[0]
    e = term(part, scope)
    if not isinstance(bare(e.type), t.Int | t.Generation | t.Time | t.Bottom):
        scope.error(
            "D213",
            part,
            f"`monotone` needs a value that can grow, but this is {describe(e.type)}.",
            "name a number, a generation or a time",
        )
    return State("monotone", e)


def field_path(path: Rule, scope: Scope) -> tuple[str, tuple[str, ...]] | None:
    """`Kind.spec.field` as kind and path; None if it was reported."""
    first, *steps = parts(path)
    assert isinstance(first, Token)
    kind = kind_named(first, scope)
    if kind is None:
        return None
    fields: dict[str, t.Type] | None = {
        **t.METADATA,
        "spec": side(kind, "spec", scope),
        "status": side(kind, "status", scope),
    }
    found: list[str] = []
    if not steps:
        scope.error(
            "D102",
            path,
            f"Which field of {kind} is meant is not said.",
            f"write `{kind}.spec.…`, `{kind}.status` or `{kind}.finalizers`",
        )
        return None
    for step in steps:
        name = str(step)
        if not isinstance(step, Token) or fields is None or name not in fields:
            fix = (
                did_you_mean(name, fields, f"choose one of {', '.join(sorted(fields))}")
                if fields
                else "end the path there"
            )
            for which in ("spec", "status"):
                if not found and any(n == name for n, _ in side(kind, which, scope).fields):
                    fix = f"write `{kind}.{which}.{name}`"
            words = ".".join([kind, *found])
            scope.error("D102", step, f"{words} has no field `{name}`.", fix)
            return None
        found.append(name)
        ty = bare(fields[name])
        fields = dict(ty.fields) if isinstance(ty, t.Struct) else None
    return kind, tuple(found)


def _on_write(tree: Rule, scope: Scope) -> Formula | None:
    kind_token, var = tokens(tree, "NAME")
    kind = kind_named(kind_token, scope)
    if kind is None:
        return None
    inner = scope.with_local(var, t.Object(kind)).knowing("old", t.Object(kind))
    by = rule(tree, "by")
    name, me = None, None
    if by is not None:
        at = rules(by, "dotted")[0]
        name = _author(at, scope)
        mine = tokens(by, "NAME")
        if mine and name is not None:
            ty = _seat(name, scope)
            if ty is None:
                scope.error(
                    "D108",
                    mine[0],
                    f"`{name}` stands at no place.",
                    f"remove `at {mine[0]}`, or declare it `at {mine[0]} in …`",
                )
                ty = t.Bottom()
            inner = inner.with_local(mine[0], ty)
            me = str(mine[0])
    body = rules(tree)[-1]
    return OnWrite(verbs_of(tree, scope), kind, str(var), name, me, condition(body, inner, "what is required"))


def _author(at: Rule, scope: Scope) -> str | None:
    """`Actor` or `Actor.action`, checked."""
    names = [str(n) for n in tokens(at)]
    whole = scope.module.visible.get(names[0])
    if len(names) == 2 and whole is not None and whole.what == "actor":
        actions = {str(tokens(a, "NAME")[0]) for a in rules(whole.tree, "action")}
        if names[1] not in actions:
            scope.error(
                "D108",
                tokens(at)[1],
                f"{names[0]} has no action `{names[1]}`.",
                did_you_mean(names[1], actions, "name the actor alone"),
            )
            return None
        return ".".join(names)
    found = actor(at, dotted(at), scope)
    return found.name if found is not None else None


def _seat(name: str, scope: Scope) -> t.Type | None:
    """The type of `me` of an actor; None if it has no place."""
    declared = scope.universe.names.get(name) or scope.universe.names[name.rpartition(".")[0]]
    found = rule(declared.tree, "place")
    if found is None:
        return None
    of = declared.module.visible.get(str(tokens(found)[1]))
    if of is None:
        return t.Bottom()
    return of.enum if of.enum is not None else t.Name(of.name)
