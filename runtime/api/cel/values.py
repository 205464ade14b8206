"""CEL's values in Python: which class stands for which type, equality, order and their errors.

null None, bool, int, double float, string str, bytes, list, map dict; uint UInt, duration timedelta, timestamp
datetime (UTC, microseconds), optional Maybe, type TypeName. Source: cel-spec doc/langdef.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import frozen

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
UINT_MAX = 2**64 - 1


class CelError(Exception):
    """An expression that cannot be compiled; the text is for the user."""


class EvaluationError(CelError):
    """An expression that fails on these values; `||` and `&&` may absorb it."""


class BudgetExceeded(CelError):
    """An expression that took more steps than it may; nothing absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class UInt(int):
    """An unsigned integer."""


@frozen
class TypeName:
    """A type as a value: `type(x)`, `int`."""

    name: str


@frozen
class Maybe:
    """An optional: `present` with a value, or not."""

    present: bool
    value: Any = None


NOTHING = Maybe(False)

NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    tuple: "list",
    dict: "map",
    datetime: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
    Maybe: "optional_type",
    TypeName: "type",
}
NUMBERS = (int, float, UInt)


def type_name(value: Any) -> str:
    """How CEL calls the type of a value."""
    known = NAMES.get(type(value))
    if known is not None:
        return known
    named: str = getattr(value, "cel_type", "")
    return named or ("map" if isinstance(value, Mapping) else "list" if isinstance(value, Sequence) else "unknown")


def no_overload() -> EvaluationError:
    """An operator or function that is not defined for these types."""
    return EvaluationError("no such overload")


def spend(env: list[Any], steps: int) -> None:
    """Takes steps from the budget, which is the first slot of a frame."""
    env[0] -= steps
    if env[0] < 0:
        raise BudgetExceeded()


def equal(left: Any, right: Any, env: list[Any]) -> bool:
    """CEL's `==`: numbers by value whatever their type, lists and maps by content, other types never equal."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind is list:
            if len(left) != len(right):
                return False
            spend(env, len(left))
            return all(equal(a, b, env) for a, b in zip(left, right, strict=True))
        if kind is dict:
            if len(left) != len(right):
                return False
            spend(env, len(left))
            return all(key in right and equal(item, right[key], env) for key, item in left.items())
        if kind is Maybe:
            if left.present != right.present:
                return False
            return equal(left.value, right.value, env)
        if kind is str:
            if len(left) > 1000:
                spend(env, len(left) // 1000)
            return bool(left == right)
        return bool(left == right)
    if kind in NUMBERS and other in NUMBERS:
        return bool(left == right)
    return False


def member(item: Any, container: Any, env: list[Any]) -> bool:
    """CEL's `in`: an item of a list, a key of a map."""
    if isinstance(container, Mapping):
        return hashable(item) in container
    if not isinstance(container, list):
        raise no_overload()
    if type(item) is str:
        spend(env, 1 + len(container) // 10 + len(item) // 1000 * len(container))
        return item in container
    spend(env, len(container))
    return any(equal(item, each, env) for each in container)


def hashable(key: Any) -> Any:
    """A value as key of a map; lists and maps are no keys."""
    if isinstance(key, (list, Mapping)):
        raise no_overload()
    return key


def ordered(left: Any, right: Any) -> int:
    """-1, 0 or 1 for two values of one ordered type; numbers of any type."""
    kind, other = type(left), type(right)
    if kind is not other and not (kind in NUMBERS and other in NUMBERS):
        raise no_overload()
    if kind in (str, int, float, UInt, bytes, bool, datetime, timedelta):
        return -1 if left < right else int(left > right)
    raise no_overload()


def whole(value: int) -> int:
    """An int that fits 64 bits, else the error for overflow."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def natural(value: int) -> UInt:
    """A uint that fits 64 bits, else the error for overflow."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")
