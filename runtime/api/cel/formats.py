"""Numbers in text and `"%s".format([x])`. Source: cel-go ext/formatting.go."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from dashpot.runtime.api.cel.times import seconds, stamp
from dashpot.runtime.api.cel.values import EvaluationError, TypeName, no_overload

CLAUSE = re.compile(r"%(?:\.(\d{1,4}))?([a-zA-Z%])")


def plain_double(value: float) -> str:
    """A double as Go prints it: `1` for 1.0."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)


def formatted(pattern: Any, values: Any) -> str:
    """`pattern.format(values)`: clauses %s %d %f %e %b %o %x %X %%."""
    if not isinstance(pattern, str) or not isinstance(values, list):
        raise no_overload()
    rest = iter(values)

    def clause(match: re.Match[str]) -> str:
        verb = match[2]
        if verb == "%":
            return "%"
        try:
            value = next(rest)
        except StopIteration:
            raise EvaluationError(f"index {len(values)} out of range") from None
        return _clause(verb, value, 6 if match[1] is None else int(match[1]))

    return CLAUSE.sub(clause, pattern)


def _clause(verb: str, value: Any, precision: int) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if verb == "s":
        return shown(value)
    if verb == "d" and (whole or isinstance(value, float)):
        return str(int(value)) if whole else plain_double(value)
    if verb in "fe" and (whole or isinstance(value, float)):
        return f"{float(value):.{min(precision, 1000)}{verb}}"
    if verb in "box" and isinstance(value, int):
        return format(int(value), verb)
    if verb == "X" and whole:
        return format(int(value), "X")
    if verb in "xX" and isinstance(value, (str, bytes)):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if verb == "X" else text
    raise EvaluationError(f"error during formatting: unrecognized formatting clause or type for %{verb}")


def shown(value: Any) -> str:
    """A value as `%s` writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return value.decode(errors="replace")
        case int():
            return str(int(value))
        case float():
            return plain_double(value)
        case datetime():
            return stamp(value)
        case timedelta():
            return seconds(value)
        case TypeName():
            return value.name
        case list():
            return f"[{', '.join(shown(item) for item in value)}]"
        case Mapping():
            pairs = sorted((shown(key), shown(item)) for key, item in value.items())
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    return str(value)
