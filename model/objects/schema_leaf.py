"""Leaves of a schema: what one JSON value must be and how it is stored, or why Go would not take it.

A step takes a value and gives what is stored in its place, `DROP` for what Go leaves out when it writes the object
again, or raises Mismatch. Source: encoding/json, sigs.k8s.io/json; apimachinery pkg/apis/meta/v1 time.go,
micro_time.go; pkg/util/intstr; pkg/api/resource.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from dashpot.model.objects.quantity import QuantityError, canonical, canonical_amount

Step = Callable[[Any], Any]
DROP: Final = object()


class Mismatch(Exception):
    """A value of another JSON type than the field has; `parts` and `struct` say where, filled in on the way up.

    `text` alone is what Go says about a value whose type reads itself (quantities, times, bytes).
    """

    def __init__(self, text: str, *, want: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.want = want
        self.struct = ""
        self.parts: list[str] = []

    def told(self) -> str:
        """Go's sentence: `json: cannot unmarshal string into Go struct field Container.spec.image of type string`."""
        if not self.want:
            return self.text
        if not self.struct:
            return f"json: cannot unmarshal {self.text} into Go value of type {self.want}"
        path = ".".join(reversed(self.parts))
        return f"json: cannot unmarshal {self.text} into Go struct field {self.struct}.{path} of type {self.want}"


def word(value: Any) -> str:
    """How Go calls the JSON type of a value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "null" if value is None else "number"


def mismatch(value: Any, want: str) -> Mismatch:
    """A value where Go has the type `want`."""
    return Mismatch(word(value), want=want)


def text_step(*, keep_empty: bool) -> Step:
    """A string; an empty one is left out unless Go has a pointer there."""

    def step(value: Any) -> Any:
        if value is None:
            return DROP
        if value.__class__ is not str:
            raise mismatch(value, "string")
        return value if value or keep_empty else DROP

    return step


def boolean_step(*, keep_false: bool) -> Step:
    """A boolean."""

    def step(value: Any) -> Any:
        if value is None:
            return DROP
        if value.__class__ is not bool:
            raise mismatch(value, "bool")
        return value if value or keep_false else DROP

    return step


def integer_step(bits: int, *, keep_zero: bool) -> Step:
    """An integer of 32 or 64 bits; 1.0 is none, as in Go."""
    low, high, want = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, f"int{bits}"

    def step(value: Any) -> Any:
        if value is None:
            return DROP
        if value.__class__ is not int or not low <= value <= high:
            if value.__class__ in (int, float):
                raise Mismatch(f"number {value}", want=want)
            raise mismatch(value, want)
        return value if value or keep_zero else DROP

    return step


def number(value: Any) -> Any:
    """A floating-point number."""
    if value is None:
        return DROP
    if value.__class__ not in (int, float):
        raise mismatch(value, "float64")
    return value


def int_or_string(value: Any) -> Any:
    """A port, a percentage: an int32 or any string."""
    if value.__class__ is str or (value.__class__ is int and -(2**31) <= value < 2**31):
        return value
    if value is None:
        return DROP
    told = f"number {value}" if value.__class__ in (int, float) else word(value)
    raise Mismatch(f"json: cannot unmarshal {told} into Go value of type int32")


def quantity(value: Any) -> Any:
    """A quantity, stored canonically; numbers are taken by their text."""
    return _quantity(value, canonical)


def amount(value: Any) -> Any:
    """A quantity in a list of resources: rounded up to thousandths."""
    return _quantity(value, canonical_amount)


def _quantity(value: Any, read: Callable[[str], str]) -> Any:
    if value.__class__ is not str:
        if value is None:
            return DROP
        if value.__class__ not in (int, float):
            raise Mismatch("unable to parse quantity's suffix" if value.__class__ is bool else _not_a_quantity())
        value = str(value)
    try:
        return read(value)
    except QuantityError as error:
        raise Mismatch(str(error)) from None


def _not_a_quantity() -> str:
    from dashpot.model.objects.quantity import FORMAT_WRONG

    return FORMAT_WRONG


def base64_bytes(value: Any) -> Any:
    """Bytes, written as standard base64 with padding."""
    if value.__class__ is not str:
        if value is None:
            return ""
        raise mismatch(value, "[]uint8")
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        at = _first_illegal(value)
        if at is not None:
            raise Mismatch(f"illegal base64 data at input byte {at}") from None
        return value.replace("\r", "").replace("\n", "")
    return value


_DIGITS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BREAKS: Final = frozenset(b"\r\n")


def _first_illegal(value: str) -> int | None:
    """Where Go's decoder stops, line breaks counted though they are skipped; None where it does not."""
    data = value.encode("utf-8", "surrogatepass")
    read = 0  # digits of the current group of four
    for at, byte in enumerate(data):
        if byte in _BREAKS:
            continue
        if byte in _DIGITS:
            read = (read + 1) % 4
        elif byte == ord("=") and read >= 2:
            return _after_padding(data, at + 1, 3 - read)
        else:
            return at
    return len(data) - read if read else None


def _after_padding(data: bytes, at: int, missing: int) -> int | None:
    """Goes on behind the first `=`: `missing` more must follow, and then nothing."""
    for here in range(at, len(data)):
        if data[here] in _BREAKS:
            continue
        if not missing:
            return here
        if data[here] != ord("="):
            return here - 1
        missing -= 1
    return len(data) if missing else None


_SECONDS = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z", re.ASCII
).fullmatch
_MICRO = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z",
    re.ASCII,
).fullmatch
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})([.,][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


def seconds(value: Any) -> Any:
    """A Time: RFC 3339, stored in UTC without fractions of a second."""
    if value.__class__ is str and _SECONDS(value):
        return value
    return DROP if value is None else _moment(value, "2006-01-02T15:04:05Z07:00")[0] + "Z"


def micro(value: Any) -> Any:
    """A MicroTime: RFC 3339, stored in UTC with six digits of the second."""
    if value.__class__ is str and _MICRO(value):
        return value
    return DROP if value is None else "{}.{}Z".format(*_moment(value, "2006-01-02T15:04:05.000000Z07:00"))


def _moment(value: Any, layout: str) -> tuple[str, str]:
    """A time as UTC, to the second, and its microseconds."""
    if value.__class__ is not str:
        raise Mismatch(f"json: cannot unmarshal {word(value)} into Go value of type string")
    match = _TIME.fullmatch(value)
    if match is None:
        raise Mismatch(_unparsed(value, layout))
    *fields, fraction, zone = match.groups(default="")
    year, month, day, hour, minute, second = map(int, fields)
    for name, found, most in (("month", month, 12), ("hour", hour, 23), ("minute", minute, 59), ("second", second, 59)):
        if found > most or (name == "month" and not found):
            raise Mismatch(f'parsing time "{value}": {name} out of range')
    try:
        found_time = datetime(year, month, day, hour, minute, second)
        if zone != "Z":
            shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
            found_time = found_time + shift if zone[0] == "-" else found_time - shift
    except (ValueError, OverflowError):
        raise Mismatch(f'parsing time "{value}": day out of range') from None
    return found_time.isoformat(timespec="seconds"), (fraction[1:7]).ljust(6, "0")


_LAYOUT = (
    ("2006", "[0-9]{4}"), ("-", "-"), ("01", "[0-9]{2}"), ("-", "-"), ("02", "[0-9]{2}"), ("T", "T"),
    ("15", "[0-9]{2}"), (":", ":"), ("04", "[0-9]{2}"), (":", ":"), ("05", "[0-9]{2}([.,][0-9]+)?"),
    ("Z07:00", "Z|[+-][0-9]{2}:[0-9]{2}"),
)  # fmt: skip


def _unparsed(value: str, layout: str) -> str:
    """Go's sentence: which part of the layout the text does not have."""
    rest = value
    for part, pattern in _LAYOUT:
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{part}"'
        rest = rest[match.end() :]
    return f'parsing time "{value}": extra text: "{rest}"'


def anything(value: Any) -> Any:
    """Any JSON, as it is."""
    return DROP if value is None else value
