"""CustomResourceDefinitions: what is refused, and what may change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.crd_kit import INT, LIST, TEXT, Object, definition, of, told

from dashpot.runtime.api.crd import controller
from dashpot.runtime.api.crd.default import copied
from dashpot.runtime.api.crd.structural import validate_definition

S = "spec.versions[0].schema.openAPIV3Schema"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda d: d["metadata"].update(name="x.y"),
            'metadata.name: Invalid value: "x.y": must be spec.names.plural+"."+spec.group',
        ),
        (lambda d: d["spec"]["versions"][0].pop("schema"), f"{S}: Required value: schemas are required"),
        (
            lambda d: d["spec"].update(scope="x"),
            'spec.scope: Unsupported value: "x": supported values: "Cluster", "Namespaced"',
        ),
        (lambda d: d["spec"].pop("scope"), "spec.scope: Required value"),
        (
            lambda d: d["spec"]["versions"][0].update(storage=False),
            "must have exactly one version marked as storage version",
        ),
        (
            lambda d: d["spec"]["versions"].append({**d["spec"]["versions"][0], "storage": False}),
            "must contain unique version names",
        ),
        (lambda d: d["spec"]["versions"][0].update(name="V1"), "spec.versions[0].name: Invalid value"),
        (lambda d: d["spec"]["names"].update(kind="F o"), "may have mixed case, but should otherwise match"),
        (lambda d: d["spec"]["names"].update(listKind="Foo"), "kind and listKind may not be the same"),
        (lambda d: d["spec"]["names"].update(shortNames=["A"]), "spec.names.shortNames[0]: Invalid value"),
        (lambda d: d["spec"].update(preserveUnknownFields=True), "spec.preserveUnknownFields: Invalid value: true"),
        (lambda d: d["spec"].update(conversion={"strategy": "Webhook"}), "required when strategy is set to Webhook"),
        (
            lambda d: d["spec"].update(conversion={"strategy": "None", "webhook": {}}),
            "should not be set when strategy is not set to Webhook",
        ),
        (
            lambda d: d["spec"].update(
                conversion={
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "http://x"}, "conversionReviewVersions": ["v1"]},
                }
            ),
            "'https' is the only allowed URL scheme",
        ),
        (
            lambda d: d["spec"]["versions"][0].update(
                subresources={"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".status.r"}}
            ),
            "should be a json path under .spec",
        ),
        (
            lambda d: d["spec"]["versions"][0].update(
                additionalPrinterColumns=[{"name": "A", "type": "x", "jsonPath": "y"}]
            ),
            "must be one of boolean,date,integer,number,string",
        ),
        (
            lambda d: d["spec"]["versions"][0].update(selectableFields=[{"jsonPath": ".spec"}]),
            "must point to a field of type string, boolean or integer",
        ),
        (lambda d: d["spec"]["versions"][0].update(selectableFields=[{"jsonPath": ".spec.z"}]), "is an invalid path"),
        (lambda d: d["spec"]["versions"][0].update(deprecationWarning="x"), "can only be set for deprecated versions"),
    ],
)
def test_a_definition_is_refused(change: Any, expected: str) -> None:
    made = definition()
    assert told(made) == []
    change(made)
    assert any(expected in text for text in told(made)), told(made)


def test_a_protected_group_needs_approval() -> None:
    made = definition()
    made["spec"]["group"] = "x.k8s.io"
    made["metadata"]["name"] = "foos.x.k8s.io"
    assert "protected groups must have approval annotation" in told(made)[0]
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    assert told(made) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, f'{S}.type: Invalid value: "string": must be object at the root'),
        ({}, f"{S}: Required value: schemas are required"),
        (of({"a": {}}), f"{S}.properties[a].type: Required value: must not be empty for specified object fields"),
        (of({"a": {"type": "array"}}), f"{S}.properties[a].items: Required value: must be specified"),
        (of({"a": {"type": "array", "items": {}}}), "must not be empty for specified array items"),
        (of({"a": {"type": "x"}}), f'{S}.properties[a].type: Unsupported value: "x"'),
        (of({"a": {"type": "null"}}), "type cannot be set to null, use nullable as an alternative"),
        (
            of({"a": of({"b": INT}, additionalProperties=INT)}),
            "additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "object", "additionalProperties": INT},
            f"{S}.additionalProperties: Forbidden: must not be used at the root",
        ),
        (of({"a": {"type": "array", "items": INT, "uniqueItems": True}}), "the runtime complexity becomes quadratic"),
        (of({"a": {**TEXT, "pattern": "("}}), "must be a valid regular expression, but isn't"),
        (of({"metadata": of({"labels": of({})})}), "must not specify anything other than name and generateName"),
        (
            of({"a": {**INT, "anyOf": [INT]}}),
            f"{S}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            of({"a": of({}, anyOf=[{"properties": {"b": {}}}])}),
            f"{S}.properties[a].properties[b]: Required value: because it is defined in "
            f"{S}.properties[a].anyOf[0].properties[b]",
        ),
        (
            of({"a": {"type": "array", "items": of({"k": TEXT}), "x-kubernetes-list-type": "map"}}),
            "must not be empty if x-kubernetes-list-type is map",
        ),
        (
            of(
                {
                    "a": {
                        "type": "array",
                        "items": of({"k": TEXT}),
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                    }
                }
            ),
            "so it must have a default or be a required property",
        ),
        (
            of({"a": {"type": "array", "items": of({}), "x-kubernetes-list-type": "set"}}),
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (of({"a": {**INT, "x-kubernetes-int-or-string": True}}), "must be empty if x-kubernetes-int-or-string is true"),
        (
            of({"a": {"type": "object", "x-kubernetes-embedded-resource": True}}),
            "must not be empty if x-kubernetes-embedded-resource is true without",
        ),
        (
            of({"a": {**INT, "default": "x"}}),
            f'{S}.properties[a].default: Invalid value: "string": {S}.properties[a].default in body '
            f'must be of type integer: "string"',
        ),
        (of({"a": of({"b": INT}, default={"c": 1})}), "must not have unknown fields: c"),
        (of({"a": {"$ref": "x", "type": "object"}}), "$ref is not supported"),
        (of({"a": {**INT, "x-kubernetes-preserve-unknown-fields": False}}), "must be true or undefined"),
        (of({"a": {"type": "array", "items": 5}}), "must be a schema"),
    ],
)
def test_a_schema_is_refused(schema: Object, expected: str) -> None:
    found = told(definition(schema))
    assert any(expected in text for text in found), found


def test_a_schema_that_is_too_deep() -> None:
    schema = INT
    for _ in range(100):
        schema = of({"a": schema})
    assert "must not be nested deeper than 64 levels" in told(definition(schema))[0]


def ruled(rule: str, schema: Object | None = None, **more: Any) -> Object:
    """A definition whose spec has one rule."""
    return definition(
        of({"spec": {**(schema or of({"a": INT})), "x-kubernetes-validations": [{"rule": rule, **more}]}})
    )


R = f"{S}.properties[spec].x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            ruled("self.nosuch > 1"),
            f'{R}.rule: Invalid value: "self.nosuch > 1": compilation failed: ERROR: <input>:1:5: '
            f"undefined field 'nosuch'",
        ),
        (ruled(""), f"{R}.rule: Required value: rule is not specified"),
        (ruled("self.a"), "cel expression must evaluate to a bool"),
        (ruled("self.a > 1", message=" "), "message must be non-empty if specified"),
        (ruled("self.a > 1", message="a\nb"), "message must not contain line breaks"),
        (ruled("self.a >\n1"), "message must be specified if rule contains line breaks"),
        (ruled("self.a > 1", messageExpression="1"), "messageExpression must evaluate to a string"),
        (ruled("self.a > 1", messageExpression="self.b"), f"{R}.messageExpression: Invalid value"),
        (ruled("self.a > 1", reason="x"), f'{R}.reason: Unsupported value: "x"'),
        (ruled("self.a > 1", optionalOldSelf=True), "may not be set if oldSelf is not used in rule"),
        (
            ruled("self.l.all(a, self.l.all(b, self.l.all(c, a == b || b == c)))", of({"l": LIST})),
            f"{R}.rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x",
        ),
        (
            definition(
                of(
                    {
                        "l": {
                            "type": "array",
                            "items": {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                        }
                    }
                )
            ),
            f"oldSelf cannot be used on the uncorrelatable portion of the schema within {S}.properties[l]",
        ),
    ],
)
def test_a_rule_is_refused(made: Object, expected: str) -> None:
    found = told(made)
    assert any(expected in text for text in found), found


def test_a_cost_as_upstream_estimates_it() -> None:
    """The figure that kube-apiserver gave for this rule (grafana-operator's pull request 1729)."""
    either = "(has(self.a) && !has(self.b)) || (!has(self.a) && has(self.b))"
    source = of({"a": of({}), "b": of({})}, **{"x-kubernetes-validations": [{"rule": either}]})
    rows = {"type": "array", "items": of({"valueFrom": source})}
    found = told(definition(of({"spec": of({"valuesFrom": rows})})))
    assert len(found) == 1
    assert "Forbidden: estimated rule cost exceeds budget by factor of 1.048576x (try simplifying" in found[0]


def test_many_dear_rules_exceed_the_total() -> None:
    rules = [{"rule": f"self.l.all(x, x != '{at}')"} for at in range(30)]
    schema = of({"spec": of({"l": {**LIST, "items": {**TEXT, "maxLength": 5}}}, **{"x-kubernetes-validations": rules})})
    found = told(definition(schema))
    assert any("estimated rule cost total for entire OpenAPIv3 schema exceeds budget" in text for text in found), found


def test_what_may_change_in_a_definition() -> None:
    old = definition()
    old["status"] = controller.conditions(old, [], "2026-01-01T00:00:00Z")
    changes: list[tuple[Any, str]] = [
        (lambda d: d["spec"].update(scope="Cluster"), 'spec.scope: Invalid value: "Cluster": field is immutable'),
        (lambda d: d["spec"]["names"].update(kind="Bar"), 'spec.names.kind: Invalid value: "Bar": field is immutable'),
        (
            lambda d: d["spec"]["versions"][0].update(name="v2"),
            "missing from spec.versions; v1 was previously a storage version",
        ),
    ]
    for change, expected in changes:
        made = copied(old)
        change(made)
        assert any(expected in text for text in told(made, old)), told(made, old)
    same = copied(old)
    same["spec"]["names"]["shortNames"] = []
    assert told(same, old) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.floats(allow_nan=False, width=16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abkv"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_no_schema_makes_a_definition_fall_over(schema: Any) -> None:
    made = definition(
        of({"spec": schema}) if isinstance(schema, dict) else of({"spec": of({"a": {"default": schema}})})
    )
    validate_definition(made)
