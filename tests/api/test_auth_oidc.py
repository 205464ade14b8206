"""OpenID Connect against an issuer on loopback: who gets in, who does not, and how often the issuer is asked."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import RSAAlgorithm
from tests.api.auth_kit import HandClock, MemoryView, enter, run, serving

from dashpot.runtime.api.auth.authn import AuthConfig, Authenticator
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.oidc import KEYS_SECONDS, RETRY_SECONDS, OidcConfig
from dashpot.runtime.api.exchange import User

Object = dict[str, Any]
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
NEXT = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """An OpenID provider: its keys, and how often it was asked."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"k1": RSA}
        self.asked = 0
        self.url = ""
        self.broken = False
        self.issuer: str | None = None
        self.clock = HandClock()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.broken:
            return web.Response(status=503)
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({"issuer": self.issuer or self.url, "jwks_uri": f"{self.url}/keys"})
        algorithm = RSAAlgorithm
        rows = [{**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in self.keys.items()]
        return web.json_response({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "hmac"}, {"kty": "?"}, 7, *rows]})

    def token(self, kid: str = "k1", *, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        now = int(self.clock.time)
        body = {"iss": self.url, "aud": "dashpot", "sub": "ann", "exp": now + 600, "iat": now, **claims}
        body = {name: value for name, value in body.items() if value is not None}
        return jwt.encode(
            body, key or self.keys.get(kid, RSA), algorithm=algorithm, headers={"kid": kid} if kid else {}
        )


def with_issuer(folder: Path, test: Callable[[Issuer, Authenticator], Awaitable[None]], **config: Any) -> None:
    """Runs a test against an authenticator that trusts an issuer on loopback."""

    async def main() -> None:
        issuer = Issuer()
        async with serving(issuer.answer) as issuer.url:
            oidc = OidcConfig(issuer.url, ("dashpot",), **config)
            known = Authenticator(AuthConfig(oidc=(oidc,)), Pki.load_or_create(folder), MemoryView(), issuer.clock)
            try:
                await test(issuer, known)
            finally:
                await known.close()

    run(main)


def test_an_issuer_says_who_it_is(tmp_path: Path) -> None:
    async def test(issuer: Issuer, known: Authenticator) -> None:
        user = await enter(known, issuer.token(groups=["dev", "ops"]))
        assert user == User(f"{issuer.url}#ann", ("oidc:dev", "oidc:ops", "system:authenticated"))
        assert issuer.asked == 2
        assert await enter(known, issuer.token(groups="one")) is not None
        assert issuer.asked == 2, "keys are kept"

    with_issuer(tmp_path, test, groups_claim="groups", groups_prefix="oidc:")


@pytest.mark.parametrize(
    ("config", "claims", "name"),
    [
        ({"username_prefix": "-"}, {}, "ann"),
        ({"username_prefix": "o:"}, {}, "o:ann"),
        ({"username_claim": "email"}, {"email": "a@b.c", "email_verified": True}, "a@b.c"),
        ({"username_claim": "email"}, {"email": "a@b.c"}, "a@b.c"),
        ({"username_claim": "email"}, {"email": "a@b.c", "email_verified": False}, None),
        ({"username_claim": "email"}, {}, None),
        ({"username_claim": "name", "username_prefix": "-"}, {"name": 7}, None),
        ({"username_claim": "name", "username_prefix": "-"}, {"name": ""}, None),
        ({"username_prefix": "-", "required_claims": (("hd", "x.io"),)}, {"hd": "x.io"}, "ann"),
        ({"username_prefix": "-", "required_claims": (("hd", "x.io"),)}, {"hd": "y.io"}, None),
        ({"username_prefix": "-", "groups_claim": "groups"}, {"groups": [1]}, None),
        ({"username_prefix": "-", "groups_claim": "groups"}, {"groups": {"a": 1}}, None),
        ({"username_prefix": "-"}, {"aud": ["other", "dashpot"]}, "ann"),
        ({"username_prefix": "-"}, {"aud": "other"}, None),
        ({"username_prefix": "-"}, {"aud": None}, None),
        ({"username_prefix": "-"}, {"exp": 1}, None),
        ({"username_prefix": "-"}, {"exp": None}, None),
        ({"username_prefix": "-"}, {"nbf": 99_999_999_999}, None),
        ({"username_prefix": "-"}, {"iss": "https://other.example.com"}, None),
    ],
)
def test_claims_become_a_user(tmp_path: Path, config: Object, claims: Object, name: str | None) -> None:
    async def test(issuer: Issuer, known: Authenticator) -> None:
        user = await enter(known, issuer.token(**claims))
        assert (user and user.name) == name

    with_issuer(tmp_path, test, **config)


def test_no_forged_token_gets_in(tmp_path: Path) -> None:
    async def test(issuer: Issuer, known: Authenticator) -> None:
        good = issuer.token()
        header, body, signature = good.split(".")
        none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"k1"}').rstrip(b"=").decode()
        changed = base64.urlsafe_b64encode(msgspec.json.encode({"iss": issuer.url, "aud": "dashpot", "sub": "root"}))
        bad = {
            "alg none": f"{none}.{body}.",
            "unknown kid": issuer.token("k9"),
            "no kid of several": issuer.token("", key=NEXT),
            "another key": issuer.token(key=NEXT),
            "an algorithm that was not agreed on": issuer.token(algorithm="RS512"),
            "a curve": issuer.token(key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"),
            "the published symmetric key": issuer.token("hmac", key=b"secret" * 8, algorithm="HS256"),
            "changed": f"{header}.{changed.rstrip(b'=').decode()}.{signature}",
        }
        assert await enter(known, good)
        assert {name for name, token in bad.items() if await enter(known, token)} == set()

    with_issuer(tmp_path, test)


def test_a_new_key_is_fetched_but_strangers_cannot_make_us_ask_for_ever(tmp_path: Path) -> None:
    async def test(issuer: Issuer, known: Authenticator) -> None:
        assert await enter(known, issuer.token())
        issuer.keys["k2"] = NEXT
        for number in range(50):
            assert await enter(known, issuer.token(f"x{number}", key=RSA)) is None
        assert issuer.asked == 2, "within the pause nobody is asked"
        issuer.clock.time += RETRY_SECONDS
        assert await enter(known, issuer.token("k2"))
        assert issuer.asked == 4
        del issuer.keys["k1"]
        issuer.clock.time += KEYS_SECONDS + 1
        assert await enter(known, issuer.token("k1", key=RSA)) is None, "a key that was taken back"
        assert await enter(known, issuer.token("k2"))

    with_issuer(tmp_path, test)


def test_an_issuer_that_is_down(tmp_path: Path) -> None:
    async def test(issuer: Issuer, known: Authenticator) -> None:
        issuer.broken = True
        assert await enter(known, issuer.token()) is None
        issuer.broken = False
        assert await enter(known, issuer.token()) is None, "asked again only after a pause"
        issuer.clock.time += RETRY_SECONDS
        assert await enter(known, issuer.token())
        issuer.broken = True
        issuer.clock.time += KEYS_SECONDS + 1
        assert await enter(known, issuer.token()), "known keys stay while the issuer is down"

    with_issuer(tmp_path, test)


def test_a_discovery_document_of_somebody_else(tmp_path: Path) -> None:
    async def test(issuer: Issuer, known: Authenticator) -> None:
        issuer.issuer = "https://other.example.com"
        assert await enter(known, issuer.token()) is None

    with_issuer(tmp_path, test)


def test_a_token_that_was_let_in_ends(tmp_path: Path) -> None:
    async def test(issuer: Issuer, known: Authenticator) -> None:
        token = issuer.token(exp=int(issuer.clock.time) + 5)
        assert await enter(known, token)
        issuer.clock.time += 5
        assert await enter(known, token) is None

    with_issuer(tmp_path, test)


@pytest.mark.parametrize(
    ("more", "words"),
    [({"algorithms": ("HS256",)}, "unknown signing algorithm HS256"), ({"client_ids": ()}, "needs a client id")],
)
def test_settings_of_an_issuer_that_make_no_sense(more: Object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        OidcConfig(**{"issuer": "https://x", "client_ids": ("c",), **more})
