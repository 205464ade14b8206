"""Custom resources: pruned, defaulted, validated by schema and by rules."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.crd_kit import INT, LIST, META, TEXT, Object, custom, of

from dashpot.runtime.api.crd.custom import CustomType
from dashpot.runtime.api.crd.default import copied

SCHEMA = of(
    {
        "spec": of(
            {
                "a": {**INT, "minimum": 0, "maximum": 9},
                "mode": {**TEXT, "enum": ["fast", "slow"], "default": "fast"},
                "name": {**TEXT, "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
                "when": {**TEXT, "format": "date-time"},
                "either": {"x-kubernetes-int-or-string": True},
                "list": {"type": "array", "items": INT, "minItems": 1, "maxItems": 2, "x-kubernetes-list-type": "set"},
                "rows": {
                    "type": "array",
                    "items": of({"k": TEXT, "v": {**INT, "default": 7}}, required=["k"]),
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                },
                "map": {"type": "object", "additionalProperties": of({"x": INT}), "maxProperties": 1},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"in": of({})}},
                "inner": of({"b": {**INT, "default": 1}}, default={}),
                "nul": {**TEXT, "nullable": True},
                "num": {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": True, "minimum": 0},
                "step": {**INT, "multipleOf": 3},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "one": of({"p": INT, "q": INT}, oneOf=[{"required": ["p"]}, {"required": ["q"]}]),
                "any": of({"p": INT, "q": INT}, anyOf=[{"required": ["p"]}, {"required": ["q"]}]),
                "all": {**INT, "allOf": [{"minimum": 1}, {"maximum": 3}]},
                "no": {**INT, "not": {"enum": [5]}},
            },
            required=["a"],
        ),
        "status": of({}),
    },
    required=["spec"],
)
FOO = custom(SCHEMA)


def foo(**spec: Any) -> Object:
    return {**META, "spec": {"a": 1, **spec}}


def wrong(**spec: Any) -> list[str]:
    return [str(cause) for cause in FOO.validate(foo(**spec))]


@pytest.mark.parametrize(
    "spec",
    [
        {"a": 9, "mode": "slow", "name": "ab", "when": "2026-01-01T00:00:00Z", "either": 1, "list": [1, 2]},
        {"either": "5%", "rows": [{"k": "a", "v": 1}, {"k": "b"}], "map": {"z": {"x": 1}}, "free": {"y": [1]}},
        {"nul": None, "num": 1.5, "step": 6, "pod": {"apiVersion": "v1", "kind": "Pod", "spec": 1}},
        {"one": {"p": 1}, "any": {"p": 1, "q": 2}, "all": 2, "no": 4, "a": 1.0},
    ],
)
def test_valid_objects(spec: Object) -> None:
    assert wrong(**spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"a": -1}, ["spec.a: Invalid value: -1: spec.a in body should be greater than or equal to 0"]),
        ({"a": 10}, ["spec.a: Invalid value: 10: spec.a in body should be less than or equal to 9"]),
        ({"a": "x"}, ['spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"']),
        ({"a": None}, ['spec.a: Invalid value: "null": spec.a in body must be of type integer: "null"']),
        ({"a": True}, ['spec.a: Invalid value: "boolean": spec.a in body must be of type integer: "boolean"']),
        ({"mode": "x"}, ['spec.mode: Unsupported value: "x": supported values: "fast", "slow"']),
        ({"name": "A1"}, ["spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'"]),
        ({"name": "a"}, ['spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long']),
        ({"name": "abcde"}, ["spec.name: Too long: may not be more than 4 bytes"]),
        ({"when": "x"}, ['spec.when: Invalid value: "x": spec.when in body must be of type date-time: "x"']),
        (
            {"either": []},
            ['spec.either: Invalid value: "array": spec.either in body must be of type int-or-string: "array"'],
        ),
        ({"list": []}, ["spec.list: Invalid value: []: spec.list in body should have at least 1 items"]),
        ({"list": [1, 2, 3]}, ["spec.list: Too many: 3: must have at most 2 items"]),
        ({"list": [1, 1]}, ["spec.list[1]: Duplicate value: 1"]),
        ({"rows": [{"k": "a"}, {"k": "a"}]}, ['spec.rows[1]: Duplicate value: {"k":"a"}']),
        ({"rows": [{}]}, ["spec.rows[0].k: Required value"]),
        ({"map": {"a": {"x": 1}, "b": {}}}, ["spec.map: Too many: 2: must have at most 1 item"]),
        (
            {"map": {"a": {"x": ""}}},
            ['spec.map.a.x: Invalid value: "string": spec.map.a.x in body must be of type integer: "string"'],
        ),
        ({"num": 0}, ["spec.num: Invalid value: 0: spec.num in body should be greater than 0"]),
        ({"num": 0.7}, ["spec.num: Invalid value: 0.7: spec.num in body should be a multiple of 0.5"]),
        ({"step": 4}, ["spec.step: Invalid value: 4: spec.step in body should be a multiple of 3"]),
        ({"pod": {"kind": "x"}}, ["spec.pod.apiVersion: Required value: must not be empty"]),
        (
            {"one": {"p": 1, "q": 1}},
            [
                'spec.one: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). '
                "Found 2 valid alternatives"
            ],
        ),
        (
            {"one": {}},
            [
                'spec.one: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). '
                "Found none valid",
                "spec.one.p: Required value",
            ],
        ),
        (
            {"any": {}},
            [
                'spec.any: Invalid value: "": "spec.any" must validate at least one schema (anyOf)',
                "spec.any.p: Required value",
            ],
        ),
        (
            {"all": 4},
            [
                'spec.all: Invalid value: "": "spec.all" must validate all the schemas (allOf)',
                "spec.all: Invalid value: 4: spec.all in body should be less than or equal to 3",
            ],
        ),
        ({"no": 5}, ['spec.no: Invalid value: "": "spec.no" must not validate the schema (not)']),
    ],
)
def test_invalid_objects(spec: Object, expected: list[str]) -> None:
    assert wrong(**spec) == expected


def test_what_is_required() -> None:
    assert [str(cause) for cause in FOO.validate({**META})] == ["spec: Required value"]
    assert [str(cause) for cause in FOO.validate({**META, "spec": {}})] == ["spec.a: Required value"]


def test_pruning_tells_what_it_drops() -> None:
    obj = foo(zzz=1, rows=[{"k": "a", "y": 2}], map={"m": {"w": 3}}, free={"kept": 1, "in": {"v": 4}}, pod={"any": 1})
    obj["extra"] = 5
    assert FOO.decode(obj) == ["extra", "spec.zzz", "spec.rows[0].y", "spec.map.m.w", "spec.free.in.v"]
    assert obj == foo(rows=[{"k": "a"}], map={"m": {}}, free={"kept": 1, "in": {}}, pod={"any": 1})
    assert FOO.decode(obj) == []


def test_defaults_are_filled_in() -> None:
    obj = foo(mode=None, rows=[{"k": "a"}, {"k": "b", "v": 1}], nul=None)
    FOO.default(obj)
    assert obj["spec"] == {
        "a": 1,
        "mode": "fast",
        "rows": [{"k": "a", "v": 7}, {"k": "b", "v": 1}],
        "inner": {"b": 1},
        "nul": None,
    }
    again = foo()
    FOO.default(again)
    obj["spec"]["inner"]["b"] = 9
    assert again["spec"]["inner"] == {"b": 1}


def test_what_has_not_changed_may_stay_invalid() -> None:
    old = foo(a=-1, mode="x", rows=[{"k": "a", "v": "bad"}])
    new = foo(a=-1, mode="y", rows=[{"k": "b"}, {"k": "a", "v": "bad"}])
    assert [cause.field for cause in FOO.validate(new, old)] == ["spec.mode"]
    assert FOO.validate(copied(old), old) == []


def test_rules_of_a_schema() -> None:
    kind = custom(
        of(
            {
                "spec": of(
                    {
                        "a": INT,
                        "b": INT,
                        "imm": {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]},
                        "rows": {
                            "type": "array",
                            "maxItems": 9,
                            "items": of(
                                {"k": TEXT, "v": INT},
                                required=["k"],
                                **{"x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}]},
                            ),
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["k"],
                        },
                    },
                    **{
                        "x-kubernetes-validations": [
                            {"rule": "self.a <= 100", "message": "a must be at most 100"},
                            {
                                "rule": "!has(self.b) || self.b < self.a",
                                "messageExpression": "'b is ' + string(self.b)",
                                "fieldPath": ".b",
                                "reason": "FieldValueForbidden",
                            },
                            {"rule": "!oldSelf.hasValue() || self.a >= oldSelf.value().a", "optionalOldSelf": True},
                        ]
                    },
                )
            },
            **{"x-kubernetes-validations": [{"rule": "self.metadata.name != 'x'"}]},
        )
    )

    def causes(new: Object, old: Object | None = None, name: str = "n") -> list[str]:
        meta = {**META, "metadata": {"name": name}}
        return [str(c) for c in kind.validate({**meta, "spec": new}, None if old is None else {**meta, "spec": old})]

    assert causes({"a": 100, "b": 1, "imm": "x", "rows": [{"k": "a", "v": 1}]}) == []
    assert causes({"a": 101}) == ['spec: Invalid value: "object": a must be at most 100']
    assert causes({"a": 1, "b": 2}) == ["spec.b: Forbidden: b is 2"]
    assert causes({"a": 1}, name="x") == ["<nil>: Invalid value: \"object\": failed rule: self.metadata.name != 'x'"]
    assert causes({"a": 1, "imm": "y"}, {"a": 1, "imm": "x"}) == ['spec.imm: Invalid value: "string": fixed']
    assert causes({"a": 1, "imm": "y"}, {"a": 1}) == []
    assert causes({"a": 1}, {"a": 2}) == [
        'spec: Invalid value: "object": failed rule: !oldSelf.hasValue() || self.a >= oldSelf.value().a'
    ]
    rows = [{"k": "b", "v": 0}, {"k": "a", "v": 1}]
    assert causes({"a": 1, "rows": rows}, {"a": 1, "rows": [{"k": "a", "v": 2}]}) == [
        'spec.rows[1]: Invalid value: "object": failed rule: self.v >= oldSelf.v'
    ]
    assert causes({"a": 101, "imm": "x"}, {"a": 101, "imm": "x"}) == []
    assert causes({}) == ['spec: Invalid value: "object": no such key: a evaluating rule: a must be at most 100']


def test_a_rule_over_a_huge_object_ends() -> None:
    """A rule that came past the estimate (a definition of an older server) still cannot hang the server."""
    schema = of(
        {"l": {**LIST, "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, self.all(c, a == b)))"}]}}
    )
    kind = CustomType({"name": "v1", "schema": {"openAPIV3Schema": schema}})
    obj = {**META, "l": ["x"] * 300_000}
    began = time.process_time()
    found = [str(cause) for cause in kind.validate(obj)]
    assert found == [
        '<nil>: Invalid value: "object": validation failed due to running out of cost budget, no further validation '
        "rules will be run"
    ]
    assert time.process_time() - began < 5


def test_an_object_without_bottom_is_refused() -> None:
    kind = custom(of({"s": {"type": "array", "x-kubernetes-list-type": "set", "items": NESTED}}))
    deep: Any = 1
    for _ in range(2000):
        deep = {"x": deep}
    assert [str(cause) for cause in kind.validate({**META, "s": [deep]})] == [
        '<nil>: Invalid value: "": the object is nested too deeply'
    ]


NESTED: Object = {"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": True}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.floats(allow_nan=False, width=16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abkv"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"]["spec"]["properties"], "zz"]), JSON, max_size=6))
def test_the_two_ways_to_validate_agree(spec: Object) -> None:
    """`fine` says yes exactly where `explain` finds nothing; pruning and defaults are "
    "idempotent; nothing falls over."""
    obj = {**META, "spec": spec}
    FOO.decode(obj)
    FOO.default(obj)
    once = msgspec.json.encode(obj)
    assert FOO.decode(obj) == []
    FOO.default(obj)
    assert msgspec.json.encode(obj) == once
    causes = FOO.validate(obj)
    assert FOO._node.fine(obj) == (causes == [])
    assert FOO.validate(obj, copied(obj)) == []
