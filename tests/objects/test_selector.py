"""Label selectors: upstream's syntax, its errors, and what matches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects import selector
from dashpot.model.objects.selector import NOTHING, Requirement, Selector, SelectorError, parse
from dashpot.model.objects.status import StatusError

BAD_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("a", "a"),
        ("!a", "!a"),
        ("a=b", "a=b"),
        ("a==b", "a==b"),
        ("a != b", "a!=b"),
        ("a=", "a="),
        ("b,a", "a,b"),
        ("a in (y, x)", "a in (x,y)"),
        ("a notin (x,y),b", "a notin (x,y),b"),
        ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
        ("a in ()", "a in ()"),
        ("a in (,)", "a in ()"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a>1,b<2", "a>1,b<2"),
        ("app.kubernetes.io/name=x", "app.kubernetes.io/name=x"),
        ("\ta\n=\rb ", "a=b"),
        ("a==,b", "a==,b"),
    ],
)
def test_syntax(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (x,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a_=1", f'unable to parse requirement: <nil>: Invalid value: "a_": {BAD_KEY}'),
        ("/x", 'unable to parse requirement: <nil>: Invalid value: "/x": prefix part must be non-empty'),
        (
            "a<x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be "
            "an integer",
        ),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(SelectorError) as found:
        parse(text)
    assert str(found.value) == error
    with pytest.raises(StatusError) as refused:
        selector.from_query(text)
    assert refused.value.code == 400 and refused.value.message == error


def test_values_are_checked() -> None:
    with pytest.raises(SelectorError, match=r'requirement: values\[1\]\[a\]: Invalid value: "x_": a valid label must'):
        parse("a in (b,x_)")
    with pytest.raises(SelectorError, match="too long"):
        parse("a" * 70_000)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", [{}, {"a": "b"}], []),
        ("a", [{"a": ""}], [{}, {"b": ""}]),
        ("!a", [{}, {"b": ""}], [{"a": ""}]),
        ("a=b", [{"a": "b"}], [{}, {"a": ""}, {"a": "c"}]),
        ("a=", [{"a": ""}], [{}, {"a": "b"}]),
        ("a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
        ("a in (x,y)", [{"a": "x"}, {"a": "y"}], [{}, {"a": "z"}]),
        ("a notin (x,y)", [{}, {"a": "z"}], [{"a": "x"}]),
        ("a in ()", [{"a": ""}], [{}]),
        ("a>5", [{"a": "6"}], [{"a": "5"}, {"a": "x"}, {}]),
        ("a<5", [{"a": "-6"}], [{"a": "5"}, {"a": ""}, {}]),
        ("a=1,b,!c", [{"a": "1", "b": ""}], [{"a": "1"}, {"a": "1", "b": "", "c": ""}]),
    ],
)
def test_matching(text: str, matching: list[Any], others: list[Any]) -> None:
    found = parse(text)
    assert all(found.matches(labels) for labels in matching)
    assert not any(found.matches(labels) for labels in others)
    assert found.selects({"metadata": {"labels": matching[0]}})


def test_objects_become_selectors() -> None:
    found = selector.from_object(
        {
            "matchLabels": {"a": "b"},
            "matchExpressions": [
                {"key": "c", "operator": "NotIn", "values": ["y", "x"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist"},
                {"key": "f", "operator": "In", "values": ["1"]},
            ],
        }
    )
    assert str(found) == "a=b,c notin (x,y),d,!e,f in (1)"
    assert found.matches({"a": "b", "d": "", "f": "1"}) and not found.matches({"a": "b", "d": "", "e": "", "f": "1"})


def test_none_selects_nothing_and_empty_everything() -> None:
    assert selector.from_object(None) is NOTHING and not NOTHING.matches({}) and not NOTHING.empty
    assert selector.from_object({}).matches({"a": "b"}) and selector.from_object({}).empty
    assert selector.from_labels({"b": "2", "a": "1"}) == parse("a=1,b=2")
    assert selector.from_labels(None).empty


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(SelectorError, match='"Gt" is not a valid label selector operator'):
        selector.from_object({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})
    with pytest.raises(SelectorError, match="for 'in', 'notin' operators, values set can't be empty"):
        selector.from_object({"matchExpressions": [{"key": "a", "operator": "In"}]})


keys = st.sampled_from(["a", "b", "x.io/c"])
values = st.sampled_from(["", "1", "2", "v"])
requirements = st.one_of(
    st.builds(lambda k, o, v: Requirement(k, o, (v,)), keys, st.sampled_from(["=", "==", "!="]), values),
    st.builds(lambda k, o: Requirement(k, o), keys, st.sampled_from(["exists", "!"])),
    st.builds(
        lambda k, o, v: Requirement(k, o, tuple(sorted(v))),
        keys,
        st.sampled_from(["in", "notin"]),
        st.sets(values, min_size=1),
    ),
)


def meaning(rule: Requirement, labels: dict[str, str]) -> bool:
    """What a requirement says, written once more."""
    if rule.operator in ("exists", "!"):
        return (rule.key in labels) is (rule.operator == "exists")
    if rule.operator in ("=", "==", "in"):
        return rule.key in labels and labels[rule.key] in rule.values
    return rule.key not in labels or labels[rule.key] not in rule.values


@given(st.lists(requirements, max_size=4), st.dictionaries(keys, values))
def test_text_and_predicate_say_the_same(rules: list[Requirement], labels: dict[str, str]) -> None:
    found = Selector(tuple(sorted(rules, key=lambda rule: rule.key)))
    assert parse(str(found)) == found
    assert found.matches(labels) == all(meaning(rule, labels) for rule in rules)


@given(st.text("ab=!(),<> \t/1_innotin\0", max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        found = parse(text)
    except SelectorError:
        return
    assert parse(str(found)) == found
