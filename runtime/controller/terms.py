"""Terms to closures: what the kernel makes formulas of is evaluated here on real JSON.

    ready = compile_term(expr, views)
    ready(frame)                        # a wide value; Undefined

A term is compiled once; evaluating it walks no tree. `&&`, `||` and `?:` absorb what is undefined, as CEL's do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, field

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.undefined import NothingToChoose, Undefined
from dashpot.runtime.controller.views import ANY_KEY, METADATA, Views

Term: TypeAlias = Callable[[Frame], Any]
Env: TypeAlias = Mapping[str, str]
"""Names that terms bind for themselves → where a frame keeps them."""
Externs: TypeAlias = Callable[[e.Extern], Callable[..., Any]]
Rule: TypeAlias = Callable[["Terms", Any, Env], Term]

RULES: dict[type, Rule] = {}
"""How each sort of term is compiled; filled by the modules that know (see `vocabulary`)."""


def compiles(*sorts: type) -> Callable[[Rule], Rule]:
    """Marks the function that compiles terms of some sorts."""

    def note(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(sorts, rule))
        return rule

    return note


def no_externs(x: e.Extern) -> Callable[..., Any]:
    """For programs that call nothing that is computed elsewhere."""
    raise Undefined(f"nobody says how `{x.name}` is computed", x.span)


@define(eq=False)
class Terms:
    """Compiles terms over some views. `known` keeps what is compiled, by term."""

    views: Views
    externs: Externs = no_externs
    known: dict[int, tuple[e.Expr, Term]] = field(factory=dict)

    def term(self, x: e.Expr, env: Env | None = None) -> Term:
        """The closure of a term."""
        return RULES[type(x)](self, x, env or {})

    def bind(self, name: str, env: Env) -> tuple[str, dict[str, str]]:
        """A place for a name that a term binds: no local of a body has it, nor any term around."""
        slot = f"{name}#{len(env)}"
        while slot in env.values():
            slot += "#"
        return slot, {**env, name: slot}


def compile_term(x: e.Expr, views: Views, externs: Externs = no_externs) -> Term:
    """The closure of a term: wide value in a frame, or Undefined."""
    from dashpot.runtime.controller import vocabulary

    return vocabulary.terms_of(views, externs).term(x)


# ---------------------------------------------------------------- atoms
@compiles(e.Literal)
def _literal(terms: Terms, x: e.Literal, env: Env) -> Term:
    value = x.value
    return lambda frame: value


@compiles(e.Local)
def _local(terms: Terms, x: e.Local, env: Env) -> Term:
    name = env.get(x.name, x.name)
    text = f"`{x.name}` has no value here"
    span = x.span

    def local(frame: Frame) -> Any:
        try:
            return frame.locals[name]
        except KeyError:
            raise Undefined(text, span) from None

    return local


@compiles(e.Memory)
def _memory(terms: Terms, x: e.Memory, env: Env) -> Term:
    name = x.name
    return lambda frame: frame.memory[name]


@compiles(e.Const)
def _const(terms: Terms, x: e.Const, env: Env) -> Term:
    name = x.name
    return lambda frame: frame.constants[name]


@compiles(e.Let)
def _let(terms: Terms, x: e.Let, env: Env) -> Term:
    value = terms.term(x.value, env)
    slot, inner = terms.bind(x.name, env)
    body = terms.term(x.body, inner)

    def let(frame: Frame) -> Any:
        frame.locals[slot] = value(frame)
        return body(frame)

    return let


@compiles(e.Ternary)
def _ternary(terms: Terms, x: e.Ternary, env: Env) -> Term:
    test, then, other = terms.term(x.test, env), terms.term(x.then, env), terms.term(x.other, env)
    return lambda frame: then(frame) if test(frame) else other(frame)


@compiles(e.Range)
def _range(terms: Terms, x: e.Range, env: Env) -> Term:
    lo, hi = terms.term(x.lo, env), terms.term(x.hi, env)
    return lambda frame: range(lo(frame), hi(frame) + 1)


@compiles(e.Any)
def _any(terms: Terms, x: e.Any, env: Env) -> Term:
    base, span = terms.term(x.base, env), x.span

    def pick(frame: Frame) -> Any:
        found = base(frame)
        if not found:
            raise NothingToChoose("there is nothing to choose from", span)
        rows: Sequence[Any] = list(found)
        return rows[frame.choose(len(rows))] if len(rows) > 1 else rows[0]

    return pick


@compiles(e.Domain)
def _domain(terms: Terms, x: e.Domain, env: Env) -> Term:
    if isinstance(x.of, t.Object):
        return terms.term(e.Kind(x.of.kind, "truth", x.type, x.span), env)
    of = x.of
    if not isinstance(of, t.Int):
        values = wide.elements(of, None)
        return lambda frame: values
    return lambda frame: wide.elements(of, frame.constants)


@compiles(e.Extern)
def _extern(terms: Terms, x: e.Extern, env: Env) -> Term:
    function = terms.externs(x)
    args = [terms.term(arg, env) for arg in x.args]
    name, span = x.name, x.span

    def call(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        try:
            return function(*values)
        except Undefined as problem:
            raise Undefined(f"`{name}`: {problem.text}", span) from None
        except Exception as problem:  # foreign code may raise anything; a pass ends with it, the process does not
            raise Undefined(f"`{name}` failed: {type(problem).__name__}: {problem}", span) from problem

    return call


# ---------------------------------------------------------------- members
@compiles(e.Member)
def _member(terms: Terms, x: e.Member, env: Env) -> Term:
    side = x.base
    if isinstance(side, e.Member) and side.name in ("spec", "status"):
        owner = wide.bare(side.base.type)
        if isinstance(owner, t.Object):
            get = terms.views[owner.kind].getter(side.name, x.name)
            return _read(terms.term(side.base, env), get, x)
    inner = wide.bare(x.base.type)
    base = terms.term(x.base, env)
    match inner:
        case t.Object():
            if x.name in ("spec", "status"):
                return _read(base, lambda json: json.get(x.name) or {}, x)
            return _read(base, METADATA[x.name], x)
        case t.OwnerRef():
            return _part(base, x.name, lambda json: json or "", x)
        case t.Struct():
            return _part(base, x.name, wide.reader(x.type, x.name, terms.views.constants), x)
        case _:
            return _entry(base, lambda frame: x.name, x)


def _read(base: Term, get: Callable[[Any], Any], x: e.Member) -> Term:
    """A field of an object."""
    name, span = x.name, x.span

    def read(frame: Frame) -> Any:
        obj = base(frame)
        if obj is None:
            raise Undefined(f"`.{name}` of null", span)
        try:
            return get(obj.json)
        except Undefined as problem:
            raise Undefined(f"`.{name}` of {obj!r}: {problem.text}", span) from None

    return read


def _part(base: Term, name: str, read: Callable[[Any], Any], x: e.Member) -> Term:
    """A member of a struct or of a reference."""
    span = x.span

    def part(frame: Frame) -> Any:
        value = base(frame)
        if not isinstance(value, dict):
            raise Undefined(f"`.{name}` of {'null' if value is None else 'what is no object'}", span)
        try:
            return read(value.get(name))
        except Undefined as problem:
            raise Undefined(f"`.{name}`: {problem.text}", span) from None

    return part


@compiles(e.Element)
def _element(terms: Terms, x: e.Element, env: Env) -> Term:
    return _entry(terms.term(x.base, env), terms.term(x.key, env), x)


def _entry(base: Term, key: Term, x: e.Member | e.Element) -> Term:
    """`base[key]`; a key of a map that is an object stands for its name."""
    span = x.span

    def entry(frame: Frame) -> Any:
        rows, at = base(frame), key(frame)
        if rows is None or at is None:
            raise Undefined("`[…]` of null", span)
        if isinstance(rows, dict):
            at = at.name if isinstance(at, Obj) else at
            if at in rows:
                return rows[at]
            raise Undefined(f"there is no entry {at!r}", span)
        if 0 <= at < len(rows):
            return rows[at]
        raise Undefined(f"there is no element {at}", span)

    return entry


# ---------------------------------------------------------------- literals
@compiles(e.ListLiteral)
def _list(terms: Terms, x: e.ListLiteral, env: Env) -> Term:
    items = [terms.term(item, env) for item in x.items]
    if isinstance(x.type, t.SetOf):
        from dashpot.runtime.controller.alike import distinct

        unique = distinct(x.type.element)
        return lambda frame: unique([item(frame) for item in items])
    return lambda frame: [item(frame) for item in items]


@compiles(e.ObjectLiteral)
def _object(terms: Terms, x: e.ObjectLiteral, env: Env) -> Term:
    ty = wide.bare(x.type)
    if isinstance(ty, t.Struct):
        return _struct(terms, x, ty, env)
    items = [
        (terms.term(step, env) if not isinstance(step, str) else _always(_key(step, ty)), terms.term(item.value, env))
        for item in x.items
        for step in item.path[:1]
    ]
    base = wide.zero(ty, terms.views.constants) if isinstance(ty, t.MapOf) else {}
    return lambda frame: {**base, **{key(frame): value(frame) for key, value in items}}


def _always(value: Any) -> Term:
    return lambda frame: value


def _key(text: str, ty: t.Type) -> Any:
    return wide.key_reader(ty.key)(text) if isinstance(ty, t.MapOf) else text


def _struct(terms: Terms, x: e.ObjectLiteral, ty: t.Struct, env: Env) -> Term:
    """A struct is its JSON: members are written at once; what is null is absent."""
    fields = dict(ty.fields)
    items = []
    for item in x.items:
        name = str(item.path[0])
        form = "string" if name == "status" and wide.conditional(ty) else ""
        items.append((name, terms.term(item.value, env), wide.writer(fields[name], name, form)))

    def struct(frame: Frame) -> Any:
        made = {}
        for name, value, write in items:
            written = write(value(frame))
            if written is not None:
                made[name] = written
        return made

    return struct


# ---------------------------------------------------------------- givens
@compiles(e.Given)
def _given(terms: Terms, x: e.Given, env: Env) -> Term:
    kind, name, span = x.kind, x.name, x.span

    def given(frame: Frame) -> Any:
        found = frame.reader.get(kind, frame.namespace, name)
        if found is None:
            raise Undefined(f'there is no {kind} "{name}"', span)
        return found

    return given


__all__ = ["ANY_KEY", "RULES", "Env", "Externs", "Term", "Terms", "Undefined", "compile_term", "compiles"]
