"""Actors: controllers, processes, environments and admission hooks."""

from __future__ import annotations

from attrs import evolve
from lark import Token

from dashpot.grammar import functions
from dashpot.grammar.bodies import automaton, block_of
from dashpot.grammar.declare import field
from dashpot.grammar.expressions import condition, term
from dashpot.grammar.facts import facts
from dashpot.grammar.inline import walk
from dashpot.grammar.manifold import one_only
from dashpot.grammar.scope import Declared, Scope, Universe
from dashpot.grammar.suggest import did_you_mean, suggestion
from dashpot.grammar.targets import fault
from dashpot.grammar.tree import Part, Rule, parts, rule, rules, tokens
from dashpot.grammar.typing import bare, describe
from dashpot.grammar.writes import kind_named
from dashpot.model import types as t
from dashpot.model.automaton import Automaton
from dashpot.model.expr import Expr, Kind, Local, Memory
from dashpot.model.program import (
    Action,
    Admission,
    CacheMode,
    Controller,
    Environment,
    Field,
    Index,
    Place,
    Process,
    Wake,
)

VERBS = ("create", "update", "patch", "apply", "delete", "evict", "bind", "write")
"""What `on` can name: the verbs of the API, and `write` for any of them."""

_SWITCHED_OFF = Automaton(())


def place_of(tree: Rule, scope: Scope) -> tuple[Place | None, Scope]:
    """`at me in Seat`: an instance for each member of an enum, or each object of a kind (`me` is its name)."""
    found = rule(tree, "place")
    if found is None:
        return None, scope
    var, of = tokens(found)
    declared = scope.module.visible.get(str(of))
    ty: t.Type = t.Bottom()
    if declared is not None and declared.enum is not None:
        ty = declared.enum
    elif declared is not None and declared.what == "kind":
        ty = t.Name(str(of))
    else:
        known = [d.name for d in scope.module.visible.values() if d.what in ("enum", "kind")]
        scope.error(
            "D101",
            of,
            f"`{of}` is neither an enum nor a kind.",
            suggestion(scope, str(of), known, f"declare it: `enum {of} {{ a, b }}`"),
        )
    return Place(str(var), str(of), scope.span(found)), scope.with_local(var, ty)


def memory_of(tree: Rule, scope: Scope) -> tuple[tuple[Field, ...], Scope]:
    """Memory and index variables, and the scope that knows them."""
    found: list[Field] = []
    known: dict[str, t.Type] = {}
    for clause in rules(tree, "memory", "index"):
        one = field(rules(clause, "field")[0], scope)
        token = tokens(rules(clause, "field")[0], "NAME")[0]
        if one.name in known:
            scope.error("D103", token, f"There are two memory variables `{one.name}`.", "rename one")
        else:
            scope.check_new(one.name, scope.span(token))
        known[one.name] = one.type
        if clause.data == "memory":
            found.append(one)
    return tuple(found), evolve(scope, memory=known)


def only_if(tree: Rule, scope: Scope) -> Expr | None:
    """The switch `if CONST` at the end of a clause."""
    found = rule(tree, "only_if")
    if found is None:
        return None
    e = condition(parts(found)[0], evolve(scope, look=""), "a switch")
    if any(isinstance(x, Local | Memory | Kind) for x in walk(e)):
        scope.error("D215", found, "A switch is known before anything runs.", "name a `const`")
    return e


def caches_of(tree: Rule, scope: Scope) -> tuple[CacheMode, ...]:
    """`cache A, B mode if CONST`, one entry a kind."""
    found: list[CacheMode] = []
    for clause in rules(tree, "cache"):
        mode = rule(clause, "mode")
        assert mode is not None
        switch = only_if(clause, scope)
        for token in tokens(clause, "NAME"):
            kind = kind_named(token, scope)
            if kind is None or not (str(tokens(mode)[0]) == "lagging" or one_only(kind, token, scope)):
                continue
            if any(c.kind == kind and c.only_if == switch for c in found):
                scope.error("D103", token, f"The cache of {kind} is declared twice.", "remove one of the two")
            found.append(CacheMode(kind, str(tokens(mode)[0]), switch, scope.span(clause)))
    return tuple(found)


def indexes_of(tree: Rule, scope: Scope) -> tuple[Index, ...]:
    """`index x: T = e on Kind { … }` with its event handlers."""
    found: list[Index] = []
    for clause in rules(tree, "index"):
        one = field(rules(clause, "field")[0], evolve(scope, memory={}))
        kind = kind_named(tokens(clause, "NAME")[0], scope)
        if kind is None:
            continue
        handlers: list[tuple[str, Automaton]] = []
        for event in rules(clause, "on_add", "on_update", "on_delete"):
            name = str(event.data).removeprefix("on_")
            if any(name == n for n, _ in handlers):
                scope.error("D103", event, f"There are two handlers for `{name}`.", "put both into one")
            inner = evolve(scope, body="handler", look="cache")
            params = tokens(event, "NAME")
            for token in params:
                inner = inner.with_local(token, t.Object(kind))
            handlers.append((name, automaton(block_of(event), inner, tuple(str(p) for p in params))))
        found.append(Index(one, kind, tuple(handlers), scope.span(clause)))
    return tuple(found)


# ---------------------------------------------------------------- controllers
def controller(declared: Declared, universe: Universe) -> Controller | None:
    """A controller; None if its kind is unknown."""
    tree = declared.tree
    scope = Scope(universe, declared.module, look="cache")
    kind = kind_named(tokens(tree, "NAME")[1], scope)
    if kind is None or not one_only(kind, tokens(tree, "NAME")[1], scope, every=True):
        return None
    place, scope = place_of(tree, scope)
    memory, scope = memory_of(tree, scope)
    bodies = rules(tree, "reconcile")
    gone = rules(tree, "gone")
    _single(tree, ("reconcile", "gone", "workers"), scope)
    if not bodies:
        scope.error(
            "D120",
            tokens(tree, "NAME")[0],
            f"The controller {declared.name} has no reconcile.",
            f"add `reconcile {kind.lower()} {{ … }}`",
        )
    workers = rules(tree, "workers")
    return Controller(
        name=declared.name,
        kind=kind,
        place=place,
        wakes=(_for(tree, kind, scope), *_wakes(tree, kind, scope)),
        caches=caches_of(tree, scope),
        memory=memory,
        indexes=indexes_of(tree, scope),
        workers=int(tokens(workers[0])[0]) if workers else 1,
        reconcile=_pass(bodies[0], t.Object(kind), "reconcile", scope) if bodies else _SWITCHED_OFF,
        gone=_pass(gone[0], t.Name(kind), "gone", scope) if gone else None,
        module=declared.module.name,
        span=declared.span,
    )


def _single(tree: Rule, names: tuple[str, ...], scope: Scope) -> None:
    for name in names:
        for second in rules(tree, name)[1:]:
            scope.error("D103", second, f"There are two `{name}` clauses.", "put both into one")


def _pass(tree: Rule, ty: t.Type, body: str, scope: Scope) -> Automaton:
    token = tokens(tree, "NAME")[0]
    inner = evolve(scope, look="", body=body).with_local(token, ty)
    return automaton(block_of(tree), inner, (str(token),))


def _for(tree: Rule, kind: str, scope: Scope) -> Wake:
    """The `for` clause: `controller C for K as x when e`."""
    children = parts(tree)
    names = [i for i, c in enumerate(children) if isinstance(c, Token) and c.type == "NAME"]
    span = scope.span(tokens(tree, "NAME")[1])
    if len(names) < 3:
        return Wake("for", kind, "", span=span)
    var = children[names[2]]
    assert isinstance(var, Token)
    return Wake("for", kind, str(var), when=_when(children[names[2] + 1], var, kind, scope), span=span)


def _when(tree: Part, var: Token, kind: str, scope: Scope) -> Expr:
    return condition(tree, scope.with_local(var, t.Object(kind)).knowing("old", t.Object(kind)), "what `when` asks")


def _wakes(tree: Rule, own: str, scope: Scope) -> list[Wake]:
    found: list[Wake] = []
    for clause in rules(tree, "owns", "owns_when", "watches"):
        span = scope.span(clause)
        if clause.data == "owns":
            for token in tokens(clause, "NAME"):
                kind = kind_named(token, scope)
                if kind is not None and one_only(kind, token, scope, every=True):
                    found.append(Wake("owns", kind, "", span=scope.span(token)))
            continue
        token, var = tokens(clause, "NAME")[:2]
        kind = kind_named(token, scope)
        if kind is None or not one_only(kind, token, scope, every=True):
            continue
        if clause.data == "owns_when":
            when = _when(parts(clause)[2], var, kind, scope)
            found.append(Wake("owns", kind, str(var), when=when, span=span))
        else:
            found.append(_watches(clause, kind, var, own, scope))
    return found


def _watches(tree: Rule, kind: str, var: Token, own: str, scope: Scope) -> Wake:
    terms = [r for r in rules(tree) if r.data not in ("new_only", "only_if")]
    inner = scope.with_local(var, t.Object(kind))
    keys = term(terms[0], inner, t.Name(own))
    ty = bare(keys.type)
    one = bare(ty.element) if isinstance(ty, t.SetOf | t.ListOf) else ty
    if isinstance(one, t.Object) and one.kind != own:
        fix = f"derive objects of kind {own}, or their names"
        scope.error(
            "D201", terms[0], f"Keys are names or objects of kind {own}, but these are of kind {one.kind}.", fix
        )
    elif not isinstance(one, t.Object | t.Name | t.OwnerRef | t.Bottom | t.Null):
        fix = "take a name (`x.name`), an owner (`x.owner`), or a set of objects"
        scope.error(
            "D201", terms[0], f"Keys are names or objects of kind {own}, but this is {describe(keys.type)}.", fix
        )
    when = _when(terms[1], var, kind, scope) if len(terms) > 1 else None
    new_only = rule(tree, "new_only") is not None
    return Wake("watches", kind, str(var), keys, new_only, when, only_if(tree, scope), scope.span(tree))


# ---------------------------------------------------------------- processes, environments
def process(declared: Declared, universe: Universe) -> Process:
    """A process: what it keeps and what it does."""
    tree = declared.tree
    scope = Scope(universe, declared.module, look="cache")
    place, scope = place_of(tree, scope)
    memory, scope = memory_of(tree, scope)
    return Process(
        name=declared.name,
        place=place,
        caches=caches_of(tree, scope),
        memory=memory,
        indexes=indexes_of(tree, scope),
        actions=_actions(tree, "action", "", scope),
        module=declared.module.name,
        span=declared.span,
    )


def environment(declared: Declared, universe: Universe) -> Environment:
    """An environment: actions that need not happen, and faults."""
    scope = Scope(universe, declared.module)
    return Environment(
        name=declared.name,
        actions=_actions(declared.tree, "environment", "truth", scope),
        faults=tuple(f for f in (fault(tree, scope) for tree in rules(declared.tree, "fault")) if f is not None),
        module=declared.module.name,
        span=declared.span,
    )


def _actions(tree: Rule, body: str, look: str, scope: Scope) -> tuple[Action, ...]:
    found: dict[str, Action] = {}
    for action in rules(tree, "action"):
        token = tokens(action, "NAME")[0]
        if str(token) in found:
            scope.error("D103", token, f"There are two actions `{token}`.", "rename one")
        found[str(token)] = _action(action, body, look, scope)
    return tuple(found.values())


def _action(tree: Rule, body: str, look: str, scope: Scope) -> Action:
    params_tree = rule(tree, "params")
    params = functions.parameters(params_tree, scope)
    inner = scope
    for param, (_, ty) in zip(rules(params_tree, "param") if params_tree is not None else [], params, strict=True):
        token, type_tree = parts(param)
        assert isinstance(token, Token)
        if isinstance(ty, t.Object) and body == "action" and not one_only(ty.kind, type_tree, scope):
            ty = t.Bottom()
        if not isinstance(ty, t.Object | t.Enum | t.Bool | t.Bottom) and not (
            isinstance(ty, t.Int) and ty.lo is not None
        ):
            fix = f"bind it in the body: `let {token} = any …`"
            scope.error(
                "D214",
                type_tree,
                f"The parameters of an action range over kinds, enums and ranges, not over {describe(ty)}.",
                fix,
            )
        inner = inner.with_local(token, ty)
    guards = [r for r in rules(tree) if r.data not in ("params", "limit", "fair", "block")]
    guard = condition(guards[0], inner, "the guard") if guards else None
    known = facts(guard, True) if guard is not None else ()
    limit = rule(tree, "limit")
    return Action(
        name=str(tokens(tree, "NAME")[0]),
        params=tuple(params),
        when=guard,
        limit=int(tokens(limit, "INT")[0]) if limit is not None else None,
        fair=rule(tree, "fair") is not None,
        body=automaton(
            block_of(tree), evolve(inner, body=body, look=look).with_facts(known), tuple(n for n, _ in params)
        ),
        span=scope.span(tokens(tree, "NAME")[0]),
    )


def admission(declared: Declared, universe: Universe) -> Admission | None:
    """An admission hook; None if its kind is unknown."""
    tree = declared.tree
    scope = Scope(universe, declared.module)
    kind_token, var = tokens(tree, "NAME")[1:3]
    kind = kind_named(kind_token, scope)
    if kind is None:
        return None
    inner = scope.with_local(var, t.Object(kind)).knowing("old", t.Object(kind))
    guards = [r for r in rules(tree) if r.data not in ("verbs", "needs", "block")]
    needs = rule(tree, "needs")
    needed: tuple[Expr, str] | None = None
    if needs is not None:
        question = rules(needs)[0]
        needed = (condition(question, inner, "what a hook needs"), str(tokens(needs)[-1]))
    return Admission(
        name=declared.name,
        verbs=verbs_of(tree, scope),
        kind=kind,
        var=str(var),
        when=condition(guards[0], inner, "what `when` asks") if guards else None,
        needs=needed,
        body=automaton(block_of(tree), evolve(inner, body="admission"), (str(var),)),
        module=declared.module.name,
        span=declared.span,
    )


def verbs_of(tree: Rule, scope: Scope) -> tuple[str, ...]:
    """The verbs of an `on`, each once."""
    found = rule(tree, "verbs")
    assert found is not None
    verbs: list[str] = []
    for token in tokens(found):
        if str(token) not in VERBS:
            scope.error("D117", token, f"`{token}` is no verb of the API.", did_you_mean(str(token), VERBS))
        elif str(token) in verbs:
            scope.error("D103", token, f"`{token}` is named twice.", "remove one")
        else:
            verbs.append(str(token))
    return tuple(verbs)
