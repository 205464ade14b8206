"""Reviews: what may I, what may he, who am I, whose token is this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.auth_kit import HandClock, MemoryView, bind, exchange, obj, refused, run

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.auth.authn import AuthConfig, Authenticator
from dashpot.runtime.api.auth.authz import Authorizer, AuthzConfig
from dashpot.runtime.api.auth.bootstrap import bootstrap_objects
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.reviews import KINDS, Reviews
from dashpot.runtime.api.exchange import User

Object = dict[str, Any]
ISSUER = "https://kubernetes.default.svc.cluster.local"
ANN = User("ann", ("dev", "system:authenticated"), "7", {"scopes": ("read",)})
ROOT = User("root", ("system:masters", "system:authenticated"))
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))


@pytest.fixture
def reviews(tmp_path: Path) -> Reviews:
    objects = [
        *bootstrap_objects(),
        bind("ann", "ClusterRole/view", "User/ann", namespace="a"),
        bind("gone", "ClusterRole/gone", "User/ann", namespace="a"),
        obj("ServiceAccount", "robot", "a", uid="u-robot"),
        obj("Pod", "p", "a", uid="u-pod", spec={"nodeName": "n1"}),
    ]
    view, clock = MemoryView(objects), HandClock()
    known = Authenticator(AuthConfig(tokens={"s3cret": ANN}), Pki.load_or_create(tmp_path), view, clock)
    return Reviews(known, Authorizer(AuthzConfig(), view, clock))


def answer(reviews: Reviews, kind: str, spec: Any = None, user: User = ANN, **info: Any) -> Object:
    review = {} if spec is None else {"spec": spec}
    return run(lambda: reviews.answer(kind, review, exchange(user, **info)))


def ask(verb: str, resource: str, namespace: str = "", **more: Any) -> Object:
    return {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": namespace, **more}}


@pytest.mark.parametrize(
    ("user", "spec", "allowed"),
    [
        (ANN, ask("list", "pods", "a"), True),
        (ANN, ask("list", "pods", "b"), False),
        (ANN, ask("list", "pods"), False),
        (ANN, ask("get", "deployments", "a", group="apps", subresource="scale"), True),
        (ANN, ask("*", "*", "a", group="*"), False),
        (ROOT, ask("*", "*", "", group="*"), True),
        (ANN, {"nonResourceAttributes": {"verb": "get", "path": "/api"}}, True),
        (ANN, {"nonResourceAttributes": {"verb": "get", "path": "/logs"}}, False),
        (NODE, ask("get", "pods", "a", name="p"), True),
        (NODE, ask("list", "pods", fieldSelector={"rawSelector": "spec.nodeName=n1"}), True),
        (
            NODE,
            ask(
                "list",
                "pods",
                fieldSelector={"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
            ),
            True,
        ),
        (NODE, ask("list", "pods"), False),
    ],
)
def test_may_i(reviews: Reviews, user: User, spec: Object, allowed: bool) -> None:
    found = answer(reviews, "SelfSubjectAccessReview", spec, user)
    assert found["status"]["allowed"] is allowed
    assert found["spec"] == spec
    assert (found["kind"], found["apiVersion"]) == ("SelfSubjectAccessReview", "authorization.k8s.io/v1")


def test_the_reason_is_told(reviews: Reviews) -> None:
    yes = answer(reviews, "SelfSubjectAccessReview", ask("list", "pods", "a"))
    assert yes["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "ann/a" of ClusterRole "view" to User "ann"',
    }
    no = answer(reviews, "SelfSubjectAccessReview", ask("create", "pods", "a"))
    assert no["status"] == {
        "allowed": False,
        "reason": 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found',
    }


def test_may_he(reviews: Reviews) -> None:
    for subject, allowed in (({"user": "ann"}, True), ({"user": "bob"}, False), ({"groups": ["system:masters"]}, True)):
        found = answer(reviews, "SubjectAccessReview", {**ask("list", "pods", "a"), **subject}, ROOT)
        assert found["status"]["allowed"] is allowed
    local = answer(reviews, "LocalSubjectAccessReview", {**ask("list", "pods", "a"), "user": "ann"}, namespace="a")
    assert local["status"]["allowed"] is True


ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


@pytest.mark.parametrize(
    ("kind", "spec", "code", "message"),
    [
        (
            "SelfSubjectAccessReview",
            {},
            422,
            f'SelfSubjectAccessReview.authorization.k8s.io "" is invalid: spec: Invalid value: null: {ONE}',
        ),
        ("SelfSubjectAccessReview", {**ask("get", "pods"), "nonResourceAttributes": {"path": "/"}}, 422, ONE),
        (
            "SubjectAccessReview",
            ask("get", "pods"),
            422,
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
        ("SubjectAccessReview", {}, 422, ONE),
        (
            "LocalSubjectAccessReview",
            {**ask("get", "pods", "b"), "user": "x"},
            400,
            "spec.resourceAttributes.namespace must match namespace: a",
        ),
        (
            "LocalSubjectAccessReview",
            {"nonResourceAttributes": {"path": "/"}, "user": "x"},
            422,
            "disallowed on this kind of request",
        ),
        ("SelfSubjectRulesReview", {}, 400, "no namespace on request"),
        ("TokenReview", {}, 400, "token is required for TokenReview in authentication"),
        ("Pod", {}, 400, "Pod is no review"),
    ],
)
def test_questions_without_sense(reviews: Reviews, kind: str, spec: Object, code: int, message: str) -> None:
    asked = exchange(ANN, namespace="a")
    error = run(lambda: refused(reviews.answer(kind, {"spec": spec}, asked)))
    assert error.code == code
    assert message in error.message


def test_what_may_i(reviews: Reviews) -> None:
    found = answer(reviews, "SelfSubjectRulesReview", {"namespace": "a"})["status"]
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in found[
        "resourceRules"
    ]
    assert any("pods/log" in rule["resources"] for rule in found["resourceRules"])
    assert any("/api" in rule["nonResourceURLs"] for rule in found["nonResourceRules"])
    assert found["incomplete"] is False
    assert found["evaluationError"] == 'clusterrole.rbac.authorization.k8s.io "gone" not found'
    elsewhere = answer(reviews, "SelfSubjectRulesReview", {"namespace": "b"})["status"]
    assert not any("pods/log" in rule["resources"] for rule in elsewhere["resourceRules"])


def test_what_may_an_administrator_and_a_node(reviews: Reviews) -> None:
    root = answer(reviews, "SelfSubjectRulesReview", {"namespace": "a"}, ROOT)["status"]
    assert root["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert root["nonResourceRules"] == [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    node = answer(reviews, "SelfSubjectRulesReview", {"namespace": "a"}, NODE)["status"]
    assert node["incomplete"] is True
    assert node["evaluationError"] == "node authorizer does not support user rule resolution"


def test_who_am_i(reviews: Reviews) -> None:
    found = answer(reviews, "SelfSubjectReview")
    assert found["status"] == {
        "userInfo": {
            "username": "ann",
            "uid": "7",
            "groups": ["dev", "system:authenticated"],
            "extra": {"scopes": ["read"]},
        }
    }
    assert (found["apiVersion"], found["kind"]) == ("authentication.k8s.io/v1", "SelfSubjectReview")


def test_whose_token_is_this(reviews: Reviews) -> None:
    asked = answer(reviews, "TokenRequest", {"audiences": ["vault", ISSUER]}, namespace="a", name="robot")
    token = asked["status"]["token"]
    assert asked["kind"] == "TokenRequest"
    found = answer(reviews, "TokenReview", {"token": token}, ROOT)["status"]
    assert found["authenticated"] is True
    assert found["user"]["username"] == "system:serviceaccount:a:robot"
    assert found["audiences"] == [ISSUER]
    found = answer(reviews, "TokenReview", {"token": token, "audiences": ["vault", "x"]}, ROOT)["status"]
    assert found["audiences"] == ["vault"]
    found = answer(reviews, "TokenReview", {"token": token, "audiences": ["x"]}, ROOT)["status"]
    assert found == {"user": {}, "error": f"the token is for vault, {ISSUER}"}
    found = answer(reviews, "TokenReview", {"token": "s3cret"}, ROOT)["status"]
    assert found["user"]["username"] == "ann"
    found = answer(reviews, "TokenReview", {"token": "s3cret", "audiences": ["x"]}, ROOT)["status"]
    assert "authenticated" not in found
    found = answer(reviews, "TokenReview", {"token": "nonsense"}, ROOT)["status"]
    assert found == {"user": {}, "error": "this is no JSON Web Token"}


@pytest.mark.parametrize(
    ("kind", "review", "words"),
    [
        ("SelfSubjectAccessReview", {"spec": {"resourceAttributes": {"verb": 7}}}, "`spec.resourceAttributes.verb`"),
        ("SelfSubjectAccessReview", {"spec": []}, "Expected `object`, got `array`"),
        ("SelfSubjectAccessReview", {"spec": "x"}, "Expected `object`, got `str`"),
        ("SubjectAccessReview", {"spec": {"user": "a", "groups": "x"}}, "`spec.groups`"),
        ("TokenRequest", {"spec": {"expirationSeconds": "x"}}, "Expected `int | null`, got `str`"),
        ("TokenRequest", {"spec": {"boundObjectRef": {"kind": 7}}}, "`spec.boundObjectRef.kind`"),
        ("TokenReview", {"spec": {"token": "a", "audiences": "z"}}, "`spec.audiences`"),
        ("TokenReview", {"metadata": 7}, "Expected `object`, got `int`"),
    ],
)
def test_a_field_of_the_wrong_type(reviews: Reviews, kind: str, review: Object, words: str) -> None:
    error = run(lambda: refused(reviews.answer(kind, review, exchange(ANN, namespace="a", name="robot"))))
    assert error.code == 400
    assert error.message.startswith(f'{kind} in version "v1" cannot be handled as a {kind}: ')
    assert words in error.message


def test_null_means_absent(reviews: Reviews) -> None:
    found = answer(
        reviews, "SelfSubjectAccessReview", {**ask("list", "pods", "a", name=None), "nonResourceAttributes": None}
    )
    assert found["status"]["allowed"] is True


FIELDS = (
    *("resourceAttributes", "nonResourceAttributes", "verb", "path", "namespace", "user", "groups", "uid", "extra"),
    *("token", "audiences", "expirationSeconds", "boundObjectRef", "kind", "apiVersion", "name", "fieldSelector"),
    *("requirements", "rawSelector", "key", "operator", "values"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 10**10) | st.sampled_from(["", "a", "v1", "Pod", "s3cret", "In"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(KINDS), JSON, JSON)
def test_whatever_is_asked_is_answered_or_refused(reviews: Reviews, kind: str, spec: Any, metadata: Any) -> None:
    review = {"spec": spec, "metadata": metadata}
    try:
        run(lambda: reviews.answer(kind, review, exchange(ANN, namespace="a", name="robot")))
    except StatusError as error:
        assert error.code in (400, 404, 409, 422)
