"""Quantities of resources, exactly as Kubernetes reads and prints them: `0.5` is `500m`, `1024Mi` is `1Gi`.

A quantity is a fixed-point number; nothing finer than a billionth (nano) is kept, what is finer is rounded away from
zero. It remembers how it was written: with decimal suffixes (`100M`), binary ones (`128Mi`) or an exponent (`12e6`),
and is printed in that form, canonically: no fraction, the largest suffix that loses nothing. Source:
k8s.io/apimachinery pkg/api/resource quantity.go, suffix.go, amount.go.
"""

from __future__ import annotations

import re
from functools import lru_cache, total_ordering
from typing import Final

from attrs import field, frozen

DECIMAL: Final = "DecimalSI"
BINARY: Final = "BinarySI"
EXPONENT: Final = "DecimalExponent"

NANO = 10**9
LARGEST = 2**63 - 1
LONGEST = 1024
"""Characters of a quantity that are looked at; longer text is no quantity."""
STEEPEST = 1000
"""The largest exponent that is read, positive or negative."""

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_WRONG = "unable to parse numeric part of quantity"
SUFFIX_WRONG = "unable to parse quantity's suffix"

_SPLIT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {power: suffix for suffix, power in _POWERS.items()}
_SHIFTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES = ("", *_SHIFTS)


class QuantityError(ValueError):
    """Text that is no quantity; the message is upstream's."""


@total_ordering
@frozen(eq=False, repr=False)
class Quantity:
    """A number of billionths and the form in which it is printed. Equality and order look at the number alone."""

    nano: int
    form: str = field(default=DECIMAL)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.form if self.nano else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.form if self.nano else other.form)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nano * factor, self.form)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.form)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    @property
    def value(self) -> int:
        """The number in whole units, rounded up (upstream: Value)."""
        return -(-self.nano // NANO)

    @property
    def milli(self) -> int:
        """The number in thousandths, rounded up (upstream: MilliValue): what CPU is counted in."""
        return -(-self.nano // 10**6)

    @property
    def whole(self) -> bool:
        """Whether nothing is lost in `value`."""
        return self.nano % NANO == 0

    def rounded(self, power: int) -> Quantity:
        """The number without digits below 10^power, rounded away from zero; `power` is -9 to 18."""
        return Quantity(_away(self.nano, 10 ** (power + 9)), self.form)

    def __str__(self) -> str:
        """The canonical text."""
        if not self.nano:
            return "0"
        whole, rest = divmod(self.nano, NANO)
        if self.form == BINARY and not rest and not -1024 < whole < 1024:
            shift = 0
            while whole % 1024 == 0 and shift < 6:
                whole //= 1024
                shift += 1
            return f"{whole}{_BINARY_SUFFIXES[shift]}"
        number, power = self.nano, -9
        highest = 18 if self.form != EXPONENT else STEEPEST * 2
        while number % 1000 == 0 and power < highest:
            number //= 1000
            power += 3
        if self.form == EXPONENT:
            return f"{number}e{power}" if power else str(number)
        return f"{number}{_SUFFIXES[power]}"


def whole(number: int, form: str = DECIMAL) -> Quantity:
    """So many units."""
    return Quantity(number * NANO, form)


def milli(number: int, form: str = DECIMAL) -> Quantity:
    """So many thousandths."""
    return Quantity(number * 10**6, form)


ZERO = Quantity(0)


def _away(number: int, unit: int) -> int:
    """Rounds to a multiple of `unit`, away from zero."""
    return -(-number // unit) * unit if number > 0 else number // unit * unit


@lru_cache(maxsize=8192)
def parse(text: str) -> Quantity:
    """Reads a quantity. QuantityError, in upstream's words, if it is none.

    As upstream: a sign or a point alone is 0, digits may be missing before or after the point, binary numbers stop at
    2^63-1, and a binary number below 1 becomes a decimal one.
    """
    match = _SPLIT.fullmatch(text) if 0 < len(text) <= LONGEST else None
    if match is None:
        raise QuantityError(FORMAT_WRONG)
    sign, digits, fraction, suffix = match.groups(default="")
    if not digits and not fraction and suffix in ("Pi", "Ei", "Ti"):
        raise QuantityError(NUMERIC_WRONG)
    number = int(digits + fraction or "0")
    power, form = -len(fraction), DECIMAL
    if suffix in _POWERS:
        power += _POWERS[suffix]
    elif suffix in _SHIFTS:
        number, form = number << _SHIFTS[suffix], BINARY
    else:
        power, form = power + _exponent(suffix), EXPONENT
    power += 9
    nano = number * 10**power if power >= 0 else -(-number // 10**-power)
    if form == BINARY:
        nano = min(nano, LARGEST * NANO)
        form = DECIMAL if 0 < nano < NANO else BINARY
    return Quantity(-nano if sign == "-" else nano, form)


def _exponent(suffix: str) -> int:
    """`e3`, `E-6`."""
    if suffix[0] not in "eE" or not re.fullmatch(r"[+-]?[0-9]{1,18}", suffix[1:], re.ASCII):
        raise QuantityError(SUFFIX_WRONG)
    power = int(suffix[1:])
    if abs(power) > STEEPEST:
        raise QuantityError(SUFFIX_WRONG)
    return power


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """The canonical text of a quantity; what surrounds it may be blank. QuantityError if it is none."""
    return str(parse(text.strip(" \t\r\n")))


@lru_cache(maxsize=8192)
def canonical_amount(text: str) -> str:
    """The canonical text of an amount in a list of resources: these are rounded up to thousandths."""
    return str(parse(text.strip(" \t\r\n")).rounded(-3))


def total(quantities: list[Quantity]) -> Quantity:
    """The sum; printed in the form of the first that is not 0."""
    found = ZERO
    for quantity in quantities:
        found = found + quantity
    return found
