"""Declarations of names, constants, enums, structs and resources: what every body stands on."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve
from lark import Token, Tree

from dashpot.grammar import functions, typenames
from dashpot.grammar.adapt import constant
from dashpot.grammar.expressions import condition, term, value
from dashpot.grammar.fold import fold
from dashpot.grammar.inline import walk
from dashpot.grammar.manifold import plain
from dashpot.grammar.scope import WORDS, Declared, Module, Scope, Universe
from dashpot.grammar.suggest import did_you_mean
from dashpot.grammar.tree import Part, Rule, head, parts, rules, tokens, unquote
from dashpot.grammar.typing import BUILTIN, bare, describe
from dashpot.model import types as t
from dashpot.model.expr import Local
from dashpot.model.program import Constant, Field, Resource
from dashpot.model.program import Rule as CelRule

SORTS = {
    "const": "const",
    "enum": "enum",
    "struct": "struct",
    "resource": "kind",
    "function": "fun",
    "extern": "extern",
    "controller": "actor",
    "process": "actor",
    "admission": "actor",
    "environment": "actor",
}
"""Which declarations name something for the whole program, and what."""

LOCAL = ("fun", "extern")
"""Sorts that leave no trace in a Program, so that every module has its own."""

YIELDING = ("actor", "const")
"""Sorts whose names a later module may take: nothing but a run and a scope calls them from afar."""

RESERVED = frozenset(BUILTIN) | {"truth", "me", "self", "old", "oldSelf", "lag", "list"}
"""Names that mean something of their own."""


def collect(module: Module, universe: Universe) -> None:
    """Note what a module declares; report what is declared twice."""
    formulas: dict[tuple[str, str], Token] = {}
    for tree in rules(module.tree):
        if tree.data == "use":
            continue
        token = head(tree)
        name, scope = str(token), Scope(universe, module)
        if tree.data in SORTS:
            _declare(token, tree, module, universe)
            continue
        sort = str(tree.data)
        first = formulas.setdefault((sort, name), token)
        if first is not token:
            words = ((scope.span(first), "It is declared here first:"),)
            universe.notes.error(
                "D103", scope.span(token), f"There are two declarations `{sort} {name}`.", "rename one of them", words
            )
        if sort == "property":
            module.properties[name] = tree


def _declare(token: Token, tree: Rule, module: Module, universe: Universe) -> None:
    name, what = str(token), SORTS[tree.data]
    span = Scope(universe, module).span(token)
    if name in RESERVED:
        universe.notes.error("D103", span, f"`{name}` has a meaning of its own.", "choose another name")
        return
    declared = Declared(name, what, tree, module, span)
    own = module.own.get(name)
    other = own if own is not None else universe.names.get(name)
    if own is None and other is not None and other.what in YIELDING:
        # What another module calls so gives way and keeps its long name; a text that sees both is told (see `_see`).
        other.name = f"{other.module.name}.{name}"
        universe.names[other.name] = other
    elif own is not None or (other is not None and what not in LOCAL and other.what not in LOCAL):
        assert other is not None
        _twice(declared, other, universe)
        return
    module.own[name] = declared
    if what not in LOCAL or name not in universe.names:
        universe.names[name] = declared


def _twice(declared: Declared, other: Declared, universe: Universe) -> None:
    name = declared.name
    text = f"`{name}` is declared twice: it is {WORDS.get(other.what, 'an actor')} already."
    fix = "rename one of them"
    if other.module is not declared.module:
        text = f"`{name}` is {WORDS.get(other.what, 'an actor')} of {other.module.name} already."
        fix = f"use that one (`use {other.module.name} ({name})`), or choose another name"
    words = ((other.span, "It is declared here first:"),)
    universe.notes.error("D103", declared.span, text, fix, words)


def enums(module: Module, universe: Universe) -> None:
    """The enums of a module; members that mean something else are reported where they stand."""
    for declared in module.own.values():
        if declared.what != "enum":
            continue
        members: list[str] = []
        scope = Scope(universe, module)
        for token in tokens(declared.tree)[1:]:
            if str(token) in members:
                scope.error("D103", token, f"`{token}` is a member twice.", "remove one")
                continue
            members.append(str(token))
        if not members:
            scope.error(
                "D113", tokens(declared.tree)[0], f"The enum {declared.name} has no members.", "name one at least"
            )
        declared.enum = t.Enum(declared.name, tuple(members))


def clashes(module: Module, universe: Universe) -> None:
    """Report enum members that are names of something else here (ruling 15)."""
    scope = Scope(universe, module)
    owners: dict[str, str] = {}
    for declared in module.visible.values():
        if declared.enum is not None and declared.module is not module:
            owners.update(dict.fromkeys(declared.enum.members, declared.name))
    for declared in module.own.values():
        if declared.what in WORDS and declared.name in owners:
            text = f"`{declared.name}` is a member of {owners[declared.name]} already."
            universe.notes.error("D114", declared.span, text, "choose another name")
        if declared.enum is None:
            continue
        for token in tokens(declared.tree)[1:]:
            name = str(token)
            other = module.visible.get(name)
            if other is not None and other.what in WORDS:
                words = ((other.span, "That one is declared here:"),)
                universe.notes.error(
                    "D114", scope.span(token), f"`{name}` is {WORDS[other.what]} already.", "rename the member", words
                )
            elif owners.setdefault(name, declared.name) != declared.name:
                scope.error("D114", token, f"`{name}` is a member of {owners[name]} already.", "rename one of the two")


def constants(module: Module, universe: Universe) -> None:
    """The values of a module's constants, in the order of the text."""
    for declared in module.own.values():
        if declared.what != "const":
            continue
        scope = Scope(universe, module, look="")
        part = parts(declared.tree)[1]
        said = len(universe.notes.messages)
        e = term(part, scope)
        if isinstance(e.type, t.Bottom):
            if len(universe.notes.messages) == said:
                text = f"`{declared.name}` is built from itself, or from a constant that stands below it."
                scope.error("D215", part, text, "write a literal, or put the other constant first")
            continue
        found = fold(e, {d.name: d.constant.value for d in universe.of("const") if d.constant is not None})
        if found is None or isinstance(e.type, t.Null):
            scope.error(
                "D215",
                part,
                "A constant is a number, a bool, a duration, a string or an enum member.",
                "write a literal",
            )
            continue
        declared.constant = Constant(declared.name, found, e.type, scope.span(declared.tree))


def structs(module: Module, universe: Universe) -> None:
    """The structs of a module, used or not."""
    for declared in module.own.values():
        if declared.what == "struct":
            typenames.struct(declared.name, tokens(declared.tree)[0], Scope(universe, module))


def resources(module: Module, universe: Universe) -> None:
    """The fields of a module's kinds; their rules come later, since they may call functions."""
    for declared in module.own.values():
        if declared.what != "kind":
            continue
        tree, scope = declared.tree, Scope(universe, module)
        version = tokens(tree, "STRING")
        spec, status = _side(tree, "spec", scope), _side(tree, "status", scope)
        made = declared.resource = Resource(
            kind=declared.name,
            api_version=unquote(version[0]) if version else "v1",
            spec=spec,
            status=status,
            rules=(),
            columns=_columns(tree, [f.name for f in spec + status], scope),
            module=module.name,
            wide=bool(rules(tree, "wide")),
            span=declared.span,
        )
        plain(made, tokens(tree, "NAME")[0], scope)


def _side(tree: Rule, which: str, scope: Scope) -> tuple[Field, ...]:
    found = rules(tree, which)
    for second in found[1:]:
        scope.error("D103", second, f"There are two `{which}` blocks.", "put all fields into one")
    return fields(rules(found[0], "field"), scope) if found else ()


def fields(trees: Iterable[Rule], scope: Scope) -> tuple[Field, ...]:
    """The fields of a spec or status, each name once."""
    made: dict[str, Field] = {}
    for tree in trees:
        one = field(tree, scope)
        if one.name in made:
            scope.error("D103", tokens(tree)[0], f"There are two fields `{one.name}`.", "rename or remove one")
        made[one.name] = one
    return tuple(made.values())


def field(tree: Rule, scope: Scope) -> Field:
    """One field: name, type, default and modifiers."""
    token = tokens(tree, "NAME")[0]
    type_tree, *rest = [p for p in parts(tree)[1:] if not (isinstance(p, Tree) and p.data == "modifier")]
    ty = typenames.type_of(type_tree, scope)
    words = {str(tokens(m)[0]): m for m in rules(tree, "modifier")}
    if "keyed" in words:
        ty = typenames.keyed(ty, tokens(words["keyed"])[1], scope)
    default = None
    if rest:
        default = value(rest[0], evolve(scope, look=""), ty, f"`{token}`")
        if not all(constant(x) or not isinstance(x, Local) for x in walk(default)):
            scope.error("D215", rest[0], "A default is known before anything runs.", "write a literal or a constant")
    if "monotone" in words and not isinstance(bare(ty), t.Int | t.Generation | t.Time | t.Bottom):
        scope.error(
            "D213",
            words["monotone"],
            f"`monotone` needs a value that can grow, but `{token}` is {describe(ty)}.",
            "remove it",
        )
    if ty == t.Int():
        scope.notes.warn(
            "D233",
            scope.span(type_tree),
            f"`{token}` has no bounds, so the checker cannot enumerate it.",
            "give it a range, such as `0..3`",
        )
    at = unquote(tokens(words["at"])[1]) if "at" in words else None
    return Field(
        str(token), ty, default, "immutable" in words, "required" in words, "monotone" in words, at, scope.span(token)
    )


def _columns(tree: Rule, known: list[str], scope: Scope) -> tuple[str, ...]:
    found: list[str] = []
    for columns in rules(tree, "columns"):
        for token in tokens(columns):
            if str(token) not in known and str(token) not in t.METADATA:
                scope.error(
                    "D102",
                    token,
                    f"There is no field `{token}` for a column.",
                    did_you_mean(str(token), known, "declare it"),
                )
            found.append(str(token))
    return tuple(found)


def rules_of(module: Module, universe: Universe) -> None:
    """The CEL rules of a module's kinds."""
    for declared in module.own.values():
        if declared.resource is None:
            continue
        ty = t.Object(declared.name)
        scope = Scope(universe, module, look="").knowing("self", ty).knowing("oldSelf", ty)
        made = tuple(_rule(tree, scope) for tree in rules(declared.tree, "rule"))
        declared.resource = evolve(declared.resource, rules=made)


def _rule(tree: Rule, scope: Scope) -> CelRule:
    body: Part = parts(tree)[0]
    e = condition(body, scope, "a rule")
    words = tokens(tree, "STRING")
    text = unquote(words[-1]) if words else "rule violated"
    transition = any(isinstance(x, Local) and x.name == "oldSelf" for x in walk(e))
    return CelRule(e, text, transition, scope.span(tree))


def all_functions(module: Module, universe: Universe) -> None:
    """Type every function, called or not."""
    for declared in module.own.values():
        if declared.what in ("fun", "extern"):
            functions.function(declared, Scope(universe, module))
