"""Numbers of custom resources are read as Go's decoder reads them: whole where they can be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.crd_kit import INT, META, Object, custom, of

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.crd.numbers import normalise

NUMBER: Object = {"type": "number"}
EITHER: Object = {"x-kubernetes-int-or-string": True}


def read(schema: Object, text: str) -> tuple[Any, list[str]]:
    """A number as it is stored, and what is wrong with it."""
    kind = custom(of({"a": schema}))
    obj: Object = {**META, "a": msgspec.json.decode(text)}
    kind.decode(obj)
    return obj["a"], [str(cause) for cause in kind.validate(obj)]


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("1.0", "1"),
        ("1e0", "1"),
        ("-2.50e1", "-25"),
        ("9007199254740991.0", "9007199254740991"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
    ],
)
def test_a_whole_number_is_served_as_an_integer(text: str, stored: str) -> None:
    for schema in (INT, NUMBER, EITHER):
        found, wrong = read(schema, text)
        assert (msgspec.json.encode(found).decode(), wrong) == (stored, [])


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "1e16", "1.5", "9" * 40])
def test_what_is_no_integer_of_64_bits_is_a_double_and_refused(text: str) -> None:
    found, wrong = read(INT, text)
    assert type(found) is float
    assert wrong == ['a: Invalid value: "number": a in body must be of type integer: "number"']
    assert read(NUMBER, text)[1] == []


def test_what_no_double_holds_is_refused() -> None:
    with pytest.raises(StatusError, match="number out of range"):
        read(NUMBER, "9" * 400)


def test_numbers_anywhere_in_an_object() -> None:
    kept: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found, wrong = read(kept, '{"m": {"l": [1.0, [2.0], 0.5, "3.0", true, null]}, "n": 4e0}')
    assert msgspec.json.encode(found) == b'{"m":{"l":[1,[2],0.5,"3.0",true,null]},"n":4}'
    assert wrong == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_reading_changes_no_value_and_settles_at_once(value: Any) -> None:
    text = msgspec.json.encode(value)
    once = normalise(msgspec.json.decode(text))
    assert once == pytest.approx(value) if isinstance(value, float | int) else True
    assert normalise(msgspec.json.decode(msgspec.json.encode(once))) == once
