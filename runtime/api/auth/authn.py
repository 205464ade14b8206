"""Who asks: certificate, bearer token in its five kinds, or nobody.

Source: k8s.io/apiserver pkg/authentication, pkg/endpoints/filters/authentication.go, release 1.34.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.auth.attributes import AUTHENTICATED, UNAUTHENTICATED
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.jose import TOKEN_LIMIT, BadToken, parse
from dashpot.runtime.api.auth.oidc import Oidc, OidcConfig
from dashpot.runtime.api.auth.remote import WebhookConfig, WebhookError
from dashpot.runtime.api.auth.tokenfile import read_tokens
from dashpot.runtime.api.auth.tokens import EXTRA, ISSUER, TokenIssuer
from dashpot.runtime.api.auth.webhook import Remembered, Reviewed, TokenWebhook
from dashpot.runtime.api.exchange import ANONYMOUS, Exchange, Request, User
from dashpot.runtime.api.view import View
from dashpot.runtime.clock import Clock

Object = dict[str, Any]

OIDC_SECONDS = 10.0
"""How long an accepted token of an outside issuer is believed without looking again."""
_CERTIFICATES = 4_096
_UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_PROTOCOL = "base64url.bearer.authorization.k8s.io."


@frozen
class AuthConfig:
    """Which ways of authentication there are. Without any of it certificates and service-account tokens work."""

    anonymous: bool = False
    tokens: Mapping[str, User] = field(factory=dict)
    """Static tokens (see also `token_file`: lines `token,user,uid,"group1,group2"`)."""
    token_file: Path | None = None
    issuer: str = ISSUER
    audiences: tuple[str, ...] = ()
    """Audiences of this server; the issuer if empty."""
    oidc: tuple[OidcConfig, ...] = ()
    webhook: WebhookConfig | None = None


class Authenticator:
    """Finds out who sent a request."""

    def __init__(self, config: AuthConfig, pki: Pki, view: View, clock: Clock) -> None:
        self.config = config
        self.issuer = TokenIssuer(pki, view, clock, issuer=config.issuer, audiences=config.audiences)
        self.attempts: dict[str, int] = {"success": 0, "failure": 0, "error": 0}
        """How many were known, had no or bad credentials, or could not be looked up (authentication_attempts)."""
        self._clock = clock
        self._tokens = {**(read_tokens(config.token_file) if config.token_file else {}), **config.tokens}
        self._oidc = {one.issuer: Oidc(one, clock) for one in config.oidc}
        self._known: Remembered[User] = Remembered(clock)
        self._webhook = TokenWebhook(config.webhook, clock) if config.webhook is not None else None
        self._certificates: dict[bytes, tuple[User | None, float]] = {}

    async def gate(self, exchange: Exchange) -> None:
        """Sets the exchange's user, or raises 401."""
        request = exchange.request
        if request.user is not None:
            exchange.user = request.user
            return
        refused = False
        if request.certificate is not None:
            user = self.by_certificate(request.certificate)
            if user is not None:
                self.attempts["success"] += 1
                exchange.user = user
                return
            refused = True
        token = bearer(request)
        if token is not None:
            found = await self.review(token)
            if found.user is not None:
                self.attempts["success"] += 1
                exchange.user = found.user
                return
            self.attempts["error" if found.error else "failure"] += 1
            raise unauthorized()
        if not self.config.anonymous or refused:
            self.attempts["failure"] += 1
            raise unauthorized()
        exchange.user = ANONYMOUS

    def by_certificate(self, der: bytes) -> User | None:
        """The user that a certificate names: CN, each O a group; None if it names none or has expired."""
        found = self._certificates.get(der)
        if found is None:
            found = certificate_user(der)
            if len(self._certificates) >= _CERTIFICATES:
                self._certificates.clear()
            self._certificates[der] = found
        user, until = found
        return user if self._clock.now() < until else None

    def until(self, der: bytes) -> float:
        """When a client certificate that was seen before ends, in seconds since 1970; -inf for others."""
        found = self._certificates.get(der)
        return float("-inf") if found is None else found[1]

    async def review(self, token: str, audiences: tuple[str, ...] = ()) -> Reviewed:
        """Whose token it is, by all ways in turn; no user and why if nobody's. `audiences` empty: this server's."""
        own = self.issuer.audiences
        static = self._tokens.get(token)
        if static is not None:
            # A static token says nothing of audiences: it is for this server.
            return _for_server(static, own, audiences)
        try:
            return await self._by_claims(token, audiences)
        except BadToken as error:
            why = str(error)
        if self._webhook is not None:
            return await self._ask(token, audiences or own)
        return Reviewed(None, (), why)

    async def close(self) -> None:
        """Closes the connections to issuers and webhook."""
        for one in self._oidc.values():
            await one.close()
        if self._webhook is not None:
            await self._webhook.close()

    async def _by_claims(self, token: str, audiences: tuple[str, ...]) -> Reviewed:
        """Whose JSON Web Token it is: our own, or an outside issuer's; BadToken."""
        own = self.issuer.audiences
        parsed = None if self.issuer.knows(token) else parse(token)
        if parsed is None or parsed.issuer == self.issuer.issuer:
            found = await self.issuer.authenticate(token, audiences)
            wanted = audiences or own
            return Reviewed(found.user, tuple(one for one in found.audiences if one in wanted))
        outside, known = self._oidc.get(parsed.issuer), parsed
        if outside is None:
            raise BadToken("the token is of an issuer that is not known")
        user = await self._known.get(token, lambda: outside.authenticate(known), lambda _: OIDC_SECONDS)
        parsed.check_times(self._clock.now())
        return _for_server(user, own, audiences)

    async def _ask(self, token: str, audiences: tuple[str, ...]) -> Reviewed:
        assert self._webhook is not None
        try:
            found = await self._webhook.review(token, audiences)
        except WebhookError as error:
            return Reviewed(None, (), str(error))
        if found.user is None:
            return found
        # A webhook that knows nothing of audiences speaks for this server.
        meant = found.audiences or self.issuer.audiences
        shared = tuple(one for one in meant if one in audiences)
        if not shared:
            return Reviewed(None, (), "the token is for another audience")
        return Reviewed(authenticated(found.user), shared)


def unauthorized() -> StatusError:
    """401: nobody, or somebody with bad credentials; why is not told."""
    return StatusError("Unauthorized", "Unauthorized")


def authenticated(user: User) -> User:
    """The user with the group of all who were authenticated."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return evolve(user, groups=(*user.groups, AUTHENTICATED))


def _for_server(user: User, own: tuple[str, ...], audiences: tuple[str, ...]) -> Reviewed:
    shared = tuple(one for one in own if not audiences or one in audiences)
    if not shared:
        return Reviewed(None, (), "the token is for another audience")
    return Reviewed(authenticated(user), shared)


def bearer(request: Request) -> str | None:
    """The token of a request: of `Authorization: Bearer`, or of a WebSocket subprotocol where a browser can set no
    header; None without one."""
    value = request.headers.get("authorization")
    if value is not None:
        scheme, _, token = value.strip().partition(" ")
        token = token.strip()
        return token if scheme.lower() == "bearer" and token else None
    protocols = request.headers.get("sec-websocket-protocol", "")
    if _PROTOCOL not in protocols or len(protocols) > 2 * TOKEN_LIMIT:
        return None
    for name in protocols.split(","):
        if name.strip().startswith(_PROTOCOL):
            coded = name.strip()[len(_PROTOCOL) :]
            try:
                return base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
            except (binascii.Error, ValueError):
                return coded  # no token, which authentication will say
    return None


def certificate_user(der: bytes) -> tuple[User | None, float]:
    """The user of a verified client certificate, and when it ends (seconds since 1970)."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        subject = certificate.subject
        until = certificate.not_valid_after_utc.timestamp()
    except (ValueError, TypeError):
        return None, float("-inf")
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        return None, until
    groups = tuple(str(one.value) for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    uids = subject.get_attributes_for_oid(_UID)
    extra = {EXTRA + "credential-id": (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
    return authenticated(User(str(names[-1].value), groups, str(uids[0].value) if uids else "", extra)), until
