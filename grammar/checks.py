"""Checks and scenarios: what is run, in which scope, from where, and what should come out."""

from __future__ import annotations

from attrs import evolve
from lark import Token

from dashpot.grammar import changed, fields, writes
from dashpot.grammar.adapt import adapt
from dashpot.grammar.expressions import condition, term
from dashpot.grammar.fold import fold
from dashpot.grammar.formulas import DEFAULTS, field_path
from dashpot.grammar.literals import pairs
from dashpot.grammar.scope import Declared, Module, Scope, Universe
from dashpot.grammar.suggest import did_you_mean, suggestion
from dashpot.grammar.targets import STOPPABLE, actor, aim, fault, runs
from dashpot.grammar.tree import Part, Rule, head, parts, rule, rules, tokens, unquote
from dashpot.grammar.typing import describe, fits
from dashpot.model import types as t
from dashpot.model.expr import ListLiteral, Literal
from dashpot.model.program import Check, Expect, GivenObject, Scenario, Step, Waive

VIOLATIONS = ("safety", "stuck", "trapped", "loop")
"""How a property can break (semantics.md, "Fairness and verdicts")."""

LIMITS = ("lag", "list")
"""Numbers of a scope that belong to no kind: undelivered changes of a cache, elements of a list."""

ScopeValue = int | bool | str | tuple[str, ...]


def checks(module: Module, universe: Universe) -> list[Check]:
    """The checks of a module."""
    return [_check(tree, Scope(universe, module)) for tree in rules(module.tree, "check")]


def _check(tree: Rule, scope: Scope) -> Check:
    for name in ("run", "scope", "faults", "resync", "time"):
        for second in rules(tree, name)[1:]:
            scope.error("D103", second, f"There are two `{name}` lines.", "put both into one")
    run, sizes, budgets = rule(tree, "run"), rule(tree, "scope"), rule(tree, "faults")
    if run is None:
        scope.error("D117", head(tree), f"The check {head(tree)} runs nothing.", "add `run ActorA, ActorB`")
    given, inner = _givens(rules(tree, "given"), scope)
    resync, time = rule(tree, "resync"), rule(tree, "time")
    return Check(
        name=str(head(tree)),
        run=runs(run, scope) if run is not None else (),
        scope=_sizes(rules(sizes, "object")[0], scope) if sizes is not None else (),
        faults=tuple(f for f in (fault(b, scope) for b in rules(budgets, "budget")) if f is not None)
        if budgets
        else None,
        resync=resync is not None and str(tokens(resync)[-1]) == "on",
        time=str(tokens(time)[-1]) if time is not None else "urgent",
        given=given,
        expects=tuple(_expect(e, inner) for e in rules(tree, "expect")),
        waives=tuple(w for w in (_waive(w, scope) for w in rules(tree, "waive")) if w is not None),
        module=scope.module.name,
        span=scope.span(tree),
    )


# ---------------------------------------------------------------- scope
def _sizes(tree: Rule, scope: Scope) -> tuple[tuple[str, ScopeValue], ...]:
    found: dict[str, ScopeValue] = {}
    for key, part in pairs(tree):
        name = str(key) if isinstance(key, Token) else ".".join(str(step) for step in key.children)
        declared = scope.module.visible.get(name) or scope.universe.names.get(name)
        name = declared.name if declared is not None else name
        if name in found:
            scope.error("D103", key, f"`{name}` is set twice.", "remove one of the two")
        size = _size(name, declared, key, part, scope)
        if size is not None:
            found[name] = size
    return tuple(found.items())


def _size(name: str, declared: Declared | None, key: Part, part: Part, scope: Scope) -> ScopeValue | None:
    if name == "opaque":
        return _symbols(part, scope)
    if declared is not None and declared.what == "const":
        return _constant(declared, part, scope)
    if name not in LIMITS and (declared is None or declared.what != "kind"):
        known = [d.name for d in scope.universe.names.values() if d.what in ("kind", "const")] + [*LIMITS, "opaque"]
        fix = did_you_mean(name, known, "a scope sets numbers of objects, constants, `lag`, `list` and `opaque`")
        scope.error("D117", key, f"A scope knows nothing of `{name}`.", fix)
        return None
    e = term(part, evolve(scope, look=""), t.Int())
    size = fold(e, _constants(scope))
    if isinstance(e.type, t.Bottom):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        scope.error("D201", part, f"The scope of `{name}` is a number.", f"write `{name}: 1`")
        return None
    return size


def _constants(scope: Scope) -> dict[str, int | bool | str]:
    return {d.name: d.constant.value for d in scope.universe.of("const") if d.constant is not None}


def _constant(declared: Declared, part: Part, scope: Scope) -> ScopeValue | None:
    if declared.constant is None:
        return None
    ty = declared.constant.type
    e = adapt(term(part, evolve(scope, look=""), ty), ty)
    value = fold(e, _constants(scope))
    if not fits(e.type, ty) or value is None:
        if not isinstance(e.type, t.Bottom):
            scope.error(
                "D201",
                part,
                f"`{declared.name}` is {describe(ty)}, but the value is {describe(e.type)}.",
                f"write a value of type {describe(ty)}",
            )
        return None
    return value


def _symbols(part: Part, scope: Scope) -> ScopeValue | None:
    e = term(part, evolve(scope, look=""), t.ListOf(t.Opaque()))
    if isinstance(e, ListLiteral) and all(isinstance(i, Literal) and isinstance(i.value, str) for i in e.items):
        return tuple(str(i.value) for i in e.items if isinstance(i, Literal))
    if isinstance(e, Literal) and isinstance(e.type, t.Int) and isinstance(e.value, int) and e.value > 0:
        return e.value
    if not isinstance(e.type, t.Bottom):
        scope.error("D201", part, "The scope of `opaque` is its symbols.", 'write `opaque: ["v1", "v2"]`')
    return None


# ---------------------------------------------------------------- start and outcome
def _givens(trees: list[Rule], scope: Scope) -> tuple[tuple[GivenObject, ...], Scope]:
    found: list[GivenObject] = []
    for tree in trees:
        kind_token, name = tokens(tree)[:2]
        kind = writes.kind_named(kind_token, scope)
        literal = rule(tree, "object")
        if kind is None or literal is None:
            continue
        bound = name.type == "NAME"
        text = str(name) if bound else unquote(name)
        if any(g.kind == kind and g.name == text for g in found):
            scope.error("D103", name, f"There are two objects {kind} {text}.", "rename one")
            continue
        items = fields.created(literal, kind, evolve(scope, choice=False), "given")
        found.append(GivenObject(kind, text, bound, items, scope.span(tree)))
        if bound:
            twin = text in scope.givens  # two kinds may use one name, which then needs its kind
            if not twin:
                scope.check_new(text, scope.span(name))
            scope = evolve(scope, givens={**scope.givens, text: "" if twin else kind})
    return tuple(found), scope


def _expect(tree: Rule, scope: Scope) -> Expect:
    names = tokens(tree, "NAME")
    violation = rule(tree, "violation") is not None
    kind = within = None
    if violation:
        tail = tree.children[-2:]
        kind_token, within_token = tail
        names = [n for n in names if n is not kind_token]
        if isinstance(kind_token, Token):
            kind = str(kind_token)
            if kind not in VIOLATIONS:
                fix = did_you_mean(kind, VIOLATIONS, "a violation is one of " + ", ".join(VIOLATIONS))
                scope.error("D117", kind_token, f"There is no kind of violation `{kind}`.", fix)
        within = int(within_token) if isinstance(within_token, Token) else None
    for name in names:
        _property_named(name, scope)
    return Expect(tuple(str(n) for n in names), violation, kind, within, scope.span(tree))


def _property_named(token: Token, scope: Scope) -> None:
    name = str(token)
    if name in DEFAULTS or name in scope.module.properties:
        return
    if any(name in m.properties for m in scope.universe.modules.values()):
        return
    known = [*DEFAULTS, *scope.module.properties]
    scope.error(
        "D109",
        token,
        f"I know no property `{name}`.",
        suggestion(scope, name, known, f"declare it: `property {name} = always …`"),
    )


def _waive(tree: Rule, scope: Scope) -> Waive | None:
    token = tokens(tree, "NAME")[0]
    reason = unquote(tokens(tree, "STRING")[-1])
    if str(token) not in DEFAULTS:
        fix = did_you_mean(str(token), DEFAULTS, "these can be waived: " + ", ".join(DEFAULTS))
        scope.error("D109", token, f"`{token}` cannot be waived.", fix)
        return None
    path = rule(tree, "path")
    if path is None:
        return Waive(str(token), None, (), reason, scope.span(tree))
    if (
        len(parts(path)) == 1
        and (kind := scope.universe.names.get(str(parts(path)[0]))) is not None
        and kind.what == "kind"
    ):
        return Waive(str(token), kind.name, (), reason, scope.span(tree))
    found = field_path(path, scope)
    return Waive(str(token), *found, reason, scope.span(tree)) if found is not None else None


# ---------------------------------------------------------------- scenarios
def scenarios(module: Module, universe: Universe) -> list[Scenario]:
    """The scenarios of a module."""
    return [_scenario(tree, Scope(universe, module, body="scenario")) for tree in rules(module.tree, "scenario")]


def _scenario(tree: Rule, scope: Scope) -> Scenario:
    given, scope = _givens(rules(tree, "given"), scope)
    steps = [_step(step, scope) for step in rules(tree) if step.data != "given"]
    return Scenario(
        unquote(tokens(tree, "STRING")[0]),
        given,
        tuple(s for s in steps if s is not None),
        scope.module.name,
        scope.span(tree),
    )


def _step(tree: Rule, scope: Scope) -> Step | None:
    span = scope.span(tree)
    match tree.data:
        case "settle":
            return Step("settle", span=span)
        case "tick":
            return Step("tick", count=int(tokens(tree, "INT")[0]), span=span)
        case "assert":
            return Step("assert", expr=condition(parts(tree)[0], scope, "what is asserted"), span=span)
        case "hold" | "release" as verb:
            names = tokens(tree, "NAME")
            kind = writes.kind_named(names[0], scope)
            found = actor(names[1], str(names[1]), scope, STOPPABLE) if len(names) > 1 else None
            if kind is None or (len(names) > 1 and found is None):
                return None
            return Step(verb, kind=kind, actor=found.name if found is not None else None, span=span)
        case "inject":
            aimed = aim(tree, scope)
            return (
                Step("inject", fault=aimed[0], target=aimed[1], actor=aimed[2], span=span)
                if aimed is not None
                else None
            )
        case _:
            if changed.asked(tree):
                text = "A scenario plays what it says, changed or not."
                scope.error("D120", tree, text, "leave `if changed` out")
            for handler in rules(tree, "handler"):
                scope.error(
                    "D120",
                    handler,
                    "A scenario's write handles no errors.",
                    "remove the handler; a write that fails fails the scenario",
                )
            call = writes.call(tree, scope)
            return Step("write", call=call, span=span) if call is not None else None
