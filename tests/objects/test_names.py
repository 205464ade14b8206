"""Names, labels and keys: what is refused, in upstream's words."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

ROWS: list[tuple[names.Rule, str, list[str]]] = [
    (names.dns_label, "web-1", []),
    (names.dns_label, "a" * 63, []),
    (names.dns_label, "a" * 64, ["must be no more than 63 bytes"]),
    (names.dns_label, "a.b", ["must not contain dots"]),
    (names.dns_label, "A", [LABEL]),
    (names.dns_label, "", [LABEL]),
    (names.dns_label, "a\n", [LABEL]),
    (names.dns_subdomain, "a.b-c.d", []),
    (names.dns_subdomain, "a..b", [SUBDOMAIN]),
    (names.dns_subdomain, "Bad_Name", [SUBDOMAIN]),
    (names.dns_subdomain, "a" * 254, ["must be no more than 253 bytes"]),
    (names.dns_label_1035, "web", []),
    (names.dns_label_1035, "1web", [LABEL_1035]),
    (names.qualified, "app.kubernetes.io/name", []),
    (names.qualified, "Name_1.x", []),
    (names.qualified, "/x", ["prefix part must be non-empty"]),
    (names.qualified, "x/", ["name part must be non-empty", f"name part {KEY}"]),
    (names.qualified, "A/x", [f"prefix part {SUBDOMAIN}"]),
    (names.qualified, "a" * 64, ["name part must be no more than 63 bytes"]),
    (
        names.qualified,
        "a/b/c",
        [f"a qualified name {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
    ),
    (names.label_value, "", []),
    (names.label_value, "A_b.c-1", []),
    (names.label_value, "-a", [VALUE]),
    (names.label_value, "ä" * 32, ["must be no more than 63 bytes", VALUE]),
    (names.path_segment, "system:node", []),
    (names.path_segment, "..", ["may not be '..'"]),
    (names.path_segment, "a/b%c", ["may not contain '/'", "may not contain '%'"]),
    (names.cron_job, "a" * 53, ["must be no more than 52 characters"]),
    (names.ip_address, "10.0.0.1", []),
    (names.ip_address, "::01", ['must be in canonical form ("::1")']),
    (names.ip_address, "x", ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
]


@pytest.mark.parametrize(("rule", "text", "wanted"), ROWS, ids=[repr(text[:20]) for _, text, _ in ROWS])
def test_rules(rule: names.Rule, text: str, wanted: list[str]) -> None:
    assert list(rule(text)) == wanted


@pytest.mark.parametrize(
    ("group", "plural", "good", "bad"),
    [
        ("", "pods", "a.b", "a_b"),
        ("", "namespaces", "a", "a.b"),
        ("", "services", "a", "1a"),
        ("apps", "statefulsets", "a", "a.b"),
        ("rbac.authorization.k8s.io", "clusterroles", "system:A_b", "a/b"),
        ("stable.example.com", "crontabs", "a.b", "A"),
    ],
)
def test_each_kind_has_its_rule(group: str, plural: str, good: str, bad: str) -> None:
    rule = names.rule_of(group, plural)
    assert not rule(good) and rule(bad)


def test_a_prefix_may_end_with_a_dash() -> None:
    assert not names.dns_subdomain(names.masked("web-"))
    assert names.dns_subdomain(names.masked("web_"))
    assert names.masked("-") == "-"


def test_generated_names_come_from_the_given_source() -> None:
    one, other = names.generate("web-", random.Random(1)), names.generate("web-", random.Random(1))
    assert one == other and one != names.generate("web-", random.Random(2))
    assert len(names.generate("x" * 100, random.Random(1))) == 63


@given(st.integers(), st.from_regex(r"[a-z][-a-z0-9]{0,80}", fullmatch=True))
def test_generated_names_are_names(seed: int, prefix: str) -> None:
    name = names.generate(prefix, random.Random(seed))
    assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert not names.dns_subdomain(name)


@given(st.text(max_size=40))
def test_no_text_breaks_a_rule(text: str) -> None:
    for rule in (names.dns_label, names.dns_subdomain, names.dns_label_1035, names.qualified, names.label_value):
        rule(text)
    names.path_segment(text)
    names.ip_address(text)
