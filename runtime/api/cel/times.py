"""Durations and timestamps in text, and the parts of a timestamp in a time zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from dashpot.runtime.api import goduration
from dashpot.runtime.api.cel.values import EvaluationError

STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d\d)")


def timestamp(text: str) -> datetime:
    """RFC 3339 as a time; finer than microseconds is cut."""
    match = STAMP.fullmatch(text)
    if match is None:
        raise EvaluationError(f"invalid timestamp {text!r}")
    day, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone in "Zz" else zone
    try:
        found = datetime.fromisoformat(f"{day}T{clock}{(fraction or '.0')[:7]:0<7}{zone}")
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise EvaluationError(f"invalid timestamp {text!r}") from None


def duration(text: str) -> timedelta:
    """A duration as Go writes it: `1h30m`, `-1.5s`, `0`."""
    try:
        return timedelta(microseconds=round(goduration.seconds(text) * 1e6, 3))
    except ValueError:
        raise EvaluationError(f"invalid duration {text!r}") from None


def seconds(value: timedelta) -> str:
    """A duration in text, `1.5s`."""
    micro = value // timedelta(microseconds=1)
    sign = "-" if micro < 0 else ""
    whole, rest = divmod(abs(micro), 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{sign}{whole}{fraction}s"


def stamp(value: datetime) -> str:
    """A timestamp in text, in UTC."""
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return value.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + fraction + "Z"


def zone(name: str) -> tzinfo:
    """A time zone by name or offset (`+01:00`)."""
    match = OFFSET.fullmatch(name)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None
    except Exception:
        raise EvaluationError(f"unknown time zone {name}") from None


PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
LENGTHS: dict[str, Callable[[timedelta], int]] = {
    "getHours": lambda value: _truncated(value, 3_600_000_000),
    "getMinutes": lambda value: _truncated(value, 60_000_000),
    "getSeconds": lambda value: _truncated(value, 1_000_000),
    "getMilliseconds": lambda value: _truncated(value, 1000) % 1000,
}


def _truncated(value: timedelta, unit: int) -> int:
    micro = value // timedelta(microseconds=1)
    return micro // unit if micro >= 0 else -(-micro // unit)
