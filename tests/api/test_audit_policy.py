"""Audit policies: which rule decides, and what is said of a policy that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashpot.runtime.api import route
from dashpot.runtime.api.audit.policy import LEVELS, Policy, PolicyError, load, parse
from dashpot.runtime.api.exchange import Exchange, Request, User

Object = dict[str, Any]

EVE = User("eve", ("dev", "system:authenticated"))


async def _no_body() -> bytes:
    return b""


def exchange(line: str, user: User = EVE) -> Exchange:
    """`DELETE /api/v1/namespaces/n/pods/p` of a user."""
    method, _, path = line.partition(" ")
    return Exchange(Request(method, path, (), {}, _no_body), route.info(method, path), 0.0, user)


def policy(*rules: Object, **more: Any) -> Policy:
    return parse({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more}, "policy")


def decided(made: Policy, line: str, user: User = EVE) -> str:
    return LEVELS[made.verdict(exchange(line, user), user).level]


def of(*names: str, group: str = "", only: list[str] | None = None) -> Object:
    """One `resources` entry."""
    return {"group": group, "resources": list(names), **({"resourceNames": only} if only else {})}


POD, LOG = "GET /api/v1/namespaces/n/pods/p", "GET /api/v1/namespaces/n/pods/p/log"
DEPLOYMENT, SCALE = "GET /apis/apps/v1/namespaces/n/deployments/d", "PUT /apis/apps/v1/namespaces/n/deployments/d/scale"
NODE, PAGE, HEALTH = "GET /api/v1/nodes/m", "GET /openapi/v3", "GET /healthz"

# what a rule says, the request, whether it is meant
TABLE = [
    ({}, POD, True),
    ({}, PAGE, True),
    ({"users": ["eve"]}, POD, True),
    ({"users": ["bob"]}, POD, False),
    ({"userGroups": ["ops", "dev"]}, POD, True),
    ({"userGroups": ["ops"]}, POD, False),
    ({"users": ["eve"], "userGroups": ["ops"]}, POD, False),
    ({"verbs": ["get", "list"]}, POD, True),
    ({"verbs": ["create"]}, POD, False),
    ({"verbs": ["get"]}, PAGE, True),
    ({"namespaces": ["n"]}, POD, True),
    ({"namespaces": ["other"]}, POD, False),
    ({"namespaces": ["n"]}, NODE, False),
    ({"namespaces": [""]}, NODE, True),
    ({"namespaces": ["n"]}, PAGE, False),
    ({"resources": [of("pods")]}, POD, True),
    ({"resources": [of("pods")]}, LOG, False),
    ({"resources": [of("pods/log")]}, LOG, True),
    ({"resources": [of("pods/log")]}, POD, False),
    ({"resources": [of("pods/*")]}, LOG, True),
    ({"resources": [of("pods/*")]}, POD, True),
    ({"resources": [of("*/log")]}, LOG, True),
    ({"resources": [of("*/log")]}, POD, False),
    ({"resources": [of("*/scale", group="apps")]}, SCALE, True),
    ({"resources": [of("*/scale")]}, SCALE, False),
    ({"resources": [of("*")]}, POD, True),
    ({"resources": [of("*")]}, LOG, True),
    ({"resources": [of("*")]}, DEPLOYMENT, False),
    ({"resources": [{"group": "apps"}]}, DEPLOYMENT, True),
    ({"resources": [{"group": "apps"}]}, POD, False),
    ({"resources": [of("secrets"), of("deployments", group="apps")]}, DEPLOYMENT, True),
    ({"resources": [of("pods", only=["p"])]}, POD, True),
    ({"resources": [of("pods", only=["q"])]}, POD, False),
    ({"resources": [of("pods", only=["p"])]}, "GET /api/v1/namespaces/n/pods", False),
    ({"resources": [of("pods")], "namespaces": ["other"]}, POD, False),
    ({"resources": [of("pods")]}, PAGE, False),
    ({"nonResourceURLs": ["/healthz"]}, HEALTH, True),
    ({"nonResourceURLs": ["/healthz"]}, PAGE, False),
    ({"nonResourceURLs": ["/openapi/*"]}, PAGE, True),
    ({"nonResourceURLs": ["/open*"]}, PAGE, True),
    ({"nonResourceURLs": ["*"]}, PAGE, True),
    ({"nonResourceURLs": ["*"]}, POD, False),
]


@pytest.mark.parametrize(("rule", "line", "meant"), TABLE, ids=[f"{rule} {line}" for rule, line, _ in TABLE])
def test_what_a_rule_means(rule: Object, line: str, meant: bool) -> None:
    made = policy({"level": "Request", **rule})
    for _ in range(2):  # the second time from memory
        assert decided(made, line) == ("Request" if meant else "None")


def test_the_first_rule_that_matches_decides() -> None:
    made = policy(
        {"level": "None", "users": ["eve"], "verbs": ["watch"]},
        {"level": "RequestResponse", "resources": [of("pods")]},
        {"level": "Metadata"},
    )
    assert decided(made, POD) == "RequestResponse"
    assert decided(made, NODE) == "Metadata"
    assert decided(made, POD, User("bob")) == "RequestResponse"


def test_names_are_told_apart_though_decisions_are_remembered() -> None:
    made = policy({"level": "Request", "resources": [of("pods", only=["p"])]})
    assert decided(made, POD) == "Request"
    assert decided(made, POD.replace("/p", "/q")) == "None"


def test_omitted_stages_add_up_and_managed_fields_are_decided_by_the_rule() -> None:
    made = policy(
        {"level": "Metadata", "verbs": ["get"], "omitStages": ["ResponseStarted"], "omitManagedFields": False},
        {"level": "Metadata"},
        omitStages=["RequestReceived"],
        omitManagedFields=True,
    )
    first = made.verdict(exchange(POD), EVE)
    assert first.omitted == {"ResponseStarted", "RequestReceived"} and first.managed_fields
    second = made.verdict(exchange("DELETE /api/v1/namespaces/n/pods/p"), EVE)
    assert second.omitted == {"RequestReceived"} and not second.managed_fields


WRONG = [
    ([], "expected `apiVersion: audit.k8s.io/v1`"),
    ({"apiVersion": "audit.k8s.io/v1beta1", "kind": "Policy", "rules": [{}]}, "expected `apiVersion"),
    ({"rules": []}, "`rules` is empty"),
    ({"rules": [{"level": "All"}]}, r"rules\[0\]: level 'All' is none of None, Metadata"),
    ({"rules": ["Metadata"]}, r"rules\[0\]: a rule is an object"),
    ({"rules": [{"level": "None", "user": ["x"]}]}, r"rules\[0\]: there is no field 'user'"),
    ({"rules": [{"level": "None", "users": "eve"}]}, r"rules\[0\].users: a list of texts"),
    ({"rules": [{"level": "None", "resources": ["pods"]}]}, r"rules\[0\].resources\[0\]: write `group`"),
    ({"rules": [{"level": "None", "omitStages": ["End"]}]}, "stage 'End' is none of"),
    ({"rules": [{"level": "None", "namespaces": ["n"], "nonResourceURLs": ["/x"]}]}, "not of both"),
]


@pytest.mark.parametrize(("raw", "text"), WRONG)
def test_a_wrong_policy_is_told_where_it_is_wrong(raw: Any, text: str) -> None:
    if isinstance(raw, dict):
        raw = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **raw}
    with pytest.raises(PolicyError, match=text):
        parse(raw, "policy.yaml")


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "cannot be read"), (b"\xff", "cannot be read"), (b"a: [", "is no YAML"), (b"a", "kind")],
)
def test_a_policy_file_that_cannot_be_used(tmp_path: Path, content: bytes | None, text: str) -> None:
    path = tmp_path / "policy.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PolicyError, match=text):
        load(path)
