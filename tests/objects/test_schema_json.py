"""JSON bodies: doubles, depth, and what is no JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects.schema_json import decode_json, summary
from dashpot.model.objects.status import StatusError


def doubles(body: bytes) -> list[str]:
    found: list[str] = []
    decode_json(body, found)
    return found


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"a":1}', []),
        (b' { "a" : 1 , "b" : [ ] } ', []),
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"metadata":{"name":"a", "name":"b"}}', ["metadata.name"]),
        (b'{"l":[{"q":1},{"q":1,"q":2}],"l":1}', ["l[1].q", "l"]),
        (b'{"a":{"x":1,"x":1,"x":1}}', ["a.x"]),
        (b'{"a":"\\"a\\":1, \\"a\\":2","b":"}{]["}', []),
        (b'{"a" :1,"a":1}', ["a"]),
        (b'{"a":1,"\\u0061":1}', ["a"]),
        (b'{"a":1,"a":1,"b":1e5}', ["a"]),
        (b'{"a":[[1,{"b":1,"b":2}]]}', ["a[0][1].b"]),
        (b'"a"', []),
    ],
)
def test_doubles(body: bytes, wanted: list[str]) -> None:
    assert doubles(body) == wanted


def test_the_last_of_two_wins_and_nothing_is_said_where_nobody_asks() -> None:
    assert decode_json(b'{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "unexpected end of JSON input (<empty>)"),
        (b'{"a":1', 'unexpected end of JSON input ({"a":1)'),
        (b"hello", "invalid character 'h' looking for beginning of value (68656c6c6f)"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b"{} x", "invalid character 'x' after top-level value ({} x)"),
        (b'{"a":1e999}', "number out of range"),
        (b'{"a":' + b"9" * 100_000 + b"}", "number out of range"),
        (b'{"a":"\xff"}', "invalid UTF-8 in string"),
        (b"[" * 100_000, "exceeded max depth"),
        (b"[" * 100_000 + b"]" * 100_000, "exceeded max depth"),
        (b'{"a":' * 201 + b"1" + b"}" * 201, "exceeded max depth"),
    ],
    ids=lambda value: str(value[:12]),
)
def test_what_is_no_json(body: bytes, why: str) -> None:
    with pytest.raises(StatusError) as error:
        decode_json(body, [])
    assert error.value.code == 400
    assert error.value.message.startswith(f"couldn't get version/kind; json parse error: {why}")


def test_200_levels_are_fine() -> None:
    decode_json(b'{"a":' * 199 + b"{}" + b"}" * 199)


def test_summary_shows_the_beginning() -> None:
    assert summary(b'{"a":"' + b"x" * 100) == '{"a":"xxxxxxxxxxxxxxxxxxxxxxxx ...'
    assert summary(b"\x00\x01") == "0001"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_json_without_doubles_has_none(value: Any, plain: bool, indent: int | None) -> None:
    for body in (
        msgspec.json.encode(value),
        json.dumps(value, ensure_ascii=plain, indent=indent).encode("utf-8", "replace"),
    ):
        found: list[str] = []
        decode_json(body, found)
        assert found == []


@given(
    st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=4), st.data(), st.sampled_from(["", " ", "\n\t"])
)
def test_a_double_is_found_wherever_blanks_are(value: dict[str, Any], data: st.DataObject, blank: str) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    rows = [*value.items(), (key, data.draw(values))]
    text = ",".join(f"{blank}{json.dumps(k)}{blank}:{json.dumps(v)}" for k, v in rows)
    found: list[str] = []
    decode_json(f"{{{text}}}".encode(), found)
    assert found == [key]


@given(st.binary(max_size=60))
def test_no_bytes_break_it(body: bytes) -> None:
    try:
        decode_json(body, [])
    except StatusError as error:
        assert error.code == 400
