"""The functions of CEL and of its string, list, set, math and optional extensions, by name.

Each is called with its evaluated arguments, the receiver first, and looks at their types itself. Sources: cel-spec
doc/langdef.md, cel-go ext, k8s.io/apiserver pkg/cel/library/{lists,regex}.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from dashpot.runtime.api.cel.formats import formatted, plain_double
from dashpot.runtime.api.cel.kube import CIDR, IP, KUBE
from dashpot.runtime.api.cel.times import LENGTHS, PARTS, duration, seconds, stamp, timestamp, zone
from dashpot.runtime.api.cel.values import (
    NOTHING,
    BudgetExceeded,
    CelError,
    EvaluationError,
    Maybe,
    TypeName,
    UInt,
    equal,
    natural,
    no_overload,
    ordered,
    spend,
    type_name,
    whole,
)

Frame = list[Any]
COMPILATION = 2_000
"""Steps for a pattern that is not known yet, besides those for its size."""
REFUSAL = 100_000
"""Steps for a pattern that is refused, which may be for its size: 40 ms."""
MAX_TEXT = 8 * 1024 * 1024
"""The longest text that a function makes."""
OPTIONS = re2.Options()
OPTIONS.log_errors = False
OPTIONS.max_mem = 8 * 1024 * 1024


@lru_cache(1024)
def regex(pattern: str) -> Any:
    """A pattern of RE2: linear in the text, whatever it says. CelError where it is none."""
    try:
        return re2.compile(pattern, OPTIONS)
    except (re2.error, ValueError) as error:
        raise CelError(f"compilation failed: invalid matches argument: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode() if isinstance(said, bytes) else str(said)


def _compiled(env: Frame, pattern: Any, text: str) -> Any:
    """A pattern that the expression made: to compile one takes long, so that it costs many steps."""
    before = regex.cache_info().hits
    spend(env, len(text) * (len(_text(pattern)) // 4) // 10)
    try:
        found = regex(pattern)
    except CelError as error:
        spend(env, REFUSAL)
        raise EvaluationError(str(error).removeprefix("compilation failed: ")) from None
    if regex.cache_info().hits == before:
        spend(env, COMPILATION + 2 * found.programsize)
    return found


def _text(value: Any) -> str:
    if type(value) is not str:
        raise no_overload()
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise no_overload()
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise no_overload()
    return value


def _bounded(size: int) -> None:
    if size > MAX_TEXT:
        raise BudgetExceeded()


def size(value: Any) -> int:
    """`size(x)`: characters, bytes, items or keys."""
    if isinstance(value, (str, bytes, list, Mapping)):
        return len(value)
    raise no_overload()


def string(value: Any) -> str:
    """`string(x)`."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return plain_double(value)
        case datetime():
            return stamp(value)
        case timedelta():
            return seconds(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case IP() | CIDR():
            return str(value)
    raise no_overload()


def integer(value: Any) -> int:
    """`int(x)`."""
    match value:
        case bool():
            raise no_overload()
        case int():
            return whole(int(value))
        case float():
            if not -(2.0**63) < value < 2.0**63:
                raise EvaluationError("integer overflow")
            return int(value)
        case str():
            return whole(_parsed(value))
        case datetime():
            return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
        case timedelta():
            return value // timedelta(microseconds=1) * 1000
    raise no_overload()


def _parsed(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 20:
        raise EvaluationError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def unsigned(value: Any) -> UInt:
    """`uint(x)`."""
    if isinstance(value, float):
        if not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return UInt(int(value))
    if isinstance(value, str):
        return natural(_parsed(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return natural(value)
    raise no_overload()


def double(value: Any) -> float:
    """`double(x)`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise no_overload()
    try:
        return float(value)
    except ValueError:
        raise EvaluationError(f'strconv.ParseFloat: parsing "{value}": invalid syntax') from None


def boolean(value: Any) -> bool:
    """`bool(x)`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("true", "True", "TRUE", "t", "T", "1"):
            return True
        if value in ("false", "False", "FALSE", "f", "F", "0"):
            return False
        raise EvaluationError(f'strconv.ParseBool: parsing "{value}": invalid syntax')
    raise no_overload()


def octets(value: Any) -> bytes:
    """`bytes(x)`."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise no_overload()


def to_timestamp(value: Any) -> datetime:
    """`timestamp(x)`."""
    if isinstance(value, datetime):
        return value
    if type(value) is int:
        try:
            return datetime.fromtimestamp(value, UTC)
        except (ValueError, OverflowError, OSError):
            raise EvaluationError("timestamp overflow") from None
    return timestamp(_text(value))


def to_duration(value: Any) -> timedelta:
    """`duration(x)`."""
    return value if isinstance(value, timedelta) else duration(_text(value))


def contains(text: Any, part: Any) -> bool:
    """`text.contains(part)`."""
    return _text(part) in _text(text)


def matches(env: Frame, text: Any, pattern: Any) -> bool:
    """`text.matches(pattern)`: anywhere in the text."""
    return _compiled(env, pattern, _text(text)).search(text) is not None


def find(env: Frame, text: Any, pattern: Any) -> str:
    """`text.find(pattern)`: the first match or nothing."""
    found = _compiled(env, pattern, _text(text)).search(text)
    return "" if found is None else str(found.group(0))


def find_all(env: Frame, text: Any, pattern: Any, limit: int = -1) -> list[str]:
    """`text.findAll(pattern, limit)`."""
    found: list[str] = []
    for match in _compiled(env, pattern, _text(text)).finditer(text):
        if 0 <= limit <= len(found):
            break
        found.append(match.group(0))
    return found


def index_of(env: Frame, value: Any, part: Any, offset: int = 0) -> int:
    """`indexOf`: of a text in a text, of an item in a list; -1 if absent."""
    if isinstance(value, list):
        return next((at for at, item in enumerate(value) if equal(item, part, env)), -1)
    if not 0 <= _number(offset) <= len(_text(value)):
        raise EvaluationError(f"index out of range: {offset}")
    return _text(value).find(_text(part), offset)


def last_index_of(env: Frame, value: Any, part: Any, offset: int | None = None) -> int:
    """`lastIndexOf`."""
    if isinstance(value, list):
        return next((at for at in range(len(value) - 1, -1, -1) if equal(value[at], part, env)), -1)
    if offset is None:
        return _text(value).rfind(_text(part))
    if not 0 <= _number(offset) <= len(_text(value)):
        raise EvaluationError(f"index out of range: {offset}")
    return _text(value).rfind(_text(part), 0, offset + len(part))


def char_at(text: Any, at: Any) -> str:
    """`text.charAt(at)`."""
    if not 0 <= _number(at) <= len(_text(text)):
        raise EvaluationError(f"index out of range: {at}")
    return str(text[at : at + 1])


def substring(text: Any, start: Any, end: Any = None) -> str:
    """`text.substring(start, end)`."""
    end = len(_text(text)) if end is None else _number(end)
    if not 0 <= _number(start) <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise EvaluationError(f"index out of range: {end}")
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return str(text[start:end])


def replace(text: Any, old: Any, new: Any, limit: int = -1) -> str:
    """`text.replace(old, new, limit)`."""
    count = _text(text).count(_text(old))
    if limit >= 0:
        count = min(count, limit)
    _bounded(len(text) + count * len(_text(new)))
    return str(text.replace(old, new, limit))


def split(text: Any, separator: Any, limit: int = -1) -> list[str]:
    """`text.split(separator, limit)`; an empty separator splits characters."""
    if limit == 0:
        return []
    if _text(separator) == "":
        parts = list(_text(text))
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return _text(text).split(separator, limit - 1 if limit > 0 else -1)


def join(items: Any, separator: str = "") -> str:
    """`list.join(separator)`."""
    _bounded(sum(len(_text(item)) for item in _list(items)) + len(_text(separator)) * len(items))
    return separator.join(items)


def _case(shift: int, low: str, high: str) -> Callable[[Any], str]:
    table = {code: code + shift for code in range(ord(low), ord(high) + 1)}
    return lambda text: _text(text).translate(table)


def is_sorted(items: Any) -> bool:
    """`list.isSorted()`."""
    return all(ordered(a, b) <= 0 for a, b in zip(_list(items), items[1:], strict=False))


def _extreme(name: str, sign: int) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        items = values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if ordered(item, best) * sign > 0:
                best = item
        return best

    return extreme


def total(items: Any) -> Any:
    """`list.sum()`: 0 for an empty list."""
    if not _list(items):
        return 0
    if any(type(item) is not type(items[0]) for item in items) or isinstance(items[0], (str, bool)):
        raise no_overload()
    found = sum(items[1:], items[0])
    if isinstance(items[0], UInt):
        return natural(found)
    return whole(found) if isinstance(found, int) else found


def _within(env: Frame, left: Any, right: Any) -> bool:
    spend(env, len(_list(left)) * len(_list(right)))
    return all(any(equal(item, other, env) for other in left) for item in right)


def _same_set(env: Frame, left: Any, right: Any) -> bool:
    return _within(env, left, right) and _within(env, right, left)


def intersects(env: Frame, left: Any, right: Any) -> bool:
    """`sets.intersects(a, b)`."""
    spend(env, len(_list(left)) * len(_list(right)))
    return any(any(equal(item, other, env) for other in left) for item in right)


def some(value: Any) -> Maybe:
    """`optional.of(x)`."""
    return Maybe(True, value)


def nonzero(value: Any) -> Maybe:
    """`optional.ofNonZeroValue(x)`."""
    zero = value is None or (isinstance(value, (bool, int, float, str, bytes, list, Mapping, timedelta)) and not value)
    return NOTHING if zero else Maybe(True, value)


def unwrap(value: Any) -> Any:
    """`optional.value()`."""
    if type(value) is not Maybe:
        raise no_overload()
    if not value.present:
        raise EvaluationError("optional.none() dereference")
    return value.value


def has_value(value: Any) -> bool:
    """`optional.hasValue()`."""
    if type(value) is not Maybe:
        raise no_overload()
    return value.present


def _part(name: str) -> Callable[..., int]:
    def part(value: Any, where: str | None = None) -> int:
        if isinstance(value, datetime):
            return PARTS[name](value if where is None else value.astimezone(zone(where)))
        if isinstance(value, timedelta) and name in LENGTHS and where is None:
            return LENGTHS[name](value)
        raise no_overload()

    return part


def _float(function: Callable[[float], Any]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        if type(value) is not float:
            raise no_overload()
        return function(value)

    return run


def _rounded(value: float) -> float:
    return value if not math.isfinite(value) else math.copysign(math.floor(abs(value) + 0.5), value)


def _finite(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(function(value)) if math.isfinite(value) else value


def _absolute(value: Any) -> Any:
    return whole(abs(value)) if type(value) is int else abs(value)


def _signum(value: Any) -> Any:
    return type(value)((value > 0) - (value < 0))


def _root(value: Any) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


FRAMED: dict[str, Callable[..., Any]] = {
    "matches": matches,
    "find": find,
    "findAll": find_all,
    "indexOf": index_of,
    "lastIndexOf": last_index_of,
    "sets.contains": _within,
    "sets.equivalent": _same_set,
    "sets.intersects": intersects,
}
"""Functions that are given the frame first, and take steps from it."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": size,
    "string": string,
    "int": integer,
    "uint": unsigned,
    "double": double,
    "bool": boolean,
    "bytes": octets,
    "type": lambda value: TypeName(type_name(value)),
    "timestamp": to_timestamp,
    "duration": to_duration,
    "contains": contains,
    "startsWith": lambda text, part: _text(text).startswith(_text(part)),
    "endsWith": lambda text, part: _text(text).endswith(_text(part)),
    "charAt": char_at,
    "substring": substring,
    "replace": replace,
    "split": split,
    "join": join,
    "lowerAscii": _case(32, "A", "Z"),
    "upperAscii": _case(-32, "a", "z"),
    "trim": lambda text: _text(text).strip(),
    "reverse": lambda text: _text(text)[::-1],
    "format": formatted,
    "isSorted": is_sorted,
    "min": _extreme("min", -1),
    "max": _extreme("max", 1),
    "sum": total,
    "optional.of": some,
    "optional.none": lambda: NOTHING,
    "optional.ofNonZeroValue": nonzero,
    "hasValue": has_value,
    "value": unwrap,
    "math.@max": _extreme("math.@max", 1),
    "math.@min": _extreme("math.@min", -1),
    "math.abs": _absolute,
    "math.sign": _signum,
    "math.ceil": _float(_finite(math.ceil)),
    "math.floor": _float(_finite(math.floor)),
    "math.trunc": _float(_finite(math.trunc)),
    "math.round": _float(_rounded),
    "math.isNaN": _float(math.isnan),
    "math.isInf": _float(math.isinf),
    "math.isFinite": _float(math.isfinite),
    "math.sqrt": _root,
    **{name: _part(name) for name in PARTS},
    **KUBE,
}
