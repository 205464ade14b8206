"""When a value of one type may stand where another is expected, and what types are called in messages."""

from __future__ import annotations

from dashpot.model import types as t
from dashpot.model.expr import Binary, Const, Expr, Literal, Unary

BUILTIN: dict[str, t.Type] = {
    "bool": t.Bool(),
    "int": t.Int(),
    "Name": t.Name(),
    "Uid": t.Uid(),
    "Generation": t.Generation(),
    "Version": t.Version(),
    "Time": t.Time(),
    "Duration": t.Duration(),
    "Quantity": t.Quantity(),
    "opaque": t.Opaque(),
}
"""Types that need no declaration."""


def describe(ty: t.Type) -> str:
    """A type as it is written in a spec."""
    match ty:
        case t.Int(lo=None) | t.Int(hi=None):
            return "int"
        case t.Int(lo=lo, hi=hi):
            return f"{bound_text(lo)}..{bound_text(hi)}"
        case t.Enum(name=name) | t.Struct(name=name):
            return name
        case t.Optional(inner=inner):
            return describe(inner) + "?"
        case t.ListOf(element=element):
            return f"[]{describe(element)}"
        case t.SetOf(element=element):
            return f"set[{describe(element)}]"
        case t.MapOf(key=key, value=value):
            return f"map[{describe(key)}]{describe(value)}"
        case t.Name(kind=kind) if kind:
            return f"ref {kind}"
        case t.Object(kind=kind):
            return kind
        case t.OwnerRef():
            return "owner reference"
        case t.Bool() | t.Opaque() | t.Null():
            return type(ty).__name__.lower()
        case t.Bottom():
            return "nothing"
        case _:
            return type(ty).__name__


def told(e: Expr) -> str:
    """What a value is, in words: literals by themselves, others by their type."""
    match e:
        case Literal(value=str() as text, type=t.Name() | t.Opaque()):
            return f'the string "{text}"'
        case Literal(value=None, type=t.Null()):
            return "null"
        case _:
            return describe(e.type)


def bound_text(bound: Expr | None) -> str:
    """A bound of a range as it is written."""
    match bound:
        case Literal(value=value):
            return str(value)
        case Const(name=name):
            return name
        case Unary(operand=inner):
            return "-" + bound_text(inner)
        case Binary(op=op, left=left, right=right):
            return f"{bound_text(left)} {op} {bound_text(right)}"
        case _:
            return "…"


def bare(ty: t.Type) -> t.Type:
    """The type without its null."""
    return ty.inner if isinstance(ty, t.Optional) else ty


def nullable(ty: t.Type) -> t.Type:
    """The type with null added."""
    return ty if isinstance(ty, t.Optional | t.Null | t.Bottom) else t.Optional(ty)


def element(ty: t.Type) -> t.Type | None:
    """What a collection holds (of a map: its keys); None if the type is no collection."""
    match bare(ty):
        case t.ListOf(element=inner) | t.SetOf(element=inner) | t.MapOf(key=inner):
            return inner
        case t.Bottom():
            return t.Bottom()
        case _:
            return None


def fits(actual: t.Type, want: t.Type) -> bool:
    """Whether a value of type `actual` may be stored in a place of type `want` (ranges are not compared)."""
    if isinstance(actual, t.Bottom) or isinstance(want, t.Bottom):
        return True
    match want:
        case t.Optional(inner=inner):
            return isinstance(actual, t.Null) or fits(bare(actual), inner)
        case t.ListOf(element=e) | t.SetOf(element=e):
            return isinstance(actual, t.ListOf | t.SetOf) and fits(actual.element, e)
        case t.MapOf(key=k, value=v):
            return isinstance(actual, t.MapOf) and fits(actual.key, k) and fits(actual.value, v)
        case t.Enum(name=name):
            return isinstance(actual, t.Enum) and actual.name == name
        case t.Struct(name=name):
            return isinstance(actual, t.Struct) and actual.name == name
        case t.Object(kind=kind):
            return isinstance(actual, t.Object) and actual.kind == kind
        case t.OwnerRef():
            return isinstance(actual, t.OwnerRef | t.Object)
        case _:
            return type(actual) is type(want)


def join(a: t.Type, b: t.Type) -> t.Type | None:
    """The type of a value that is either; None if there is none."""
    if isinstance(a, t.Int) and isinstance(b, t.Int):
        return a if a == b else t.Int()
    for one, other in ((a, b), (b, a)):
        if isinstance(one, t.Null):
            return nullable(other)
        if isinstance(one, t.Optional) and fits(bare(other), one.inner):
            return one
    return b if fits(a, b) and not isinstance(b, t.Bottom) else a if fits(b, a) else None


def comparable(a: t.Type, b: t.Type) -> bool:
    """Whether `==` between the two can ever be true."""
    x, y = bare(a), bare(b)
    if isinstance(x, t.Null) or isinstance(y, t.Null):
        return True
    return fits(x, y) or fits(y, x)


def ordered(ty: t.Type) -> bool:
    """Whether `<` means something for values of the type."""
    return isinstance(bare(ty), t.Int | t.Time | t.Duration | t.Quantity | t.Generation | t.Bottom)


def numeric(ty: t.Type) -> bool:
    """Whether the type takes part in arithmetic."""
    return isinstance(bare(ty), t.Int | t.Duration | t.Quantity | t.Bottom)


FOLDS = ("all", "exists", "exists_one", "filter", "map", "count", "sum", "min", "max", "first", "sortBy")
"""Methods that may bind a variable: `s.all(x, …)`."""

PLAIN = ("size", "isEmpty", "take", "drop", "contains", "startsWith", "endsWith", "matches", "keys", "values")
"""Methods that bind none."""

METHODS = FOLDS + PLAIN
