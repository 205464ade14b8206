"""Which values are the same, and which comes first: equality, distinctness and order by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dashpot.model import types as t
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.obj import Obj, uid_of
from dashpot.runtime.controller.undefined import Undefined

Equal = Callable[[Any, Any], bool]
_encode = msgspec.json.Encoder(order="sorted").encode


def plain(ty: t.Type) -> bool:
    """Whether Python's `==` and hash are right for a type."""
    inner = wide.bare(ty)
    return isinstance(
        inner, t.Bool | t.Int | t.Enum | t.Uid | t.Generation | t.Version | t.Time | t.Duration | t.Quantity
    )


def equal(left: t.Type, right: t.Type) -> Equal:
    """The equality of two types. Objects and references are the same by uid; null equals null alone."""
    a, b = wide.bare(left), wide.bare(right)
    if isinstance(a, t.OwnerRef | t.Object) and isinstance(b, t.OwnerRef | t.Object):
        return _same_incarnation
    if (isinstance(a, t.Name | t.Null) and isinstance(b, t.Name | t.Null)) or (plain(a) and plain(b)):
        return lambda x, y: x == y
    if isinstance(a, t.Object) or isinstance(b, t.Object):
        return lambda x, y: _named(x) == _named(y)
    if isinstance(a, t.SetOf) or isinstance(b, t.SetOf):
        key = key_of(_element(a, b))
        return lambda x, y: x is y or (x is not None and y is not None and set(map(key, x)) == set(map(key, y)))
    key = key_of(b if isinstance(a, t.Null | t.Bottom) else a)
    return lambda x, y: key(x) == key(y)


def _element(a: t.Type, b: t.Type) -> t.Type:
    """The type of the elements of two collections, by the one that knows."""
    for ty in (a, b):
        if isinstance(ty, t.SetOf | t.ListOf) and not isinstance(ty.element, t.Bottom):
            return ty.element
    return t.Bottom()


def _same_incarnation(x: Any, y: Any) -> bool:
    if x is None or y is None:
        return x is y
    if isinstance(x, Obj) and isinstance(y, Obj):
        return x == y
    return uid_of(x) == uid_of(y)


def _named(value: Any) -> Any:
    return value.name if isinstance(value, Obj) else value


def key_of(ty: t.Type) -> Callable[[Any], Any]:
    """A hashable key: equal for equal values of the type."""
    inner = wide.bare(ty)
    match inner:
        case t.OwnerRef() | t.Object():
            return lambda value: None if value is None else uid_of(value) or value
        case t.Struct():
            return _struct_key(inner)
        case t.SetOf(element=element):
            one = key_of(element)
            return lambda value: None if value is None else frozenset(map(one, value))
        case t.ListOf(element=element):
            one = key_of(element)
            return lambda value: None if value is None else tuple(map(one, value))
        case t.MapOf(value=value):
            one = key_of(value)
            return lambda found: None if found is None else frozenset((k, one(v)) for k, v in found.items())
        case t.Name():
            return _named
        case _ if plain(inner):
            return lambda value: value
        case _:
            return json_key


def _struct_key(ty: t.Struct) -> Callable[[Any], Any]:
    """Member by member, as they are read: what is absent equals the zero that it is read as."""
    parts = [(name, wide.reader(one, name), key_of(one)) for name, one in ty.fields]
    if not parts:
        return json_key
    return lambda value: None if value is None else tuple(key(read(value.get(name))) for name, read, key in parts)


def json_key(value: Any) -> Any:
    """A key of any JSON: texts are themselves, all else its canonical form."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Obj):
        return value
    return canonical(value)


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and without spaces."""
    try:
        return _encode(value.json if isinstance(value, Obj) else list(value) if isinstance(value, range) else value)
    except (TypeError, ValueError, RecursionError):
        raise Undefined("the value has no JSON form") from None


def distinct(element: t.Type) -> Callable[[list[Any]], list[Any]]:
    """Takes repetitions out of a list; the first of each stays."""
    if plain(element) or isinstance(wide.bare(element), t.Object):
        return lambda rows: list(dict.fromkeys(rows))
    key = key_of(element)

    def unique(rows: list[Any]) -> list[Any]:
        found: dict[Any, Any] = {}
        for row in rows:
            found.setdefault(key(row), row)
        return list(found.values())

    return unique


# ---------------------------------------------------------------- order
def order(ty: t.Type) -> Callable[[Any], Any]:
    """A value as what Python sorts: false before true, members of an enum in their order, null before all."""
    inner = wide.bare(ty)
    key = _order(inner)
    if isinstance(ty, t.Optional):
        return lambda value: (0,) if value is None else (1, key(value))
    return key


def _order(ty: t.Type) -> Callable[[Any], Any]:
    match ty:
        case t.Enum(members=members):
            ranks = {member: rank for rank, member in enumerate(members)}

            def rank(value: Any) -> int:
                try:
                    return ranks[value]
                except KeyError:
                    raise Undefined(f"{value!r} is no member of {ty.name}") from None

            return rank
        case t.ListOf(element=element):
            one = order(element)
            return lambda rows: tuple(map(one, rows))
        case t.Object():
            return lambda value: (value.namespace, value.name)
        case t.Opaque() | t.Struct() | t.MapOf():
            return lambda value: (1, value) if isinstance(value, str) else (0, str(canonical(value)))
        case _:
            return lambda value: value
