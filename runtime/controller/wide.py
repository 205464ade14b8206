"""Wide values: what the types of the language are on real JSON.

bool, int, str and None are Python's. A member of an enum, a name, a uid and a version are texts. Time, Duration and
Quantity are whole numbers (amounts.py). A struct is its JSON; its members are converted when they are read. Lists are
lists, sets lists without repetitions, maps dicts of wide keys and values. An owner is an ownerReference. What a type
cannot read is undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from dashpot.model import types as t
from dashpot.model.expr import Const, Expr, Literal, Unary
from dashpot.runtime.controller import amounts
from dashpot.runtime.controller.undefined import Undefined

Object = dict[str, Any]
Reader: TypeAlias = Callable[[Any], Any]
Constants: TypeAlias = dict[str, Any]


def bare(ty: t.Type) -> t.Type:
    """The type without `?`."""
    return ty.inner if isinstance(ty, t.Optional) else ty


def in_seconds(name: str) -> bool:
    """Whether a duration of that JSON name is a number of seconds."""
    return name.endswith(("Seconds", "seconds"))


def conditional(ty: t.Struct) -> bool:
    """Whether a struct is a condition, whose status is a text: it has a type and a bool that says so."""
    fields = dict(ty.fields)
    return "type" in fields and isinstance(fields.get("status"), t.Bool)


# ---------------------------------------------------------------- zeros
def zero(ty: t.Type, constants: Constants | None = None) -> Any:
    """The value of a field that nobody set."""
    match ty:
        case t.Bool():
            return False
        case t.Int(lo=lo, hi=hi):
            return _nearest(bound(lo, constants), bound(hi, constants))
        case t.Enum(members=members):
            return members[0] if members else ""
        case t.ListOf() | t.SetOf():
            return []
        case t.MapOf(key=key, value=value):
            return {k: zero(value, constants) for k in elements(key, constants)} if total(key) else {}
        case t.Struct():
            return {}
        case t.Name() | t.Uid() | t.Version():
            return ""
        case t.Generation() | t.Time() | t.Duration() | t.Quantity():
            return 0
        case _:
            return None


def _nearest(lo: int | None, hi: int | None) -> int:
    """The number nearest to 0 between two bounds."""
    return max(lo if lo is not None else 0, min(0, hi if hi is not None else 0))


def bound(e: Expr | None, constants: Constants | None) -> int | None:
    """The value of a bound of a range: a literal or a constant, perhaps negated."""
    match e:
        case Literal(value=int() as value):
            return int(value)
        case Const(name=name):
            found = (constants or {}).get(name)
            return found if isinstance(found, int) else None
        case Unary(operand=operand):
            inner = bound(operand, constants)
            return None if inner is None else -inner
        case _:
            return None


def total(key: t.Type) -> bool:
    """Whether a map over such keys has all of them."""
    return isinstance(key, t.Enum | t.Bool) or (isinstance(key, t.Int) and key.hi is not None)


def elements(ty: t.Type, constants: Constants | None) -> list[Any]:
    """All values of a finite type, in order."""
    match ty:
        case t.Bool():
            return [False, True]
        case t.Enum(members=members):
            return list(members)
        case t.Int(lo=lo, hi=hi):
            first, last = bound(lo, constants), bound(hi, constants)
            if first is not None and last is not None:
                return list(range(first, last + 1))
    raise Undefined("such a type has no list of its values")


# ---------------------------------------------------------------- reading
def reader(ty: t.Type, name: str = "", constants: Constants | None = None) -> Reader:
    """JSON (None: absent) to a wide value. `name` is the JSON field, which says how a duration is written."""
    match ty:
        case t.Optional(inner=inner):
            read = reader(inner, name, constants)
            return read if isinstance(inner, t.Opaque) else lambda json: None if json is None else read(json)
        case t.Bool():
            return _bool
        case t.Int():
            lowest = zero(ty, constants)
            return lambda json: json if type(json) is int else lowest if json is None else _int(json)
        case t.Generation():
            return lambda json: json if type(json) is int else 0 if json is None else _int(json)
        case t.Name() | t.Uid() | t.Version():
            return lambda json: "" if json is None else json if isinstance(json, str) else _name(json)
        case t.Enum(members=members):
            first = members[0] if members else ""
            return lambda json: first if json is None else json
        case t.Time():
            return lambda json: 0 if json is None else amounts.time_of(json)
        case t.Duration():
            return _seconds if in_seconds(name) else _duration
        case t.Quantity():
            return lambda json: 0 if json is None else amounts.quantity_of(json)
        case t.ListOf(element=element) | t.SetOf(element=element):
            return _list_reader(element, isinstance(ty, t.SetOf), constants)
        case t.MapOf():
            return _map_reader(ty, constants)
        case t.Struct():
            return lambda json: {} if json is None else json
        case _:
            return lambda json: json


def _bool(json: Any) -> bool:
    if isinstance(json, bool):
        return json
    if json is None or isinstance(json, str):
        return json in ("True", "true")
    raise Undefined(f"{json!r} is neither true nor false")


def _int(json: Any) -> int:
    if isinstance(json, str):
        thousandths = amounts.quantity_of(json)
        return -(-thousandths // 1000)
    if isinstance(json, float) and json.is_integer():
        return int(json)
    raise Undefined(f"{json!r} is no whole number")


def _name(json: Any) -> str:
    if isinstance(json, int) and not isinstance(json, bool):
        return str(json)
    raise Undefined(f"{json!r} is no text")


def _seconds(json: Any) -> int:
    if json is None:
        return 0
    if isinstance(json, int | float) and not isinstance(json, bool):
        return int(json * 1000)
    return _duration(json)


def _duration(json: Any) -> int:
    if json is None:
        return 0
    if not isinstance(json, str):
        raise Undefined(f"{json!r} is no duration")
    return amounts.duration_of(json)


def _list_reader(element: t.Type, unique: bool, constants: Constants | None) -> Reader:
    if _as_it_is(element):
        return lambda json: json if isinstance(json, list) else [] if json is None else _no_list(json)
    read = reader(element, "", constants)
    return lambda json: (
        [] if json is None else [read(row) for row in json] if isinstance(json, list) else _no_list(json)
    )


def _no_list(json: Any) -> Any:
    raise Undefined(f"{json!r} is no list")


def _as_it_is(ty: t.Type) -> bool:
    return isinstance(ty, t.Struct | t.Opaque | t.Enum | t.Name | t.Uid | t.OwnerRef)


def _map_reader(ty: t.MapOf, constants: Constants | None) -> Reader:
    base = zero(ty, constants)
    same = isinstance(ty.key, t.Name) and _as_it_is(ty.value)
    key, value = key_reader(ty.key), reader(ty.value, "", constants)

    def read(json: Any) -> Any:
        if json is None:
            return base
        if not isinstance(json, dict):
            raise Undefined(f"{json!r} is no map")
        if same:
            return json
        return {**base, **{key(k): value(v) for k, v in json.items()}}

    return read


def key_reader(ty: t.Type) -> Callable[[str], Any]:
    """A JSON key to a key of a map."""
    match ty:
        case t.Int():
            return int
        case t.Bool():
            return lambda text: text == "true"
        case _:
            return str


# ---------------------------------------------------------------- writing
def writer(ty: t.Type, name: str = "", form: str = "") -> Reader:
    """A wide value to JSON; None stays None (absent). `form`: what the schema of the place says of it: "microtime",
    "quantity" or "string" (see forms.py)."""
    match ty:
        case t.Optional(inner=inner):
            return writer(inner, name, form)
        case t.Bool() if form == "string":
            return lambda value: None if value is None else "True" if value else "False"
        case t.Int() if form in ("quantity", "string"):
            return lambda value: None if value is None else str(value)
        case t.Time():
            micro = form == "microtime"
            return lambda value: None if value is None else amounts.time_text(value, micro)
        case t.Duration():
            if in_seconds(name):
                return lambda value: None if value is None else -(-value // 1000)
            return lambda value: None if value is None else amounts.duration_text(value)
        case t.Quantity():
            return lambda value: None if value is None else amounts.quantity_text(value)
        case t.ListOf(element=element) | t.SetOf(element=element):
            write = writer(element)
            return lambda value: None if value is None else [write(row) for row in value]
        case t.MapOf(key=key, value=inner):
            write, text = writer(inner), key_writer(key)
            return lambda value: None if value is None else {text(k): write(v) for k, v in value.items()}
        case t.Name():
            return lambda value: value if value is None or isinstance(value, str) else value.name
        case _:
            return lambda value: value


def key_writer(ty: t.Type) -> Callable[[Any], str]:
    """A key of a map to a JSON key."""
    match ty:
        case t.Bool():
            return lambda key: "true" if key else "false"
        case t.Int():
            return str
        case _:
            return lambda key: key if isinstance(key, str) else key.name
