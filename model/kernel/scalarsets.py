"""Which enums are scalarsets: no term of the run tells their members apart.

Such members may be permuted in any state without changing what can happen (Ip and Dill, 1996). What breaks it is
named, with the line, so that a person can decide whether the order is meant.
"""

from __future__ import annotations

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.kernel.walk import parts
from dashpot.model.program import Field, Resource
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
