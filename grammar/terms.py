"""Terms: a parse tree becomes a typed expression with resolved names, or messages.

`term(tree, scope, want)` is the one entrance. `want` is the type that the place expects, if it expects one: it
gives literals their type (a string may be a name or an opaque value) and enum members their enum. A term that is
wrong is reported once and stands as a literal of type `Bottom`, which fits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lark import Token, Tree

from dashpot.grammar.adapt import adapt, check_range, mend
from dashpot.grammar.nearest import nearest
from dashpot.grammar.scope import Scope
from dashpot.grammar.suggest import did_you_mean, suggestion
from dashpot.grammar.tree import Part, Rule, parts, tokens
from dashpot.grammar.typing import BUILTIN, METHODS, bare, describe, fits, numeric, told
from dashpot.model import types as t
from dashpot.model.expr import Const, Domain, Element, Expr, Given, Kind, Literal, Local, Member, Memory

Builder: TypeAlias = Callable[[Rule, Scope, t.Type | None], Expr]

RULES: dict[str, Builder] = {}
"""How each rule of the grammar becomes an expression; filled by the modules that know (see `expressions`)."""


def builds(*names: str) -> Callable[[Builder], Builder]:
    """Mark the function that makes expressions of the rules `names`."""

    def note(function: Builder) -> Builder:
        RULES.update(dict.fromkeys(names, function))
        return function

    return note


def term(tree: Part, scope: Scope, want: t.Type | None = None) -> Expr:
    """The expression that `tree` denotes in `scope`; its type need not be `want` (see `value`)."""
    assert isinstance(tree, Tree), tree
    return RULES[tree.data](tree, scope, want)


def value(tree: Part, scope: Scope, want: t.Type, what: str = "this") -> Expr:
    """The expression, which must fit `want`; `what` names the place in the message."""
    return settle(term(tree, scope, want), tree, scope, want, what)


def condition(tree: Part, scope: Scope, what: str = "a condition") -> Expr:
    """The expression, which must be a bool."""
    e = term(tree, scope, t.Bool())
    if not fits(e.type, t.Bool()):
        fix = "compare it: `… > 0`" if numeric(e.type) else "compare it: `… != null`, `… == …`"
        return scope.error(
            "D204", tree, f"{what.capitalize()} must be true or false, but this is {describe(e.type)}.", fix
        )
    return present(e, tree, scope)


def settle(e: Expr, tree: Part, scope: Scope, want: t.Type, what: str = "this") -> Expr:
    """Report if `e` cannot stand where `want` is expected; adapt literals and constants that can."""
    e = adapt(e, want)
    if isinstance(e.type, t.Optional) and not isinstance(want, t.Optional | t.Bottom):
        e = present(e, tree, scope)
    if fits(e.type if isinstance(want, t.Optional) else bare(e.type), want):
        check_range(e, want, tree, scope)
        if isinstance(bare(want), t.ListOf) and isinstance(bare(e.type), t.SetOf):
            scope.notes.warn(
                "D234", scope.span(tree), "A set is stored in a list here; its order is arbitrary.",
                "declare the field as `set[…]`, or sort with `.sortBy(x, …)`",
            )  # fmt: skip
        return e
    return scope.error("D201", tree, f"{what} is {describe(want)}, but the value is {told(e)}.", mend(e, want))


def present(e: Expr, tree: Part, scope: Scope) -> Expr:
    """Warn if `e` may be null here and nothing has tested it."""
    if isinstance(e.type, t.Optional) and e not in scope.facts:
        scope.notes.warn(
            "L408",
            scope.span(tree),
            "This may be null here; a member of null is undefined.",
            f"test it first: `{scope.quote(tree)} != null && …`",
        )
    return e


# ---------------------------------------------------------------- names
@builds("var")
def _var(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    token = tokens(tree)[0]
    return name(token, tree, scope, want)


def name(token: Token, tree: Part, scope: Scope, want: t.Type | None = None) -> Expr:
    """What a name stands for: locals, memory, constants, kinds, functions, givens, enum members last."""
    text, span = str(token), scope.span(token)
    if text in scope.locals:
        bound = scope.locals[text]
        return Local(bound.name, bound.type, span)
    if text in scope.memory:
        return Memory(text, scope.memory[text], span)
    found = scope.module.visible.get(text)
    if found is not None:
        if found.constant is not None:
            c = found.constant
            return Const(c.name, c.type, span)
        if found.what == "kind":
            return _kind(text, tree, scope)
        if found.enum is not None:
            return Domain(found.enum, t.SetOf(found.enum), span)
    if text in scope.givens:
        kind = scope.givens[text]
        if not kind:
            return scope.error(
                "D101", token, f"Several given objects are called `{text}`.", f'say which: `Kind "{text}"`'
            )
        return Given(kind, text, t.Object(kind), span)
    member = _enum_member(text, scope, want)
    if member is not None:
        return Literal(text, member, span)
    if found is not None and found.what in ("fun", "extern"):
        return scope.error("D101", token, f"`{text}` is a function; it has to be called.", f"write `{text}(…)`")
    if found is not None and found.what != "const":
        return scope.error("D101", token, f"`{text}` is {_sort(found.what)}, which is no value.", "name a value here")
    if found is not None:
        return Literal(None, t.Bottom(), span)  # a constant that was reported where it is declared
    if text in BUILTIN:
        return Domain(BUILTIN[text], t.SetOf(BUILTIN[text]), span)
    wanted = bare(want) if want is not None else None
    known = wanted.members if isinstance(wanted, t.Enum) else scope.known()
    otherwise = did_you_mean(text, known) if isinstance(wanted, t.Enum) else "declare it, or check its spelling"
    near = nearest(text, [*scope.locals, *scope.memory, *scope.givens])
    fix = f"did you mean `{near}`?" if near else suggestion(scope, text, known, otherwise)
    return scope.error("D101", token, f"I know nothing of the name `{text}` here.", fix)


def _sort(what: str) -> str:
    return {"struct": "a struct", "actor": "an actor"}.get(what, what)


def _enum_member(text: str, scope: Scope, want: t.Type | None) -> t.Enum | None:
    wanted = bare(want) if want is not None else None
    if isinstance(wanted, t.Enum) and text in wanted.members:
        return wanted
    near = [d.enum for d in scope.module.visible.values() if d.enum is not None and text in d.enum.members]
    if near:
        return near[0]
    far = [d.enum for d in scope.universe.of("enum") if d.enum is not None and text in d.enum.members]
    return far[0] if len(far) == 1 else None


def _kind(text: str, tree: Part, scope: Scope) -> Expr:
    if not scope.look:
        return scope.error(
            "D112",
            tree,
            f"This body reads `{text}` without saying where it looks.",
            f"read it first: `let all = list cached {text}` (its cache) or `list live {text}` (the API server)",
        )
    resource = scope.universe.resource(text)
    if scope.look == "cache" and resource is not None and resource.part:
        fix = f"read it by a reference: `get live {text} ref`"
        return scope.error("D222", tree, f"{text} is a part of other objects, which no cache has.", fix)
    return Kind(text, scope.look, t.SetOf(t.Object(text)), scope.span(tree))


# ---------------------------------------------------------------- members
@builds("member")
def _member(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    base_tree, token = parts(tree)[0], tokens(tree)[-1]
    base = term(base_tree, scope)
    if isinstance(base, Domain) and isinstance(base.of, t.Enum):
        if str(token) in base.of.members:
            return Literal(str(token), base.of, scope.span(tree))
        fix = did_you_mean(str(token), base.of.members)
        return scope.error("D102", token, f"The enum {base.of.name} has no member `{token}`.", fix)
    return member(base, token, tree, base_tree, scope)


def member(base: Expr, token: Token, tree: Part, base_tree: Part, scope: Scope) -> Expr:
    """`base.name` with its type, or a message that says what there is."""
    text = str(token)
    if isinstance(base.type, t.Bottom):
        return Literal(None, t.Bottom(), scope.span(tree))
    present(base, base_tree, scope)
    ty = bare(base.type)
    fields = members(ty, scope)
    if fields is None:
        fix = "call it: " + f"`.{text}(…)`" if text in METHODS else f"a value of type {describe(ty)} has no members"
        if isinstance(ty, t.Name) and text == "name":
            fix = "it is a name already: leave `.name` out"
        elif isinstance(ty, t.Name) and ty.kind:
            fix = f"a `ref {ty.kind}` is a name; read the object first: `let x = get cached {ty.kind} …`"
        return scope.error("D102", token, f"`{text}` is asked of a value of type {describe(base.type)}.", fix)
    if text not in fields:
        return scope.error("D102", token, f"{describe(ty)} has no field `{text}`.", _field_fix(text, ty, fields, scope))
    return Member(base, text, fields[text], scope.span(tree))


def members(ty: t.Type, scope: Scope) -> dict[str, t.Type] | None:
    """The fields that values of the type have; None if it has none at all."""
    match ty:
        case t.Object(kind=kind):
            return {"spec": side(kind, "spec", scope), "status": side(kind, "status", scope), **t.METADATA}
        case t.Struct(fields=fields):
            return dict(fields)
        case t.OwnerRef():
            return dict(t.REFERENCE)
        case t.MapOf(key=t.Name(), value=inner):
            return _AnyKey(inner)
        case _:
            return None


class _AnyKey(dict[str, t.Type]):
    """The members of a map over names: every name is one."""

    def __init__(self, inner: t.Type) -> None:
        super().__init__()
        self.inner = inner

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> t.Type:
        return self.inner


def side(kind: str, which: str, scope: Scope) -> t.Struct:
    """The spec or status of a kind as a struct named `Kind.spec`."""
    resource = scope.universe.resource(kind)
    fields = () if resource is None else resource.spec if which == "spec" else resource.status
    return t.Struct(f"{kind}.{which}", tuple((f.name, f.type) for f in fields))


def _field_fix(text: str, ty: t.Type, fields: dict[str, t.Type], scope: Scope) -> str:
    if isinstance(ty, t.Object):
        for which in ("spec", "status"):
            if any(n == text for n, _ in side(ty.kind, which, scope).fields):
                return f"it lies in the {which}: write `.{which}.{text}`"
    if isinstance(ty, t.Struct) and "." in ty.name:
        kind, here = ty.name.split(".")
        other = "status" if here == "spec" else "spec"
        if any(n == text for n, _ in side(kind, other, scope).fields):
            return f"it lies in the {other}: write `.{other}.{text}`"
        if text in t.METADATA:
            return f"it is metadata, which lies beside {here}: write `.{text}` without `.{here}`"
    return did_you_mean(text, fields) or f"declare it, or choose one of {', '.join(sorted(fields))}"


@builds("element")
def _element(tree: Rule, scope: Scope, want: t.Type | None) -> Expr:
    base_tree, key_tree = parts(tree)
    base = present(term(base_tree, scope), base_tree, scope)
    match bare(base.type):
        case t.ListOf(element=inner):
            return Element(base, value(key_tree, scope, t.Int(), "The index of a list"), inner, scope.span(tree))
        case t.MapOf(key=key, value=inner):
            return Element(base, value(key_tree, scope, key, "The key of this map"), inner, scope.span(tree))
        case t.SetOf():
            return scope.error(
                "D211", tree, "A set has no first or second element.", "use `.first()`, or sort with `.sortBy(x, …)`"
            )
        case t.Bottom():
            return base
        case other:
            return scope.error(
                "D211", tree, f"`[…]` needs a list or a map, but this is {describe(other)}.", "name a list or map"
            )
