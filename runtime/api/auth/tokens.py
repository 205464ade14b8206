"""Tokens of service accounts: made on request, bound to pods, and good only while what they are bound to lives.

Source: pkg/serviceaccount/claims.go, pkg/registry/core/serviceaccount/storage/token.go and
pkg/apis/authentication/validation, release 1.34.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import jwt
from attrs import frozen

from dashpot.model.objects.status import (
    Cause,
    StatusError,
    Subject,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from dashpot.runtime.api.auth.attributes import AUTHENTICATED, account_groups, account_user
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.jose import BadToken, Parsed, parse
from dashpot.runtime.api.exchange import User
from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.view import View
from dashpot.runtime.clock import Clock, rfc3339
from dashpot.runtime.store.base import StoreError

Object = dict[str, Any]

ISSUER = "https://kubernetes.default.svc.cluster.local"
SECONDS, SECONDS_MIN, SECONDS_MAX = 3600, 600, 1 << 32
_DELETED_LEEWAY = 60.0
"""Seconds for which what is being deleted still counts, so that a dying pod can say goodbye."""
_VALID = tally("serviceaccount_valid_tokens_total").cell()
_REMEMBERED = 4_096
_KINDS = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}
EXTRA = "authentication.kubernetes.io/"


@frozen
class _Ref:
    """An object that a token lives and dies with."""

    plural: str
    namespace: str
    name: str
    uid: str


@frozen
class Verified:
    """A token whose signature and issuer were checked: whose it is, for whom, and what it is bound to."""

    user: User
    parsed: Parsed
    audiences: tuple[str, ...]
    refs: tuple[_Ref, ...]


class TokenIssuer:
    """Makes and checks the tokens of this cluster's service accounts."""

    def __init__(
        self, pki: Pki, view: View, clock: Clock, *, issuer: str = ISSUER, audiences: tuple[str, ...] = ()
    ) -> None:
        self.issuer = issuer
        self.audiences = audiences or (issuer,)
        self._key = pki.signing
        self._jwks = pki.jwks()
        self._view = view
        self._clock = clock
        self._known: dict[str, Verified] = {}

    def configuration(self, server: str) -> Object:
        """`/.well-known/openid-configuration`; `server` is the URL under which clients reach this server."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{server.rstrip('/')}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def keys(self) -> Object:
        """`/openid/v1/jwks` (content type application/jwk-set+json)."""
        return self._jwks

    def knows(self, token: str) -> bool:
        """Whether the token was seen before and is ours."""
        return token in self._known

    async def authenticate(self, token: str, audiences: tuple[str, ...] = ()) -> Verified:
        """Whose token this is; BadToken unless it is ours, in its time, for one of `audiences` (default: this server),
        and all that it is bound to exists with the same uid."""
        found = self._known.get(token)
        if found is None:
            found = self._verify(token)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[token] = found
        now = self._clock.now()
        found.parsed.check_times(now)
        wanted = audiences or self.audiences
        if not any(one in wanted for one in found.audiences):
            raise BadToken(f"the token is for {', '.join(found.audiences) or 'nobody'}")
        for ref in found.refs:
            if not _stands(self._view.get("", ref.plural, ref.namespace, ref.name), ref, now):
                # Made a moment ago, perhaps: the view may not have seen it yet.
                if not _stands(await self._fresh(ref), ref, now):
                    raise BadToken(f"{ref.plural} {ref.namespace}/{ref.name} of the token is no more")
        _VALID.value += 1
        return found

    async def mint(self, namespace: str, name: str, request: Object) -> Object:
        """Answers a TokenRequest for an account; 404 if it or the bound object does not exist, 422, 409 or 400."""
        spec = dict(request.get("spec") or {})
        seconds = spec.get("expirationSeconds")
        seconds = SECONDS if seconds is None else seconds
        _check_seconds(seconds)
        account = await self._view.fresh("", "serviceaccounts", namespace, name)
        if account is None:
            raise not_found(Subject("", "serviceaccounts"), name)
        claims: Object = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account["metadata"].get("uid", "")},
        }
        if spec.get("boundObjectRef"):
            claims.update(await self._bind(namespace, name, spec["boundObjectRef"]))
        audiences = list(spec.get("audiences") or self.audiences)
        now = int(self._clock.now())
        body = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": claims,
            "nbf": now,
            "sub": account_user(namespace, name),
        }
        token = jwt.encode(body, self._key.private, algorithm="ES256", headers={"kid": self._key.kid})
        spec.update(audiences=audiences, expirationSeconds=seconds)
        meta = {**(request.get("metadata") or {}), "name": name, "namespace": namespace}
        meta["creationTimestamp"] = rfc3339(now)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": meta,
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": rfc3339(now + seconds)},
        }

    async def _bind(self, namespace: str, account: str, ref: Object) -> Object:
        """The claims for a bound object: itself, and a pod's node."""
        version, kind, name = str(ref.get("apiVersion", "")), str(ref.get("kind", "")), str(ref.get("name", ""))
        group, _, version = version.rpartition("/")
        if group or kind not in _KINDS:
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        plural = _KINDS[kind]
        found = await self._view.fresh("", plural, "" if kind == "Node" else namespace, name)
        if found is None:
            raise not_found(Subject("", plural), name)
        spec = found.get("spec") or {}
        if kind == "Pod" and spec.get("serviceAccountName", "") != account:
            running = spec.get("serviceAccountName", "")
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with serviceaccount "{running}"'
            )
        uid = found["metadata"].get("uid", "")
        if ref.get("uid") and ref["uid"] != uid:
            why = (
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict(Subject("", kind), name, why)
        claims: Object = {kind.lower(): {"name": name, "uid": uid}}
        if kind == "Pod" and spec.get("nodeName"):
            node = await self._view.fresh("", "nodes", "", spec["nodeName"])
            claims["node"] = {"name": spec["nodeName"]}
            if node is not None:
                claims["node"]["uid"] = node["metadata"].get("uid", "")
        return claims

    async def _fresh(self, ref: _Ref) -> Object | None:
        try:
            return await self._view.fresh("", ref.plural, ref.namespace, ref.name)
        except (StatusError, StoreError) as error:
            raise BadToken(f"{ref.plural} {ref.namespace}/{ref.name} cannot be looked up: {error}") from None

    def _verify(self, token: str) -> Verified:
        parsed = parse(token)
        if parsed.issuer != self.issuer:
            raise BadToken("the token is another issuer's")
        if parsed.kid != self._key.kid:
            raise BadToken("the token is signed with a key that is not known")
        parsed.verify(self._key.private.public_key(), ("ES256",))
        return _verified(parsed)


def _check_seconds(seconds: Any) -> None:
    causes: list[Cause] = []
    if seconds < SECONDS_MIN:
        causes.append(
            invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        )
    if seconds > SECONDS_MAX:
        why = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid_value("spec.expirationSeconds", seconds, why))
    if causes:
        raise invalid("authentication.k8s.io", "TokenRequest", "", causes)


def _verified(parsed: Parsed) -> Verified:
    """The user of a token with a good signature; BadToken if the claims are not those of an account."""
    claims = parsed.claims.get("kubernetes.io")
    if not isinstance(claims, dict):
        raise BadToken("the token is of no service account")
    namespace = claims.get("namespace")
    account = _ref(claims, "serviceaccount", "serviceaccounts", namespace)
    if not isinstance(namespace, str) or account is None:
        raise BadToken("the token is of no service account")
    user = account_user(namespace, account.name)
    if parsed.claims.get("sub") != user:
        raise BadToken("the token's subject is not its service account")
    pod, node = _ref(claims, "pod", "pods", namespace), _ref(claims, "node", "nodes", "")
    secret = _ref(claims, "secret", "secrets", namespace)
    extra: dict[str, tuple[str, ...]] = {}
    if parsed.claims.get("jti"):
        extra[EXTRA + "credential-id"] = (f"JTI={parsed.claims['jti']}",)
    for kind, ref in (("pod", pod), ("node", node)):
        if ref is not None:
            extra[f"{EXTRA}{kind}-name"] = (ref.name,)
            if ref.uid:
                extra[f"{EXTRA}{kind}-uid"] = (ref.uid,)
    # The node of a bound pod is told, not checked: the pod's life is what counts.
    bound = (account, pod, secret, node if pod is None else None)
    refs = tuple(ref for ref in bound if ref is not None)
    groups = (*account_groups(namespace), AUTHENTICATED)
    return Verified(User(user, groups, account.uid, extra), parsed, parsed.audiences(), refs)


def _ref(claims: Object, key: str, plural: str, namespace: Any) -> _Ref | None:
    found = claims.get(key)
    if not isinstance(found, dict) or not isinstance(found.get("name"), str) or not found["name"]:
        return None
    return _Ref(plural, str(namespace), found["name"], str(found.get("uid", "")))


def _stands(found: Object | None, ref: _Ref, now: float) -> bool:
    """Whether the object is there, is the same, and was not deleted a while ago."""
    if found is None or found["metadata"].get("uid", "") != ref.uid:
        return False
    deleted = found["metadata"].get("deletionTimestamp")
    return not deleted or datetime.fromisoformat(deleted).timestamp() > now - _DELETED_LEEWAY
