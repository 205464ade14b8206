"""Times, durations and quantities: whole numbers inside, texts in JSON.

Times are milliseconds since 1970, durations milliseconds, quantities thousandths. Texts that are none are undefined.
Sources: RFC 3339; Go's time.ParseDuration and Duration.String; k8s.io/apimachinery pkg/api/resource.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from dashpot.model.objects import quantity as quantities
from dashpot.runtime.clock import rfc3339, rfc3339_micro
from dashpot.runtime.controller.undefined import Undefined

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


@lru_cache(maxsize=4096)
def time_of(text: str) -> int:
    """The milliseconds of an RFC 3339 time."""
    try:
        found = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise Undefined(f"{text!r} is no time") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    delta = found - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def time_text(milliseconds: int, micro: bool = False) -> str:
    """A time as Time (whole seconds) or MicroTime writes it."""
    try:
        if not micro:
            return rfc3339(milliseconds // 1000)
        return rfc3339_micro(milliseconds // 1000)[:-8] + f".{milliseconds % 1000:03d}000Z"
    except (ValueError, OverflowError, OSError):
        raise Undefined(f"{milliseconds} ms after 1970 is beyond what a time can say") from None


def duration_of(text: str) -> int:
    """The milliseconds of Go's text: `1h30m`, `1.5s`, `-2m`, `0`."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    total, end = 0, 0
    for part in _PARTS.finditer(rest):
        if part.start() != end:
            break
        whole, _, fraction = part[1].partition(".")
        unit = _NANOSECONDS[part[2]]
        total += int(whole or 0) * unit
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        end = part.end()
    if not rest or end != len(rest):
        raise Undefined(f"{text!r} is no duration")
    return (-total if text[0] == "-" else total) // 10**6


def duration_text(milliseconds: int) -> str:
    """A duration as Go writes it: `1m30s`, `500ms`, `0s`."""
    sign, rest = ("-", -milliseconds) if milliseconds < 0 else ("", milliseconds)
    if rest < 1000:
        return f"{sign}{rest}ms" if rest else "0s"
    seconds, fraction = divmod(rest, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    last = f"{seconds}.{fraction:03d}".rstrip("0") if fraction else str(seconds)
    front = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{front}{last}s"


def quantity_of(value: Any) -> int:
    """The thousandths of a quantity in JSON (a text or a number), rounded up."""
    try:
        return quantities.parse(str(value)).milli
    except quantities.QuantityError:
        raise Undefined(f"{value!r} is no quantity") from None


def quantity_text(thousandths: int) -> str:
    """A quantity in its canonical form: binary where it is a multiple of 1Ki, else decimal."""
    binary = thousandths % 1_024_000 == 0
    return str(quantities.milli(thousandths, quantities.BINARY if binary else quantities.DECIMAL))
