"""Which enums and kinds are scalarsets: no term of the run tells their members apart.

Such members may be permuted in any state without changing what can happen (Ip and Dill, 1996). What breaks it is
named, with the line, so that a person can decide whether the order is meant.
"""

from __future__ import annotations

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.automaton import Assign, Call
from dashpot.model.kernel.walk import parts
from dashpot.model.program import Controller, Field, Index, Place, Property, Resource
from dashpot.model.span import Span

ORDERED = ("<", "<=", ">", ">=", "+")


def scalarsets(
    enums: list[t.Enum], pieces: list[object], resources: list[Resource], placed: set[str]
) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """(symmetric enums, what broke it for the others as (enum, reason))."""
    broken: dict[str, str] = {name: "actors stand at its members" for name in placed}
    for thing in [*pieces, *resources]:
        for p in parts(thing):
            for name, reason in _breaks(p):
                broken.setdefault(name, reason)
    for resource in resources:
        for f in (*resource.spec, *resource.status):
            _plain_field(f, broken)
    for piece in pieces:
        for p in parts(piece):
            if isinstance(p, Field):
                _plain_field(p, broken)
    names = frozenset(x.name for x in enums if x.name not in broken)
    return names, tuple((k, v) for k, v in broken.items() if any(x.name == k for x in enums))


def _breaks(p: object) -> list[tuple[str, str]]:
    match p:
        case e.Literal(type=t.Enum(name=name), span=span):
            return [(name, f"{_at(span)} names a member of it")]
        case e.Binary(op=op, left=a, right=b, span=span) if op in ORDERED:
            return [(ty.name, f"{_at(span)} orders its members") for ty in (a.type, b.type) if isinstance(ty, t.Enum)]
        case e.Fold(op="first" | "min" | "max" | "sortBy", base=base, span=span):
            ty = getattr(base.type, "element", None)
            return [(ty.name, f"{_at(span)} picks one by order")] if isinstance(ty, t.Enum) else []
        case e.Builtin(op="hash" | "string", args=args, span=span):
            return [(a.type.name, f"{_at(span)} makes a text of it") for a in args if isinstance(a.type, t.Enum)]
        case _:
            return []


def _plain_field(f: Field, broken: dict[str, str]) -> None:
    """A field that always holds a member starts with the first one, which tells that one apart."""
    ty = f.type
    if isinstance(ty, t.Enum):
        broken.setdefault(ty.name, f"{_at(f.span)} starts with its first member (`{ty.name}?` would not)")
    elif isinstance(ty, t.Struct):
        for _, inner in ty.fields:
            if isinstance(inner, t.Enum):
                broken.setdefault(inner.name, f"{_at(f.span)} starts with its first member")


def _at(span: Span) -> str:
    return f"{span.file}:{span.line}"


# ---------------------------------------------------------------------- kinds
def interchangeable(
    kinds: list[str], pieces: list[object], resources: list[Resource]
) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """Of `kinds`, whose objects all have generated names, those that no term tells apart; for the others what does.

    Only `==`, quantifiers, counts and choices may speak of such objects: no names, no order of slots, no reference
    other than `owner` in a field or in memory.
    """
    broken: dict[str, str] = {}
    for thing in [*pieces, *resources]:
        ordered = isinstance(thing, Property)
        for p in parts(thing):
            for kind, reason in _tells_apart(p, ordered):
                broken.setdefault(kind, reason)
    left = [k for k in kinds if k not in broken]
    # An owner reference is renamed for one kind only.
    owners = {kind for thing in pieces for kind in _owning(thing)}
    for kind in [k for k in left if k in owners][1:]:
        broken[kind] = "two interchangeable kinds own objects"
    return frozenset(k for k in kinds if k not in broken), tuple((k, v) for k, v in broken.items() if k in kinds)


def _owning(thing: object) -> list[str]:
    out = []
    for p in parts(thing):
        if isinstance(p, e.Assignment) and p.path[:1] in (("owner",), ("owners",)):
            out += _kinds_in(p.value.type)
    return out


def _kinds_in(ty: t.Type | None) -> list[str]:
    """Kinds whose objects or names a value of this type holds."""
    match ty:
        case t.Object(kind=kind):
            return [kind]
        case t.Name(kind=kind) if kind:
            return [kind]
        case t.Optional(inner=inner) | t.ListOf(element=inner) | t.SetOf(element=inner):
            return _kinds_in(inner)
        case t.MapOf(key=key, value=value):
            return _kinds_in(key) + _kinds_in(value)
        case t.Struct(fields=fields):
            return [k for _, f in fields for k in _kinds_in(f)]
        case _:
            return []


def _tells_apart(p: object, ordered: bool) -> list[tuple[str, str]]:
    match p:
        case e.Member(base=base, name="name" | "uid" as name, span=span):
            return [(k, f"{_at(span)} reads its {name}") for k in _kinds_in(base.type)]
        case e.Cached(verb="get", kind=kind, span=span) | Call(verb="get", kind=kind, span=span):
            return [(kind, f"{_at(span)} gets it by name")]
        case e.Given(kind=kind, span=span):
            return [(kind, f"{_at(span)} names one of its objects")]
        case e.Element(base=base, span=span):
            return [(k, f"{_at(span)} picks one by position") for k in _kinds_in(base.type)]
        case e.Fold(op="first" | "sortBy", base=base, span=span) if ordered:
            return [(k, f"{_at(span)} picks one by order") for k in _kinds_in(base.type)]
        case e.Method(op="take" | "drop", base=base, span=span) if ordered:
            return [(k, f"{_at(span)} picks one by order") for k in _kinds_in(base.type)]
        case e.Local(type=t.Name(kind=kind), span=span) if kind:
            return [(kind, f"{_at(span)} holds its name")]
        case e.Assignment(path=path, value=value, span=span) if path[0] not in ("owner", "owners"):
            return [(k, f"{_at(span)} keeps a reference to it") for k in _kinds_in(value.type)]
        case Assign(value=value, span=span):
            return [(k, f"{_at(span)} keeps a reference to it") for k in _kinds_in(value.type)]
        case Field(type=ty, span=span):
            return [(k, f"{_at(span)} holds its name") for k in _kinds_in(ty)]
        case Index(kind=kind, span=span):
            return [(kind, f"{_at(span)} follows its events one by one")]
        case Place(of=kind, span=span):
            return [(kind, f"{_at(span)} stands at its objects")]
        case Controller(kind=kind, span=span) if any(_blind(c) for c in parts(p)):
            return [(kind, f"{_at(span)} writes without a version, key by key")]
        case _:
            return []


def _blind(p: object) -> bool:
    return isinstance(p, Call) and not p.guard and (p.verb == "patch" or p.force)
