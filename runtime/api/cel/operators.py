"""Operators whose operands' types are known only when they run: arithmetic, order, fields and items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from dashpot.runtime.api.cel.values import (
    NOTHING,
    EvaluationError,
    Maybe,
    UInt,
    natural,
    no_overload,
    ordered,
    spend,
    whole,
)

Frame = list[Any]
Binary = Callable[[Any, Any, Frame], Any]


def picked(value: Any, name: str) -> Any:
    """`value.name` where the type of the value is not known; of an optional, an optional."""
    if isinstance(value, Mapping):
        try:
            return value[name]
        except KeyError:
            raise EvaluationError(f"no such key: {name}") from None
    if type(value) is Maybe:
        return optional_field(value, name, None)
    raise no_overload()


def optional_field(value: Any, name: str, reader: Callable[[Any], Any] | None) -> Maybe:
    """`value.?name`."""
    if type(value) is Maybe:
        if not value.present:
            return NOTHING
        value = value.value
    if not isinstance(value, Mapping):
        raise no_overload()
    found = value.get(name)
    if found is None:
        return NOTHING
    return Maybe(True, found if reader is None else reader(found))


def optional_index(value: Any, key: Any) -> Maybe:
    """`value[?key]`."""
    if type(value) is Maybe:
        if not value.present:
            return NOTHING
        value = value.value
    if isinstance(value, Mapping):
        return Maybe(True, value[key]) if key in value else NOTHING
    if isinstance(value, list) and type(key) in (int, UInt):
        return Maybe(True, value[key]) if 0 <= key < len(value) else NOTHING
    raise no_overload()


def index(value: Any, key: Any, env: Frame) -> Any:
    """`value[key]`."""
    if isinstance(value, Mapping):
        try:
            return value[key]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {key}") from None
    if isinstance(value, list):
        if isinstance(key, bool) or not isinstance(key, (int, float)) or key != int(key):
            raise no_overload()
        if 0 <= key < len(value):
            return value[int(key)]
        raise EvaluationError(f"index out of bounds: {key}")
    if type(value) is Maybe:
        return optional_index(value, key)
    raise no_overload()


def negated(value: Any) -> Any:
    """`-value`."""
    if type(value) is int:
        return whole(-value)
    if type(value) is float:
        return -value
    raise no_overload()


def add(left: Any, right: Any, env: Frame) -> Any:
    """`+`: numbers, text, lists, times."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return whole(left + right)
        if kind is float or kind is timedelta:
            return left + right
        if kind is str or kind is bytes or kind is list:
            spend(env, (len(left) + len(right)) // 10 + 1)
            return left + right
        if kind is UInt:
            return natural(int(left) + int(right))
    if {kind, other} == {datetime, timedelta}:
        return _moved(lambda: left + right)
    raise no_overload()


def subtract(left: Any, right: Any, env: Frame) -> Any:
    """`-`: numbers, times."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return whole(left - right)
        if kind is float or kind is timedelta or kind is datetime:
            return left - right
        if kind is UInt:
            return natural(int(left) - int(right))
    if kind is datetime and other is timedelta:
        return _moved(lambda: left - right)
    raise no_overload()


def _moved(move: Callable[[], datetime]) -> datetime:
    try:
        return move()
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def multiply(left: Any, right: Any, env: Frame) -> Any:
    """`*`."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return whole(left * right)
        if kind is float:
            return left * right
        if kind is UInt:
            return natural(int(left) * int(right))
    raise no_overload()


def divide(left: Any, right: Any, env: Frame) -> Any:
    """`/`: integers towards zero."""
    kind = type(left)
    if kind is not type(right):
        raise no_overload()
    if kind is float:
        if right == 0.0:
            return math.nan if left == 0.0 or math.isnan(left) else math.copysign(math.inf, left) * _sign(right)
        return left / right
    if kind not in (int, UInt):
        raise no_overload()
    if right == 0:
        raise EvaluationError("division by zero")
    if kind is UInt:
        return natural(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return whole(quotient if (left < 0) == (right < 0) else -quotient)


def _sign(value: float) -> float:
    return math.copysign(1.0, value)


def remainder(left: Any, right: Any, env: Frame) -> Any:
    """`%`: of the sign of the left operand."""
    kind = type(left)
    if kind is not type(right) or kind not in (int, UInt):
        raise no_overload()
    if right == 0:
        raise EvaluationError("modulus by zero")
    rest = abs(left) % abs(right)
    return UInt(rest) if kind is UInt else (-rest if left < 0 else rest)


def _less(left: Any, right: Any, env: Frame) -> bool:
    return not _unordered(left, right) and ordered(left, right) < 0


def _less_equal(left: Any, right: Any, env: Frame) -> bool:
    return not _unordered(left, right) and ordered(left, right) <= 0


def _greater(left: Any, right: Any, env: Frame) -> bool:
    return not _unordered(left, right) and ordered(left, right) > 0


def _greater_equal(left: Any, right: Any, env: Frame) -> bool:
    return not _unordered(left, right) and ordered(left, right) >= 0


def _unordered(left: Any, right: Any) -> bool:
    return bool(left != left or right != right)


BINARY: dict[str, Binary] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": remainder,
    "_[_]": index,
    "_<_": _less,
    "_<=_": _less_equal,
    "_>_": _greater,
    "_>=_": _greater_equal,
}
