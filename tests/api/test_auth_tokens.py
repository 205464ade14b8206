"""Service-account tokens: how they are made, and every way in which a bad one is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.auth_kit import HandClock, MemoryView, exchange, obj, refused, run

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.auth.authn import AuthConfig, Authenticator
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.jose import BadToken, parse
from dashpot.runtime.api.auth.tokens import ISSUER
from dashpot.runtime.api.exchange import User

Object = dict[str, Any]
GONE = "2027-01-15T08:00:00Z"
"""A time well before the test's clock."""


class World:
    """A server with one account, a pod of it, and a secret."""

    def __init__(self, folder: Path) -> None:
        self.clock = HandClock(1_800_000_000.0)
        self.view = MemoryView(
            [
                obj("ServiceAccount", "robot", "a", uid="u-robot"),
                obj("ServiceAccount", "other", "a", uid="u-other"),
                obj("Pod", "p", "a", uid="u-pod", spec={"serviceAccountName": "robot", "nodeName": "n1"}),
                obj("Node", "n1", uid="u-node"),
                obj("Secret", "s", "a", uid="u-secret"),
            ]
        )
        self.pki = Pki.load_or_create(folder)
        self.authenticator = Authenticator(AuthConfig(), self.pki, self.view, self.clock)

    def mint(self, **spec: Any) -> Object:
        return run(lambda: self.authenticator.issuer.mint("a", "robot", {"spec": spec}))

    def token(self, **spec: Any) -> str:
        return str(self.mint(**spec)["status"]["token"])

    def user(self, token: str) -> User | None:
        """Who is let in with a token; None for 401."""
        asked = exchange(headers={"authorization": f"Bearer {token}"})
        try:
            run(lambda: self.authenticator.gate(asked))
        except StatusError as error:
            assert (error.code, error.reason, error.message) == (401, "Unauthorized", "Unauthorized")
            return None
        return asked.user

    def forge(self, key: Any = None, algorithm: Any = "ES256", kid: Any = None, **claims: Any) -> str:
        """A token as the server makes it, but for what is given; a claim None is left out."""
        now = int(self.clock.time)
        body = {
            "aud": [ISSUER],
            "exp": now + 600,
            "iat": now,
            "nbf": now,
            "iss": ISSUER,
            "jti": "x",
            "sub": "system:serviceaccount:a:robot",
            "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "robot", "uid": "u-robot"}},
            **claims,
        }
        body = {name: value for name, value in body.items() if value is not None}
        headers = {"kid": self.pki.signing.kid if kid is None else kid}
        return jwt.encode(body, key or self.pki.signing.private, algorithm=algorithm, headers=headers)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def test_a_token_says_whose_it_is(world: World) -> None:
    made = world.mint()
    assert made["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600}
    assert made["status"]["expirationTimestamp"] == "2027-01-15T09:00:00Z"
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("robot", "a")
    user = world.user(made["status"]["token"])
    assert user is not None
    assert user.name == "system:serviceaccount:a:robot"
    assert user.uid == "u-robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")
    assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


def test_a_bound_token_names_pod_and_node(world: World) -> None:
    token = world.token(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-pod"})
    claims = parse(token).claims
    assert claims["kubernetes.io"] == {
        "namespace": "a",
        "serviceaccount": {"name": "robot", "uid": "u-robot"},
        "pod": {"name": "p", "uid": "u-pod"},
        "node": {"name": "n1", "uid": "u-node"},
    }
    user = world.user(token)
    assert user is not None
    prefix = "authentication.kubernetes.io/"
    told = {key.removeprefix(prefix): value[0] for key, value in user.extra.items() if "credential" not in key}
    assert told == {"pod-name": "p", "pod-uid": "u-pod", "node-name": "n1", "node-uid": "u-node"}


def test_our_tokens_are_those_that_the_published_keys_verify(world: World) -> None:
    issuer = world.authenticator.issuer
    about = issuer.configuration("https://127.0.0.1:6443/")
    assert list(about) == [
        "issuer",
        "jwks_uri",
        "response_types_supported",
        "subject_types_supported",
        "id_token_signing_alg_values_supported",
    ]
    assert about["jwks_uri"] == "https://127.0.0.1:6443/openid/v1/jwks"
    (key,) = issuer.keys()["keys"]
    found = jwt.decode(
        world.token(),
        jwt.PyJWK(key),
        algorithms=["ES256"],
        audience=ISSUER,
        options={"verify_iat": False, "verify_nbf": False},
    )
    assert found["sub"] == "system:serviceaccount:a:robot"


def attacks(world: World) -> dict[str, str]:
    good = world.forge()
    header, body, signature = good.split(".")
    claims = parse(good).claims
    public = world.pki.signing.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    hmac_input = f"{segment({'alg': 'HS256', 'typ': 'JWT', 'kid': world.pki.signing.kid})}.{body}"
    hmac_signature = hmac.new(public, hmac_input.encode(), hashlib.sha256).digest()
    other = ec.generate_private_key(ec.SECP256R1())
    now = int(world.clock.time)
    account = {"name": "robot", "uid": "u-robot"}
    raised = {**claims, "sub": "system:serviceaccount:kube-system:root"}
    flipped = base64.urlsafe_b64decode(signature + "==")
    flipped = bytes([flipped[0] ^ 1]) + flipped[1:]

    def bound(**more: Any) -> str:
        return world.forge(**{"kubernetes.io": {"namespace": "a", "serviceaccount": account, **more}})

    return {
        "alg none": f"{segment({'alg': 'none', 'kid': world.pki.signing.kid})}.{body}.",
        "alg None": f"{segment({'alg': 'None', 'kid': world.pki.signing.kid})}.{body}.{signature}",
        "no alg": f"{segment({'kid': world.pki.signing.kid})}.{body}.{signature}",
        "alg is a number": f"{segment({'alg': 1, 'kid': world.pki.signing.kid})}.{body}.{signature}",
        "HMAC with the public key": f"{hmac_input}.{base64.urlsafe_b64encode(hmac_signature).rstrip(b'=').decode()}",
        "no signature": f"{header}.{body}.",
        "a flipped bit": f"{header}.{body}.{base64.urlsafe_b64encode(flipped).rstrip(b'=').decode()}",
        "a short signature": f"{header}.{body}.{signature[:20]}",
        "tampered claims": f"{header}.{segment(raised)}.{signature}",
        "critical headers": f"{segment({**parse(good).header, 'crit': ['b64']})}.{body}.{signature}",
        "wrong kid": world.forge(kid="other"),
        "no kid": world.forge(kid=""),
        "another key with our kid": world.forge(key=other),
        "RS256 with our kid": world.forge(
            key=rsa.generate_private_key(public_exponent=65537, key_size=2048), algorithm="RS256"
        ),
        "ended": world.forge(exp=now),
        "ended long ago": world.forge(exp=now - 100_000),
        "not yet": world.forge(nbf=now + 61, exp=now + 1000),
        "no end": world.forge(exp=None),
        "an end in words": world.forge(exp="tomorrow"),
        "another audience": world.forge(aud=["vault"]),
        "no audience": world.forge(aud=None),
        "audience as text": world.forge(aud="vault"),
        "another issuer": world.forge(iss="https://evil.example.com"),
        "no issuer": world.forge(iss=None),
        "an account that never was": bound(serviceaccount={"name": "gone", "uid": "u"}),
        "subject and claims differ": world.forge(sub="system:serviceaccount:a:other"),
        "an older account of the name": bound(serviceaccount={"name": "robot", "uid": "u-old"}),
        "no claims of Kubernetes": world.forge(**{"kubernetes.io": None}),
        "claims that are a list": world.forge(**{"kubernetes.io": ["a"]}),
        "no account": world.forge(**{"kubernetes.io": {"namespace": "a"}}),
        "no namespace": world.forge(**{"kubernetes.io": {"serviceaccount": account}}),
        "a pod that is gone": bound(pod={"name": "gone", "uid": "u"}),
        "an older pod of the name": bound(pod={"name": "p", "uid": "u-old"}),
        "a secret that is gone": bound(secret={"name": "gone", "uid": "u"}),
        "a node that is gone": bound(node={"name": "gone", "uid": "u"}),
        "words": "not.a.token",
        "two parts": f"{header}.{body}",
        "four parts": f"{good}.{signature}",
        "much": "a." + "b" * 100_000 + ".c",
        "deep": f"{header}.{base64.urlsafe_b64encode(b'[' * 20_000).decode()}.{signature}",
        "not ascii": "é.é.é",
    }


def test_no_attack_gets_in(world: World) -> None:
    assert world.user(world.forge()) is not None, "the tokens that are attacked with are no tokens at all"
    tried = attacks(world)
    assert len(tried) >= 40
    assert {name: user for name, token in tried.items() if (user := world.user(token)) is not None} == {}
    assert world.authenticator.attempts["success"] == 1


def test_a_token_that_was_let_in_is_not_let_in_for_ever(world: World) -> None:
    token = world.token(expirationSeconds=600)
    assert world.user(token)
    world.clock.time += 599
    assert world.user(token)
    world.clock.time += 1
    assert world.user(token) is None


@pytest.mark.parametrize(("kind", "name", "namespace"), [("ServiceAccount", "robot", "a"), ("Pod", "p", "a")])
def test_what_a_token_is_bound_to_must_live(world: World, kind: str, name: str, namespace: str) -> None:
    token = world.token(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"})
    assert world.user(token)
    plural = {"ServiceAccount": "serviceaccounts", "Pod": "pods"}[kind]
    was = world.view.get("", plural, namespace, name)
    assert was is not None
    world.view.remove(kind, namespace, name)
    assert world.user(token) is None, "deleted"
    world.view.put({**was, "metadata": {**was["metadata"], "uid": "another"}})
    assert world.user(token) is None, "made again under the same name"
    world.view.put(was)
    assert world.user(token)
    world.view.put({**was, "metadata": {**was["metadata"], "deletionTimestamp": GONE}})
    assert world.user(token), "a pod that is told to end may still speak"
    world.clock.time += 61
    assert world.user(token) is None


def test_an_account_that_the_cache_has_not_seen_yet_counts(world: World) -> None:
    token = world.token()
    was = world.view.get("", "serviceaccounts", "a", "robot")
    assert was is not None
    world.view.remove("ServiceAccount", "a", "robot")
    world.view.late.append(was)
    assert world.user(token)


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        (
            {"expirationSeconds": 599},
            422,
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less",
        ),
        ({"expirationSeconds": 2**32 + 1}, 422, "may not specify a duration larger than 2^32 seconds"),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            {"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Pod", "name": "p"}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod",
        ),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "gone"}}, 404, 'pods "gone" not found'),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "old"}},
            409,
            'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (old) does not match',
        ),
    ],
)
def test_a_request_that_cannot_be_met(world: World, spec: Object, code: int, words: str) -> None:
    error = run(lambda: refused(world.authenticator.issuer.mint("a", "robot", {"spec": spec})))
    assert error.code == code
    assert words in error.message


def test_tokens_are_for_accounts_that_exist_and_pods_that_run_with_them(world: World) -> None:
    mint = world.authenticator.issuer.mint
    error = run(lambda: refused(mint("a", "gone", {})))
    assert (error.code, error.message) == (404, 'serviceaccounts "gone" not found')
    ref = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    error = run(lambda: refused(mint("a", "other", {"spec": {"boundObjectRef": ref}})))
    assert error.message == ('cannot bind token for serviceaccount "other" to pod running with serviceaccount "robot"')


@pytest.mark.parametrize("kind", ["Secret", "Node"])
def test_tokens_bound_to_secrets_and_nodes(world: World, kind: str) -> None:
    name, home = {"Secret": ("s", "a"), "Node": ("n1", "")}[kind]
    token = world.token(boundObjectRef={"apiVersion": "v1", "kind": kind, "name": name}, expirationSeconds=600)
    assert world.user(token)
    world.view.remove(kind, home, name)
    assert world.user(token) is None


def test_an_audience_of_ones_own(world: World) -> None:
    token = world.token(audiences=["vault"])
    assert world.user(token) is None
    review = world.authenticator.review
    found = run(lambda: review(token, ("vault", "x")))
    assert found.user is not None and found.audiences == ("vault",)
    assert run(lambda: review(token, ("x",))).user is None
    assert "the token is for vault" in run(lambda: review(token)).error


def test_a_restart_knows_the_tokens_of_before(world: World, tmp_path: Path) -> None:
    token = world.token()
    again = World(tmp_path)
    assert again.user(token) is not None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=200) | st.binary(max_size=100).map(lambda data: base64.urlsafe_b64encode(data).decode() + "..x")
)
def test_whatever_is_sent_as_a_token_is_refused_in_peace(world: World, token: str) -> None:
    assert run(lambda: world.authenticator.review(token)).user is None
    with pytest.raises(BadToken):
        parse(token).verify(world.pki.signing.private.public_key(), ("ES256",))
