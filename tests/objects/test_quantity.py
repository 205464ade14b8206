"""Quantities: upstream's table of canonical forms, its errors, and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects import quantity
from dashpot.model.objects.quantity import BINARY, EXPONENT, Quantity, QuantityError, canonical, canonical_amount, parse

CANONICAL = """
0 0 | 0.5 500m | 1024Mi 1Gi | 1000 1k | 1.5 1500m | 1.5Gi 1536Mi | 100n 100n | 0.1n 1n | -0.1n -1n | 12e6 12e6
1E3 1e3 | 1e0 1 | 100e-3 100e-3 | 0.1e0 100e-3 | -0.5 -500m | 1000E 1000E | 0.5Ki 512 | 1.5Ki 1536
1.0001Ki 1024102400u
16Ei 9223372036854775807 | 1000m 1 | 1000000 1M | 129M 129M | 128974848 128974848 | 123Mi 123Mi | 1023Ki 1023Ki
0.001Mi 1048576m | 1048576Ki 1Gi | 1234567 1234567 | .5 500m | 5. 5 | +1 1 | 007 7 | 0.0000000001 1n | 1024 1024
1.000001 1000001u | 10Ei 9223372036854775807 | -1Ki -1Ki | 0Ki 0 | 0e3 0 | 1e-9 1e-9 | 5e1 50 | . 0 | + 0
2000Gi 2000Gi
"""


@pytest.mark.parametrize("row", [row.split() for line in CANONICAL.strip().splitlines() for row in line.split("|")])
def test_canonical(row: list[str]) -> None:
    text, wanted = row
    assert canonical(text) == wanted


@pytest.mark.parametrize("text", ["", "abc", "1x", "1 Gi", "1.2.3", "1Gi ", "1e3e3", "٣", "1" * 2000])
def test_what_is_no_quantity_is_told_with_the_pattern(text: str) -> None:
    with pytest.raises(QuantityError, match="quantities must match the regular expression"):
        parse(text)


@pytest.mark.parametrize("text", ["1ki", "1e", "1Kii", "1mm", "1e99999", "1E+", "1Mim", "1i", "--1", "1+"])
def test_unknown_suffixes_are_told(text: str) -> None:
    with pytest.raises(QuantityError, match="unable to parse quantity's suffix"):
        parse(text)


def test_a_binary_suffix_alone_is_told_by_its_number() -> None:
    with pytest.raises(QuantityError, match="unable to parse numeric part of quantity"):
        parse("Ei")


def test_blanks_around_are_forgiven_where_json_is_read() -> None:
    assert canonical(" 1Gi\n") == "1Gi"


@pytest.mark.parametrize(
    ("text", "wanted"), [("100n", "1m"), ("1500u", "2m"), ("0.5", "500m"), ("-100n", "-1m"), ("1.0001Ki", "1024103m")]
)
def test_amounts_of_resources_are_rounded_up_to_thousandths(text: str, wanted: str) -> None:
    assert canonical_amount(text) == wanted


def test_sums_keep_the_form_of_the_first_that_is_not_zero() -> None:
    assert str(parse("1Gi") + parse("1G")) == "2073741824"
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("1Gi") - parse("512Mi")) == "512Mi"
    assert str(quantity.total([parse("100m"), parse("0.9")])) == "1"
    assert str(parse("100m") * 3) == "300m"
    assert str(-parse("1Ki")) == "-1Ki"


def test_values_are_rounded_up() -> None:
    assert parse("1500m").value == 2 and parse("100u").milli == 1
    assert parse("-1500m").value == -1
    assert not parse("1500m").whole and parse("1k").whole
    assert str(parse("1500m").rounded(0)) == "2" and str(parse("-1500m").rounded(0)) == "-2"


def test_equality_looks_at_the_number_alone() -> None:
    assert parse("1024") == parse("1Ki") and hash(parse("1024")) == hash(parse("1Ki"))
    assert parse("1Ki") > parse("1k") and not parse("0n")
    assert parse("1") != 1
    assert repr(parse("0.5")) == "Quantity('500m')"


numbers = st.integers(-(10**24), 10**24)
forms = st.sampled_from([quantity.DECIMAL, BINARY, EXPONENT])


@given(numbers, forms)
def test_what_is_printed_reads_back_as_the_same(nano: int, form: str) -> None:
    text = str(Quantity(nano, form))
    found = parse(text)
    assert str(found) == text
    if form != BINARY or abs(nano) <= quantity.LARGEST * quantity.NANO:
        assert found.nano == nano


@given(
    st.integers(0, 10**12),
    st.text("0123456789", max_size=12),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2", "u", "n"]),
)
def test_parsing_is_exact_and_rounds_up_at_the_billionth(whole: int, fraction: str, suffix: str) -> None:
    units: dict[str, int | Fraction] = {
        "m": Fraction(1, 1000),
        "k": 1000,
        "M": 10**6,
        "G": 10**9,
        "Ki": 2**10,
        "Mi": 2**20,
        "Gi": 2**30,
    }
    units |= {"e3": 1000, "E-2": Fraction(1, 100), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9), "": 1}
    exact = Fraction(f"{whole}.{fraction or 0}") * units[suffix] * quantity.NANO
    if suffix.endswith("i"):
        exact = min(exact, Fraction(quantity.LARGEST * quantity.NANO))
    assert parse(f"{whole}.{fraction}{suffix}").nano == -(-exact.numerator // exact.denominator)


@given(numbers, numbers, forms, forms)
def test_arithmetic_is_that_of_integers(one: int, other: int, form: str, second: str) -> None:
    a, b = Quantity(one, form), Quantity(other, second)
    assert (a + b).nano == one + other and (a - b).nano == one - other
    assert (a < b) == (one < other) and (a == b) == (one == other)
    assert (a + b) - b == a


@given(st.text(max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        canonical(text)
    except QuantityError:
        pass
