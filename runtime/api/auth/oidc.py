"""OpenID Connect: ID tokens of an outside issuer, checked with the keys that it publishes.

Source: k8s.io/apiserver plugin/pkg/authenticator/token/oidc, release 1.34; OpenID Connect Discovery 1.0.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import jwt
import msgspec
from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from dashpot.runtime.api.auth.jose import ALGORITHMS, BadToken, Parsed
from dashpot.runtime.api.auth.remote import WebhookError, read_limited
from dashpot.runtime.api.exchange import User
from dashpot.runtime.api.tally import tally
from dashpot.runtime.clock import Clock

Object = dict[str, Any]

KEYS_SECONDS = 600.0
"""How long fetched keys are used before they are asked for again."""
RETRY_SECONDS = 10.0
"""After a failure, or for a key that is not known, the issuer is asked again no sooner than this."""
_DOCUMENT_LIMIT = 1 << 20
_KEYS_LIMIT = 128
_RSA_BITS = 2048


@frozen
class OidcConfig:
    """One issuer and how its claims become users.

    `username_prefix` None means upstream's default: the issuer and `#`, nothing for the claim email; "-" means none.
    """

    issuer: str
    client_ids: tuple[str, ...]
    username_claim: str = "sub"
    username_prefix: str | None = None
    groups_claim: str = ""
    groups_prefix: str = ""
    required_claims: tuple[tuple[str, str], ...] = ()
    algorithms: tuple[str, ...] = ("RS256",)
    ca: Path | None = None
    timeout: float = field(default=10.0)

    def __attrs_post_init__(self) -> None:
        unknown = [name for name in self.algorithms if name not in ALGORITHMS]
        if unknown:
            raise ValueError(f"unknown signing algorithm {unknown[0]}: one of {', '.join(ALGORITHMS)}")
        if not self.issuer.startswith(("https://", "http://")) or not self.client_ids:
            raise ValueError("an OIDC issuer is a URL, and needs a client id")

    @property
    def prefix(self) -> str:
        """What is put before the username claim."""
        if self.username_prefix is not None:
            return "" if self.username_prefix == "-" else self.username_prefix
        return "" if self.username_claim == "email" else f"{self.issuer}#"


_LATENCY = tally("apiserver_authentication_jwt_authenticator_latency_seconds")


class Oidc:
    """Checks the tokens of one issuer."""

    def __init__(self, config: OidcConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._keys: dict[str, Any] = {}
        self._fetched = float("-inf")
        self._tried = float("-inf")
        self._lock = asyncio.Lock()
        self._hash = f"sha256:{hashlib.sha256(config.issuer.encode()).hexdigest()}"
        self._session: aiohttp.ClientSession | None = None

    async def authenticate(self, parsed: Parsed) -> User:
        """The user of a token; BadToken."""
        if parsed.issuer != self.config.issuer:
            raise BadToken("the token is another issuer's")
        began, result = perf_counter(), "failure"
        try:
            user = await self._authenticate(parsed)
            result = "success"
            return user
        finally:
            _LATENCY.hist(self._hash, result).observe(perf_counter() - began)

    async def _authenticate(self, parsed: Parsed) -> User:
        parsed.verify(await self._key(parsed.kid), self.config.algorithms)
        parsed.check_times(self._clock.now())
        if not any(one in self.config.client_ids for one in parsed.audiences()):
            raise BadToken("the token is for another client")
        for name, value in self.config.required_claims:
            if parsed.claims.get(name) != value:
                raise BadToken(f"the token lacks the claim {name} with the value that is required")
        return User(self._username(parsed.claims), self._groups(parsed.claims))

    async def close(self) -> None:
        """Closes the connections to the issuer."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _username(self, claims: Object) -> str:
        name = claims.get(self.config.username_claim)
        if not isinstance(name, str) or not name:
            raise BadToken(f"the token has no claim {self.config.username_claim}")
        if self.config.username_claim == "email" and claims.get("email_verified", True) is not True:
            raise BadToken("the email address of the token is not verified")
        return self.config.prefix + name

    def _groups(self, claims: Object) -> tuple[str, ...]:
        found = claims.get(self.config.groups_claim) if self.config.groups_claim else None
        if found is None:
            return ()
        groups = [found] if isinstance(found, str) else found
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise BadToken(f"the claim {self.config.groups_claim} is no list of strings")
        return tuple(self.config.groups_prefix + group for group in groups)

    async def _key(self, kid: str) -> Any:
        """The issuer's key of that name. A token without kid will do where there is one key."""
        now = self._clock.now()
        if now - self._fetched > KEYS_SECONDS or self._find(kid) is None:
            async with self._lock:
                stale = now - self._fetched > KEYS_SECONDS or self._find(kid) is None
                if stale and self._clock.now() - self._tried >= RETRY_SECONDS:
                    await self._refresh()
        found = self._find(kid)
        if found is None:
            raise BadToken("the token is signed with a key that the issuer does not publish")
        return found

    def _find(self, kid: str) -> Any:
        if kid:
            return self._keys.get(kid)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _refresh(self) -> None:
        """Fetches the keys; after a failure those that are known stay."""
        self._tried = self._clock.now()
        try:
            async with asyncio.timeout(self.config.timeout):
                about = await self._document(f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration")
                if about.get("issuer") != self.config.issuer or not isinstance(about.get("jwks_uri"), str):
                    raise WebhookError("the discovery document is of another issuer")
                keys = _keys_of(await self._document(about["jwks_uri"]))
        except (TimeoutError, WebhookError, aiohttp.ClientError, OSError, ValueError) as error:
            if not self._keys:
                raise BadToken(f"the keys of {self.config.issuer} cannot be fetched: {error}") from None
            return
        self._keys, self._fetched = keys, self._clock.now()

    async def _document(self, url: str) -> Object:
        async with self._open().get(url, allow_redirects=False) as answer:
            content = await read_limited(answer.content, _DOCUMENT_LIMIT)
            if answer.status != 200:
                raise WebhookError(f"{url} answered {answer.status}")
        try:
            return msgspec.json.decode(content, type=Object)
        except (msgspec.MsgspecError, RecursionError):
            raise WebhookError(f"{url} is no JSON object") from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls: ssl.SSLContext | bool = True
            if self.config.ca is not None:
                tls = ssl.create_default_context(cafile=str(self.config.ca))
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=8))
        return self._session


def _keys_of(document: Object) -> dict[str, Any]:
    """Public keys by kid; what is not understood, symmetric or short is left out."""
    found: dict[str, Any] = {}
    rows = document.get("keys")
    for row in rows[:_KEYS_LIMIT] if isinstance(rows, list) else ():
        if not isinstance(row, dict) or row.get("use", "sig") != "sig" or row.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        try:
            key = jwt.PyJWK(row).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, RSAPublicKey) and key.key_size < _RSA_BITS:
            continue
        found[str(row.get("kid", ""))] = key
    return found
