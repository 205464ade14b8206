"""JSON Web Tokens taken apart and their signatures checked; what the claims mean is for tokens and oidc.

Source: RFC 7515, RFC 7519. Only asymmetric algorithms are known: a token of `alg: none` or HMAC is no token.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import jwt
import msgspec
from attrs import frozen

Object = dict[str, Any]

TOKEN_LIMIT = 32 * 1024
"""Characters of a token that are looked at."""
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA")


class BadToken(Exception):
    """A token that is not accepted; the text is for the log, clients hear Unauthorized."""


@frozen
class Parsed:
    """A token in parts; nothing of it is to be believed before `verify`."""

    header: Object
    claims: Object
    signed: bytes
    signature: bytes

    @property
    def algorithm(self) -> str:
        """What the token says that it is signed with; empty if that is no string."""
        found = self.header.get("alg")
        return found if isinstance(found, str) else ""

    @property
    def kid(self) -> str:
        """The name of the key; empty if there is none."""
        found = self.header.get("kid")
        return found if isinstance(found, str) else ""

    @property
    def issuer(self) -> str:
        """Who made the token, by its own account."""
        found = self.claims.get("iss")
        return found if isinstance(found, str) else ""

    def audiences(self) -> tuple[str, ...]:
        """Whom the token is for: `aud` as a list."""
        found = self.claims.get("aud")
        if isinstance(found, str):
            return (found,)
        return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()

    def verify(self, key: Any, algorithms: tuple[str, ...]) -> None:
        """Checks the signature; BadToken unless it is of one of the algorithms and by this key."""
        algorithm = self.algorithm
        if algorithm not in algorithms or algorithm not in ALGORITHMS:
            raise BadToken(f"the token is signed with {algorithm or 'nothing'}, which is not accepted")
        if "crit" in self.header:
            raise BadToken("the token has critical headers that nobody understands")
        try:
            good = jwt.get_algorithm_by_name(algorithm).verify(self.signed, key, self.signature)
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError, NotImplementedError):
            good = False  # a key of another kind than the algorithm wants
        if not good:
            raise BadToken("the signature of the token is not valid")

    def check_times(self, now: float, leeway: float = 60.0) -> None:
        """Checks exp (which must be there) and nbf; BadToken."""
        expires, begins = self.claims.get("exp"), self.claims.get("nbf", 0)
        if not isinstance(expires, int | float) or not isinstance(begins, int | float):
            raise BadToken("the token has no time at which it ends")
        if now >= expires:
            raise BadToken("the token has expired")
        if now + leeway < begins:
            raise BadToken("the token is not valid yet")


def parse(token: str) -> Parsed:
    """Takes a token apart; BadToken if it is none."""
    parts = token.split(".", 3)
    if len(token) > TOKEN_LIMIT or len(parts) != 3:
        raise BadToken("this is no JSON Web Token")
    try:
        header, claims = (msgspec.json.decode(_decode(part), type=Object) for part in parts[:2])
        signature = _decode(parts[2])
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        raise BadToken("this is no JSON Web Token") from None
    return Parsed(header, claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def _decode(part: str) -> bytes:
    data = part.encode("ascii")
    return base64.b64decode(data + b"=" * (-len(data) % 4), altchars=b"-_", validate=True)
