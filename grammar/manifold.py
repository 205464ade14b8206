"""Kinds that stand for many: `"*"` is every object, `"*/scale"` one part of every object that has it."""

from __future__ import annotations

from lark import Token

from dashpot.grammar.scope import Scope
from dashpot.grammar.terms import term, value
from dashpot.grammar.tree import Part
from dashpot.grammar.typing import bare, describe
from dashpot.model import types as t
from dashpot.model.expr import Expr
from dashpot.model.program import Resource

NAMING = ("apiVersion", "kind", "name")
"""The fields by which a struct names an object of any kind, as scaleTargetRef does."""


def manifold(kind: str, scope: Scope) -> Resource | None:
    """The declaration of a kind that stands for many; None for a kind that is one."""
    found = scope.universe.resource(kind)
    return found if found is not None and found.manifold else None


def answers(kind: str, scope: Scope) -> bool:
    """Whether a kind is what the server answers at a path."""
    found = scope.universe.resource(kind)
    return found is not None and found.answers


def one_only(kind: str, token: Part, scope: Scope, *, every: bool = False) -> bool:
    """Report a kind that stands for many where only one kind can stand; `every`: the kind of all objects may. What the
    server answers at paths is no such kind either."""
    if answers(kind, scope):
        text = f"{kind} is what the server answers at a path, so it can only be asked for."
        scope.error("D223", token, text, f"read it by its path: `get live {kind} path`")
        return False
    found = manifold(kind, scope)
    if found is None or (every and not found.part):
        return True
    if found.part:
        text = f"{kind} is a part of other objects, which has no place of its own here."
        fix = f"read it by a reference: `get live {kind} ref`; write it with `update` or `patch`"
    else:
        text, fix = f"{kind} stands for every kind, and this needs one.", "declare the kind that is meant"
    scope.error("D222", token, text, fix)
    return False


def name_of(tree: Part, kind: str, live: bool, scope: Scope) -> Expr:
    """What a `get` asks for: a name; of a kind that stands for many a reference, which says the kind too."""
    if manifold(kind, scope) is None:
        return value(tree, scope, t.Name(kind), "The name of the object to get")
    e = term(tree, scope)
    ty = bare(e.type)
    if isinstance(ty, t.OwnerRef | t.Object | t.Bottom):
        return e
    if isinstance(ty, t.Struct) and live and {n for n, f in ty.fields if isinstance(bare(f), t.Name)} >= {*NAMING}:
        return e
    text = f"A name alone does not say which {kind} is meant, but this is {describe(e.type)}."
    fix = "give an owner reference, an object, or a struct with apiVersion, kind and name"
    return scope.error("D222", tree, text, fix)


def plain(resource: Resource, token: Token, scope: Scope) -> None:
    """Report what a kind of every object cannot declare: it has metadata alone."""
    if resource.manifold and not resource.part and (resource.spec or resource.status or resource.columns):
        text = f"{resource.kind} stands for every kind, so it has metadata alone."
        scope.error("D222", token, text, f'take the fields out: `resource {resource.kind} "*" {{ }}`')
